"""Two configurations: is their difference rounding, or a fault, and at which place of the step does it begin?

The difference at each place is divided by the yardstick: how far the same place moves when the results of the step are
shaken by half a unit in the last place. Pure: reads two recordings of magnitudes and some shaken ones.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from difflib import SequenceMatcher
from typing import Any

import msgspec
import numpy as np

from tracer.errors import TraceError
from tracer.names import Phase, PlaceKind, Word
from tracer.trace.values import Magnitudes
from tracer.trace.values.places import KEPT_WHOLE, SUMS, Form, PlaceName, Places, rows_of

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
#: Places that belong to one part of a batch that is accumulated.
_OF_ONE_BATCH = frozenset((PlaceKind.INPUT, PlaceKind.OUTPUT, PlaceKind.REGION, PlaceKind.LOSS, PlaceKind.CALL))
#: Places that are listed as significant, and that only one recording has.
MOST_LISTED = 200


class CompareVerdict(Word):
    """What a comparison of two configurations says."""

    EQUAL = "equal"
    """No place differs."""
    ROUNDING = "rounding"
    """Nowhere is the difference larger than rounding makes it."""
    UNDECIDED = "undecided"
    """Somewhere it is between the two limits, and nowhere above."""
    SIGNIFICANT = "significant"
    NOT_JUDGED = "not-judged"
    """There is no yardstick."""


class PlaceDifference(msgspec.Struct, frozen=True, kw_only=True):
    """One place that both recordings have."""

    place: str
    """What is there, in words: ``layers.3.mlp``, ``layers.3.mlp.weight``."""
    kind: PlaceKind
    module: str
    location: str
    called_from: str
    step: int
    phase: Phase
    occurrence: int
    """Which of its kind it is in its step, from 0."""
    ratio: float | None
    """The difference as a multiple of the yardstick; ``None`` without one, and where it is infinite."""
    relative: float
    """The norm of the difference as a part of the norm of the first; infinite where only one has elements that are not
    finite."""
    yardstick: float
    """What rounding moves the place by, relative to its norm; 0 without a yardstick."""
    stretch: str
    """The part of the tensor that differs most, as an index: ``[0, 28:32]``. Empty: no part stands out."""
    shape: tuple[int, ...] = ()
    dtypes: tuple[str, str] = ("", "")
    order: int = 0
    """Its row in the first recording: places in order of execution."""

    @property
    def is_significant(self) -> bool:
        """Is it larger than rounding explains?"""
        return self.ratio is None or self.ratio > SIGNIFICANT


class Lack(Word):
    """Why a place cannot be compared."""

    NOT_IN_FIRST = "not-in-first"
    NOT_IN_SECOND = "not-in-second"
    OTHER_SHAPE = "other-shape"


class OnlyOne(msgspec.Struct, frozen=True, kw_only=True):
    """A place that cannot be compared."""

    place: str
    kind: PlaceKind
    module: str
    step: int
    lack: Lack
    shapes: tuple[tuple[int, ...], ...] = ()
    """Both shapes, where they differ."""


class CallDifference(msgspec.Struct, frozen=True, kw_only=True):
    """The first call inside a faulty module that differs."""

    op: str
    """Empty: the second configuration makes a call that the first does not."""
    second_op: str
    """The same, or what the second configuration calls in its place; empty: nothing."""
    location: str
    called_from: str
    ratio: float | None = None


class Yardstick(msgspec.Struct, frozen=True, kw_only=True):
    """The shaken runs that a difference is divided by."""

    runs: int = 0
    seeds: tuple[int, ...] = ()
    of_second: int = 0
    """How many of them shook the second configuration."""


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """What two recordings of magnitudes, and some shaken ones, say together."""

    verdict: CompareVerdict
    places: int
    """Places that were compared."""
    differing: int
    largest: PlaceDifference | None
    first: PlaceDifference | None
    """The first significant place, in the order of execution."""
    significant: tuple[PlaceDifference, ...]
    """The faulty ones: what each was given agrees, what it gave does not. In order."""
    following: int
    """Significant places that follow from those."""
    is_given: bool
    """Are those inputs of the program and initial parameters, which differ already?"""
    split_steps: tuple[int, ...]
    """Steps whose batches are split into another number of parts: only gradients and parameters are compared there."""
    not_finite: str
    """The first place with elements that are not finite, in words; they are left out of every difference."""
    only: tuple[OnlyOne, ...]
    only_count: int
    yardstick: Yardstick
    curve: tuple[tuple[int, int, float, float], ...]
    """Row of the first recording, step, relative difference and yardstick of each place: what the picture draws."""
    names: tuple[str, ...]
    """The places of ``curve``, in words."""
    steps: tuple[int, int]
    """Steps of both recordings."""
    call: CallDifference | None = None
    """The first call inside the first faulty module that differs, where both ran eagerly and it was looked for."""
    second_is_narrower: bool = False
    """Has the second configuration places of a narrower dtype?"""
    partial: str = ""


class _Side:
    """One recording, its rows by what they are."""

    def __init__(self, magnitudes: Magnitudes) -> None:
        self.magnitudes = magnitudes
        self.places: Places = magnitudes.places
        rows = self.places.rows
        keys = _keys(self.places.names)
        self.rows = {
            (*keys[name], occurrence, step): row
            for row, (name, occurrence, step) in enumerate(
                zip(rows["name"].tolist(), rows["occurrence"].tolist(), rows["step"].tolist(), strict=True)
            )
        }

    def name(self, row: int) -> PlaceName:
        return self.places.names[int(self.places.rows["name"][row])]

    def form(self, row: int) -> Form:
        return self.places.forms[int(self.places.rows["form"][row])]

    def magnitude(self, row: int) -> Any:
        return self.places.rows[self.places.source(row)]


def _keys(names: Sequence[PlaceName]) -> list[tuple[PlaceKind, str, str, Phase]]:
    """What each place is called in both recordings: without the class of the only model, which a wrapper changes."""
    roots = {name.module.partition(".")[0] for name in names if name.module}
    is_one = len(roots) == 1
    return [
        (name.kind, name.module.partition(".")[2] if is_one else name.module, name.name, name.phase) for name in names
    ]


class _Distance(msgspec.Struct, frozen=True):
    """How far two tensors are from each other, relative to the first's norm."""

    whole: float
    stretches: Any
    """One a stretch; relative to the norm that a stretch has on average."""

    @property
    def largest(self) -> float:
        return float(self.stretches.max()) if len(self.stretches) else 0.0


