"""What a file of values holds, digests of digests and of texts, and how it lies on disk."""

from __future__ import annotations

import struct
import zlib
from array import array
from collections.abc import Iterable, Iterator, Sequence
from enum import IntFlag
from typing import Any, BinaryIO, ClassVar

import msgspec
import numpy as np
import numpy.typing as npt
import xxhash

from tracer.names import Phase, ValueKind
from tracer.trace.records import Environment, Place, Placed
from tracer.trace.values.places import ROW_TYPE, Form, PlaceName, columns_of

#: The schema that this release writes and reads.
SCHEMA = 1

#: The digest of nothing, and of what was not digested.
NO_DIGEST = 0
#: Why a recording is incomplete whose program ran to its end all the same.
STEPS_ON_ANOTHER_THREAD = "optimizer steps ended on another thread, which is not recorded"

U2 = npt.NDArray[np.uint16]
U4 = npt.NDArray[np.uint32]
U8 = npt.NDArray[np.uint64]
I4 = npt.NDArray[np.int32]
I8 = npt.NDArray[np.int64]


class Mark(IntFlag):
    """Properties of a call."""

    READ_UNWRITTEN = 1
    """It read memory that was not wholly written."""
    UNWRITTEN = 2
    """It allocates memory without writing it: its output is not digested."""
    INPUT_NOT_DIGESTED = 4
    """An input could not be digested (fake, meta, an unknown layout): agreement is not known."""
    OUTPUT_NOT_DIGESTED = 8
    COLLECTIVE = 16
    """Its result depends on other processes."""
    COMPILED = 32
    """A compiled region."""
    TO_HOST = 64
    """It handed a value to Python (``item()``, ``tolist()``, ``numpy()``), on which the host may act."""
    TURNED = 128
    """An input is a view that only permutes dimensions, and was digested in memory order. The mark's upper byte
    (``TURN_SHIFT``) says how; digests of inputs that lie differently cannot be compared."""


#: Shifts a call's marks to the memory order of inputs that were digested in it.
TURN_SHIFT = 8


