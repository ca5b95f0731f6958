"""Tells whether two configurations differ by rounding or by a fault, and at which place of the step that begins.

The difference at each place is divided by how far it moves when results are shaken by half a unit in the last place.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Sequence, Set
from contextlib import ExitStack
from functools import cached_property
from typing import Any, Literal

import msgspec
import numpy as np
from msgspec.structs import replace

from tracer.divergence.joined_ranks import (
    ROUNDING,
    SIGNIFICANT,
    JoinedCall,
    JoinedRanks,
    Lack,
    OtherDraws,
    PlaceKey,
    Whole,
    Yardsticks,
    around,
    differing_elements,
    distance_of,
    factor_of,
    half_unit,
    is_whole,
    other_draws,
    ratio_of,
    stretch_of,
)
from tracer.errors import TraceError
from tracer.names import BACKWARD_OF, Phase, PlaceKind, Word
from tracer.trace.differences import SettingDifference
from tracer.trace.values import Magnitudes
from tracer.trace.values.places import Joined, Matching, PlaceName, are_alike, joined_rows

#: Places that belong to one part of a batch that is accumulated.
_OF_ONE_BATCH = frozenset(
    (
        *(PlaceKind.INPUT, PlaceKind.OUTPUT, PlaceKind.REGION, PlaceKind.LOSS, PlaceKind.CALL),
        *(PlaceKind.OUTPUT_GRADIENT, PlaceKind.DECISION),
    )
)
#: What the backward pass makes.
_OF_BACKWARD = frozenset((PlaceKind.OUTPUT_GRADIENT, PlaceKind.GRADIENT))
#: What the backward pass makes, and what comes of it.
_OF_TRAINING = frozenset((*_OF_BACKWARD, PlaceKind.PARAMETER, PlaceKind.STATE))
_OF_PARAMETERS = frozenset((PlaceKind.INITIAL, PlaceKind.GRADIENT, PlaceKind.PARAMETER, PlaceKind.STATE))
_DECIDED_BACKWARD = PlaceKind.DECISION, Phase.BACKWARD
#: What the program computes: a parameter counts if it is no longer what it was at first.
_COMPUTED = frozenset(
    (PlaceKind.OUTPUT, PlaceKind.REGION, PlaceKind.LOSS, PlaceKind.GRADIENT, PlaceKind.PARAMETER, PlaceKind.STATE)
)
#: What another order of the same numbers makes of a stretch at least, relative to its norm.
_LEAST_OF_AN_ORDER = 0.1
#: What a norm may move by of itself however small the yardstick is: half a unit of float32.
_LEAST_OF_A_NORM = 2.0**-24
#: What no order of summing makes of a module's result where all before it agrees, as a part of its norm: so many half
#: units in the last place, or those of a bfloat16 that is significant.
_MOST_OF_AN_ORDER = 1000, SIGNIFICANT * 2.0**-8
#: Places that are listed as significant, and that only one recording has.
MOST_LISTED = 200


#: Places that differ at all, of which the first ones are told.
FIRST_UNEQUAL = 10

Side = Literal["a", "b"]
"""One of two configurations."""


class CompareVerdict(Word):
    """The verdict of a comparison of two configurations."""

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
    """The place, in words: ``layers.3.mlp``, ``layers.3.mlp.weight``."""
    kind: PlaceKind
    module: str
    location: str
    called_from: str
    step: int
    phase: Phase
    occurrence: int
    """Its index among those of its kind in its step, from 0."""
    ratio: float | None = None
    """The difference as a multiple of the yardstick; ``None`` without one, and where it is infinite."""
    relative: float
    """The norm of the difference as a part of the norm of the first; infinite where only one has elements that are not
    finite."""
    yardstick: float = 0.0
    """The distance that rounding moves the place by, relative to its norm; 0 without a yardstick."""
    stretch: str = ""
    """The part of the tensor that differs most, as an index: ``[0, 28:32]``. Empty: no part stands out."""
    position: int | None = None
    """The first position of a sequence that differs by as much as the place; ``None`` unless rows were compared."""
    shape: tuple[int, ...] = ()
    dtypes: tuple[str, str] = ("", "")
    """Empty for the side that has no gradient there."""
    ranks_differ: bool = False
    """Whether ranks of one configuration hold different tensors there, which should be the same."""
    inputs_agree: bool = False
    """Whether all that its module was called with was compared, and agrees."""
    is_own_code: bool = False
    """Whether the code of ``module`` itself, outside the modules that it calls (``module`` is empty: of the program),
    makes what is wrong there."""
    shapes: tuple[tuple[int, ...], ...] = ()
    """Both shapes, where that code gives the place another one, or the program other rows."""
    factor: float | None = None
    """What the second is of the first, where they differ by one factor alone."""
    is_alone: bool = False
    """Whether all before it agrees bit for bit, and it is judged by runs that were shaken inside one module alone."""
    of_means: bool = False
    """Whether ``ratio`` is that of the means of several shaken runs of each configuration."""
    order: int = 0
    """Its row in the first recording: places in order of execution."""
    process: str = ""
    """The process, ``child 1.2``; empty for the first one of a job."""

    @property
    def is_in_model(self) -> bool:
        """Whether it is more than the program's own code, outside all modules, or the loss that it made."""
        return not (self.kind is PlaceKind.LOSS or (self.is_own_code and not self.module))

    @property
    def is_whole(self) -> bool:
        """Whether its elements are whole numbers or truth values, which nothing rounds."""
        return all(is_whole(dtype) for dtype in self.dtypes)

    @property
    def is_significant(self) -> bool:
        """Whether it is larger than rounding explains."""
        return self.ratio is None or self.ratio > SIGNIFICANT


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


class Flip(msgspec.Struct, frozen=True, kw_only=True):
    """A call that decides otherwise in the second configuration, by no more than rounding."""

    module: str
    op: str
    location: str
    step: int
    phase: Phase
    count: int
    """Values that it decides otherwise."""
    of: int