_NONE = _Distance(0.0, np.zeros(0))


def compared(
    first: Magnitudes, second: Magnitudes, shaken: Sequence[Magnitudes] = (), of_second: Sequence[Magnitudes] = ()
) -> Comparison:
    """Hold ``second`` against ``first``; ``shaken`` are shaken runs of the first, ``of_second`` of the second.

    Raises ``TraceError`` where they have no place in common, or a yardstick has not.
    """
    _check(first, second, [*shaken, *of_second])
    with ExitStack() as files:
        sides = [_Side(one) for one in (first, second, *shaken, *of_second)]
        for side in sides:
            files.enter_context(side.places)
        count = len(shaken)
        return _Comparing(sides[0], sides[1], sides[2 : 2 + count], sides[2 + count :]).compare()


def _check(first: Magnitudes, second: Magnitudes, shaken: Sequence[Magnitudes]) -> None:
    """Raise ``TraceError`` for recordings that cannot be what they are given as."""
    for one in (first, second):
        if one.header.shaken is not None:
            raise TraceError(
                f"{one.places.path} is a shaken recording, which is a yardstick and no configuration",
                hint="give it after --yardstick",
            )
    for one in shaken:
        if one.header.shaken is None:
            raise TraceError(
                f"{one.places.path} is no yardstick: it was not shaken", hint="record it with `tracer run --shake 1`"
            )
        if not ({name.key for name in first.places.names} | {name.key for name in second.places.names}) & {
            name.key for name in one.places.names
        }:
            raise TraceError(
                f"{one.places.path} is a yardstick of another program: no place is the same",
                hint="shake the run that it is held against",
            )


