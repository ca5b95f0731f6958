"""What making calls again, and looking at their data, showed of a group of calls."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

import msgspec

from tracer.trace.trial_names import DataShown, TrialArm, Untried

Key = TypeVar("Key", DataShown, Untried)


class ArmTrials(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Trials under one circumstance."""

    trials: int
    varied: int
    """Those whose result was another one than the call's own."""


class Tried(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """What trials showed of a group: calls that were made again on the spot, from the same inputs and generators."""

    calls: int = 0
    """Calls that were made again."""
    trials: int = 0
    """How often, all together; trials on another number of threads are no part of it."""
    varied: int = 0
    """Trials whose result was another one, to the bit, than the call's own."""
    varied_calls: int = 0
    """Calls of which a trial varied."""
    distinct: int = 0
    """Most different results of one call, its own among them; 0 where none was tried."""
    ulp: int = 0
    """Largest difference of a floating-point number from the call's own, in units of the last place; 0 where none
    varied, or where what varied are no such numbers."""
    relative: float = 0.0
    """Largest difference from the call's own, as a part of the larger of the two; 1 where only one is a number."""
    first: int = 0
    """Which of the group's calls, counted from 1, was the first that varied; 0 where none did."""
    arms: dict[TrialArm, ArmTrials] = {}
    """Trials by what was changed meanwhile."""
    untried: dict[Untried, int] = {}
    """Calls that were not made again, by the reason."""
    together: int = 0
    """So many groups of calls that may vary were made again as one, in a compiled region, so that nobody knows which of
    several varied. 0: each call was made again by itself, or nothing in the region is known to vary."""

    @property
    def has_varied(self) -> bool:
        """Did these calls themselves vary, as far as anything is known to?"""
        return self.varied > 0 and self.together < 2

    @property
    def is_rare(self) -> bool:
        """Did it vary in under a tenth of the trials?"""
        return 0 < self.varied * 10 < self.trials

    def joined(self, other: Tried, after: int) -> Tried:
        """Both, where ``other`` is of calls that came ``after`` so many of these."""
        arms = dict(self.arms)
        for arm, more in other.arms.items():
            known = arms.get(arm)
            arms[arm] = (
                more
                if known is None
                else ArmTrials(trials=known.trials + more.trials, varied=known.varied + more.varied)
            )
        return Tried(
            calls=self.calls + other.calls,
            trials=self.trials + other.trials,
            varied=self.varied + other.varied,
            varied_calls=self.varied_calls + other.varied_calls,
            distinct=max(self.distinct, other.distinct),
            ulp=max(self.ulp, other.ulp),
            relative=max(self.relative, other.relative),
            first=self.first or (after + other.first if other.first else 0),
            arms=arms,
            untried=summed(self.untried, other.untried),
            together=max(self.together, other.together),
        )


def summed(one: Mapping[Key, int], other: Mapping[Key, int]) -> dict[Key, int]:
    """Two tallies as one."""
    return {key: one.get(key, 0) + other.get(key, 0) for key in {**one, **other}}