class Yardstick(msgspec.Struct, frozen=True, kw_only=True):
    """The shaken runs that a difference is divided by."""

    runs: int = 0
    seeds: tuple[int, ...] = ()
    of_second: int = 0
    """The number of shaken runs that were of the second configuration."""
    inside: str = ""
    """The module inside which alone some of them were shaken; empty: none were."""


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """The comparison of two recordings of magnitudes, with some shaken ones as the yardstick."""

    verdict: CompareVerdict
    places: int
    """Places that were compared."""
    compared: tuple[int, int]
    """The results of the program that were compared, and all that either side has: outputs of modules and compiled
    regions, losses, gradients, the optimizer's states, and parameters that are no longer as they were at first. Inputs
    and initial parameters were not computed."""
    rows: tuple[int, int]
    """Of the calls of steps whose batches are laid out otherwise: rows that both have, which were compared, and all."""
    differing: int
    largest: PlaceDifference | None
    first: PlaceDifference | None
    """The first significant place, in the order of execution."""
    significant: tuple[PlaceDifference, ...]
    """The faulty ones: what each was given agrees, what it gave does not. In order."""
    following: int
    """Significant places that follow from those."""
    is_given: bool
    """Whether those are inputs of the program and initial parameters, which differ already."""
    split_steps: tuple[int, ...]
    """Steps whose batches are split into other parts, or among other ranks: losses are not compared there."""
    not_finite: str
    """The first place with elements that are not finite, in words; they are left out of every difference."""
    only: tuple[OnlyOne, ...]
    only_count: int
    unjudged: int
    """Places that differ and have no yardstick."""
    unequal: tuple[PlaceDifference, ...]
    """The first places that differ at all, in the order of execution."""
    draws: OtherDraws | None = None
    """How they draw other random numbers before the first place; ``None``: they draw alike."""
    unrepeated: PlaceDifference | None = None
    """The first place in which two runs of the first configuration differ by more than rounding."""
    yardstick: Yardstick
    steps: tuple[int, int]
    """Steps of both recordings."""
    flips: tuple[Flip, ...] = ()
    """Decisions of the second configuration that rounding makes otherwise than the first. A run of the first that
    follows them was compared then."""
    call: CallDifference | None = None
    """The first call inside the first faulty module that differs, where both ran eagerly and it was looked for."""
    second_is_narrower: bool = False
    """Whether the second configuration has places of a narrower dtype."""
    parts_in: str = ""
    """The module in which the two come to differ, while all before it agrees bit for bit, and by so much that it would
    be significant if little was rounded there: runs that are shaken inside it alone decide. Empty: none such."""
    agreeing: tuple[str, ...] = ()
    """The modules inside that one whose results agree: nothing that is rounded there can make the two differ."""
    row_steps: tuple[int, ...] = ()
    """Split steps whose inputs and outputs were compared as rows of those of the whole batch."""
    settings: tuple[SettingDifference, ...] = ()
    """Settings, versions and variables that are not the same in both."""
    partial: str = ""
    lacks_ends: bool = False
    """Whether none of the results that leave the model was compared: what outermost modules return, losses, gradients,
    parameters. Nobody can call the two equal then."""
    processes: int = 1
    """Processes that were compared, each with its own."""
    factor: float | None = None
    """What most gradients of the second configuration are of those of the first, where that is one factor."""
    scaled: tuple[int, int] = (0, 0)
    """The gradients that differ by that factor alone, of all that were compared in that step."""
    names: dict[str, str] = {}
    """What the second configuration calls modules and parameters that it names otherwise; parts of one have one."""
    undone: float | None = None
    """A factor of the loss and of what backward makes, which is gone when the optimizer reads the gradients."""

    @property
    def is_drawn_otherwise(self) -> bool:
        """Whether both draw, and in two ways, before they differ by more than rounding: nothing can be said then."""
        return self.verdict is CompareVerdict.UNDECIDED and self.draws is not None and self.first is not None

    @property
    def is_open(self) -> bool:
        """Whether it is undecided, and further shaken runs may decide."""
        is_undecided = self.verdict is CompareVerdict.UNDECIDED and not self.lacks_ends
        return is_undecided and self.unrepeated is None and not self.is_drawn_otherwise


def compared(
    first: Magnitudes,
    second: Magnitudes,
    shaken: Sequence[Magnitudes] = (),
    of_second: Sequence[Magnitudes] = (),
    *,
    by_means: bool = False,
) -> Comparison:
    """Hold ``second`` against ``first``; ``shaken`` are shaken runs of the first, ``of_second`` of the second.
    ``by_means``: the means of both decide what is undecided; rounding averages out in them, and a fault does not.
    Raises ``TraceError`` where they have no place in common, or a yardstick has not."""
    for one in (first, second):
        check_side(one, str(one.places.path), is_first=one is first)
    names = first.places.names, second.places.names
    sides = [JoinedRanks(one, *names) for one in (first, second, *shaken, *of_second)]
    for side in sides[1:]:
        side.name_entries_as(sides[0])
    count = 2 + len(shaken)
    _check(sides[0], sides[2:count])
    _check(sides[1], sides[count:])
    if not _are_of_one_program(sides[0], sides[1]):
        raise TraceError(
            "the two recordings have no place in common",
            hint="record the same model twice, with --magnitudes and the same --steps",
        )
    with ExitStack() as files:
        for side in sides:
            files.enter_context(side)
        yardsticks = Yardsticks(sides[1], sides[2:count], sides[count:], by_means=by_means)
        return _Comparing(sides[0], sides[1], yardsticks).compare()


def unrepeated(comparison: Comparison) -> PlaceDifference | None:
    """The first place at which two runs of one configuration differ by more than kernels do; no yardstick is asked."""
    place = next(iter(comparison.unequal), None)
    if place is None or comparison.draws is not None or place.is_whole or not math.isfinite(place.relative):
        return place
    units, most = _MOST_OF_AN_ORDER
    limit = min(units * max(half_unit(dtype) for dtype in place.dtypes), most)
    return place if place.relative > limit and place.kind not in _OF_TRAINING else None


def _are_of_one_program(one: JoinedRanks, other: JoinedRanks) -> bool:
    """Return whether they share places that not every program has: any model has an output, and any training a loss."""
    own, others = ({key for key in side.rows if key.module or key.kind not in _OF_ONE_BATCH} for side in (one, other))
    return bool(own & others if own and others else one.rows.keys() & other.rows.keys())


def check_side(recording: Magnitudes, name: str, *, is_first: bool) -> None:
    """Raise ``TraceError`` where nothing can be held against the recording of configuration ``name``."""
    places = recording.places
    if places.is_empty and all(other.places.is_empty for other in recording.other_ranks):
        raise TraceError(
            f"{name} recorded no place: no module was called, and backward was called on no loss",
            hint="compare a script or step that calls a model",
        )
    if not is_first or places.is_empty:
        return
    step = int(places.rows["step"].min())
    for row in np.flatnonzero(places.rows["not_finite"].astype(bool) & (places.rows["step"] == step)).tolist():
        if places.names[int(places.rows["name"][row])].kind is PlaceKind.LOSS:
            raise TraceError(
                f"the loss of {name} is not finite in its first step, {step}: nothing can be held against it",
                hint="make the first configuration train before you compare it",
            )


