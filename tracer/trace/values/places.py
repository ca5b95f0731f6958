"""Places of a training step, and how large what stands there is: the part of a file of values that holds magnitudes.

Beside norm and largest magnitude a row has a *sketch*: sums from which the size of a difference is estimated.
"""

from __future__ import annotations

import math
import os
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any, BinaryIO, ClassVar, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from tracer.errors import TraceError
from tracer.names import Phase, PlaceKind
from tracer.trace.records import Place, Placed

#: Sums of one stretch of a tensor.
SUMS = 64
#: Stretches of a tensor that are summed apart.
STRETCHES = 16
#: Tensors of at most so many elements are kept whole: their sketch is the elements.
KEPT_WHOLE = SUMS * STRETCHES

#: What draws, where it is no op: a compiled region does, or nothing does, and a generator's state is noted.
REGION_DRAW, STATE_NOTED = "compiled region", "state"


def columns_of(text: str) -> np.dtype[Any]:
    """The type of rows whose columns are spelt ``name u4 digest u8``; on disk they are little-endian."""
    words = text.split()
    return np.dtype([(name, f"<{kind}") for name, kind in zip(words[::2], words[1::2], strict=True)])


ROW_TYPE = columns_of(
    "name u4 form u4 occurrence u4 step i4 same i8 at u8 sums u4 offset u8 norm f8 largest f8 not_finite u8 digest u8"
)
"""One place: its name and form, which of its kind in the step, the step, the row whose tensor it shares (-1: none), the
first of its sums and their number (0: the tensor could not be read), the offset of a shard in the whole tensor, and the
magnitudes."""