class Group(Placed, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """Calls of one op at one place, in the trace's words (``CallGroup``), without facts."""

    op: str
    phase: Phase = Phase.OTHER
    module: str = ""
    _: ClassVar[Place]
    region: str = ""
    """The compiled region that the call is, as the trace names it; empty for an ordinary op."""
    is_forked: bool = False
    """Whether a thread of torch's own pool made the calls: a branch of ``torch.jit.fork``."""


class Name(msgspec.Struct, frozen=True, gc=False):
    """The subject of entries, moments and draws."""

    kind: ValueKind
    name: str
    """``fc.weight``, ``exp_avg of fc.weight``, a generator, ``DataLoader at train.py:30``."""


class Header(msgspec.Struct, frozen=True, kw_only=True):
    """The beginning of a file of values."""

    schema: int = SCHEMA
    tracer_version: str = ""
    name: str = ""
    """The recording's name, as ``TraceSource.name``."""
    rank: int | None = None
    world_size: int | None = None
    digest: str = "xxh3-64"
    """The algorithm that digests bytes; recordings of different digests cannot be compared."""
    environment: Environment | None = None
    """Settings when recording began; a killed run has no trace to hold them."""
    digests: bool = True
    """Whether calls were digested."""
    magnitudes: bool = False
    """Whether magnitudes were taken."""
    shaken: int | None = None
    """The seed with which results were shaken; ``None`` where the run was left alone."""
    shaken_in: str = ""
    """The module inside which alone they were shaken; empty: everywhere."""
    rows_of: str = ""
    """The recording of a whole batch that inputs and outputs are recorded as rows of; empty: none."""
    rows_in: str = ""
    """The recording of the parts, where rows that one of the two lacks are left out."""


class Entries(msgspec.Struct, frozen=True):
    """Inputs that no recorded call had written, in order: parallel columns."""

    name: U4
    """Index in ``Values.names``."""
    position: I4
    """A batch's place in the epoch; -1 where there is none."""
    digest: U8
    call: U4
    """The first call that reads it."""


class Moments(msgspec.Struct, frozen=True):
    """States at one moment, in order: parallel columns."""

    name: U4
    position: I4
    digest: U8
    call: U4
    """The number of calls recorded before."""
    step: I4


class Values(msgspec.Struct, frozen=True, kw_only=True):
    """One recording's values. Columns have one element a call, unless their docstring says otherwise."""

    header: Header
    groups: tuple[Group, ...]
    names: tuple[Name, ...]
    texts: dict[int, str]
    """Digest of the numbers of a call, or of a small state -> the text of it, for the sentence. Not all are kept."""
    group: U4
    """Index in ``groups``."""
    inputs: U8
    """The digests of what the call read, folded."""
    outputs: U8
    """The digests of what it wrote or returned, folded."""
    numbers: U8
    """The digest of the Python numbers among its arguments; 0 without any."""
    mark_bits: U2
    """``Mark``."""
    origin_start: I8
    """The start of the call's origins in ``origins``; one element more than calls."""
    origins: I4
    """The origins of the inputs, each once: a call's index, or ``-1 - i`` for entry ``i``."""
    keeps: I8
    """Shape ``(n, 2)``: a call that wrote part of some memory, and who had written the rest, as in ``origins``."""
    entries: Entries
    draws: tuple[U4, U4, U8]
    """Draws from generators, in order: the call, the generator (in ``names``), the digest of its state before."""
    moments: Moments
    steps: tuple[U4, I4]
    """The start of steps: first call, number. Calls before the first row belong to step 0."""
    partial: str = ""
    """The reason why the file is not whole; empty for a whole one."""
    raw_bytes: int = 0
    """Size of the calls' columns before compression."""

    def __len__(self) -> int:
        return len(self.group)

    def step_of(self, call: int) -> int:
        """The step that ``call`` belongs to."""
        starts, numbers = self.steps
        row = int(np.searchsorted(starts, call, side="right")) - 1
        return int(numbers[row]) if row >= 0 else 0

    def group_of(self, call: int) -> Group:
        """The group of ``call``."""
        return self.groups[int(self.group[call])]

    def entered_by(self, origin: int) -> Name:
        """What entered with an origin that is no call."""
        return self.names[int(self.entries.name[-1 - origin])]

    def moments_of(self, kind: ValueKind, name: str | None = None) -> I8:
        """The rows of ``moments`` of one kind, and of that name alone."""
        wanted = [n for n, each in enumerate(self.names) if each.kind is kind and name in (None, each.name)]
        return np.flatnonzero(np.isin(self.moments.name, wanted))

    def origins_of(self, call: int) -> I4:
        """Return the origins of the inputs of ``call``."""
        return self.origins[self.origin_start[call] : self.origin_start[call + 1]]


def fold(digests: Iterable[int]) -> int:
    """One digest of several, which depends on their order: 0 of none, itself of one."""
    if type(digests) is list and len(digests) == 1:
        return digests[0]  # type: ignore[no-any-return]
    row = array("Q", digests)
    if not row:
        return 0
    return row[0] if len(row) == 1 else xxhash.xxh3_64_intdigest(row.tobytes())


def text_digest(text: str) -> int:
    """The digest of a text; never 0, which says that there is none."""
    return xxhash.xxh3_64_intdigest(text.encode("utf-8", "surrogatepass")) or 1


#: Separates the numbers among a call's arguments from the parts of tensors that it reads.
_PARTS = " | "


def spelt_places(places: Iterable[Sequence[Any]]) -> str:
    """The parts of tensors that a call reads, in words: the end of the text of its numbers."""
    parts = [
        f"{name} of {'x'.join(map(str, sizes)) or '1'}{f' from {offset}' if offset >= 0 else ''}"
        for name, offset, *sizes in places
    ]
    return _PARTS + ", ".join(parts) if parts else ""


def without_places(text: str) -> str:
    """The numbers alone."""
    return text.partition(_PARTS)[0]


def places_of(text: str) -> str:
    """The parts of tensors alone."""
    return text.partition(_PARTS)[2]


# --- on disk ----------------------------------------------------------------------------------------------

# A magic line, then blocks: kind (one byte), length (four), xxh3 digest of kind, length and body (eight), all
# little-endian, and the body. The file of a killed run may end in the middle of a block, which is ignored.

MAGIC = b"determinism-tracer values\n"
HEADER, ROWS, SUMS, END = b"H", b"C", b"S", b"E"

#: Larger lengths are damage: no block that is written comes near.
MAX_BLOCK = 1 << 28

_FRAME = struct.Struct("<cIQ")

#: One call while it is collected; a row of the table of calls.
CALL = struct.Struct("<IQQQHH")
#: The tables of a block, in the order in which their columns are written.
TABLES: dict[str, np.dtype[Any]] = {
    "call": columns_of("group u4 inputs u8 outputs u8 numbers u8 mark_bits u2 origins u2"),
    "origin": columns_of("origin i4"),
    "keep": columns_of("call u4 origin i4"),
    "entry": columns_of("name u4 position i4 digest u8 call u4"),
    "draw": columns_of("call u4 name u4 digest u8"),
    "moment": columns_of("name u4 position i4 digest u8 call u4 step i4"),
    "step": columns_of("call u4 number i4"),
    "place": ROW_TYPE,
}
#: Columns that compression does not make smaller.
_DENSE = frozenset({"inputs", "outputs", "digest", "norm", "largest"})


class PackedTable(msgspec.Struct, frozen=True, array_like=True):
    """Rows of one table."""

    size: int
    columns: list[bytes]
    """The bytes of each column, through zlib where that made them fewer."""


class PackedBlock(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Some calls and places in a row, with whatever was defined since the block before."""

    first: int
    """Index of the first of these calls."""
    first_place: int = 0
    groups: list[Group] = []
    names: list[Name] = []
    texts: list[tuple[int, str]] = []
    place_names: list[PlaceName] = []
    forms: list[Form] = []
    tables: dict[str, PackedTable] = {}


class End(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The last block of a whole file."""

    calls: int
    partial: str = ""


def framed(kind: bytes, body: bytes) -> bytes:
    """A block as it is written."""
    return _FRAME.pack(kind, len(body), _checksum(kind, body)) + body


def blocks_of(stream: BinaryIO) -> Iterator[tuple[bytes, bytes]]:
    """Kind and body of each block; raises ``ValueError`` at the first that is not whole, saying where."""
    at = len(MAGIC)
    while frame := stream.read(_FRAME.size):
        if len(frame) < _FRAME.size:
            raise ValueError(f"it ends in the middle of a block, at byte {at:,}")
        kind, length, checksum = _FRAME.unpack(frame)
        body = stream.read(length) if length <= MAX_BLOCK else b""
        if len(body) < length <= MAX_BLOCK:
            raise ValueError(f"it ends in the middle of a block, at byte {at:,}")
        if length > MAX_BLOCK or _checksum(kind, body) != checksum:
            raise ValueError(f"it is damaged at byte {at:,}")
        yield kind, body
        at += _FRAME.size + length


def _checksum(kind: bytes, body: bytes) -> int:
    return xxhash.xxh3_64_intdigest(body, seed=kind[0] << 32 | len(body))


def packed(rows: np.ndarray) -> PackedTable:
    """``rows`` of one of the tables, as they are written."""
    columns = []
    for name in rows.dtype.names or ():
        data = rows[name].tobytes()
        if name not in _DENSE and len(data) > 64:
            data = min(data, zlib.compress(data, 1), key=len)
        columns.append(data)
    return PackedTable(len(rows), columns)


def unpacked(table: PackedTable, dtype: np.dtype[Any]) -> np.ndarray:
    """The rows of a table; ``ValueError`` if they are not what it claims."""
    if not 0 <= table.size * dtype.itemsize <= MAX_BLOCK:
        raise ValueError(f"a table of {table.size:,} rows")
    rows = np.empty(table.size, dtype)
    for name, data in zip(dtype.names or (), table.columns, strict=True):
        expected = rows[name].nbytes
        if len(data) != expected:
            try:
                data = zlib.decompressobj().decompress(data, expected + 1)  # never more than was promised
            except zlib.error as problem:
                raise ValueError(f"a column that cannot be unpacked: {problem}") from problem
        if len(data) != expected:
            raise ValueError("a column of another length than it says")
        rows[name] = np.frombuffer(data, dtype[name])
    return rows
