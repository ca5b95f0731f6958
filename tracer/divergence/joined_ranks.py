"""The places of one configuration, joined from the recordings of its ranks, and how far two configurations are apart.

Sketches of shards add up to that of the whole; replicas are taken once where they agree, and each where they do not.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Container, Iterator, Sequence
from functools import cached_property
from itertools import accumulate, product
from operator import itemgetter
from statistics import median
from typing import Any, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from tracer.divergence.pairing import align
from tracer.names import Phase, PlaceKind, Word
from tracer.trace.values import Magnitudes
from tracer.trace.values.places import (
    KEPT_WHOLE,
    REGION_DRAW,
    STATE_NOTED,
    SUMS,
    Form,
    PlaceName,
    Places,
    RowCall,
    leads_with_class,
    module_of,
    row_calls,
    rows_of,
)

_Ints = npt.NDArray[np.int64]
JoinedCall = tuple[str, Phase, int, int]
"""One call of a module, for what it is given and returns: module, phase, occurrence and step."""


class PlaceKey(NamedTuple):
    """What two configurations know a place by."""

    kind: PlaceKind
    module: str
    name: str
    phase: Phase
    occurrence: int
    step: int

    @property
    def call(self) -> JoinedCall:
        """The call that it is of, if it is a module's."""
        return self.module, self.phase, self.occurrence, self.step


class Lack(Word):
    """Why a place cannot be compared."""

    NOT_IN_FIRST = "not-in-first"
    NOT_IN_SECOND = "not-in-second"
    OTHER_SHAPE = "other-shape"
    OTHER_KIND = "other-kind"
    """One side has floating-point numbers there, the other whole ones or truth values, as two kinds of masks are."""
    PART_MISSING = "part-missing"
    """Other ranks hold the rest of the tensor, and their recordings are not there."""
    NO_YARDSTICK = "no-yardstick"
    """It differs, and no shaken run has it in that size, or has numbers there that are all finite."""
    OTHER_ORDER = "other-order"
    """The same numbers stand there in another order, and what the module around returns agrees."""
    OTHER_PARTS = "other-parts"
    """A number of each part of a batch, of which neither the sum nor the mean agrees: unequal parts may be weighed."""
    OTHER_POSITION = "other-position"
    """It tells positions, which padding moves, and what a module that is given it returns agrees."""
    NOT_READ = "not-read"
    """A kind of tensor whose elements are not read: sparse, quantized, nested, without data."""


class Whole:
    """A tensor at a place, from the rows that hold it or its parts."""

    __slots__ = ("_weight", "digest", "form", "is_read", "largest", "norm", "not_finite", "rows")

    def __init__(self, rows: Sequence[tuple[Places, int]], weight: float | None = None) -> None:
        """``weight``: of each of ``rows`` in their sum, where they are no shards."""
        values = [places.rows[places.source(row)] for places, row in rows]
        places, row = rows[0]
        self.form = places.forms[int(places.rows["form"][row])]
        self.rows = rows
        self._weight = weight
        self.is_read = bool(values[0]["sums"])
        self.digest = int(values[0]["digest"]) if len(values) == 1 else 0
        """0: its bits were not digested as a whole."""
        self.not_finite = sum(int(value["not_finite"]) for value in values)
        self.norm = math.hypot(*[float(value["norm"]) for value in values])
        self.largest = max(float(value["largest"]) for value in values)
        if self.form.is_term or weight is not None:  # terms may cancel out
            self.norm = float(np.linalg.norm(self.sketch()))

    def sketch(self) -> npt.NDArray[np.float64]:
        """Its sums, one line a stretch."""
        places, row = self.rows[0]
        total = places.sketch(row)
        for places, row in self.rows[1:]:
            total = total + places.sketch(row)
        return total if self._weight is None else total * self._weight


