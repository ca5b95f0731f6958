"""Reading a file of values: whole blocks into columns, whatever the end of the file looks like."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, BinaryIO

import msgspec
import numpy as np

from tracer.errors import TraceError, of_another_schema, reason_of
from tracer.files import open_plain
from tracer.trace.file import values_of_ranks, values_path
from tracer.trace.values import columns
from tracer.trace.values.columns import SCHEMA, Entries, Group, Header, Moments, Name, Values
from tracer.trace.values.places import Form, PlaceName, Places

_AGAIN = "record it again with `tracer run --values`"
#: Bytes that one byte of a file can unpack to at most: digests do not compress.
_MOST_SPREAD = 64

_header = msgspec.msgpack.Decoder(Header)
_block = msgspec.msgpack.Decoder(columns.PackedBlock)
_end = msgspec.msgpack.Decoder(columns.End)


class _Schema(msgspec.Struct):
    schema: int


def read_values(path: str | os.PathLike[str]) -> Values:
    """Read what a run wrote, as far as it is whole: ``Values.partial`` says what is missing. Raises ``TraceError``."""
    reading = _Reading(path, of_places=False)
    if reading.header is None:
        raise TraceError(f"{path} holds no recording: {reading.problem or 'it ends at once'}", hint=_AGAIN)
    return reading.values(reading.header)


def read_header(path: str | os.PathLike[str]) -> Header | None:
    """Return the header of a file of values; ``None`` for what is none, or does not exist."""
    with suppress(TraceError, ValueError, msgspec.MsgspecError), _opened(path) as stream:
        for kind, body in columns.blocks_of(stream):
            return _header_of(path, kind, body)
    return None


class Magnitudes(msgspec.Struct, frozen=True, kw_only=True):
    """The magnitudes of a file of values, by place."""

    header: Header
    places: Places
    partial: str = ""
    """The reason why the file is not whole; empty for a whole one."""
    other_ranks: tuple[Magnitudes, ...] = ()
    """Recordings of the other ranks of the same job."""


def read_magnitudes(path: str | os.PathLike[str]) -> Magnitudes:
    """Read the places of a recording, as far as the file is whole; sums stay in the file until they are asked for.
    Raises ``TraceError`` in one line for what is no file of values, of a later format, or has no magnitudes."""
    reading = _Reading(path, of_places=True)
    if reading.header is None or not reading.header.magnitudes:
        raise TraceError(
            f"{path} has no magnitudes", hint="record it again with `tracer run --magnitudes`, or use `tracer compare`"
        )
    return Magnitudes(header=reading.header, places=reading.places(), partial=reading.partial)


def read_ranks(trace: str | os.PathLike[str]) -> Magnitudes:
    """The places beside a trace; ``ddp.json`` stands for all of ``ddp.rank0.json``, ``ddp.rank1.json`` and so on.
    Raises ``TraceError`` as ``read_magnitudes`` does, and where the recording of a rank is missing."""
    paths = values_of_ranks(trace)
    first, *others = map(read_magnitudes, paths)
    size = first.header.world_size or 1
    ranks = {one.header.rank for one in (first, *others)}
    if paths[0] != values_path(trace) and ranks != set(range(size)):
        raise TraceError(
            f"{trace}: the recordings of {len(ranks)} of {size} ranks are there", hint="record all ranks again"
        )
    return msgspec.structs.replace(first, other_ranks=tuple(others))


@contextmanager
def _opened(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """A file of values, behind its magic line."""
    try:
        with open_plain(path) as stream:
            if stream.read(len(columns.MAGIC)) != columns.MAGIC:
                raise TraceError(f"{path} is not a file of values", hint=_AGAIN)
            yield stream
    except FileNotFoundError as problem:
        hint = "record one with `tracer run --values -o FILE script.py`"
        raise TraceError(f"there is no file {path}", hint=hint) from problem
    except (OSError, ValueError) as problem:
        raise TraceError(f"cannot read {path}: {reason_of(problem)}", hint="check the file") from problem


def _header_of(path: str | os.PathLike[str], kind: bytes, body: bytes) -> Header:
    """The header, checked."""
    if kind != columns.HEADER:
        raise ValueError("it does not begin with a header")
    schema = msgspec.msgpack.decode(body, type=_Schema).schema
    if schema != SCHEMA:
        raise of_another_schema(f"{path} is a file of values", schema, SCHEMA)
    return _header.decode(body)


class _Reading:
    """The rows of one file, block by block, up to the first that is not whole."""

    def __init__(self, path: str | os.PathLike[str], *, of_places: bool) -> None:
        """Read the places, or else all other tables."""
        self.path = path
        self.header: Header | None = None
        self.problem = ""
        """What is wrong with the block that is not whole."""
        self.tables: dict[str, list[np.ndarray]] = {table: [] for table in columns.TABLES}
        self.groups: list[Group] = []
        self.names: list[Name] = []
        self.texts: dict[int, str] = {}
        self.place_names: list[PlaceName] = []
        self.forms: list[Form] = []
        self.calls = self.entries = self.raw_bytes = self.place_count = self.sums = 0
        self.sums_blocks: list[tuple[int, int]] = []
        """The number of the first sum of each block of them, and its offset in the file."""
        end: columns.End | None = None
        with _opened(path) as stream:
            try:
                for kind, body in columns.blocks_of(stream):
                    if self.header is None:
                        self.header = _header_of(path, kind, body)
                    elif kind == columns.ROWS:
                        block = _block.decode(body)
                        self._take_places(block) if of_places else self._take(block, stream.tell())
                    elif kind == columns.SUMS:
                        self.sums_blocks.append((self.sums, stream.tell() - len(body)))
                        self.sums += len(body) // 8
                    elif kind == columns.END:
                        end = _end.decode(body)
                        if not of_places and end.calls != self.calls:
                            calls, end = end.calls, None
                            raise ValueError(f"it has {self.calls:,} calls, and its end speaks of {calls:,}")
                        break
                    else:
                        raise ValueError(f"it has a block of an unknown kind, {kind!r}")
            except (ValueError, msgspec.MsgspecError) as fault:
                self.problem = str(fault)
        cut_off = f"it was cut off ({self.problem})" if self.problem else "it was cut off"
        self.partial = cut_off if end is None else end.partial

    def _take(self, block: columns.PackedBlock, offset: int) -> None:
        """The calls of one block, checked as a whole before any of it is kept."""
        if block.first != self.calls:
            raise ValueError(f"calls from {block.first:,} on, where {self.calls:,} is meant")
        if unknown := block.tables.keys() - columns.TABLES.keys():
            raise ValueError(f"it has an unknown table, {min(unknown)}")
        if sum(table.size * columns.TABLES[name].itemsize for name, table in block.tables.items()) > columns.MAX_BLOCK:
            raise ValueError("its tables hold more than any block does")
        tables = {
            name: columns.unpacked(block.tables[name], dtype) if name in block.tables else np.empty(0, dtype)
            for name, dtype in columns.TABLES.items()
            if name != "place"
        }
        after, entries = self.calls + len(tables["call"]), self.entries + len(tables["entry"])
        _below(tables["call"]["group"], len(self.groups) + len(block.groups))
        for name in ("entry", "draw", "moment"):
            _below(tables[name]["name"], len(self.names) + len(block.names))
        _below(tables["draw"]["call"], after + 1)
        _below(tables["keep"]["call"], after)
        counts, kept = tables["call"]["origins"], tables["keep"]["origin"]
        if int(counts.sum(dtype=np.int64)) != len(tables["origin"]):
            raise ValueError("it has another number of origins than it says")
        if len(kept) and not (-entries <= int(kept.min()) and int(kept.max()) < after):
            raise ValueError("memory was kept from nowhere")
        # A call among the origins is written as the way back to it.
        reader = np.repeat(np.arange(self.calls, after, dtype=np.int64), counts)
        way = tables["origin"]["origin"].astype(np.int64)
        origins = np.where(way > 0, reader - way, way)
        if ((origins < -entries) | (way == 0) | ((way > 0) & (origins < 0))).any():
            raise ValueError("an input comes from nowhere")
        tables["origin"]["origin"] = origins
        self.raw_bytes += sum(rows.nbytes for rows in tables.values())
        if self.raw_bytes > columns.MAX_BLOCK + _MOST_SPREAD * offset:
            raise ValueError("it unpacks to more than any recording does")
        for name, rows in tables.items():
            self.tables[name].append(rows)
        self.groups += block.groups
        self.names += block.names
        self.texts.update(block.texts)
        self.calls, self.entries = after, entries

    def _take_places(self, block: columns.PackedBlock) -> None:
        """The places of one block, likewise."""
        if (table := block.tables.get("place")) is not None:
            rows = columns.unpacked(table, columns.TABLES["place"])
            if block.first_place != self.place_count:
                raise ValueError(f"places from {block.first_place:,} on, where {self.place_count:,} is meant")
            _below(rows["name"], len(self.place_names) + len(block.place_names))
            _below(rows["form"], len(self.forms) + len(block.forms))
            is_later = rows["same"] >= np.arange(self.place_count, self.place_count + len(rows))
            if is_later.any() or ((rows["at"] + rows["sums"]) > self.sums).any():
                raise ValueError("a place whose sums are not there")
            self.tables["place"].append(rows)
            self.place_count += len(rows)
        self.place_names += block.place_names
        self.forms += block.forms

    def _columns(self, table: str) -> dict[str, Any]:
        """The columns of a table; its parts are dropped at once to save memory."""
        parts, dtype = self.tables.pop(table), columns.TABLES[table]
        empty = np.empty(0, dtype)
        return {name: np.concatenate([part[name] for part in parts or (empty,)]) for name in dtype.names or ()}

    def values(self, header: Header) -> Values:
        """The recording's values."""
        calls, keeps = self._columns("call"), self._columns("keep")
        starts = np.zeros(self.calls + 1, np.int64)
        np.cumsum(calls.pop("origins"), out=starts[1:])
        return Values(
            header=header,
            groups=tuple(self.groups),
            names=tuple(self.names),
            texts=self.texts,
            **calls,
            origin_start=starts,
            origins=self._columns("origin")["origin"],
            keeps=np.stack([keeps["call"].astype(np.int64), keeps["origin"]], 1),
            entries=Entries(**self._columns("entry")),
            draws=tuple(self._columns("draw").values()),
            moments=Moments(**self._columns("moment")),
            steps=tuple(self._columns("step").values()),
            partial=self.partial,
            raw_bytes=self.raw_bytes,
        )

    def places(self) -> Places:
        """The recording's places."""
        rows = np.concatenate(self.tables["place"] or [np.empty(0, columns.TABLES["place"])])
        at = np.zeros(len(rows), np.int64)
        if self.sums_blocks:
            starts, offsets = np.array(self.sums_blocks, np.int64).T
            first = rows["at"].astype(np.int64)
            block = np.searchsorted(starts, first, side="right") - 1
            at = offsets[block] + (first - starts[block]) * 8
        return Places(self.path, self.place_names, self.forms, rows, at)


def _below(column: np.ndarray, limit: int) -> None:
    if len(column) and int(column.max()) >= limit:
        raise ValueError("it speaks of something that was not defined")
