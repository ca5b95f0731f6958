"""Places of a training step, and how large what stands there is: the part of a file of values that holds magnitudes.

A row is one place at one moment. It has the norm, the largest magnitude, how many elements are not finite, and a
*sketch*: sums from which the size of a difference is estimated without keeping the tensor (``sums_of``).
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
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

ROW_TYPE = np.dtype(
    [
        ("name", "<u4"),
        ("form", "<u4"),
        ("occurrence", "<u4"),
        ("step", "<i4"),
        ("same", "<i8"),
        ("at", "<u8"),
        ("sums", "<u4"),
        ("offset", "<u8"),
        ("norm", "<f8"),
        ("largest", "<f8"),
        ("not_finite", "<u8"),
        ("digest", "<u8"),
    ]
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
    return len(roots) == 1 and not any(
        not name.module and name.kind in (PlaceKind.INPUT, PlaceKind.OUTPUT) for name in names
    )


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


class PlacesBlock(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Some places in a row, with what was defined since the block before."""

    first: int
    names: list[PlaceName] = []
    forms: list[Form] = []
    rows: bytes = b""


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

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = path
        self.names: list[PlaceName] = []
        self.forms: list[Form] = []
        self._parts: list[npt.NDArray[Any]] = []
        self._starts: list[int] = []
        self._offsets: list[int] = []
        self._stream: BinaryIO | None = None
        self.count = 0
        self._sums = 0

    def __len__(self) -> int:
        return self.count

    @property
    def is_empty(self) -> bool:
        """Whether it has no place of the step."""
        return all(name.kind is PlaceKind.DRAW for name in self.names)

    def take(self, block: PlacesBlock) -> None:
        """One block of rows, checked as a whole; raises ``ValueError``."""
        rows = np.frombuffer(block.rows, ROW_TYPE)
        names, forms = len(self.names) + len(block.names), len(self.forms) + len(block.forms)
        if block.first != self.count:
            raise ValueError(f"places from {block.first:,} on, where {self.count:,} is meant")
        if len(rows) and (int(rows["name"].max()) >= names or int(rows["form"].max()) >= forms):
            raise ValueError("a place that was not defined")
        if len(rows) and (
            int((rows["at"] + rows["sums"]).max()) > self._sums
            or (rows["same"] >= np.arange(self.count, self.count + len(rows))).any()
        ):
            raise ValueError("a place whose sums are not there")
        self.names += block.names
        self.forms += block.forms
        self._parts.append(rows)
        self.count += len(rows)

    def take_sums(self, offset: int, size: int) -> None:
        """A block of sums of ``size`` bytes stands at ``offset`` of the file."""
        self._starts.append(self._sums)
        self._offsets.append(offset)
        self._sums += size // 8

    def finish(self) -> None:
        """All blocks were taken."""
        self.rows = np.concatenate(self._parts) if self._parts else np.empty(0, ROW_TYPE)
        self._parts = []
        starts = np.array(self._starts, np.int64)
        block = np.searchsorted(starts, self.rows["at"].astype(np.int64), side="right") - 1
        self._at = (
            np.array(self._offsets, np.int64)[block] + (self.rows["at"].astype(np.int64) - starts[block]) * 8
            if len(starts)
            else np.zeros(len(self.rows), np.int64)
        )

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