class PlaceName(Placed, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """The name of a place, and where the program makes it."""

    kind: PlaceKind
    module: str = ""
    name: str = ""
    """``weight``, ``exp_avg of weight``, ``[0]`` of several outputs; empty where the kind and module say it."""
    phase: Phase = Phase.FORWARD
    _: ClassVar[Place]

    @property
    def key(self) -> tuple[PlaceKind, str, str, Phase]:
        """The key that is counted in a step: lines may differ."""
        return self.kind, self.module, self.name, self.phase

    def __str__(self) -> str:
        words = f"{self.module}{self.name}" if self.name.startswith("[") else f"{self.module} {self.name}".strip()
        if self.kind in (PlaceKind.GRADIENT, PlaceKind.PARAMETER, PlaceKind.STATE, PlaceKind.INITIAL):
            words = f"{self.module}.{self.name}" if self.module else self.name
        return words or "the program"


def leads_with_class(names: Sequence[PlaceName], *beside: Sequence[PlaceName]) -> bool:
    """Return whether the paths of all modules begin with the class of one model, which a wrapper changes, and none of
    ``beside`` has that model beside another one, such as a loss: its paths keep their classes."""
    roots, *others = ({name.module.partition(".")[0] for name in one if name.module} for one in (names, *beside))
    has_bare = any(not name.module and name.kind in (PlaceKind.INPUT, PlaceKind.OUTPUT) for name in names)
    return len(roots) == 1 and not has_bare and not any(roots < other for other in others)


def module_of(name: PlaceName, *, leads_with_class: bool) -> str:
    """The module of a place as two configurations call it: without a leading class, or what ``fully_shard`` adds."""
    return name.module.partition(".")[2] if leads_with_class else name.module.removeprefix("FSDP")


#: What a run calls its modules and parameters as another one does: several are parts that one of them holds together.
Names = dict[str, tuple[str, ...]]


def spelled(names: Names, path: str) -> tuple[str, ...]:
    """What a module is called: as ``names`` has it, or in what is around it."""
    if path in names or not path:
        return names.get(path, (path,))
    around, _, own = path.rpartition(".")
    return (f"{spelled(names, around)[0]}.{own}".lstrip("."),)


class Layout(NamedTuple):
    """How parts lie in a matrix or vector that holds them together."""

    dimension: int
    """The dimension in which they follow one another."""
    lengths: tuple[int, ...]
    is_turned: bool = False
    """Whether each part is the transpose of what stands there."""
    groups: int = 1
    """How often they follow one another, a piece of each at a time: the heads of attention."""
    order: tuple[int, ...] = ()


def layouts(whole: tuple[int, ...], parts: Sequence[tuple[int, ...]]) -> Iterator[Layout]:
    """How parts of these shapes can lie in one of the shape ``whole``, by sizes alone."""
    for dimension, is_turned in product((0, 1), (False, True) if len(whole) == 2 else (False,)):
        shapes = [part[::-1] if is_turned else part for part in parts]
        others = {(*shape[:dimension], *shape[dimension + 1 :]) for shape in (*shapes, whole)}
        lengths = tuple(sum(shape[dimension : dimension + 1]) for shape in shapes)
        is_along = len(parts) == 1 or dimension < len(whole)
        if is_along and sum(lengths) == sum(whole[dimension : dimension + 1]) and len(others) == 1:
            yield Layout(dimension, lengths, is_turned, order=tuple(range(len(parts))))


class Form(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """The dtype and shape of a tensor, and what this rank holds of it."""

    dtype: str
    shape: tuple[int, ...] = ()
    held: int | None = None
    """Elements of the shard that this rank holds; ``None``: all of them."""
    is_term: bool = False
    """Whether the tensor is the sum of what the ranks hold."""

    @property
    def size(self) -> int:
        """Elements of the whole tensor."""
        return math.prod(self.shape)


def rows_of(size: int) -> int:
    """Rows of ``SUMS`` elements that a stretch of a tensor of ``size`` elements has."""
    return max(1, -(-size // KEPT_WHOLE))


def sums_of(size: int) -> int:
    """Return the number of sums in the sketch of ``size`` elements."""
    if size <= KEPT_WHOLE:
        return size
    return -(-size // (SUMS * rows_of(size))) * SUMS


class Places:
    """The places of one recording. Sums are read from the file when they are asked for."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        names: Sequence[PlaceName],
        forms: Sequence[Form],
        rows: npt.NDArray[Any],
        at: npt.NDArray[np.int64],
    ) -> None:
        """``at``: where in the file the sums of each of ``rows`` begin."""
        self.path = path
        self.names = names
        self.forms = forms
        self.rows = rows
        self._at = at
        self._stream: BinaryIO | None = None

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def is_empty(self) -> bool:
        """Whether it has no place of the step."""
        return all(name.kind is PlaceKind.DRAW for name in self.names)

    def __enter__(self) -> Places:
        self._stream = open(self.path, "rb")
        return self

    def __exit__(self, *problem: object) -> None:
        if self._stream is not None:
            self._stream.close()
            self._stream = None

    def source(self, row: int) -> int:
        """The row that holds the sums of ``row``."""
        same = int(self.rows["same"][row])
        return row if same < 0 else same

    def sketch(self, row: int) -> npt.NDArray[np.float64]:
        """The sums of a row, one line a stretch."""
        row = self.source(row)
        count = int(self.rows["sums"][row])
        assert self._stream is not None, "used in a with block"
        data = os.pread(self._stream.fileno(), count * 8, int(self._at[row]))
        if len(data) != count * 8:
            raise TraceError(f"{self.path} was changed while it was read", hint="compare the recordings again")
        sums = np.frombuffer(data, "<f8")
        return (np.pad(sums, (0, -count % SUMS)) if count % SUMS else sums).reshape(-1, SUMS)


#: By step, phase, module and call: the bytes of what each call of that kind decided, in order.
Decided = dict[str, list[bytes]]


def decisions_beside(values: str | os.PathLike[str]) -> Path:
    """The file of decisions of the run with this file of values."""
    return Path(os.path.abspath(values)).with_suffix(".decisions")


def read_decisions(path: Path) -> Decided:
    """What was decided; empty where the run that should have kept it was killed."""
    try:
        return msgspec.msgpack.decode(path.read_bytes(), type=Decided)
    except (OSError, msgspec.DecodeError):
        return {}


def follow_the_others(own: Path, others: Path) -> bool:
    """Put what the run of ``others`` decided, as often in both, into the file ``own``; return whether that differs."""
    ours, theirs = read_decisions(own), read_decisions(others)
    joined = {key: theirs[key] if len(theirs.get(key, ())) == len(kept) else kept for key, kept in ours.items()}
    own.write_bytes(msgspec.msgpack.encode(joined))
    return joined != ours


# --- which rows of two recordings are the same, where a batch is split, padded, packed or decoded token by token: a row
# --- is a token that the program hands to a model, or a sample; the recorder makes a number of it, NaN of padding


_Ints = npt.NDArray[np.int64]


class RowCall(NamedTuple):
    """One call that the program itself makes."""

    module: str
    contents: npt.NDArray[np.float64]
    """One line a sequence; samples are sequences of one row."""
    mode: str = ""
    """Whether the module trains or evaluates: the same rows may be in calls of both."""

    @property
    def is_row(self) -> npt.NDArray[np.bool_]:
        """Which of its rows no mask leaves out."""
        return ~np.isnan(self.contents)


class Joined(NamedTuple):
    """Rows of a call as rows of what both recordings have in one call of the whole batch."""

    call: int
    """The call of the whole batch."""
    sources: _Ints
    targets: _Ints
    """In ascending order."""
    is_end: npt.NDArray[np.bool_]
    """Of each row that both have there: whether its sequence ends with it."""

    def sequences(self, length: int) -> Joined:
        """Whole sequences of ``length`` instead of rows: those that both have the end of."""
        ends = self.is_end[self.targets]
        numbers = (self.is_end.cumsum() - 1)[self.targets[ends]]
        return self._replace(sources=self.sources[ends] // length, targets=numbers, is_end=self.is_end[self.is_end])


def row_calls(places: Places) -> dict[int, list[RowCall]]:
    """The calls that the program itself makes, by step and in order; used in a with block."""
    calls: dict[int, list[RowCall]] = {}
    leads = leads_with_class(places.names)
    for row, (name, form, step, count) in enumerate(places.rows[["name", "form", "step", "sums"]].tolist()):
        if places.names[name].kind is PlaceKind.ROWS:
            contents = places.sketch(row).reshape(-1)[:count].reshape(places.forms[form].shape)
            module = module_of(places.names[name], leads_with_class=leads)
            calls.setdefault(step, []).append(RowCall(module, contents, places.names[name].name))
    return calls


def are_alike(ones: Sequence[RowCall], others: Sequence[RowCall]) -> bool:
    """Whether the calls of a step have as many rows, in the same positions, and not the same ones in another order."""
    pairs = list(zip(ones, others, strict=False))
    if len(ones) != len(others) or not all(np.array_equal(one.is_row, other.is_row) for one, other in pairs):
        return False
    if all(np.array_equal(one.contents, other.contents, equal_nan=True) for one, other in pairs):
        return True
    sequences = [Counter(row.tobytes() for call in side for row in call.contents) for side in (ones, others)]
    return sequences[0] != sequences[1]


def joined_parts(first: Places, second: Places) -> tuple[int, bool] | None:
    """Which of two recordings, 0 or 1, has rows of the other's batch, and whether that one has no others. It is the one
    whose sequences are shorter, or that makes more calls. ``None``: no row is in both, or all calls are alike."""
    with first, second:
        sides = [row_calls(places) for places in (first, second)]
    steps = [step for step in sides[0] if step in sides[1] and not are_alike(sides[0][step], sides[1][step])]
    calls = [[call for step in steps for call in side[step]] for side in sides]
    lengths = [(sum(call.is_row.sum(1).mean() for call in side) / max(1, len(side)), -len(side)) for side in calls]
    part = 0 if lengths[0] < lengths[1] else 1
    found = [joined_rows(Matching(sides[1 - part][step]), sides[part][step], of_whole=True) for step in steps]
    if not any(call for step in found for call in step):
        return None
    is_whole = (
        sum(len(one.targets) for one in call) == whole.contents.size
        for step, of_step in zip(steps, found, strict=True)
        for call, whole in zip(of_step, sides[1 - part][step], strict=True)
    )
    return part, all(is_whole)


class Matching:
    """Finds the rows of a step's calls in those of the whole batch, which are ``wholes``, one call after another."""

    def __init__(self, wholes: Sequence[RowCall], rank: int = 0, world_size: int = 1) -> None:
        self.wholes = wholes
        self.keeps_modes_apart = False
        """Whether a call is looked for among those of its own mode alone."""
        self.is_row = [whole.is_row for whole in wholes]
        self._free = [rows.copy() for rows in self.is_row]
        self._ends: list[tuple[int, int, int] | None] = []
        """By sequence of the call before: the call, sequence and position behind where it was found."""
        self._next = (0, 0)
        """The call and sequence behind that in which a sequence began that was found last."""
        self._before: tuple[_Ints, _Ints] = (np.empty(0, np.int64), np.empty(0, np.int64))
        self._at: dict[float, deque[tuple[bool, int, int, int]]] = {}
        """By content of a row: whether another rank has it, its call, sequence and position."""
        for number, (rows, whole) in enumerate(zip(self.is_row, wholes, strict=True)):
            for row in np.flatnonzero(rows).tolist():
                place = (row * world_size // rows.size != rank, number, *divmod(row, rows.shape[1]))
                self._at.setdefault(float(whole.contents.flat[row]), deque()).append(place)

    def find(self, call: RowCall) -> tuple[_Ints, _Ints]:
        """The call and the row of the whole batch of each row of the next call; -1: it is not there. A call whose rows
        are nowhere was handed what the call before computed, if it has as many: its are the same."""
        ends, self._ends = self._ends, []
        calls, rows = np.full((2, call.contents.size), -1)
        for number, contents in enumerate(call.contents):
            found = self._place(contents, call.mode, ends[number] if len(ends) == len(call.contents) else None)
            self._ends.append(None)
            if found is not None:
                (whole, sequence, position), begin, length = found
                self._free[whole][sequence, position : position + length] = False
                self._ends[-1] = (whole, sequence, position + length)
                own = slice(number * len(contents) + begin, number * len(contents) + begin + length)
                calls[own], rows[own] = whole, sequence * self.is_row[whole].shape[1] + position + np.arange(length)
        last = int(self._before[0].max(initial=-1))
        if last >= 0 and not (calls >= 0).any() and len(self._before[0]) == len(calls):
            for number, other in enumerate(self.wholes[last + 1 :], last + 1):
                is_as_large = self.is_row[number].size == self.is_row[last].size
                if is_as_large and other.module == call.module and not self._is_apart(number, call.mode):
                    calls, rows = np.where(self._before[0] == last, number, -1), self._before[1]
                    break
        self._before = calls, rows
        return calls, rows

    def _is_apart(self, number: int, mode: str) -> bool:
        return self.keeps_modes_apart and self.wholes[number].mode != mode

    def _place(
        self, contents: Any, mode: str, end: tuple[int, int, int] | None
    ) -> tuple[tuple[int, int, int], int, int] | None:
        """Where a sequence stands: call, sequence, position; its first row and their number.

        It goes on where the sequence in its place of the call before ended, there or in the next call; or it is a whole
        sequence, or a part, likeliest of the one behind that which was found last, or at an end. Padding without a mask
        is what is repeated at an end.
        """
        rows = np.flatnonzero(~np.isnan(contents))
        for begin, stop in _trimmed(contents, int(rows[0]), int(rows[-1]) + 1) if len(rows) else ():
            wanted, found = contents[begin:stop], []
            places = self._at.get(float(wanted[0]), deque())
            while places and not self._free[places[0][1]][places[0][2:]]:
                places.popleft()
            for is_of_other_rank, call, sequence, position in places:
                after, is_row = position + stop - begin, self.is_row[call][sequence]
                if (
                    self._is_apart(call, mode)
                    or after > len(is_row)
                    or self.wholes[call].contents[sequence, after - 1] != wanted[-1]
                ):
                    continue
                is_last, is_first = not is_row[after:].any(), not is_row[:position].any()
                follows = end in ((call, sequence, position), (call - 1, sequence, end and end[2]) if is_last else ())
                if len(wanted) == 1 and not (follows or is_first):  # one token among others says nothing
                    continue
                same = np.array_equal(self.wholes[call].contents[sequence, position:after], wanted)
                if same and self._free[call][sequence, position:after].all():
                    is_part = (not (is_first and is_last), is_of_other_rank, (call, sequence) != self._next)
                    found.append((not follows, *is_part, not is_last, not is_first, (call, sequence, position)))
                    if not any(is_part) and len(is_row) == 1:  # samples, of which thousands may be alike
                        break
            if found:
                has_begun, *_, place = min(found)
                self._next = (place[0], place[1] + 1) if has_begun else self._next
                return place, begin, stop - begin
        return None


def _trimmed(contents: Any, begin: int, end: int) -> list[tuple[int, int]]:
    """The rows of a sequence, and those without what is repeated at its end, and at its beginning."""
    changes = np.flatnonzero(np.diff(contents[begin:end])) + 1 + begin
    shorter = [(begin, int(one)) for one in changes[-1:] if end - one > 1]
    return [(begin, end), *shorter, *((int(one), end) for one in changes[:1] if one - begin > 1)]


def joined_rows(matching: Matching, parts: Sequence[RowCall], *, of_whole: bool = False) -> list[list[Joined]]:
    """For each of ``parts``, or each call of the whole batch, its rows among those that both have. The same rows may be
    trained with and evaluated: where both do either, calls that do are held against each other."""
    matching.keeps_modes_apart = bool({call.mode for call in matching.wholes} & {call.mode for call in parts})
    found = [matching.find(part) for part in parts]
    kept = [np.zeros(whole.size, bool) for whole in matching.is_row]
    for calls, rows in found:
        for call in np.unique(calls[calls >= 0]):
            kept[call][rows[calls == call]] = True
    own = [(np.where(rows, call, -1), np.arange(rows.size)) for call, rows in enumerate(kept)] if of_whole else found
    return [joined_in(matching, calls, rows, kept) for calls, rows in own]


def joined_in(
    matching: Matching,
    calls: _Ints,
    rows: _Ints,
    kept: Sequence[npt.NDArray[np.bool_]] | None = None,
) -> list[Joined]:
    """The rows of one call by call of the whole batch, among those ``kept`` of it; ``None``: all."""
    joined = []
    for call in np.unique(calls[calls >= 0]).tolist():
        is_row = matching.is_row[call]
        is_kept = np.ones(is_row.size, bool) if kept is None else kept[call]
        is_end = is_row & (np.cumsum(is_row[:, ::-1], 1)[:, ::-1] == 1)
        sources = np.flatnonzero(calls == call)
        sources = sources[np.argsort(rows[sources])]
        targets = (is_kept.cumsum() - 1)[rows[sources]]
        joined.append(Joined(call, sources, targets, is_end.reshape(-1)[is_kept]))
    return joined
