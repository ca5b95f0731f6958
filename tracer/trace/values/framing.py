"""How a file of values lies on disk: a magic line, then blocks.

A block is its kind (one byte), its length (four bytes), the xxh3 digest of kind, length and body (eight bytes), all
little-endian, and the body. The file of a killed run may end in the middle of a block, which is ignored.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from typing import Any, BinaryIO

import msgspec
import numpy as np
import xxhash

from tracer.trace.values.columns import Group, Name
from tracer.trace.values.places import ROW_TYPE, Form, PlaceName

MAGIC = b"determinism-tracer values\n"
HEADER, ROWS, SUMS, END = b"H", b"C", b"S", b"E"

#: Larger lengths are damage: no block that is written comes near.
MAX_BLOCK = 1 << 28

_FRAME = struct.Struct("<cIQ")

#: One call while it is collected; a row of the table of calls.
CALL = struct.Struct("<IQQQHH")
#: The tables of a block, in the order in which their columns are written.
TABLES: dict[str, np.dtype[Any]] = {
    "call": np.dtype(
        [
            ("group", "<u4"),
            ("inputs", "<u8"),
            ("outputs", "<u8"),
            ("numbers", "<u8"),
            ("mark_bits", "<u2"),
            ("origins", "<u2"),
        ]
    ),
    "origin": np.dtype([("origin", "<i4")]),
    "keep": np.dtype([("call", "<u4"), ("origin", "<i4")]),
    "entry": np.dtype([("name", "<u4"), ("position", "<i4"), ("digest", "<u8"), ("call", "<u4")]),
    "draw": np.dtype([("call", "<u4"), ("name", "<u4"), ("digest", "<u8")]),
    "moment": np.dtype(
        [("name", "<u4"), ("position", "<i4"), ("digest", "<u8"), ("call", "<u4"), ("step", "<i4")],
    ),
    "step": np.dtype([("call", "<u4"), ("number", "<i4")]),
    "place": ROW_TYPE,
}
#: Columns that compression does not make smaller.
_DENSE = frozenset({"inputs", "outputs", "digest", "norm", "largest"})


class Table(msgspec.Struct, frozen=True, array_like=True):
    """Rows of one table."""

    size: int
    columns: list[bytes]
    """The bytes of each column, through zlib where that made them fewer."""


class Rows(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Some calls and places in a row, with whatever was defined since the block before."""

    first: int
    """Index of the first of these calls."""
    first_place: int = 0
    groups: list[Group] = []
    names: list[Name] = []
    texts: list[tuple[int, str]] = []
    place_names: list[PlaceName] = []
    forms: list[Form] = []
    tables: dict[str, Table] = {}


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


def packed(rows: np.ndarray) -> Table:
    """``rows`` of one of the tables, as they are written."""
    columns = []
    for name in rows.dtype.names or ():
        data = rows[name].tobytes()
        if name not in _DENSE and len(data) > 64:
            data = min(data, zlib.compress(data, 1), key=len)
        columns.append(data)
    return Table(len(rows), columns)


def unpacked(table: Table, dtype: np.dtype[Any]) -> np.ndarray:
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