class _Comparing:
    """Two recordings and their yardstick, place by place."""

    def __init__(self, first: _Side, second: _Side, shaken: Sequence[_Side], of_second: Sequence[_Side]) -> None:
        self._first, self._second = first, second
        self._shaken, self._of_second = shaken, of_second
        self._second_is_narrower = False

    def compare(self) -> Comparison:
        """Every place that both have, in the order of the first recording."""
        first, second = self._first, self._second
        differences: list[PlaceDifference] = []
        only: list[OnlyOne] = []
        curve, names = [], []
        split = self._steps_split_otherwise()
        for key, row in first.rows.items():
            other = second.rows.get(key)
            if key[0] in _OF_ONE_BATCH and key[-1] in split:
                continue
            if other is None:
                only.append(self._only(first, row, Lack.NOT_IN_SECOND))
                continue
            forms = first.form(row), second.form(other)
            if forms[0].size != forms[1].size:
                only.append(self._only(first, row, Lack.OTHER_SHAPE, (forms[0].shape, forms[1].shape)))
                continue
            if _half_unit(forms[1].dtype) > _half_unit(forms[0].dtype):
                self._second_is_narrower = True
            difference = self._difference(row, other, key)
            if difference is not None:
                differences.append(difference)
            relative, yardstick = (difference.relative, difference.yardstick) if difference else (0.0, 0.0)
            curve.append((row, key[-1], relative, yardstick))
            names.append(str(first.name(row)))
        for key, row in second.rows.items():
            if key not in first.rows and not (key[0] in _OF_ONE_BATCH and key[-1] in split):
                only.append(self._only(second, row, Lack.NOT_IN_FIRST))
        if not curve:
            raise TraceError(
                "the two recordings have no place in common",
                hint="record the same model twice, with --magnitudes and the same --steps",
            )
        return self._answer(differences, only, curve, names, split)

    def _steps_split_otherwise(self) -> set[int]:
        """Steps whose batch is split into other parts, or among other ranks: what is of one part is not compared."""
        sizes = {side.magnitudes.header.world_size or 1 for side in (self._first, self._second)}
        if len(sizes) > 1:
            return {key[-1] for key in self._first.rows}
        counts = [
            Counter(key[-1] for key in side.rows if key[0] is PlaceKind.LOSS) for side in (self._first, self._second)
        ]
        return {step for step in counts[0].keys() & counts[1].keys() if counts[0][step] != counts[1][step]}

    def _answer(
        self, differences: list[PlaceDifference], only: list[OnlyOne], curve: Any, names: Any, split: set[int]
    ) -> Comparison:
        is_judged = bool(self._shaken or self._of_second)
        significant = [one for one in differences if is_judged and one.is_significant]
        handed_in: list[PlaceDifference] = []
        computed: list[PlaceDifference] = []
        for one in significant:
            (handed_in if self._is_given(one) else computed).append(one)
        roots = self._roots(computed)
        if handed_in and roots and handed_in[0].kind is not PlaceKind.INITIAL and handed_in[0].order > roots[0].order:
            handed_in = []  # a later batch, which may follow from the step before
        ratios = [(math.inf if one.ratio is None else one.ratio) if is_judged else one.relative for one in differences]
        largest = differences[max(range(len(ratios)), key=ratios.__getitem__)] if ratios else None
        if not differences:
            verdict = CompareVerdict.EQUAL
        elif not is_judged:
            verdict = CompareVerdict.NOT_JUDGED
        elif significant:
            verdict = CompareVerdict.SIGNIFICANT
        elif max(ratios) > ROUNDING:
            verdict = CompareVerdict.UNDECIDED
        else:
            verdict = CompareVerdict.ROUNDING
        shaken = [side.magnitudes.header for side in (*self._shaken, *self._of_second)]
        steps = [len(set(side.places.rows["step"].tolist())) for side in (self._first, self._second)]
        return Comparison(
            verdict=verdict,
            places=len(curve),
            differing=len(differences),
            largest=largest,
            first=next(iter(handed_in or roots), None),
            significant=tuple((handed_in or roots)[:MOST_LISTED]),
            following=len(significant) - len(handed_in or roots),
            is_given=bool(handed_in),
            split_steps=tuple(sorted(split)),
            not_finite=self._not_finite(),
            only=tuple(only[:MOST_LISTED]),
            only_count=len(only),
            yardstick=Yardstick(
                runs=len(shaken),
                seeds=tuple(header.shaken for header in shaken if header.shaken is not None),
                of_second=len(self._of_second),
            ),
            curve=tuple(curve),
            names=tuple(names),
            steps=(steps[0], steps[1]),
            second_is_narrower=self._second_is_narrower,
            partial=self._first.magnitudes.partial or self._second.magnitudes.partial,
        )

    def _not_finite(self) -> str:
        """The first place of the first recording that has elements which are not finite."""
        rows = np.flatnonzero(self._first.places.rows["not_finite"])
        if not len(rows):
            return ""
        row = int(rows[0])
        return f"{self._first.name(row)}, step {int(self._first.places.rows['step'][row])}"

    @staticmethod
    def _only(side: _Side, row: int, lack: Lack, shapes: tuple[tuple[int, ...], ...] = ()) -> OnlyOne:
        name = side.name(row)
        step = int(side.places.rows["step"][row])
        return OnlyOne(place=str(name), kind=name.kind, module=name.module, step=step, lack=lack, shapes=shapes)

    # --- which of them are the beginning ---

    def _is_given(self, one: PlaceDifference) -> bool:
        """Is it what the program was given: initial parameters, or inputs of the outermost module?"""
        if one.kind is PlaceKind.INITIAL:
            return True
        return one.kind is PlaceKind.INPUT and one.order in self._outermost()

    def _outermost(self) -> set[int]:
        """Rows of inputs of modules that no module calls."""
        if not hasattr(self, "_outermost_rows"):
            first = self._first
            names = first.places.names
            heads = {name.module for name in names if name.kind is PlaceKind.INPUT}
            outermost = {
                module for module in heads if not any(module != other and _is_inside(module, other) for other in heads)
            }
            numbers = [
                number for number, name in enumerate(names) if name.kind is PlaceKind.INPUT and name.module in outermost
            ]
            self._outermost_rows = set(np.flatnonzero(np.isin(first.places.rows["name"], numbers)).tolist())
        return self._outermost_rows

    def _roots(self, significant: list[PlaceDifference]) -> list[PlaceDifference]:
        """Those that do not follow from another: in the first step that has any, what was given agrees."""
        if not significant:
            return []
        step = significant[0].step
        here = [one for one in significant if one.step == step]
        forward = [one for one in here if one.kind not in (PlaceKind.GRADIENT, PlaceKind.PARAMETER, PlaceKind.STATE)]
        if forward:
            return self._forward_roots(forward)
        gradients = [one for one in here if one.kind is PlaceKind.GRADIENT]
        if gradients:
            left = self._last_outputs(step)
            gradients.sort(key=lambda one: -left.get(one.module, one.order))
            first_module = gradients[0].module
            return [one for one in gradients if one.module == first_module]
        return here[:1]

    def _forward_roots(self, significant: list[PlaceDifference]) -> list[PlaceDifference]:
        """Modules whose inputs, and whatever ran inside them, agree; else the first place of all."""
        inputs = self._inputs_by_call(significant[0].step)
        roots: list[PlaceDifference] = []
        before = -1
        for one in significant:
            latest, before = before, one.order
            if one.kind is not PlaceKind.OUTPUT:
                if not roots:  # code between two modules
                    roots.append(one)
                continue
            begins = min(inputs.get((one.module, one.phase, one.occurrence), [one.order]))
            if latest < begins:
                roots.append(one)
        return roots

    def _inputs_by_call(self, step: int) -> dict[tuple[str, Phase, int], list[int]]:
        """The rows of the inputs of each module call of a step."""
        inputs: dict[tuple[str, Phase, int], list[int]] = {}
        for key, row in self._first.rows.items():
            kind, module, _, phase, occurrence, number = key
            if kind is PlaceKind.INPUT and number == step:
                inputs.setdefault((module, phase, occurrence), []).append(row)
        return inputs

    def _last_outputs(self, step: int) -> dict[str, int]:
        """Of each module: the row of its last output in a step. The backward pass comes by in the opposite order."""
        left: dict[str, int] = {}
        for key, row in self._first.rows.items():
            if key[0] is PlaceKind.OUTPUT and key[5] == step:
                left[key[1]] = max(row, left.get(key[1], -1))
        return left

    # --- one place ---

    def _difference(self, row: int, other: int, key: Any) -> PlaceDifference | None:
        """``None`` where the two agree."""
        first, second = self._first, self._second
        one, two = first.magnitude(row), second.magnitude(other)
        forms = first.form(row), second.form(other)
        if one["digest"] and one["digest"] == two["digest"] and forms[0].dtype == forms[1].dtype:
            return None
        distance = _distance(first, row, second, other)
        if (
            distance.whole == 0.0
            and one["not_finite"] == two["not_finite"]
            and not (one["digest"] and two["digest"] and forms[0] == forms[1])
        ):
            return None
        whole, stretch = self._yard(row, key)
        ratio: float | None = None
        if self._shaken or self._of_second:
            floor = max(_half_unit(form.dtype) for form in forms)
            whole, stretch = max(whole, floor), max(stretch, floor)
            if math.isfinite(distance.whole):
                ratio = max(distance.whole / whole, distance.largest / stretch) if whole else None
        name = first.name(row)
        return PlaceDifference(
            place=str(name),
            kind=name.kind,
            module=name.module,
            location=name.location or self._line_of(name.module)[0],
            called_from=name.called_from or self._line_of(name.module)[1],
            step=int(first.places.rows["step"][row]),
            phase=name.phase,
            occurrence=int(first.places.rows["occurrence"][row]),
            ratio=ratio,
            relative=distance.whole,
            yardstick=whole,
            stretch=_stretch(distance, forms[0]),
            shape=forms[0].shape,
            dtypes=(forms[0].dtype, forms[1].dtype),
            order=row,
        )

    def _line_of(self, module: str) -> tuple[str, str]:
        """Where a module is called from, for its parameters."""
        if not hasattr(self, "_lines"):
            self._lines = {
                name.module: (name.location, name.called_from)
                for name in self._first.places.names
                if name.kind is PlaceKind.OUTPUT
            }
        return self._lines.get(module, ("", ""))

    def _yard(self, row: int, key: Any) -> tuple[float, float]:
        """How far shaking moves a place: the whole of it, and its stretch that moves most."""
        whole = stretch = 0.0
        for base, shaken in ((self._first, self._shaken), (self._second, self._of_second)):
            here = row if base is self._first else base.rows.get(key)
            if here is None:
                continue
            for side in shaken:
                moved = side.rows.get(key)
                if moved is None or side.form(moved).size != base.form(here).size:
                    continue
                distance = _distance(base, here, side, moved)
                whole, stretch = max(whole, distance.whole), max(stretch, distance.largest)
        return whole, stretch