class JoinedRanks:
    """The recordings of one configuration's ranks; a single process has one."""

    def __init__(self, magnitudes: Magnitudes, *beside: Sequence[PlaceName]) -> None:
        """``beside``: the names of the recordings that it is compared with."""
        self.ranks = (magnitudes, *magnitudes.other_ranks)
        self.header = magnitudes.header
        self.partial = next((one.partial for one in self.ranks if one.partial), "")
        self.steps: set[int] = set()
        self.rows: dict[PlaceKey, int] = {}
        """The first row that holds a place; rows of all ranks are numbered through."""
        self.draws: list[int] = []
        """Rows of the draws of the first rank."""
        self.parts: dict[PlaceKey, list[int]] = {}
        """The rows of what is one number of each part of a batch, and one place."""
        self.means: set[PlaceKey] = set()
        """Those of them of which the mean is the number of the whole batch; of the others the sum is."""
        self.flips: dict[PlaceKey, int] = {}
        """Rows of decisions that fell otherwise than those that were followed, by the place that was decided by."""
        self._replicas: dict[PlaceKey, list[int]] = {}
        self._called: list[tuple[int, int]] = []
        """Steps of the program's own calls, and the rows before what they give and return."""
        self._starts = [0, *accumulate(len(one.places) for one in self.ranks)]
        for start, one in zip(self._starts, self.ranks, strict=False):
            self._take(one.places, start, leads_with_class(one.places.names, *beside))

    def _take(self, places: Places, start: int, is_class: bool) -> None:
        rows = places.rows
        keys = [(name.kind, module_of(name, leads_with_class=is_class), name.name, name.phase) for name in places.names]
        columns = (rows[name].tolist() for name in ("name", "occurrence", "step"))
        for row, (name, occurrence, step) in enumerate(zip(*columns, strict=True), start):
            kind, module, of_module, phase = keys[name]
            if kind is PlaceKind.DRAW:
                self.draws += [row] if not start else []
                continue
            self.steps.add(step)
            key = PlaceKey(kind, module, of_module, phase, occurrence, step)
            if key.kind is PlaceKind.FLIP:
                self.flips[key._replace(kind=PlaceKind.DECISION)] = row
            elif key.kind is PlaceKind.ROWS:
                self._called.append((step, row))
            elif self.rows.setdefault(key, row) != row:
                self._replicas.setdefault(key, [self.rows[key]]).append(row)

    def name_entries_as(self, other: JoinedRanks) -> None:
        """Call what a module was given and returned as ``other`` does: one may return more than the other."""
        theirs, ours = other._entries(), self._entries()
        renamed: dict[PlaceKey, PlaceKey] = {}
        for call, keys in ours.items():
            left = [key for key in theirs.get(call, ()) if key not in self.rows]
            for key in keys:
                size = self.form(self.rows[key]).size
                same = next((one for one in left if other.form(other.rows[one]).size == size), None)
                if key not in other.rows and same is not None:
                    left.remove(same)
                    renamed[key] = same
        if renamed:
            self.rows = {renamed.get(key, key): row for key, row in self.rows.items()}
            self._replicas = {renamed.get(key, key): rows for key, rows in self._replicas.items()}

    def numbers_in(self, steps: Container[int]) -> set[PlaceKey]:
        """The losses and outputs of ``steps`` that are one number each time; one element may be a row."""
        is_number: dict[PlaceKey, bool] = {}
        for key, row in self.rows.items():
            if key.kind in (PlaceKind.LOSS, PlaceKind.OUTPUT) and key.step in steps:
                shape = self.form(row).shape
                is_one = shape == () or (key.kind is PlaceKind.LOSS and set(shape) == {1})
                is_one = is_one and Whole([self.at(row)]).is_read
                first = key._replace(occurrence=0)
                is_number[first] = is_number.get(first, True) and is_one
        return {key for key, is_one in is_number.items() if is_one}

    def join_parts(self, numbers: Container[PlaceKey]) -> None:
        """Make one place of all that differ from one of ``numbers`` in their occurrence alone."""
        rows: dict[PlaceKey, int] = {}
        for key, row in self.rows.items():
            if (first := key._replace(occurrence=0)) in numbers:
                self.parts.setdefault(first, []).append(row)
            else:
                rows[key] = row
        rows |= {key: parts[-1] for key, parts in self.parts.items()}
        self.rows = dict(sorted(rows.items(), key=lambda item: item[1]))

    def whole_of_parts(self, key: PlaceKey, *, is_mean: bool) -> Whole:
        """The sum or the mean of what each part of a batch has there."""
        rows = self.parts[key]
        return Whole([self.at(row) for row in rows], 1 / len(rows) if is_mean else 1.0)

    def _entries(self) -> dict[tuple[Any, ...], list[PlaceKey]]:
        """The inputs and the outputs of each call of a module, in order."""
        entries = defaultdict[tuple[Any, ...], list[PlaceKey]](list)
        for key in self.rows:
            if key.kind in (PlaceKind.INPUT, PlaceKind.OUTPUT, PlaceKind.OUTPUT_GRADIENT):
                call = (key.kind, *key.call)
                entries[call].append(key)
        return entries

    def is_as_at_first(self, key: PlaceKey) -> bool:
        """Whether it is a parameter that has the bits which it began with, or is not there."""
        row, initial = self.rows.get(key), self.initial.get((key.module, key.name))
        if row is None or initial is None or key.kind is not PlaceKind.PARAMETER:
            return row is None
        bits = [int(places.rows["digest"][places.source(own)]) for places, own in (self.at(row), self.at(initial))]
        return bits[0] == bits[1] != 0

    @cached_property
    def initial(self) -> dict[tuple[str, str], int]:
        """The parameters and buffers that were met, by module and name, with their rows."""
        return {(key.module, key.name): row for key, row in self.rows.items() if key.kind is PlaceKind.INITIAL}

    @cached_property
    def steps_with_gradients(self) -> set[int]:
        """Steps in which an optimizer read gradients."""
        return {key.step for key in self.rows if key.kind is PlaceKind.GRADIENT}

    @cached_property
    def row_calls(self) -> dict[int, list[RowCall]]:
        """The calls that the program itself makes, by step."""
        return row_calls(self.ranks[0].places)

    def call_around(self, row: int, step: int) -> int:
        """The number of the program's call in which a place lies; -1 outside them all."""
        return bisect_right(self._called, (step, row)) - bisect_right(self._called, (step, -1)) - 1

    def calls_around(self, row: int, step: int) -> list[RowCall]:
        """The program's call in which a place lies; none outside them all."""
        number = self.call_around(row, step)
        return self.row_calls.get(step, [])[number : number + 1] if number >= 0 else []

    @property
    def path(self) -> str:
        """Its file, or the first of them."""
        return str(self.ranks[0].places.path)

    @property
    def world_size(self) -> int:
        """Processes that made it."""
        return self.header.world_size or 1

    def at(self, row: int) -> tuple[Places, int]:
        """The recording of a row, and its number there."""
        rank = bisect_right(self._starts, row) - 1 if len(self.ranks) > 1 else 0
        return self.ranks[rank].places, row - self._starts[rank]

    def source(self, row: int) -> int:
        """The row whose tensor a row shares, or its own."""
        places, own = self.at(row)
        return row - own + places.source(own)

    def name(self, row: int) -> PlaceName:
        """Return the name of a row."""
        places, row = self.at(row)
        return places.names[int(places.rows["name"][row])]

    def form(self, row: int) -> Form:
        """The form of the whole tensor of a row."""
        places, row = self.at(row)
        return places.forms[int(places.rows["form"][row])]

    def names(self) -> list[PlaceName]:
        """All names of places, each rank's in order."""
        return [name for one in self.ranks for name in one.places.names]

    def wholes(self, key: PlaceKey) -> tuple[Whole, ...] | Lack:
        """The tensor at a place; several where the ranks hold different ones."""
        if key in self.parts:
            return (self.whole_of_parts(key, is_mean=key in self.means),)
        first = self.rows[key]
        form = self.form(first)
        if key not in self._replicas and form.held is None and not form.is_term:
            whole = Whole((self.at(first),))
            return (whole,) if whole.is_read else Lack.NOT_READ
        by_offset = defaultdict[int, dict[Any, tuple[Places, int]]](dict)
        held = 0
        for row in self._replicas.get(key, (first,)):
            places, own = self.at(row)
            values = places.rows[places.source(own)]
            if not values["sums"]:
                return Lack.NOT_READ
            replicas = by_offset[int(values["offset"])]
            if not replicas:
                part = self.form(row).held
                held += form.size if part is None else part
            identity = (row if form.is_term else int(values["digest"])) or places.sketch(own).tobytes()
            replicas.setdefault(identity, (places, own))
        if form.is_term:
            rows = [row for replicas in by_offset.values() for row in replicas.values()]
            return (Whole(rows),) if len(rows) == self.world_size else Lack.PART_MISSING
        if held != form.size and form.held is not None:
            return Lack.PART_MISSING
        shards = [list(replicas.values()) for replicas in by_offset.values()]
        several = max(map(len, shards))
        return tuple(Whole([shard[min(one, len(shard) - 1)] for shard in shards]) for one in range(several))

    def __enter__(self) -> JoinedRanks:
        for one in self.ranks:
            one.places.__enter__()
        return self

    def __exit__(self, *problem: object) -> None:
        for one in self.ranks:
            one.places.__exit__(*problem)