def _check(configuration: JoinedRanks, shaken: Sequence[JoinedRanks]) -> None:
    """Raise ``TraceError`` for recordings that cannot be what they are given as."""
    path, ranks = configuration.path, configuration.world_size
    if configuration.header.shaken is not None:
        problem = f"{path} is a shaken recording, which is a yardstick and no configuration"
        raise TraceError(problem, hint="give it after --yardstick")
    for one in shaken:
        if one.header.shaken is None:
            problem = f"{one.path} is no yardstick: it was not shaken"
            raise TraceError(problem, hint="record it with `tracer run --shake 1`")
        problem = ""
        if not _are_of_one_program(one, configuration):
            problem = f"{one.path} is a yardstick of another program: no place is the same"
        elif one.world_size != ranks:
            problem = f"{one.path} is a yardstick of {one.world_size} ranks, and {path} has {ranks}"
        if problem:
            raise TraceError(problem, hint="shake the run that it is held against")


class _Comparing:
    """Two recordings and their yardstick, place by place."""

    def __init__(self, first: JoinedRanks, second: JoinedRanks, yardsticks: Yardsticks) -> None:
        self._first, self._second = self._sides = first, second
        self._yardsticks = yardsticks
        self._is_judged = any(yardsticks.everywhere)
        """Whether there is a yardstick."""
        self._is_spread = first.world_size != second.world_size
        self._is_joined = bool(first.header.rows_of or second.header.rows_of)
        """Whether one side was recorded as rows of the other."""
        self._whole_and_part = (second, first) if first.header.rows_of else (first, second)
        """The side that takes the batch as a whole, and the one that was recorded as rows of it."""
        self._parts_in = ""
        self._agreeing: tuple[str, ...] = ()
        self._alone: tuple[object, ...] | None = None
        """The call whose results are the first that differ."""
        self._compared: set[PlaceKey] = set()
        self._same_numbers: set[int] = set()
        """Rows of significant places whose norm and largest magnitude agree: perhaps in another order."""
        self._reshaped: dict[int, tuple[tuple[int, ...], ...]] = {}
        """Rows that have other shapes in the second recording, with both shapes."""
        self._differing: set[PlaceKey] = set()
        self._weighed: set[int] = set()
        """Steps in which a module gives numbers of unequal parts: nobody knows whether these or the loss are wrong."""
        self._has_other_forward = False
        """Whether something differs that is not made by the backward pass of the first step."""
        self._leave_out_unchanged()

    def _leave_out_unchanged(self) -> None:
        """Gradients that no line changes after backward, in neither configuration, are one place."""
        rows = (key for side in self._sides for key in side.rows if key.kind is PlaceKind.GRADIENT)
        for key in {key for key in rows if key.phase is Phase.OPTIMIZER}:
            as_left = key._replace(phase=Phase.BACKWARD)
            both = [(side, side.rows.get(key), side.rows.get(as_left)) for side in self._sides]
            if all(
                row is None or (left is not None and side.source(row) == side.source(left)) for side, row, left in both
            ):
                for side in self._sides:
                    side.rows.pop(key, None)

    def _index(self) -> None:
        """What the first recording has, each in order."""
        self._keys = {row: key for key, row in self._first.rows.items()}
        self._outputs = defaultdict[tuple[str, Phase, int], list[tuple[int, PlaceKey]]](list)
        """Rows of outputs by module, phase and step."""
        self._inputs = defaultdict[JoinedCall, list[int]](list)
        """The rows of the inputs of each call of a module."""
        self._inputs_by_source: dict[tuple[int | None, int], int] = {}
        """The first input that shares a tensor, by tensor and step."""
        self._called: dict[str, int] = {}
        """A row of each module that was called."""
        for row, key in self._keys.items():
            if key.kind is PlaceKind.OUTPUT:
                self._outputs[key.module, key.phase, key.step].append((row, key))
            elif key.kind is PlaceKind.INPUT:
                self._inputs[key.call].append(row)
                self._inputs_by_source.setdefault((self._first.source(row), key.step), row)
            else:
                continue
            self._called[key.module] = row

    def compare(self) -> Comparison:
        """Every place that both have, in the order of the first recording."""
        first, second = self._sides
        differences: list[PlaceDifference] = []
        only: list[OnlyOne] = []

        def leave_out(key: PlaceKey, lack: Lack, side: JoinedRanks, other: JoinedRanks) -> None:
            if (lost := self._lost_gradient(key, side, other)) is not None:
                differences.append(lost)
            else:
                only.append(self._only(side, key, lack))

        split = self._steps_split_otherwise()
        self._join_parts(split)
        self._index()
        for key, row in first.rows.items():
            if self._is_of_other_part(key, split):
                continue
            # A decision counts where the second configuration would not decide as the first by it, or by it and others.
            if key.kind is PlaceKind.DECISION and key._replace(name=key.name.partition(" #")[0]) not in first.flips:
                continue
            difference = self._difference(row, key, is_first=not differences)
            if isinstance(difference, Lack):
                leave_out(key, difference, first, second)
                continue
            self._compared.add(key)
            if difference is not None:
                differences.append(difference)
                self._differing.add(key)
                self._has_other_forward |= key.kind not in _OF_BACKWARD
        for key in second.rows:
            if key not in first.rows and key.kind is not PlaceKind.DECISION and not self._is_of_other_part(key, split):
                leave_out(key, Lack.NOT_IN_FIRST, second, first)
        if not self._compared:
            raise TraceError(
                "the two recordings have no place that can be compared",
                hint="record the same model twice, with --magnitudes, the same --steps and all ranks",
            )
        return self._answer(differences, only, split)

    def _steps_split_otherwise(self) -> set[int]:
        """Steps whose batch is split, padded or packed otherwise, or shared among other ranks."""
        if not self._is_spread:
            calls = [side.row_calls for side in self._sides]
            both = calls[0].keys() & calls[1].keys()
            return self._steps_of_other_losses | {
                step for step in both if not are_alike(calls[0][step], calls[1][step])
            }
        # As in tensor parallel, each rank may have been called with the whole batch.
        others: set[int] = set()
        for key in self._given_by_program:
            sides = [side.wholes(key) for side in self._sides if key in side.rows]
            tensors = [tensor for side in sides if not isinstance(side, Lack) for tensor in side]
            is_one = len(tensors) == 2 and tensors[0].form.size == tensors[1].form.size
            if not (is_one and all(len(tensor.rows) == 1 for tensor in tensors)):  # and not rows of it
                others.add(key.step)
        return self._first.steps - ({key.step for key in self._given_by_program} - others)

    @cached_property
    def _steps_of_other_losses(self) -> set[int]:
        """Steps whose losses are those of other parts of a batch, and are not compared."""
        ours, theirs = (Counter(key.step for key in side.rows if key.kind is PlaceKind.LOSS) for side in self._sides)
        return {step for step in ours if step in theirs and (self._is_spread or ours[step] != theirs[step])}

    def _join_parts(self, split: set[int]) -> None:
        """Make one place of what is one number of each part of a batch: the sum or the mean, whichever is nearer."""
        if any(side.world_size > 1 for side in self._sides):
            return
        numbers = self._first.numbers_in(split) & self._second.numbers_in(split)
        runs = (*self._sides, *self._yardsticks.runs)
        for side in runs:
            side.join_parts(numbers)
        for key in numbers:
            of_sums, of_means = (
                distance_of(*([side.whole_of_parts(key, is_mean=is_mean)] for side in self._sides)).whole
                for is_mean in (False, True)
            )
            for side in runs if of_means < of_sums else ():
                side.means.add(key)

    def _is_of_other_part(self, key: PlaceKey, split: set[int]) -> bool:
        """Return whether the place belongs to a part of a batch that is no row of what the other side has there."""
        if key.kind not in _OF_ONE_BATCH or key.step not in split or key in self._first.parts:
            return False
        if key.kind not in (PlaceKind.INPUT, PlaceKind.OUTPUT):
            return key.kind is not PlaceKind.LOSS or key.step in self._steps_of_other_losses
        if self._is_joined or key.step in self._steps_of_other_losses:
            return not (self._is_joined and self._are_rows(key))
        around = [side.calls_around(side.rows[key], key.step) for side in self._sides if key in side.rows]
        return len(around) > 1 and not are_alike(*around) and self._are_rows(key)  # by chance: one number of other rows

    def _are_rows(self, key: PlaceKey) -> bool:
        """Return whether both sides hold the whole of it, one as rows of the other's."""
        sides = [side.wholes(key) if key in side.rows else Lack.NOT_IN_SECOND for side in self._sides]
        tensors = [side[0].form.size for side in sides if not isinstance(side, Lack)]
        return len(tensors) == 2 and len(set(tensors)) == 1

    def _answer(self, differences: list[PlaceDifference], only: list[OnlyOne], split: set[int]) -> Comparison:
        is_judged, places = self._is_judged, len(self._compared)
        only = [one for one in only if one.kind is not PlaceKind.OUTPUT_GRADIENT or one.lack is Lack.NO_YARDSTICK]
        unjudged = [one for one in only if one.lack is Lack.NO_YARDSTICK]
        reordered = self._in_another_order(differences)
        moved = self._of_other_positions(differences) - reordered
        weighed = self._of_unequal_parts(differences)
        self._compared -= (keys := {self._keys[row] for row in weighed})
        self._weighed = {key.step for key in keys}
        left_out = ((reordered, Lack.OTHER_ORDER), (moved, Lack.OTHER_POSITION), (weighed, Lack.OTHER_PARTS))
        for rows, lack in left_out:
            only += [self._only(self._first, self._keys[row], lack) for row in sorted(rows)]
        differences = [one for one in differences if one.order not in reordered | moved | weighed]
        undone, of_undone = self._undone(differences)
        differences = [one for one in differences if one.order not in of_undone]
        significant = [one for one in differences if is_judged and one.is_significant]
        unmoved = self._given_by_program.keys() & self._yardsticks.unmoved
        handed_in: list[PlaceDifference] = []
        computed: list[PlaceDifference] = []
        for one in significant:
            is_given = one.kind is PlaceKind.INITIAL or self._keys[one.order] in unmoved
            (handed_in if is_given else computed).append(one)
        roots = self._roots(computed)
        factor, scaled, unexplained = self._by_one_factor(roots, computed)
        roots = unexplained or roots
        if handed_in and roots and handed_in[0].order > roots[0].order:
            is_later = handed_in[0].kind is not PlaceKind.INITIAL or handed_in[0].step > roots[0].step
            handed_in = [] if is_later else handed_in  # a later batch or module may follow from the step before
        ratios = [(math.inf if one.ratio is None else one.ratio) if is_judged else one.relative for one in differences]
        largest = differences[max(range(len(ratios)), key=ratios.__getitem__)] if ratios else None
        if not differences:
            without = CompareVerdict.ROUNDING if self._first.flips else CompareVerdict.EQUAL
            verdict = CompareVerdict.NOT_JUDGED if unjudged else without
        elif not is_judged:
            verdict = CompareVerdict.NOT_JUDGED
        elif significant:
            verdict = CompareVerdict.SIGNIFICANT
        elif max(ratios) > ROUNDING or sum(one.kind is not PlaceKind.REGION for one in unjudged) > len(differences):
            verdict = CompareVerdict.UNDECIDED
        else:
            verdict = CompareVerdict.ROUNDING
        ends = [key in self._compared for key, is_end in self._computed.items() if is_end]
        count = sum(key in self._compared for key in self._computed)
        lacks_ends = not count or (bool(ends) and not any(ends))
        is_unfounded = not self._compared.issuperset(self._first.flips)  # nobody knows how far these were moved
        if (lacks_ends or is_unfounded) and verdict in (CompareVerdict.EQUAL, CompareVerdict.ROUNDING):
            verdict = CompareVerdict.UNDECIDED
        handed_in = handed_in or (self._given_other_rows(roots[0], split) if roots else [])
        first = next(iter(handed_in or roots if is_judged else differences), None)
        draws = None
        if first is not None:
            second_row = self._second.rows.get(self._keys[first.order], len(self._second.rows))
            draws = other_draws(self._first, self._second, first.order, second_row)
        if draws is not None and draws.changes and roots and not (handed_in or roots[0].is_in_model):
            first, roots = None, []  # it follows from these draws
        if draws is not None and draws.in_another_way and verdict is CompareVerdict.SIGNIFICANT and not handed_in:
            verdict = CompareVerdict.UNDECIDED
        faulty = {self._keys[one.order] for one in significant}
        flips = []
        for key, row in self._first.flips.items():
            if key not in faulty and key in self._compared:
                name, (changed, of) = self._first.name(row), self._first.form(row).shape
                words = {"module": name.module, "op": name.name.partition(" ")[0], "location": name.location}
                flips.append(Flip(**words, step=key.step, phase=name.phase, count=changed, of=of))
        places_of_first = self._first.ranks[0].places
        overflows = np.flatnonzero(places_of_first.rows["not_finite"])[:1].tolist()
        shaken = [run.header for run in self._yardsticks.runs]
        both = [self._rows_in(step) for step in split] if self._is_joined and not self._is_spread else []
        return Comparison(
            verdict=verdict,
            places=places,
            compared=(count, len(self._computed)),
            lacks_ends=lacks_ends,
            rows=(sum(rows[0] for rows in both), sum(map(sum, both))),
            differing=len(differences),
            largest=largest,
            first=first if is_judged else None,
            significant=tuple((handed_in or roots)[:MOST_LISTED]),
            following=len(significant) - len(handed_in or roots),
            is_given=bool(handed_in),
            split_steps=tuple(sorted(split)),
            not_finite="".join(
                f"{self._first.name(row)}, step {int(places_of_first.rows['step'][row])}" for row in overflows
            ),
            only=tuple(only[:MOST_LISTED]),
            only_count=len(only),
            unjudged=len(unjudged),
            unequal=tuple(differences[:FIRST_UNEQUAL]),
            draws=draws,
            yardstick=Yardstick(
                runs=len(shaken),
                seeds=tuple(header.shaken for header in shaken if header.shaken is not None),
                of_second=sum(len(runs.of_second) for runs in (self._yardsticks.everywhere, self._yardsticks.inside)),
                inside=next((run.header.shaken_in for run in self._yardsticks.inside.of_first), ""),
            ),
            steps=(len(self._first.steps), len(self._second.steps)),
            second_is_narrower=self._yardsticks.second_is_narrower,
            flips=tuple(flips),
            parts_in=self._parts_in,
            agreeing=self._agreeing,
            row_steps=tuple(sorted(split & {key.step for key in self._compared if key.kind is PlaceKind.OUTPUT})),
            partial=self._partial(only),
            factor=factor,
            scaled=scaled,
            undone=undone,
        )

    @cached_property
    def _computed(self) -> dict[PlaceKey, bool]:
        """What either side computed, and if it leaves the model; what one side alone recomputes is nothing more."""
        both = self._first.rows.keys() & self._second.rows.keys()
        rows = {**self._first.rows, **self._second.rows}
        rows = {key: row for key, row in rows.items() if key.phase is not Phase.RECOMPUTE or key in both}
        called = {key.module for key in rows if key.kind in (PlaceKind.INPUT, PlaceKind.OUTPUT)}
        of_model = {key for key in rows if key.kind is PlaceKind.OUTPUT and not called.isdisjoint(around(key.module))}
        return {
            key: key not in of_model and key.kind is not PlaceKind.REGION
            for key in rows
            if key.kind in _COMPUTED and not all(side.is_as_at_first(key) for side in self._sides)
        }

    def _lost_gradient(self, key: PlaceKey, side: JoinedRanks, without: JoinedRanks) -> PlaceDifference | None:
        """A gradient that one side alone has, of a parameter of both, in a step in which the other has some."""
        if key.kind is not PlaceKind.GRADIENT or key in without.rows or key.step not in without.steps_with_gradients:
            return None
        initial, wholes = (key.module, key.name), side.wholes(key)
        if isinstance(wholes, Lack) or not (wholes[0].norm and initial in side.initial and initial in without.initial):
            return None
        form, order = wholes[0].form, self._first.rows.get(key, self._first.initial[initial])
        dtypes = (form.dtype, "") if side is self._first else ("", form.dtype)
        name = replace(side.name(side.rows[key]), module=self._first.name(self._first.initial[initial]).module)
        return self._place(name, key, relative=1.0, shape=form.shape, dtypes=dtypes, order=order)

    def _place(self, name: PlaceName, key: PlaceKey, **fields: Any) -> PlaceDifference:
        """A difference at the place of that name. One without a line of its own has that of its module's call."""
        line = name.location, name.called_from
        is_read = key.kind is PlaceKind.GRADIENT and key.phase is Phase.OPTIMIZER
        if not name.location and not is_read:
            line = self._lines.get(name.module, line)
        return PlaceDifference(
            place=str(name),
            kind=name.kind,
            module=name.module,
            location=line[0],
            called_from=line[1],
            step=key.step,
            phase=name.phase,
            occurrence=key.occurrence,
            **fields,
        )

    def _partial(self, only: Sequence[OnlyOne]) -> str:
        """Return why not all of both was compared and judged."""
        if self._is_spread and any(
            one.kind in _OF_PARAMETERS and (one.lack is Lack.OTHER_SHAPE or "_flat_param" in one.place) for one in only
        ):
            return (
                "ranks hold parameters in another shape (FullyShardedDataParallel's flat parameters?), which were not"
                " compared; shard the model with fully_shard"
            )
        lacking = (self._first.steps & self._second.steps).difference(
            *(run.steps for runs in self._yardsticks.everywhere for run in runs)
        )
        if self._is_judged and lacking:
            return f"the yardstick has no step {min(lacking)}"
        return self._first.partial or self._second.partial

    def _only(self, side: JoinedRanks, key: PlaceKey, lack: Lack) -> OnlyOne:
        row, name = side.rows[key], side.name(side.rows[key])
        shapes = self._reshaped[row] if lack is Lack.OTHER_SHAPE else ()
        return OnlyOne(place=str(name), kind=name.kind, module=name.module, step=key.step, lack=lack, shapes=shapes)

    # --- which of them are the beginning ---

    def _in_another_order(self, differences: list[PlaceDifference]) -> set[int]:
        """Rows inside a module that sorts what it works on, such as tokens by expert, and whose result agrees. A
        permutation that matters goes on to gradients or parameters inside that module too, even where its result hardly
        depends on it."""
        candidates = {one.order for one in differences if one.order in self._same_numbers}
        differing = {one.order for one in differences if one.is_significant}
        differing_modules = {self._keys[row].module for row in differing - candidates}
        reordered: set[int] = set()
        for row in sorted(candidates, reverse=True):  # what a module returns comes after what is inside
            _, module, _, phase, _, step = self._keys[row]
            around, results = self._results_around(row, module, phase, step)
            agree = all(self._keys[one] in self._compared and one not in differing - reordered for one in results)
            if results and agree and not any(_is_inside(one, around) or one == around for one in differing_modules):
                reordered.add(row)
        return reordered | {row for row in candidates if self._first.rows.get(self._output_of(row)) in reordered}

    def _output_of(self, row: int) -> PlaceKey:
        """The output that the gradient in ``row`` is of."""
        return self._keys[row]._replace(kind=PlaceKind.OUTPUT, phase=Phase.FORWARD)

    def _of_other_positions(self, differences: list[PlaceDifference]) -> set[int]:
        """Rows of what tells a position, such as rotary angles, where a module that is given it agrees, and what they
        are made of. Padding moves positions, and what depends on their distances alone does not change.
        """
        if not any(side.header.rows_in for side in self._sides):
            return set()
        source, differing = self._first.source, {one.order for one in differences if one.is_significant}
        harmless: set[int] = set()
        for row in sorted(differing, reverse=True):
            kind, module, _, phase, occurrence, step = self._keys[row]
            of_module = self._outputs.get((module, phase, step), ())
            results = [other for other, key in of_module if key.occurrence == occurrence and key in self._compared]
            agree = harmless.issuperset(map(source, differing.intersection(results)))
            if kind is PlaceKind.INPUT and results and agree:
                harmless.add(source(row))
        return {row for row in differing if source(row) in harmless}

    def _of_unequal_parts(self, differences: list[PlaceDifference]) -> set[int]:
        """Rows of numbers of parts of which nobody knows what they are of the whole, and of losses without effect."""
        if not self._is_judged:
            return set()
        of_parts = [one for one in differences if one.is_significant and self._keys[one.order] in self._first.parts]
        wrong = {one.step for one in differences if one.kind is PlaceKind.GRADIENT and one.is_significant}
        return {one.order for one in of_parts if one.kind is not PlaceKind.LOSS or one.step not in wrong}

    def _rows_in(self, step: int) -> tuple[int, int, int]:
        """Rows of the program's calls of a step that both have, and those that only one or the other has."""
        sides = [side.row_calls.get(step, []) for side in self._whole_and_part]
        both = sum(len(one.sources) for one in self._joined.get(step, ()))
        lacking = [sum(int(call.is_row.sum()) for call in side) - both for side in sides]
        return both, lacking[0], lacking[1]

    @cached_property
    def _joined(self) -> dict[int, list[Joined]]:
        """By step, the rows that both have, by call of the side that splits the batch."""
        wholes, parts = (side.row_calls for side in self._whole_and_part)
        joined = {step: joined_rows(Matching(wholes[step]), parts[step]) for step in wholes.keys() & parts.keys()}
        return {step: [one for call in calls for one in call] for step, calls in joined.items()}

    def _position(
        self, key: PlaceKey, one: Whole, other: Whole, ratio: float | None, yard: tuple[float, float] | None
    ) -> int | None:
        """The first position in a sequence that differs, of a place that was recorded row by row."""
        if not self._is_joined or key.kind not in (PlaceKind.INPUT, PlaceKind.OUTPUT):
            return None
        whole = self._whole_and_part[0]
        call = whole.call_around(whole.rows[key], key.step)
        joined = self._joined.get(key.step, ())
        ends = next((one.is_end for one in joined if one.call == call), np.zeros(0, bool))
        if ends.all() or one.form.size % len(ends):
            return None
        begins = np.concatenate(([0], np.flatnonzero(ends) + 1))
        rows = differing_elements(one, other, ratio, yard) // (one.form.size // len(ends))
        return int((rows - begins[np.searchsorted(begins, rows, side="right") - 1]).min())

    def _given_other_rows(self, root: PlaceDifference, split: set[int]) -> list[PlaceDifference]:
        """The first input of a step, up to that of ``root``, in which each has rows that the other lacks."""
        is_by_row = root.kind in (PlaceKind.INPUT, PlaceKind.OUTPUT, PlaceKind.REGION)
        if is_by_row or any(side.world_size > 1 for side in self._sides):
            return []
        for step in sorted(step for step in split if step <= root.step and all(self._rows_in(step)[1:])):
            for key, row in self._given_by_program.items():
                if key.step == step and key in self._second.rows:
                    shapes = tuple(side.form(side.rows[key]).shape for side in self._sides)
                    return [self._place(self._first.name(row), key, relative=math.inf, shapes=shapes, order=row)]
        return []

    def _results_around(self, row: int, module: str, phase: Phase, step: int) -> tuple[str, list[int]]:
        """The innermost module around ``module`` that returns after ``row``, and what it returned next."""
        for outer in around(module):
            later = [(other, key) for other, key in self._outputs.get((outer, phase, step), ()) if other > row]
            if later:
                return outer, [other for other, key in later if key.occurrence == later[0][1].occurrence]
        return "", []

    @cached_property
    def _given_by_program(self) -> dict[PlaceKey, int]:
        """Inputs of modules that no module calls, with their rows."""
        inputs = {key: row for key, row in self._first.rows.items() if key.kind is PlaceKind.INPUT}
        modules = {key.module for key in inputs}
        return {key: row for key, row in inputs.items() if modules.isdisjoint(around(key.module))}

    def _roots(self, significant: list[PlaceDifference]) -> list[PlaceDifference]:
        """Those that do not follow from another: in the first step that has any, what was given agrees."""
        if not significant:
            return []
        step = significant[0].step
        here = [one for one in significant if one.step == step]
        made_later = (PlaceKind.OUTPUT_GRADIENT, PlaceKind.GRADIENT, PlaceKind.PARAMETER, PlaceKind.STATE)
        forward = [one for one in here if one.kind not in made_later and (one.kind, one.phase) != _DECIDED_BACKWARD]
        if forward:
            return self._forward_roots(forward)
        backward = [one for one in here if one.kind in _OF_BACKWARD and one.phase is Phase.BACKWARD]
        if backward:
            first = min(backward, key=self._place_in_backward)
            if first.kind is PlaceKind.OUTPUT_GRADIENT:
                consumer = self._consumer(first.order)
                if consumer is None:
                    return [replace(first, module=self._caller_path(first.order), is_own_code=True)]
                name = self._first.name(consumer)
                place = {"module": name.module, "location": name.location, "called_from": name.called_from}
                return [replace(first, **place)]
            return [one for one in backward if one.kind is PlaceKind.GRADIENT and one.module == first.module]
        changed = [one for one in here if one.kind is PlaceKind.GRADIENT]
        return [one for one in changed if one.location == changed[0].location] or here[:1]

    def _place_in_backward(self, one: PlaceDifference) -> tuple[int, int]:
        """When backward comes to a place: in the opposite order of the forward, to a module's parameters at last."""
        if one.kind is PlaceKind.OUTPUT_GRADIENT:
            return -self._first.rows.get(self._output_of(one.order), one.order), 0
        module = self._keys[one.order].module
        of_step = ((other, rows[-1][0]) for (other, _, step), rows in self._outputs.items() if step == one.step)
        rows = [row for other, row in of_step if other == module or (module and _is_inside(other, module))]
        return -min(rows, default=one.order), 1

    def _consumer(self, row: int) -> int | None:
        """The input of the module that was given the output whose gradient is in ``row``; ``None``: of none."""
        output = self._first.rows.get(self._output_of(row))
        source = None if output is None else self._first.source(output)
        return self._inputs_by_source.get((source, self._keys[row].step))

    def _backward_in(self, key: PlaceKey, row: int) -> str | None:
        """The module whose backward made a gradient of a step in which all that was made before agrees bit for bit."""
        kind, module, *_, phase, _, step = key
        if self._has_other_forward or kind not in _OF_BACKWARD or phase is not Phase.BACKWARD:
            return None
        if kind is PlaceKind.OUTPUT_GRADIENT:
            consumer = self._consumer(row)
            around = self._caller(row) if consumer is None else self._keys[consumer].module
            if around is None:
                return None
            module = around
        gradients = (one for one in self._first.rows if (one.kind, one.step) == (PlaceKind.OUTPUT_GRADIENT, step))
        earlier = [one for one in gradients if self._first.rows[one] < row]
        entering = {one for one in earlier if one.module == module or _is_inside(one.module, module)}
        has_own = any(one.module == module for one in entering)
        if not has_own or not entering <= self._compared or entering & self._differing:
            return None
        return self._first.name(self._called[module]).module

    def _by_one_factor(
        self, roots: Sequence[PlaceDifference], significant: Sequence[PlaceDifference]
    ) -> tuple[float | None, tuple[int, int], list[PlaceDifference]]:
        """The factor by which most gradients of a step differ, how many do, and those that differ otherwise."""
        if not roots or roots[0].kind not in (*_OF_BACKWARD, PlaceKind.LOSS):
            return None, (0, 0), []
        step, phase = roots[0].step, Phase.OPTIMIZER if roots[0].phase is Phase.OPTIMIZER else Phase.BACKWARD
        wanted = PlaceKind.GRADIENT, step, phase
        gradients = [one for one in significant if (one.kind, one.step, one.phase) == wanted]
        factors = sorted(one.factor for one in gradients if one.factor is not None)
        factor = factors[len(factors) // 2] if factors else 1.0
        explained = [one for one in gradients if _is_factor(one, factor)]
        of = len({key[:3] for key in self._compared if key.kind is PlaceKind.GRADIENT and key.step == step})
        if len(explained) < 2 or 2 * len(explained) <= of:
            return None, (0, 0), []
        unexplained = [one for one in gradients if one not in explained] if roots[0].kind is not PlaceKind.LOSS else []
        return factor, (len(explained), of), unexplained

    def _undone(self, differences: Sequence[PlaceDifference]) -> tuple[float | None, set[int]]:
        """What differs by a factor that is gone when the optimizer reads the gradients: a scaled loss makes it."""
        significant = [one for one in differences if self._is_judged and one.is_significant]
        read = {key for key in self._compared if key.kind is PlaceKind.GRADIENT and key.phase is Phase.OPTIMIZER}
        other = {self._keys[one.order] for one in significant}
        rows: set[int] = set()
        factor = None
        for step in {key.step for key in read}:
            of_step = [one for one in significant if one.step == step]
            left = [one for one in of_step if (one.kind, one.phase) == (PlaceKind.GRADIENT, Phase.BACKWARD)]
            finals = [self._keys[one.order]._replace(phase=Phase.OPTIMIZER) for one in left]
            factors = sorted(one.factor for one in left if one.factor is not None)
            if factors and read.issuperset(finals) and not other.intersection(finals):
                factor = factors[len(factors) // 2]
                made = [one for one in of_step if one.kind in (PlaceKind.LOSS, PlaceKind.OUTPUT_GRADIENT)]
                rows.update(one.order for one in (*left, *(one for one in made if _is_factor(one, factor))))
        return factor, rows

    def _forward_roots(self, significant: list[PlaceDifference]) -> list[PlaceDifference]:
        """Modules whose inputs, and whatever ran inside them, agree; else the own code of the module that goes on."""
        step = significant[0].step
        roots: list[PlaceDifference] = []
        tainted: list[int] = []
        keys = [self._keys[row] for row in self._reshaped]
        inputs = [key for key in keys if (key.kind, key.step) == (PlaceKind.INPUT, step)]
        differing = {one.order for one in significant}
        reshaped = [self._first.rows[key] for key in inputs if key not in self._given_by_program]
        reshaped = [row for row in reshaped if not self._is_shard(row) and self._goes_on(row, differing)]
        for one in significant:
            own = self._keys[one.order]
            is_first = one is significant[0]
            for row in (row for row in reshaped if row < one.order):
                caller = self._caller(row)
                leads_here = caller in (None, own.module) or _are_nested(own.module, caller)
                if leads_here and is_first and not roots:
                    roots.append(self._own_code(one, row))
                tainted.append(row)
            reshaped = [row for row in reshaped if row > one.order]
            rows = self._inputs.get(own.call, [])
            if one.kind is not PlaceKind.OUTPUT:
                if is_first and not roots:
                    is_bare = one.kind is PlaceKind.REGION or (one.kind is PlaceKind.LOSS and step in self._weighed)
                    roots.append(one if is_bare else self._own_code(one, one.order))
            elif not any(
                row >= min(rows) if rows else _is_inside(self._keys[row].module, own.module) for row in tainted
            ):
                given = (key for side in self._sides for key in side.rows if key.kind is PlaceKind.INPUT)
                agree = self._compared.issuperset(key for key in given if key.call == own.call)
                if agree or not roots:
                    roots.append(replace(one, inputs_agree=agree))
            tainted.append(one.order)
        return roots

    def _is_shard(self, row: int) -> bool:
        """Whether one side has there what each of some ranks holds of the other's: a layout's shape, no code's."""
        small, *_, large = sorted(map(math.prod, self._reshaped[row]))
        parts = large // small if small and large % small == 0 else 0
        return parts > 1 and any(side.world_size % parts == 0 for side in self._sides)

    def _goes_on(self, row: int, differing: Set[int]) -> bool:
        """Whether something comes of the place, as far as what the module around it returns tells."""
        _, module, _, phase, _, step = self._keys[row]
        _, results = self._results_around(row, module, phase, step)
        agrees = [other not in differing and self._keys[other] in self._compared for other in results]
        return not (agrees and all(agrees))

    def _own_code(self, one: PlaceDifference, row: int) -> PlaceDifference:
        """``one`` as what the code of the module around makes, which gives it on at ``row``."""
        place = {"place": str(self._first.name(row)), "kind": self._keys[row].kind, "module": self._caller_path(row)}
        return replace(one, **place, shapes=self._reshaped.get(row, ()), is_own_code=True)

    def _caller_path(self, row: int) -> str:
        caller = self._caller(row)
        return "" if caller is None else self._first.name(self._called[caller]).module

    def _caller(self, row: int) -> str | None:
        """The module around that of ``row`` that was called itself; ``None``: the program."""
        kind, module, *_ = self._keys[row]
        if kind is PlaceKind.DECISION and module in self._called:  # its own code decides
            return module
        return next((one for one in around(module) if one in self._called), None)

    # --- one place ---

    def _difference(self, row: int, key: PlaceKey, *, is_first: bool) -> PlaceDifference | Lack | None:
        """``None`` where the two agree."""
        ones = self._first.wholes(key)
        others = self._second.wholes(key) if key in self._second.rows else Lack.NOT_IN_SECOND
        if isinstance(others, Lack):
            return others
        if isinstance(ones, Lack):
            return ones
        if len({whole.form.size for whole in (*ones, *others)}) > 1:
            self._reshaped[row] = tuple(dict.fromkeys(whole.form.shape for whole in (*ones, *others)))
            return Lack.OTHER_SHAPE
        forms = ones[0].form, others[0].form
        if is_whole(forms[0].dtype) is not is_whole(forms[1].dtype):
            return Lack.OTHER_KIND
        self._yardsticks.second_is_narrower |= half_unit(forms[1].dtype) > half_unit(forms[0].dtype)
        distance = distance_of(ones, others)
        if not distance.differs:
            return None
        floor = max(half_unit(form.dtype) for form in forms)
        floor *= 2 if key in self._first.parts else 1  # each part's was rounded when it was divided, too
        runs = self._yardsticks.everywhere
        yard = self._yardsticks.yard(key, ones, others, runs, floor)
        is_far = key.kind in _OF_ONE_BATCH and math.inf > distance.most > _LEAST_OF_AN_ORDER
        if yard is not None and is_far and _holds_same_numbers(ones[0], others[0], yard[0]):
            self._same_numbers.add(row)
        call = (key.kind, *key.call)
        ratio = ratio_of(distance, yard)
        is_hidden = ratio is not None and ratio <= SIGNIFICANT and distance.most > SIGNIFICANT * floor
        if is_first and is_hidden and row not in self._same_numbers:
            self._parts_in, self._alone = self._computed_in(row, key), call
        backward = self._backward_in(key, row)
        if backward is not None and is_hidden and not self._parts_in:
            self._parts_in = f"{BACKWARD_OF}{backward}"
        is_alone = call == self._alone or (backward is not None and self._parts_in == f"{BACKWARD_OF}{backward}")
        inside = self._yardsticks.inside
        is_alone = is_alone and any(run.header.shaken_in == self._parts_in for run in inside.of_first)
        if is_alone:
            runs = inside if backward is None else inside._replace(of_second=[])
            yard = self._yardsticks.yard(key, ones, others, runs, floor)
            ratio = ratio_of(distance, yard)
        if self._is_judged and (yard is None or not (yard[0] or all(is_whole(form.dtype) for form in forms))):
            return Lack.NO_YARDSTICK
        of_means: float | None = None
        if self._yardsticks.by_means and ratio is not None and ROUNDING < ratio <= SIGNIFICANT:
            of_means = self._yardsticks.ratio_of_means(key, ones, others, runs)
            ratio = ratio if of_means is None else of_means
        name = self._first.name(row)
        if key.kind is PlaceKind.GRADIENT and key.phase is Phase.OPTIMIZER:  # a line after backward, if any
            line = max((name, self._second.name(self._second.rows[key])), key=lambda one: bool(one.location))
            name = replace(name, location=line.location, called_from=line.called_from)
        return self._place(
            name,
            key,
            ratio=ratio,
            relative=distance.whole,
            yardstick=yard[0] if yard is not None else 0.0,
            stretch=stretch_of(distance, forms[0]),
            position=self._position(key, ones[0], others[0], ratio, yard),
            shape=forms[0].shape,
            dtypes=(forms[0].dtype, forms[1].dtype),
            ranks_differ=key.kind not in _OF_ONE_BATCH and len(ones) != len(others),
            factor=factor_of(ones, others, floor if yard is None else yard[0]),
            is_alone=is_alone,
            of_means=of_means is not None,
            order=row,
        )

    def _computed_in(self, row: int, key: PlaceKey) -> str:
        """The module that computed the first place that differs, if all that it was given was compared."""
        kind, module, _, phase, _, step = key
        if phase is not Phase.FORWARD or kind not in (PlaceKind.INPUT, PlaceKind.OUTPUT):
            return ""
        path = self._first.name(row).module
        if kind is PlaceKind.OUTPUT:
            rows = self._inputs.get(key.call, [])
        else:
            path, module = path.rpartition(".")[0], module.rpartition(".")[0]
            of_step = [(call[0], rows) for call, rows in self._inputs.items() if call[-1] == step]
            calls = [rows for caller, rows in of_step if caller == module and min(rows) < row]
            rows = max(calls, default=[row])
        if not all(self._keys[one] in self._compared for one in rows):
            return ""
        agree = [one for one in self._compared if (one.kind, one.step) == (PlaceKind.OUTPUT, step)]
        inner = {self._first.name(self._first.rows[one]).module for one in agree if _is_inside(one.module, module)}
        self._agreeing = tuple(sorted(inner))
        return path

    @cached_property
    def _lines(self) -> dict[str, tuple[str, str]]:
        """The lines that call each module, for its parameters."""
        outputs = (name for name in self._first.names() if name.kind is PlaceKind.OUTPUT)
        return {name.module: (name.location, name.called_from) for name in outputs}


def _holds_same_numbers(one: Whole, other: Whole, yardstick: float) -> bool:
    """Return whether norm and largest magnitude agree, as they do of the same numbers in another order."""
    # Rounding moves a norm far less than it moves the numbers: errors of a relative size e that know nothing of the n
    # numbers change their norm by e / sqrt(n) of itself, and by e ** 2. One that moves by e has lost numbers.
    of_norm = yardstick**2 + max(yardstick / math.sqrt(math.prod(one.form.shape) or 1), _LEAST_OF_A_NORM)
    is_of_one_norm = abs(one.norm - other.norm) <= ROUNDING * min(yardstick, of_norm) * one.norm
    return is_of_one_norm and abs(one.largest - other.largest) <= SIGNIFICANT * yardstick * one.largest


def _is_factor(one: PlaceDifference, factor: float) -> bool:
    return one.factor is not None and abs(one.factor / factor - 1) <= SIGNIFICANT * one.yardstick


def _is_inside(module: str, other: str) -> bool:
    return other == "" or module.startswith(f"{other}.")


def _are_nested(module: str, other: str) -> bool:
    return _is_inside(module, other) or _is_inside(other, module)
