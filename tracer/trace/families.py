"""Reads several traces: those of many ranks, and of the processes of one program.

What a thousand ranks have in common is decoded once and one object in all, so that merging and comparing cost once too.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Container, Iterable, Sequence
from pathlib import Path
from typing import Any, get_args

import msgspec
from msgspec.structs import replace
from xxhash import xxh3_128_digest

from tracer.files import collector_paused
from tracer.names import BlindSpotKind, ChildState, StartedBy
from tracer.trace.file import Trace, child_path, fault_of, read_packed
from tracer.trace.records import SCHEMA, CallGroup, Child

_Path = str | os.PathLike[str]
_Decode = Callable[[msgspec.Raw], Any]
_items = msgspec.json.Decoder(list[msgspec.Raw])


def _once(decode: _Decode) -> _Decode:
    """``decode``, called once for each distinct text."""
    values: dict[bytes, Any] = {}

    def decoded(text: msgspec.Raw) -> Any:
        digest = xxh3_128_digest(text)
        if (value := values.get(digest)) is None:
            value = values[digest] = decode(text)
        return value

    return decoded


def _in_parts(record: type[msgspec.Struct], parts: dict[str, _Decode]) -> Callable[[bytes | msgspec.Raw], Any]:
    """Decodes records of one type, some of whose fields by decoders of their own."""

    def undecoded(field: msgspec.structs.FieldInfo) -> tuple[Any, Any]:
        if field.name in parts:
            return msgspec.Raw, msgspec.Raw(b"{}" if field.default_factory is dict else b"[]")
        # No schema is none that was ever written.
        default: Any = 0 if field.name == "schema" else field.default
        return field.type, msgspec.field(default=default, default_factory=field.default_factory)  # type: ignore[call-overload]

    fields = [(field.name, *undecoded(field)) for field in msgspec.structs.fields(record)]
    decoder = msgspec.json.Decoder(msgspec.defstruct(record.__name__, fields, kw_only=True))

    def decoded(text: bytes | msgspec.Raw) -> Any:
        values = msgspec.structs.asdict(decoder.decode(text))
        for name, decode in parts.items():
            values[name] = decode(values[name])
        return record(**values)

    return decoded


def _call_group_decoder() -> _Decode:
    kinds = {field.name: field.type for field in msgspec.structs.fields(CallGroup)}
    # Most groups that differ do so in their count: these are as large as all else of a group.
    decode = _in_parts(
        CallGroup, {name: _once(msgspec.json.Decoder(kinds[name]).decode) for name in ("facts", "given")}
    )

    def sound(text: msgspec.Raw) -> CallGroup:
        group: CallGroup = decode(text)
        if fault := fault_of(group):
            raise msgspec.ValidationError(fault)
        return group

    return sound


def _list_of(record: Any) -> _Decode:
    decode = _once(_call_group_decoder() if record is CallGroup else msgspec.json.Decoder(record).decode)
    return _once(lambda text: tuple(map(decode, _items.decode(text))))


def _trace_reader() -> Callable[[_Path], Trace]:
    """A function that reads as ``Trace.load`` does; records whose texts are equal are one object in all its traces."""
    kinds = {field.name: (get_args(field.type) or (None,))[0] for field in msgspec.structs.fields(Trace)}
    of_records = {name for name, kind in kinds.items() if isinstance(kind, type) and issubclass(kind, msgspec.Struct)}
    decode = _in_parts(Trace, {name: _list_of(kinds[name]) for name in kinds if name in of_records})

    def read(path: _Path) -> Trace:
        try:
            with collector_paused():
                trace: Trace = decode(read_packed(Path(path)))
            is_sound = trace.schema == SCHEMA
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            is_sound = False
        # Trace.load says what is wrong, and where.
        return trace if is_sound else Trace.load(path)

    return read


def load_traces(paths: Iterable[_Path]) -> list[Trace]:
    """Read and check each trace; what they have in common is one object."""
    return list(map(_trace_reader(), paths))


def load_family(path: _Path, load: Callable[[_Path], Trace] = Trace.load) -> tuple[Trace, ...]:
    """The trace ``path`` and its children's beside it, those that trained first, without blind spots for them."""
    return family_of(load(path), path, load)


def family_of(first: Trace, path: _Path, load: Callable[[_Path], Trace] = Trace.load) -> tuple[Trace, ...]:
    """``load_family`` for a ``first`` trace that is at hand; those of its children lie beside ``path``."""
    beside = {child.role: child_path(path, child.role) for child in first.children if child.count == 1}
    traces = {"": first} | {role: load(file) for role, file in beside.items() if file.is_file()}
    # One that ran on when its first process ended may have left a trace since.
    has_trace = [child.count == 1 and child.role in traces for child in first.children]
    children = tuple(
        replace(child, state=ChildState.RECORDED) if left else child
        for child, left in zip(first.children, has_trace, strict=True)
    )
    traces[""] = replace(first, children=children)
    family = [_without_followed(trace, role, children, traces.keys()) for role, trace in traces.items()]
    return tuple(sorted(family, key=lambda trace: not any(source.steps for source in trace.sources)))


def load_families(paths: Iterable[_Path]) -> tuple[Trace, ...]:
    """The traces at ``paths`` with their children, each child once: ``trace*.json`` names the children too."""
    loaded: list[Trace] = []
    of_others: set[str] = set()
    in_order = sorted(paths, key=lambda path: ".child-" in os.path.basename(path))
    load = _trace_reader() if len(in_order) > 1 else Trace.load
    for path in in_order:
        if os.path.abspath(path) not in of_others:
            family = load_family(path, load)
            of_others |= {os.path.abspath(child_path(path, child.role)) for trace in family for child in trace.children}
            loaded += family
    return tuple(loaded)


def _without_followed(trace: Trace, role: str, children: Sequence[Child], loaded: Container[str]) -> Trace:
    """``trace``, of the process ``role``, without blind spots for children of whom all is known."""
    followed: Counter[str] = Counter()
    for child in children:
        noted_by = child.parent
        while noted_by not in loaded:  # a fork server has no trace
            noted_by = noted_by.rpartition(".")[0]
        is_here = child.is_followed and (child.state is not ChildState.RECORDED or child.role in loaded)
        if noted_by == role and is_here and child.started_by is not StartedBy.LOADER:
            followed[child.location] += child.count
    spots = []
    for spot in trace.blind_spots:
        if spot.kind is BlindSpotKind.OTHER_PROCESS:
            taken = min(spot.count, followed[spot.location])
            followed[spot.location] -= taken
            spot = replace(spot, count=spot.count - taken)
        if spot.count:
            spots.append(spot)
    return replace(trace, blind_spots=tuple(spots))