def around(module: str) -> Iterator[str]:
    """The modules around one, the innermost first; at last the root."""
    while module:
        module = module.rpartition(".")[0]
        yield module


class Distance(msgspec.Struct, frozen=True):
    """The distance of two tensors, relative to the larger norm."""

    whole: float
    stretches: Any
    """One a stretch; relative to the norm that a stretch has on average."""
    differs: bool = True
    """Whether the tensors differ; may be true where the distance is 0: other bits."""

    @property
    def largest(self) -> float:
        """That of the stretch that differs most."""
        return float(self.stretches.max()) if len(self.stretches) else 0.0

    @property
    def most(self) -> float:
        """That of the whole or of a stretch, whichever is larger."""
        return max(self.whole, self.largest)


_SAME = Distance(0.0, np.zeros(0), differs=False)


def distance_of(ones: Sequence[Whole], others: Sequence[Whole]) -> Distance:
    """Return the distance of two configurations' tensors: rank by rank, or of the two that are farthest apart."""
    if len(ones) == len(others) == 1:
        return _distance(ones[0], others[0])
    pairs = zip(ones, others, strict=True) if len(ones) == len(others) else product(ones, others)
    return max((_distance(one, other) for one, other in pairs), key=lambda distance: (distance.whole, distance.differs))


