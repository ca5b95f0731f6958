"""How a file of values lies on disk: a magic line, then blocks.

A block is its kind (one byte), its length (four bytes), the xxh3 digest of kind, length and body (eight bytes), all
little-endian, and the body. The file of a killed run may end in the middle of a block, which is ignored.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from typing import BinaryIO

import msgspec
import numpy as np
import xxhash

from tracer.trace.values.columns import Group, Name

MAGIC = b"determinism-tracer values\n"
HEADER, CALLS, END = b"H", b"C", b"E"
PLACES, SUMS = b"P", b"S"

#: Larger lengths are damage: no block that is written comes near.
MAX_BLOCK = 1 << 28

_FRAME = struct.Struct("<cIQ")

#: One call while it is collected; the columns of a block are made of these rows.
ROW = struct.Struct("<IQQQHH")
ROW_TYPE = np.dtype(
    {
        "names": ["group", "inputs", "outputs", "numbers", "mark_bits", "origins"],
        "formats": ["<u4", "<u8", "<u8", "<u8", "<u2", "<u2"],
    }
)


#: Tables that do not have one row per call: their columns, in the order in which the writer collects them.
TABLES = {
    "keep": {"call": "<u4", "origin": "<i4"},
    "entry": {"name": "<u4", "position": "<i4", "digest": "<u8", "call": "<u4"},
    "draw": {"call": "<u4", "name": "<u4", "digest": "<u8"},
    "moment": {"name": "<u4", "position": "<i4", "digest": "<u8", "call": "<u4", "step": "<i4"},
    "step": {"call": "<u4", "number": "<i4"},
}
#: Every column that a block can have.
COLUMNS = {
    **{name: ROW_TYPE[name].str for name in ROW_TYPE.names or ()},
    "origin": "<i4",
    **{f"{table}.{name}": dtype for table, of in TABLES.items() for name, dtype in of.items()},
}


class Column(msgspec.Struct, frozen=True, array_like=True):
    """One column of numbers."""

    size: int
    """Elements."""
    data: bytes
    """The elements' bytes, through zlib where that made them fewer."""


class CallsBlock(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Some calls in a row, with whatever was defined since the block before."""

    first: int
    """Index of the first of these calls."""
    groups: list[Group] = []
    names: list[Name] = []
    texts: list[tuple[int, str]] = []
    columns: dict[str, Column] = {}


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


def packed(values: np.ndarray, *, squeeze: bool) -> Column:
    """A column of ``values``, compressed if ``squeeze``: digests do not get smaller."""
    data = np.ascontiguousarray(values).tobytes()
    if squeeze and len(data) > 64:
        data = min(data, zlib.compress(data, 1), key=len)
    return Column(len(values), data)


def spread(column: Column, dtype: str) -> int:
    """Size of a column's numbers in bytes, as it claims."""
    return column.size * np.dtype(dtype).itemsize


def unpacked(column: Column, dtype: str) -> np.ndarray:
    """The numbers of a column; ``ValueError`` if it is not what it claims."""
    expected = spread(column, dtype)
    if not 0 <= expected <= MAX_BLOCK:
        raise ValueError(f"a column of {column.size:,} elements")
    data = column.data
    if len(data) != expected:
        try:
            data = zlib.decompressobj().decompress(data, expected + 1)  # never more than was promised
        except zlib.error as problem:
            raise ValueError(f"a column that cannot be unpacked: {problem}") from problem
    if len(data) != expected:
        raise ValueError("a column of another length than it says")
    return np.frombuffer(data, dtype=dtype)
