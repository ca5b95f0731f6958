"""Reads the traces of many ranks: what they have in common is decoded once, and is one object in all of them.

Ranks of one job run the same program: a thousand of their traces hold little more than one. Merging and comparing work
on objects, so that what is common to all ranks costs once.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, get_args

import msgspec
from xxhash import xxh3_128_digest

from tracer.files import collector_paused
from tracer.trace.file import Trace, fault_of, load_trace, read_packed
from tracer.trace.records import SCHEMA, CallGroup

_Decode = Callable[[msgspec.Raw], Any]
_items = msgspec.json.Decoder(list[msgspec.Raw])


class _Once:
    """Decodes each distinct text once."""

    def __init__(self, decode: _Decode) -> None:
        self._decode = decode
        self._by_digest: dict[bytes, Any] = {}

    def __call__(self, text: msgspec.Raw) -> Any:
        digest = xxh3_128_digest(text)
        if (value := self._by_digest.get(digest)) is None:
            value = self._by_digest[digest] = self._decode(text)
        return value

    def each(self, text: msgspec.Raw) -> tuple[Any, ...]:
        """The items of a list."""
        decode, by_digest, values = self._decode, self._by_digest, []
        for item in _items.decode(text):
            digest = xxh3_128_digest(item)
            if (value := by_digest.get(digest)) is None:
                value = by_digest[digest] = decode(item)
            values.append(value)
        return tuple(values)


class _InParts:
    """Decodes records of one type, some of whose fields by decoders of their own."""

    def __init__(self, record: type[msgspec.Struct], parts: dict[str, _Decode]) -> None:
        self._record, self._parts = record, parts
        fields = [(field.name, *self._undecoded(field)) for field in msgspec.structs.fields(record)]
        self._decoder = msgspec.json.Decoder(msgspec.defstruct(record.__name__, fields, kw_only=True))

    def _undecoded(self, field: msgspec.structs.FieldInfo) -> tuple[Any, Any]:
        if field.name in self._parts:
            empty = b"{}" if field.default_factory is dict else b"[]"
            return msgspec.Raw, msgspec.Raw(empty)
        # No schema is none that was ever written.
        default: Any = 0 if field.name == "schema" else field.default
        return field.type, msgspec.field(default=default, default_factory=field.default_factory)  # type: ignore[call-overload]

    def __call__(self, text: bytes | msgspec.Raw) -> Any:
        values = msgspec.structs.asdict(self._decoder.decode(text))
        for name, decode in self._parts.items():
            values[name] = decode(values[name])
        return self._record(**values)


def _decoder_of(record: Any) -> _Decode:
    if record is not CallGroup:
        return msgspec.json.Decoder(record).decode
    kinds = {field.name: field.type for field in msgspec.structs.fields(CallGroup)}
    # Most groups that differ do so in their count: these are as large as all else of a group.
    parts = {name: _Once(msgspec.json.Decoder(kinds[name]).decode) for name in ("facts", "given")}
    decode = _InParts(CallGroup, dict(parts))

    def sound(text: msgspec.Raw) -> CallGroup:
        group: CallGroup = decode(text)
        if fault := fault_of(group):
            raise msgspec.ValidationError(fault)
        return group

    return sound


def _list_of(record: Any) -> _Once:
    return _Once(_Once(_decoder_of(record)).each)


def trace_reader() -> Callable[[str | os.PathLike[str]], Trace]:
    """A function that reads as ``load_trace`` does; records whose texts are equal are one object in all its traces."""
    kinds = {field.name: (get_args(field.type) or (None,))[0] for field in msgspec.structs.fields(Trace)}
    of_records = {name for name, kind in kinds.items() if isinstance(kind, type) and issubclass(kind, msgspec.Struct)}
    decode = _InParts(Trace, {name: _list_of(kinds[name]) for name in kinds if name in of_records})

    def read(path: str | os.PathLike[str]) -> Trace:
        try:
            with collector_paused():
                trace: Trace = decode(read_packed(Path(path)))
            is_sound = trace.schema == SCHEMA
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            is_sound = False
        # load_trace says what is wrong, and where.
        return trace if is_sound else load_trace(path)

    return read


def load_traces(paths: Iterable[str | os.PathLike[str]]) -> list[Trace]:
    """Read and check each trace; what they have in common is one object."""
    return list(map(trace_reader(), paths))