def _distance(one: Whole, other: Whole) -> Distance:
    if one.digest and one.digest == other.digest:
        return _SAME
    if one.not_finite != other.not_finite:
        return Distance(math.inf, np.zeros(0))
    has_other_bits = bool(one.digest and other.digest and one.form == other.form)
    norm = max(one.norm, other.norm)
    sums, others = one.sketch(), other.sketch()
    if not norm or sums.shape != others.shape:
        return Distance(0.0, np.zeros(0), has_other_bits)
    apart = sums - others
    of_each = np.sqrt(np.einsum("ij,ij->i", apart, apart))  # a third of what np.linalg.norm takes of few numbers
    whole = math.sqrt(float(of_each @ of_each)) / norm
    return Distance(whole, of_each / (norm / math.sqrt(len(of_each))), has_other_bits or whole > 0)


# --- how far two sides are apart, as a multiple of how far shaken runs show that the place moves ---


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


def differing_elements(one: Whole, other: Whole, ratio: float | None, yard: tuple[float, float] | None) -> _Ints:
    """Where two tensors differ as the whole does: elements, or where stretches of a large one begin."""
    is_kept = one.form.size <= KEPT_WHOLE
    apart = one.sketch() - other.sketch()
    apart = np.abs(apart).reshape(-1) if is_kept else np.linalg.norm(apart, axis=1)
    least = 0.0
    if yard is not None and ratio is not None and ratio > ROUNDING:
        least = SIGNIFICANT * yard[1] * max(one.norm, other.norm) / math.sqrt(len(apart))
    return np.flatnonzero(apart > min(least, 0.5 * apart.max())) * (1 if is_kept else rows_of(one.form.size) * SUMS)


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