def _is_inside(module: str, other: str) -> bool:
    return other == "" or module.startswith(f"{other}.")


def _distance(one: _Side, row: int, two: _Side, other: int) -> _Distance:
    first, second = one.magnitude(row), two.magnitude(other)
    if first["digest"] and first["digest"] == second["digest"]:
        return _NONE
    if first["not_finite"] != second["not_finite"]:
        return _Distance(math.inf, np.zeros(0))
    norm = max(float(first["norm"]), float(second["norm"]))
    sums, others = one.places.sketch(row), two.places.sketch(other)
    if not norm or sums.shape != others.shape:
        return _NONE
    of_each = np.linalg.norm(sums - others, axis=1)
    return _Distance(float(np.linalg.norm(of_each)) / norm, of_each / (norm / math.sqrt(len(of_each))))


def _half_unit(dtype: str) -> float:
    return _HALF_UNIT.get(dtype, 0.0)


def _stretch(distance: _Distance, form: Form) -> str:
    """The stretch that differs most as an index, where it stands out from the others."""
    stretches = distance.stretches
    if len(stretches) < 4 or not form.shape:
        return ""
    place = int(stretches.argmax())
    others = np.delete(stretches, place)
    if stretches[place] < 4 * np.median(others) or not stretches[place]:
        return ""
    length = rows_of(form.size) * SUMS if form.size > KEPT_WHOLE else SUMS
    begin, end = place * length, min((place + 1) * length, form.size) - 1
    shape = form.shape
    low, high = np.unravel_index(begin, shape), np.unravel_index(end, shape)
    index = []
    for start, stop in zip(low, high, strict=True):
        if start == stop:
            index.append(str(int(start)))
        else:
            index.append(f"{int(start)}:{int(stop) + 1}")
            break
    return f"[{', '.join(index)}]"


