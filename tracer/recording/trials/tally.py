"""Outcomes of the trials of one group of calls, counted as they run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import reduce
from typing import NamedTuple

import torch

from tracer.names import TrialArm, Untried
from tracer.trace.records import ArmTrials, Tried

#: Whole numbers as wide as the floating-point ones, by their bytes.
_BITS = {8: torch.int64, 4: torch.int32, 2: torch.int16}
_MOST = 2**62


class Distance(NamedTuple):
    """The largest difference between two results."""

    ulp: int = 0
    relative: float = 0.0

    def or_more(self, other: Distance) -> Distance:
        """The maximum of two differences, by each measure."""
        return Distance(max(self.ulp, other.ulp), max(self.relative, other.relative))


def distance_between(own: Sequence[torch.Tensor], other: Sequence[torch.Tensor]) -> Distance:
    """The largest difference between the floating-point elements of ``own`` and ``other``; other dtypes are skipped."""
    pairs = zip(own, other, strict=False)
    return reduce(Distance.or_more, (_of(*pair) for pair in pairs if pair[0].shape == pair[1].shape), Distance())


def _of(own: torch.Tensor, other: torch.Tensor) -> Distance:
    if own.dtype is not other.dtype or own.layout is not torch.strided or other.layout is not torch.strided:
        return Distance()
    if own.is_complex():
        own, other = torch.view_as_real(own.resolve_conj()), torch.view_as_real(other.resolve_conj())
    kind = _BITS.get(own.itemsize) if own.is_floating_point() else None
    if kind is None or not own.numel():
        return Distance()
    left, right = own.resolve_neg().reshape(-1), other.resolve_neg().reshape(-1)
    differs = left.view(kind) != right.view(kind)
    left, right = left[differs], right[differs]
    if not left.numel():
        return Distance()
    is_number = left.isfinite() & right.isfinite()
    is_lost = not bool(is_number.all())
    left, right = left[is_number], right[is_number]
    if not left.numel():
        return Distance(0, 1.0)
    places = _places_between(left.view(kind), right.view(kind))
    left, right = left.double(), right.double()
    largest = torch.maximum(left.abs(), right.abs()).clamp_min(5e-324)
    relative = float(((left / largest) - (right / largest)).abs().max())
    return Distance(min(_MOST, int(places.max())), 1.0 if is_lost else min(1.0, relative))


def _places_between(own: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """The number of representable values between each pair (ULPs), from their bits."""
    mask = torch.iinfo(own.dtype).max
    near, far = ((bits & mask).to(torch.int64) for bits in (own, other))
    # On two sides of zero the ways to it add up; halves of the widest would not fit otherwise.
    around_zero = near.clamp_max(_MOST // 2) + far.clamp_max(_MOST // 2)
    return torch.where((own < 0) == (other < 0), (near - far).abs(), around_zero)


#: The first calls of a group are all tried, then those whose number is a power of two.
_FIRST_CALLS = 3


class TrialTally:
    """The outcomes of one group of calls."""

    def __init__(self) -> None:
        self.call_count = 0
        """Calls so far."""
        self._calls = 0
        self._varied_calls = 0
        self._distinct = 0
        self._first = 0
        self._distance = Distance()
        self._trials: Counter[TrialArm] = Counter()
        self._varied: Counter[TrialArm] = Counter()
        self._untried: Counter[Untried] = Counter()

    def is_due(self) -> bool:
        """Whether this call is to be tried: the first few of a group are, then increasingly rare ones."""
        return self.call_count <= _FIRST_CALLS or not self.call_count & (self.call_count - 1)

    def leave(self, reason: Untried) -> None:
        """Count a call that was not tried."""
        self._untried[reason] += 1

    def note(self, own: object, results: Sequence[tuple[TrialArm, object]], largest: Distance) -> None:
        """Count a call that was tried: its ``own`` result and that of each trial."""
        self._calls += 1
        for arm, result in results:
            self._trials[arm] += 1
            self._varied[arm] += result != own
        counted = [result for arm, result in results if arm is not TrialArm.THREADS]
        self._distinct = max(self._distinct, len({own, *counted}))
        if any(result != own for result in counted):
            self._varied_calls += 1
            self._first = self._first or self.call_count
            self._distance = self._distance.or_more(largest)

    def listed(self) -> Tried:
        """The outcomes as stored in a trace."""
        arms = {arm: ArmTrials(trials=trials, varied=self._varied[arm]) for arm, trials in self._trials.items()}
        counted = [trials for arm, trials in arms.items() if arm is not TrialArm.THREADS]
        return Tried(
            calls=self._calls,
            trials=sum(arm.trials for arm in counted),
            varied=sum(arm.varied for arm in counted),
            varied_calls=self._varied_calls,
            distinct=self._distinct,
            ulp=self._distance.ulp,
            relative=self._distance.relative,
            first=self._first,
            arms=arms,
            untried=dict(self._untried),
        )