# --- whether two sides draw alike: a draw is the same if op, shape and line agree, its numbers if states do ---


class OtherDraws(msgspec.Struct, frozen=True, kw_only=True):
    """The draws in which two configurations come to differ."""

    op: str = ""
    """The first call that draws otherwise; empty: only the second draws there."""
    location: str = ""
    second_op: str = ""
    second_location: str = ""
    changes: str = ""
    """The line of the first draw in both that gives other numbers for it; empty: none was seen to."""

    @property
    def in_another_way(self) -> bool:
        """Whether both draw there: in eager and compiled code, by two kernels, in other shapes."""
        return bool(self.op and self.second_op)


class _Draw(NamedTuple):
    row: int
    op: str
    generator: str
    shape: tuple[int, ...]
    location: str
    state: int


def other_draws(first: JoinedRanks, second: JoinedRanks, row: int, second_row: int) -> OtherDraws | None:
    """How they draw otherwise before ``row`` of the first and ``second_row`` of the second; ``None``: alike."""
    sides: list[dict[str, list[_Draw]]] = []
    for side in (first, second):
        draws, places = defaultdict[str, list[_Draw]](list), side.ranks[0].places
        for own in side.draws:
            name, form = side.name(own), side.form(own)
            state = int(places.rows["digest"][own])
            draws[form.dtype].append(_Draw(own, name.name, form.dtype, form.shape, name.location, state))
        sides.append(draws)
    found = []
    for generator in dict.fromkeys((*sides[0], *sides[1])):
        stretch = _unlike(*(side.get(generator, []) for side in sides))
        if stretch is None:
            continue
        one, other, changed = stretch
        begins = [draw.row < until for draw, until in ((one, row), (other, second_row)) if draw is not None]
        is_changed = changed is not None and changed.row < row
        if is_changed if not begins else all(begins):
            changes = changed.location if changed is not None and is_changed else ""
            op, location = (one.op, one.location) if one else ("", "")
            second_op, second_location = (other.op, other.location) if other else ("", "")
            words = {"op": op, "location": location, "second_op": second_op, "second_location": second_location}
            earliest = one or changed or other
            found.append((earliest.row if earliest else 0, OtherDraws(**words, changes=changes)))
    return min(found, key=itemgetter(0))[1] if found else None


def _unlike(ones: list[_Draw], others: list[_Draw]) -> tuple[_Draw | None, _Draw | None, _Draw | None] | None:
    """What either draws without a like draw on the other side, and the next draw in both that gives other numbers.
    Draws after which the generator stands where it does on the other side change nothing: compiled code may draw what
    eager code does (``fallback_random``)."""
    numbers: dict[object, int] = {}
    keys = [np.array([numbers.setdefault(draw[1:-1], len(numbers)) for draw in side]) for side in (ones, others)]
    at = other_at = 0
    ahead: tuple[_Draw | None, _Draw | None] | None = None
    for begin, other_begin, length in (*align(keys[0], keys[1]), (len(ones), len(others), 0)):
        alone = (ones[at:begin], others[other_at:other_begin])
        one, other = (next((draw for draw in side if draw.op != STATE_NOTED), None) for side in alone)
        if one or other:
            ahead = ahead or (one, other)
        at, other_at = begin + length, other_begin + length
        for one, other in zip(ones[begin:at], others[other_begin:other_at], strict=True):
            if one.op == REGION_DRAW:
                ahead = ahead or (one, other)
            elif one.state == other.state:
                ahead = None
            elif one.op != STATE_NOTED:
                return *(ahead or (None, None)), one
            elif ahead is not None:
                return *ahead, None
    return None if ahead is None else (*ahead, None)
