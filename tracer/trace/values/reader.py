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
from tracer.trace.paths import values_of_ranks, values_path
from tracer.trace.values import framing
from tracer.trace.values.columns import SCHEMA, Entries, Group, Header, Moments, Name, Values
from tracer.trace.values.places import Places, PlacesBlock

_AGAIN = "record it again with `tracer run --values`"
#: Bytes that one byte of a file can unpack to at most: digests do not compress.
_MOST_SPREAD = 64

_header = msgspec.msgpack.Decoder(Header)
_calls = msgspec.msgpack.Decoder(framing.CallsBlock)
_places = msgspec.msgpack.Decoder(PlacesBlock)
_end = msgspec.msgpack.Decoder(framing.End)


class _Schema(msgspec.Struct):
    schema: int


def read_values(path: str | os.PathLike[str]) -> Values:
    """Read what a run wrote, as far as it is whole: ``Values.partial`` says what is missing.

    Raises ``TraceError`` in one line for what is no file of values, or of a later format.
    """
    with _opened(path) as stream:
        return _Reading(path).read(stream)


def read_header(path: str | os.PathLike[str]) -> Header | None:
    """Return the header of a file of values; ``None`` for what is none, or does not exist."""
    with suppress(TraceError, ValueError, msgspec.MsgspecError), _opened(path) as stream:
        for kind, body in framing.blocks_of(stream):
            return _Reading(path).header(kind, body)
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

    Raises ``TraceError`` in one line for what is no file of values, of a later format, or has no magnitudes.
    """
    reading, places = _Reading(path), Places(path)
    header, end, problem = None, None, ""
    with _opened(path) as stream:
        try:
            for kind, body in framing.blocks_of(stream):
                if header is None:
                    header = reading.header(kind, body)
                elif kind == framing.SUMS:
                    places.take_sums(stream.tell() - len(body), len(body))
                elif kind == framing.PLACES:
                    places.take(_places.decode(body))
                elif kind == framing.END:
                    end = _end.decode(body)
        except (ValueError, msgspec.MsgspecError) as fault:
            problem = str(fault)
    if header is None or not header.magnitudes:
        raise TraceError(
            f"{path} has no magnitudes", hint="record it again with `tracer run --magnitudes`, or use `tracer compare`"
        )
    places.finish()
    cut_off = f"it was cut off ({problem})" if problem else "it was cut off"
    return Magnitudes(header=header, places=places, partial=cut_off if end is None else end.partial)


def read_ranks(trace: str | os.PathLike[str]) -> Magnitudes:
    """The places beside a trace; ``ddp.json`` stands for all of ``ddp.rank0.json``, ``ddp.rank1.json`` and so on.

    Raises ``TraceError`` as ``read_magnitudes`` does, and where the recording of a rank is missing.
    """
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
            if stream.read(len(framing.MAGIC)) != framing.MAGIC:
                raise TraceError(f"{path} is not a file of values", hint=_AGAIN)
            yield stream
    except FileNotFoundError as problem:
        hint = "record one with `tracer run --values -o FILE script.py`"
        raise TraceError(f"there is no file {path}", hint=hint) from problem
    except (OSError, ValueError) as problem:
        raise TraceError(f"cannot read {path}: {reason_of(problem)}", hint="check the file") from problem


class _Reading:
    """The columns of one file as its blocks come."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = path
        self.groups: list[Group] = []
        self.names: list[Name] = []
        self.texts: dict[int, str] = {}
        self.parts: dict[str, list[np.ndarray]] = {name: [] for name in framing.COLUMNS}
        self.calls = 0
        self.entries = 0
        self.raw_bytes = 0

    def read(self, stream: BinaryIO) -> Values:
        header, end, problem = None, None, ""
        try:
            for kind, body in framing.blocks_of(stream):
                if header is None:
                    header = self.header(kind, body)
                elif kind == framing.CALLS:
                    self._take(_calls.decode(body))
                    if self.raw_bytes > framing.MAX_BLOCK + _MOST_SPREAD * stream.tell():
                        raise ValueError("it unpacks to more than any recording does")
                elif kind in (framing.PLACES, framing.SUMS):
                    continue
                elif kind == framing.END:
                    end = _end.decode(body)
                    if end.calls != self.calls:
                        raise ValueError(f"it has {self.calls:,} calls, and its end speaks of {end.calls:,}")
                    break
                else:
                    raise ValueError(f"it has a block of an unknown kind, {kind!r}")
        except (ValueError, msgspec.MsgspecError) as fault:
            problem = str(fault)
        if header is None:
            raise TraceError(f"{self.path} holds no recording: {problem or 'it ends at once'}", hint=_AGAIN)
        cut_off = f"it was cut off ({problem})" if problem else "it was cut off"
        return self._values(header, cut_off if end is None else end.partial)

    def header(self, kind: bytes, body: bytes) -> Header:
        """The header, checked."""
        if kind != framing.HEADER:
            raise ValueError("it does not begin with a header")
        schema = msgspec.msgpack.decode(body, type=_Schema).schema
        if schema != SCHEMA:
            raise of_another_schema(f"{self.path} is a file of values", schema, SCHEMA)
        return _header.decode(body)

    def _take(self, block: framing.CallsBlock) -> None:
        """One block, checked as a whole before any of it is kept."""
        if block.first != self.calls:
            raise ValueError(f"calls from {block.first:,} on, where {self.calls:,} is meant")
        if unknown := block.columns.keys() - framing.COLUMNS.keys():
            raise ValueError(f"it has an unknown column, {min(unknown)}")
        sizes = (framing.spread(column, framing.COLUMNS[name]) for name, column in block.columns.items())
        if sum(sizes) > framing.MAX_BLOCK:
            raise ValueError("its columns hold more than any block does")
        columns = {
            name: framing.unpacked(block.columns[name], dtype) if name in block.columns else np.empty(0, dtype)
            for name, dtype in framing.COLUMNS.items()
        }
        calls, groups, names = len(columns["group"]), len(self.groups), len(self.names)
        entries = self.entries + len(columns["entry.name"])
        after = self.calls + calls
        of_one_length([columns[name] for name in framing.ROW_TYPE.names or ()])
        for table, of in framing.TABLES.items():
            of_one_length([columns[f"{table}.{name}"] for name in of])
        below(columns["group"], groups + len(block.groups))
        for table in ("entry", "draw", "moment"):
            below(columns[f"{table}.name"], names + len(block.names))
        for table in ("draw", "keep"):
            below(columns[f"{table}.call"], after + (table == "draw"))
        if int(columns["origins"].sum(dtype=np.int64)) != len(columns["origin"]):
            raise ValueError("it has another number of origins than it says")
        columns["origin"] = self._absolute(columns["origin"], columns["origins"], entries)
        origins_within(columns["keep.origin"], after, entries)
        for name, column in columns.items():
            if len(column):
                self.parts[name].append(column)
        self.groups += block.groups
        self.names += block.names
        self.texts.update(block.texts)
        self.calls, self.entries = after, entries
        self.raw_bytes += sum(column.nbytes for column in columns.values())

    def _absolute(self, origins: np.ndarray, counts: np.ndarray, entries: int) -> np.ndarray:
        """Origins as indices: a call is written as the way back to it."""
        reader = np.repeat(np.arange(self.calls, self.calls + len(counts), dtype=np.int64), counts)
        way = origins.astype(np.int64)
        absolute = np.where(way > 0, reader - way, way)
        if ((absolute < -entries) | (way == 0) | ((way > 0) & (absolute < 0))).any():
            raise ValueError("an input comes from nowhere")
        return absolute.astype(np.int32)

    def _column(self, name: str) -> Any:
        """The whole of a column; its parts are dropped at once to save memory."""
        parts = self.parts.pop(name)
        return np.concatenate(parts) if parts else np.empty(0, framing.COLUMNS[name])

    def _values(self, header: Header, partial: str) -> Values:
        starts = np.zeros(self.calls + 1, np.int64)
        np.cumsum(self._column("origins"), out=starts[1:])
        keeps = np.empty((sum(map(len, self.parts["keep.call"])), 2), np.int64)
        keeps[:, 0], keeps[:, 1] = self._column("keep.call"), self._column("keep.origin")
        tables = {
            table: {name: self._column(f"{table}.{name}") for name in framing.TABLES[table]}
            for table in ("entry", "draw", "moment", "step")
        }
        return Values(
            header=header,
            groups=tuple(self.groups),
            names=tuple(self.names),
            texts=self.texts,
            **{name: self._column(name) for name in ("group", "inputs", "outputs", "numbers", "mark_bits")},
            origin_start=starts,
            origins=self._column("origin"),
            keeps=keeps,
            entries=Entries(**tables["entry"]),
            draws=tuple(tables["draw"].values()),
            moments=Moments(**tables["moment"]),
            steps=tuple(tables["step"].values()),
            partial=partial,
            raw_bytes=self.raw_bytes,
        )


def of_one_length(columns: list[np.ndarray]) -> None:
    if len({len(column) for column in columns}) > 1:
        raise ValueError("its columns are not of one length")


def below(column: np.ndarray, limit: int) -> None:
    if len(column) and int(column.max()) >= limit:
        raise ValueError("it speaks of something that was not defined")


def origins_within(origins: np.ndarray, calls: int, entries: int) -> None:
    if len(origins) and not (-entries <= int(origins.min()) and int(origins.max()) < calls):
        raise ValueError("memory was kept from nowhere")
