"""Places of a training step, and how large what stands there is: the part of a file of values that holds magnitudes.

Beside norm and largest magnitude a row has a *sketch*: sums from which the size of a difference is estimated.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO, ClassVar

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


def leads_with_class(names: Sequence[PlaceName]) -> bool:
    """Return whether the paths of all modules begin with the class of one model, which a wrapper changes."""
    roots = {name.module.partition(".")[0] for name in names if name.module}
    has_bare = any(not name.module and name.kind in (PlaceKind.INPUT, PlaceKind.OUTPUT) for name in names)
    return len(roots) == 1 and not has_bare


def module_of(name: PlaceName, *, leads_with_class: bool) -> str:
    """The module of a place as two configurations call it: without a leading class, or what ``fully_shard`` adds."""
    return name.module.partition(".")[2] if leads_with_class else name.module.removeprefix("FSDP")


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
