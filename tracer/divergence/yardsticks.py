"""How far two configurations are apart at one place, as a multiple of how far shaken runs show that it moves."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median
from typing import NamedTuple

import numpy as np

from tracer.divergence.joined_ranks import Distance, JoinedRanks, Lack, PlaceKey, Whole, distance_of
from tracer.names import PlaceKind
from tracer.trace.values.places import KEPT_WHOLE, SUMS, Form, rows_of

#: Below this multiple of the yardstick a difference is rounding, above the other it is significant. Between 36 pairs
#: that differ by rounding alone (at most 4.5, all but one at most 2.3) and 25 planted faults (at least 12.8).
ROUNDING, SIGNIFICANT = 3.0, 10.0
#: Half the distance from 1 to the next number.
_HALF_UNIT = {
    "float64": 2.0**-53,
    "float32": 2.0**-24,
    "float16": 2.0**-11,
    "bfloat16": 2.0**-8,
    "float8_e4m3fn": 2.0**-4,
    "float8_e5m2": 2.0**-3,
    "complex64": 2.0**-24,
    "complex128": 2.0**-53,
}
#: Runs of a configuration that have a mean at least.
_LEAST_OF_A_MEAN = 5


class ShakenRuns(NamedTuple):
    """Shaken runs of each configuration."""

    of_first: list[JoinedRanks]
    of_second: list[JoinedRanks]


class Yardsticks:
    """Shaken runs by where they were shaken: everywhere, and inside one module alone."""

    def __init__(
        self, second: JoinedRanks, shaken: Sequence[JoinedRanks], of_second: Sequence[JoinedRanks], *, by_means: bool
    ) -> None:
        self.everywhere, self.inside = (
            ShakenRuns(*([run for run in runs if bool(run.header.shaken_in) is inside] for runs in (shaken, of_second)))
            for inside in (False, True)
        )
        self.by_means = by_means
        self.second_is_narrower = False
        """Whether the second configuration has places of a narrower dtype: its own shaken runs count then."""
        self.unmoved: set[PlaceKey] = set()
        """Places that are the same in every shaken run: nothing that depends on parameters."""
        self._second = second

    @property
    def runs(self) -> list[JoinedRanks]:
        """All of them: those of the first configuration before those of the second."""
        return [run for number in (0, 1) for runs in (self.everywhere, self.inside) for run in runs[number]]

    def yard(
        self, key: PlaceKey, ones: Sequence[Whole], others: Sequence[Whole], runs: ShakenRuns, floor: float
    ) -> tuple[float, float] | None:
        """How far shaking moves a place and its stretch that moves most, at least ``floor``; ``None``: nobody knows."""
        whole = stretch = -1.0
        counts_second = self.second_is_narrower or not self.by_means or runs is not self.everywhere
        for base, shaken in ((ones, runs.of_first), (others, runs.of_second if counts_second else ())):
            for side in shaken:
                moved = side.wholes(key) if key in side.rows else Lack.NOT_IN_SECOND
                if isinstance(moved, Lack) or moved[0].form.size != base[0].form.size:
                    continue
                distance = distance_of(base, moved)
                whole, stretch = max(whole, distance.whole), max(stretch, distance.largest)
        if not whole:
            self.unmoved.add(key)
        return (max(whole, floor), max(stretch, floor)) if 0 <= whole < math.inf else None

    def ratio_of_means(
        self, key: PlaceKey, ones: Sequence[Whole], others: Sequence[Whole], runs: ShakenRuns
    ) -> float | None:
        """Return how far the means of both configurations are apart, as a multiple of what rounding leaves in a mean.
        ``None``: a run has no such tensor, or it stays undecided. Compiled code runs eagerly in shaken runs, so that
        these cannot acquit it."""
        means, variance = [], np.zeros(1)
        norm = max(ones[0].norm, others[0].norm)
        for base, shaken in zip((ones, others), runs, strict=True):
            tensors = [base, *(side.wholes(key) for side in shaken if key in side.rows)]
            if len(tensors) < _LEAST_OF_A_MEAN or any(isinstance(one, Lack) or len(one) > 1 for one in tensors):
                return None
            sketches = [one[0].sketch() for one in tensors if not isinstance(one, Lack)]
            if len({one.shape for one in sketches}) > 1 or not np.isfinite(sketches).all():
                return None
            if not np.ptp(sketches, 0).any():  # what is called there was not shaken
                return None
            means.append(np.mean(sketches, 0))
            variance = variance + np.var(sketches, 0, ddof=1).sum(1) / len(sketches)
        if means[0].shape != means[1].shape:
            return None
        apart = ((means[0] - means[1]) ** 2).sum(1)
        floor = (max(half_unit(ones[0].form.dtype), half_unit(others[0].form.dtype)) * norm) ** 2
        of_whole = apart.sum() / max(variance.sum(), floor)
        of_stretch = apart.max() / max(variance.max(), floor / len(apart))
        ratio = math.sqrt(max(of_whole, of_stretch))
        has_regions = any(key.kind is PlaceKind.REGION for key in self._second.rows)
        return ratio if ratio > SIGNIFICANT or (ratio <= ROUNDING and not has_regions) else None


def ratio_of(distance: Distance, yard: tuple[float, float] | None) -> float | None:
    """A distance as a multiple of how far the whole and its stretches move; ``None``: infinite, or no yardstick."""
    if yard is None or not yard[0] or not math.isfinite(distance.whole):
        return None
    return max(distance.whole / yard[0], distance.largest / yard[1])


def factor_of(ones: Sequence[Whole], others: Sequence[Whole], yardstick: float) -> float | None:
    """What the second is of the first, where rounding explains the rest."""
    if len(ones) > 1 or len(others) > 1 or not ones[0].norm or not others[0].norm:
        return None
    one, other = ones[0].sketch().ravel(), others[0].sketch().ravel()
    square = float(one @ one)
    if one.shape != other.shape or not 0 < square < math.inf:
        return None
    factor = float(one @ other) / square
    rest = float(np.linalg.norm(other - factor * one)) / others[0].norm
    return factor if rest <= ROUNDING * yardstick and abs(factor - 1) > ROUNDING * yardstick else None


def half_unit(dtype: str) -> float:
    """Half the distance from 1 to the next number; 0 for whole numbers."""
    return _HALF_UNIT.get(dtype, 0.0)


def is_whole(dtype: str) -> bool:
    """Whether its elements are whole numbers or truth values, which nothing rounds."""
    return dtype.startswith(("int", "uint", "bool"))


def stretch_of(distance: Distance, form: Form) -> str:
    """The stretch that differs most as an index, where it stands out from the others."""
    stretches = distance.stretches
    if len(stretches) < 4 or not form.shape:
        return ""
    place = int(stretches.argmax())
    if stretches[place] < 4 * median(sorted(stretches.tolist())[:-1]) or not stretches[place]:
        return ""
    length = rows_of(form.size) * SUMS if form.size > KEPT_WHOLE else SUMS
    begin, end = place * length, min((place + 1) * length, form.size) - 1
    low, high = (list(map(int, np.unravel_index(at, form.shape))) for at in (begin, end))
    pairs = enumerate(zip(low, high, strict=True))
    alike = next((at for at, (start, stop) in pairs if start != stop), len(low))
    index = [str(start) for start in low[:alike]]
    index += [f"{low[alike]}:{high[alike] + 1}"] if alike < len(low) else []
    return f"[{', '.join(index)}]"
