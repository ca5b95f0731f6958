"""What the trials of one group of calls show, counted as they run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import torch

from tracer.names import TrialArm, Untried
from tracer.trace.records import ArmTrials, Tried

_BITS = {
    torch.float64: torch.int64,
    torch.float32: torch.int32,
    torch.float16: torch.int16,
    torch.bfloat16: torch.int16,
}
_MOST = 2**62


class Distance(NamedTuple):
    """The largest difference between two results."""

    ulp: int = 0
    relative: float = 0.0


def distance_between(own: Sequence[torch.Tensor], other: Sequence[torch.Tensor]) -> Distance:
    """The largest difference between the floating-point elements of ``own`` and ``other``; other dtypes are skipped."""
    distances = [_of(left, right) for left, right in zip(own, other, strict=False) if left.shape == right.shape]
    return Distance(
        max((each.ulp for each in distances), default=0), max((each.relative for each in distances), default=0.0)
    )


def _of(own: torch.Tensor, other: torch.Tensor) -> Distance:
    if own.dtype is not other.dtype or own.layout is not torch.strided or other.layout is not torch.strided:
        return Distance()
    if own.is_complex():
        own, other = torch.view_as_real(own.resolve_conj()), torch.view_as_real(other.resolve_conj())
    kind = _BITS.get(own.dtype)
    if kind is None or not own.numel():
        return Distance()
    left, right = own.resolve_neg().reshape(-1), other.resolve_neg().reshape(-1)
    differs = left.view(kind) != right.view(kind)
    left, right = left[differs], right[differs]
    if not left.numel():
        return Distance()
    is_number = left.isfinite() & right.isfinite()
    lost = not bool(is_number.all())
    left, right = left[is_number], right[is_number]
    if not left.numel():
        return Distance(0, 1.0)
    places = _places_between(left.view(kind), right.view(kind))
    wide_left, wide_right = left.double(), right.double()
    largest = torch.maximum(wide_left.abs(), wide_right.abs()).clamp_min(5e-324)
    relative = float(((wide_left / largest) - (wide_right / largest)).abs().max())
    return Distance(min(_MOST, int(places.max())), 1.0 if lost else min(1.0, relative))


def _places_between(own: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """How many representable numbers lie between each two, from their bits."""
    mask = torch.iinfo(own.dtype).max
    near, far = ((bits & mask).to(torch.int64) for bits in (own, other))
    # On two sides of zero the ways to it add up; halves of the widest would not fit otherwise.
    return torch.where(
        (own < 0) == (other < 0), (near - far).abs(), near.clamp_max(_MOST // 2) + far.clamp_max(_MOST // 2)
    )


#: So many of a group's calls are tried one after the other; then the one whose number doubles.
_FIRST_CALLS = 3


class TrialTally:
    """One group of calls."""

    __slots__ = ("_arms", "_calls", "_distance", "_distinct", "_first", "_untried", "_varied_calls", "seen")

    def __init__(self) -> None:
        self.seen = 0
        """Calls so far."""
        self._calls = 0
        self._varied_calls = 0
        self._distinct = 0
        self._first = 0
        self._distance = Distance()
        self._arms: dict[TrialArm, tuple[int, int]] = {}
        self._untried: Counter[Untried] = Counter()

    def is_due(self) -> bool:
        """Is this call one of those that are tried? The first few of a group are, then ever rarer ones."""
        return self.seen <= _FIRST_CALLS or not self.seen & (self.seen - 1)

    def leave(self, reason: Untried) -> None:
        """A call was not tried."""
        self._untried[reason] += 1

    def note(self, own: object, results: Sequence[tuple[TrialArm, object]], largest: Distance) -> None:
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
            self._distance = Distance(
                max(self._distance.ulp, largest.ulp), max(self._distance.relative, largest.relative)
            )

    def listed(self) -> Tried:
        """As a trace holds it."""
        counted = [both for arm, both in self._arms.items() if arm is not TrialArm.THREADS]
        return Tried(
            calls=self._calls,
            trials=sum(trials for trials, _ in counted),
            varied=sum(varied for _, varied in counted),
            varied_calls=self._varied_calls,
            distinct=self._distinct,
            ulp=self._distance.ulp,
            relative=self._distance.relative,
            first=self._first,
            arms={arm: ArmTrials(trials=trials, varied=varied) for arm, (trials, varied) in self._arms.items()},
            untried=dict(self._untried),
        )
