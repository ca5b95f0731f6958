"""What the trials of one group of calls showed, while they are made."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from tracer.names import TrialArm, Untried
from tracer.recording.trials.differences import Apart
from tracer.trace.records import ArmTrials, Tried

#: So many of a group's calls are tried one after the other; then the one whose number doubles.
_FIRST_CALLS = 3


class TrialTally:
    """One group of calls."""

    __slots__ = ("_apart", "_arms", "_calls", "_distinct", "_first", "_untried", "_varied_calls", "seen")

    def __init__(self) -> None:
        self.seen = 0
        """Calls so far."""
        self._calls = 0
        self._varied_calls = 0
        self._distinct = 0
        self._first = 0
        self._apart = Apart()
        self._arms: dict[TrialArm, tuple[int, int]] = {}
        self._untried: Counter[Untried] = Counter()

    def is_due(self) -> bool:
        """Is this call one of those that are tried? The first few of a group are, then ever rarer ones."""
        return self.seen <= _FIRST_CALLS or not self.seen & (self.seen - 1)

    def leave(self, reason: Untried) -> None:
        """A call was not tried."""
        self._untried[reason] += 1

    def note(self, own: object, results: Sequence[tuple[TrialArm, object]], apart: Apart) -> None:
        """A call was tried: its ``own`` result, and that of each trial."""
        self._calls += 1
        for arm, result in results:
            trials, varied = self._arms.get(arm, (0, 0))
            self._arms[arm] = (trials + 1, varied + (result != own))
        counted = [result for arm, result in results if arm is not TrialArm.THREADS]
        self._distinct = max(self._distinct, len({own, *counted}))
        if any(result != own for result in counted):
            self._varied_calls += 1
            self._first = self._first or self.seen
            self._apart = Apart(max(self._apart.ulp, apart.ulp), max(self._apart.relative, apart.relative))

    def listed(self) -> Tried:
        """As a trace holds it."""
        counted = [both for arm, both in self._arms.items() if arm is not TrialArm.THREADS]
        return Tried(
            calls=self._calls,
            trials=sum(trials for trials, _ in counted),
            varied=sum(varied for _, varied in counted),
            varied_calls=self._varied_calls,
            distinct=self._distinct,
            ulp=self._apart.ulp,
            relative=self._apart.relative,
            first=self._first,
            arms={arm: ArmTrials(trials=trials, varied=varied) for arm, (trials, varied) in self._arms.items()},
            untried=dict(self._untried),
        )