def first_call(
    first: Magnitudes, second: Magnitudes, shaken: Magnitudes, place: PlaceDifference
) -> CallDifference | None:
    """The first call inside the module of ``place`` whose result differs by more than rounding, or that only one makes.

    The recordings hold single calls of that module (``PlaceKind.CALL``). ``None``: no call stands out.
    """
    with first.places, second.places, shaken.places:
        sides = [_Side(one) for one in (first, second, shaken)]
        calls = [_calls_in(side, place.step) for side in sides]
        ops = [[side.name(row).name for row in rows] for side, rows in zip(sides, calls, strict=True)]
        yards = dict(zip(calls[0], calls[2], strict=False)) if ops[0] == ops[2] else {}
        for tag, begin, end, other_begin, other_end in SequenceMatcher(
            None, ops[0], ops[1], autojunk=False
        ).get_opcodes():
            if tag != "equal":
                row = calls[0][begin] if begin < end else None
                name = sides[0].name(row) if row is not None else sides[1].name(calls[1][other_begin])
                return CallDifference(
                    op=ops[0][begin] if begin < end else "",
                    second_op=ops[1][other_begin] if other_begin < other_end else "",
                    location=name.location,
                    called_from=name.called_from,
                )
            for row, other in zip(calls[0][begin:end], calls[1][other_begin:other_end], strict=True):
                distance = _distance(sides[0], row, sides[1], other)
                floor = max(_half_unit(sides[0].form(row).dtype), _half_unit(sides[1].form(other).dtype))
                moved = yards.get(row)
                yard = _distance(sides[0], row, sides[2], moved).whole if moved is not None else 0.0
                if distance.whole > SIGNIFICANT * max(yard, floor):
                    name = sides[0].name(row)
                    ratio = distance.whole / max(yard, floor)
                    return CallDifference(
                        op=name.name,
                        second_op=name.name,
                        location=name.location,
                        called_from=name.called_from,
                        ratio=ratio if math.isfinite(ratio) else None,
                    )
    return None


def _calls_in(side: _Side, step: int) -> list[int]:
    rows = side.places.rows
    kinds = np.array([name.kind is PlaceKind.CALL for name in side.places.names])
    return list(np.flatnonzero(kinds[rows["name"]] & (rows["step"] == step)).tolist())
