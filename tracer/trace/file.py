"""A trace and its file: one JSON document, gzipped when the name ends in ``.gz``.

A trace is checked field by field as it is read. An error is one line: which file, what and where in it, what to do.
"""

from __future__ import annotations

import glob
import gzip
import os
import zlib
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, get_args

import msgspec
from msgspec.structs import replace

from tracer.errors import TraceError, of_another_schema, reason_of
from tracer.files import collector_paused, open_plain, read_within, write_or_rescue, write_whole
from tracer.names import BlindSpotKind, ChildState, Gradients, Phase, SeedOrigin, StartedBy, Training
from tracer.plain import json_text
from tracer.trace import records
from tracer.trace.records import SCHEMA, CallGroup, Child

#: A trace of 10^5 groups takes about 40 MB; anything larger than this is not one.
MAX_BYTES = 512 * 1024 * 1024


class Trace(msgspec.Struct, frozen=True, kw_only=True):
    """Grouped calls, the environment, what else was seen, and what could not be seen."""

    schema: int = records.SCHEMA
    """Number of the file format that this is written in."""
    tracer_version: str = ""
    """The release that recorded it."""
    environment: records.Environment
    """Versions, devices and settings, as they held when recording began."""
    calls: tuple[records.CallGroup, ...] = ()
    """Groups in a stable order: first seen first."""
    blind_spots: tuple[records.BlindSpot, ...] = ()
    """The code that ran and was not seen, or seen only in part."""
    sources: tuple[records.TraceSource, ...] = ()
    """The recordings that this was made of: one, or those that were merged."""
    differing_settings: tuple[str, ...] = ()
    """Names of ``Environment`` fields in which merged recordings differ; the first recording's values stand."""
    watched_from_start: bool = False
    """Whether the process was watched from its import of torch on (``tracer run``), or only while recording."""
    events: tuple[records.Event, ...] = ()
    """The settings, seeds and first uses of the program, in order."""
    generators: tuple[records.Generator, ...] = ()
    """The process's own generators: torch's default one of each device in use, Python's and NumPy's global one."""
    allocations: tuple[records.Allocation, ...] = ()
    """Calls that allocated memory without writing it."""
    unwritten_reads: tuple[records.UnwrittenRead, ...] = ()
    """Calls that read such memory before it was wholly written."""
    overlaps: tuple[records.OverlapWrite, ...] = ()
    """Calls that wrote to overlapping memory."""
    rows: tuple[records.RowTrial, ...] = ()
    """Calls that were made again on a part of their rows; only if that was asked for."""
    loaders: tuple[records.Loader, ...] = ()
    """Each ``DataLoader`` that was iterated."""
    own_generators: tuple[records.OwnGenerator, ...] = ()
    """Generators of the program's own that were made without a fixed seed and drew."""
    regions: tuple[records.Region, ...] = ()
    """The regions that were compiled or captured, and ran or could have run while recording."""
    launched: tuple[records.Kernel, ...] = ()
    """Triton kernels that the program launched outside compiled code; their launches are call groups whose op is
    ``triton.`` and the kernel's name."""
    children: tuple[records.Child, ...] = ()
    """The processes that the program started, and those that these started; only if children were asked for. A process
    that was not recorded is a blind spot too."""
    hints: tuple[records.CodeHint, ...] = ()
    """Lines of the program's own files that may do otherwise in another run or process (``tracer run``)."""
    source_lines: dict[str, str] = {}
    """The text of the user's own lines by ``path:line``; only where it was asked for, since traces are shared."""

    @property
    def draws(self) -> tuple[records.Draw, ...]:
        """The ledger of torch's random draws, grouped by op and place, first drawn first."""
        return tuple(filter(None, (group.draw for group in self.calls)))

    @property
    def partial(self) -> str:
        """The reasons why the trace is not whole: every source's, once each, or an empty string."""
        return ", ".join(dict.fromkeys(s.partial for s in self.sources if s.partial))

    @property
    def training(self) -> Training:
        """Whether the recording holds an optimizer's step; without one, whether a training was meant at all."""
        has_step = any(source.steps for source in self.sources)
        if has_step or any(call.phase is Phase.OPTIMIZER for call in self.calls):
            return Training.RECORDED
        if not self.sources:
            return Training.UNKNOWN
        if self.not_followed:
            return Training.ELSEWHERE
        # What ended early, or went back through a graph, may have been about to train.
        phases = {call.phase for call in self.calls}
        asks_none = all(source.gradients in (Gradients.NONE, Gradients.EVALUATING) for source in self.sources)
        ran_forward = Phase.FORWARD in phases and phases.isdisjoint((Phase.BACKWARD, Phase.RECOMPUTE))
        return Training.INFERENCE if asks_none and ran_forward and not self.partial else Training.NONE

    @property
    def not_followed(self) -> int:
        """Processes that were started and may compute: their ops are in no recording."""
        return sum(spot.count for spot in self.blind_spots if spot.kind is BlindSpotKind.OTHER_PROCESS)

    @property
    def threads_not_followed(self) -> int:
        """Threads that computed beside the recorded one: their ops are in no recording."""
        return sum(spot.count for spot in self.blind_spots if spot.kind is BlindSpotKind.COMPUTING_THREAD)

    @property
    def call_count(self) -> int:
        """All recorded calls."""
        return sum(group.count for group in self.calls)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Trace:
        """Read and check a trace from ``.json`` or ``.json.gz``.

        Raises ``TraceError``, in one line, for anything but a whole trace of this release's schema.
        """
        data = read_packed(Path(path))
        again = "record it again with `tracer run`"
        try:
            schema = msgspec.json.decode(data, type=_Header).schema
            if schema != records.SCHEMA:
                raise of_another_schema(f"{path} is a trace", schema, records.SCHEMA)
            trace = _decoder().decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as problem:
            is_machine = b'"doctor"' in data[:64]
            hint = "it is a file of `tracer doctor --save`: name two of them to `tracer diff`" if is_machine else again
            raise TraceError(f"{path} is not a trace: {problem}", hint=hint) from problem
        for index, group in enumerate(trace.calls):
            if fault := fault_of(group):
                raise TraceError(f"{path} is not a trace: $.calls[{index}]{fault}", hint=again)
        return trace

    def save(self, path: str | os.PathLike[str], *, rescue: bool = True) -> None:
        """Write the trace as JSON (gzipped when ``path`` ends in ``.gz``), whole or not at all.

        Raises ``TraceError`` if it cannot be written. Since a training may have been needed for it, it is then written
        to another file, which the error names, unless ``rescue`` is false. Names of files that are not UTF-8 are
        escaped.
        """
        data = json_text(self, indent=1).encode("utf-8")
        suffix = ".json"
        if os.fspath(path).endswith(".gz"):
            data, suffix = gzip.compress(data, compresslevel=6, mtime=0), ".json.gz"
        if rescue:
            write_or_rescue(path, data, suffix=suffix, error=TraceError)
        else:
            write_whole(path, data, error=TraceError)


@cache
def _decoder() -> msgspec.json.Decoder[Trace]:
    """Made with the first trace that is read: a run that records reads none."""
    return msgspec.json.Decoder(Trace)


class _Header(msgspec.Struct):
    schema: int


_ORIGINS = frozenset(SeedOrigin)


def fault_of(group: records.CallGroup) -> str:
    """Return the fault of a group that no recording writes, as an error ends: ``.count is 0``; empty if sound."""
    if group.count < 1:
        return f".count is {group.count}"
    if (origin := group.facts.get(records.ORIGIN, SeedOrigin.UNUSED)) not in _ORIGINS:
        return f".facts[{records.ORIGIN!r}] is {origin!r}, which is no origin of a generator's state"
    return ""


def read_packed(path: Path) -> bytes:
    """A trace's text, unpacked; ``TraceError`` if there is none."""
    try:
        with open_plain(path) as plain:
            is_packed = path.name.endswith(".gz")
            data = read_within(gzip.GzipFile(fileobj=plain) if is_packed else plain, MAX_BYTES)
    except FileNotFoundError as problem:
        raise TraceError(f"there is no file {path}", hint="record one with `tracer run -o FILE script.py`") from problem
    except (OSError, EOFError, zlib.error, ValueError) as problem:
        hint = "check the file and its permissions"
        raise TraceError(f"cannot read {path}: {reason_of(problem)}", hint=hint) from problem
    if not data:
        raise TraceError(f"{path} is empty", hint="record it again with `tracer run`")
    return data


# --- where the files lie that stand beside a trace -----------------------------------------------------------

#: Above this number, the last part of a role tells processes that share one: those that C code started.
LOWEST_SHARED = 1000


def inputs_path(trace: str | os.PathLike[str]) -> Path:
    """The file of kept inputs beside a trace: ``run.inputs.safetensors`` for ``run.json``."""
    return values_path(trace).with_suffix(".inputs.safetensors")


def values_path(trace: str | os.PathLike[str]) -> Path:
    """The file of values beside a trace: ``run.values`` for ``run.trace.json``, ``run.json.gz`` or itself."""
    path = Path(trace)
    for suffix in (".gz", ".json", ".trace"):
        if path.suffix == suffix:
            path = path.with_suffix("")
    return path if path.suffix == ".values" else path.with_name(f"{path.name}.values")


def child_path(trace: str | os.PathLike[str], role: str) -> Path:
    """The trace of a child process beside its parent's: ``run.child-2.json.gz`` for ``run.json.gz``."""
    path, ending = Path(trace), _ending(trace)
    return path.with_name(f"{path.name.removesuffix(ending)}.child-{role}{ending}")


def _ending(trace: str | os.PathLike[str]) -> str:
    name = os.fspath(trace)
    return next((ending for ending in (".json.gz", ".json") if name.endswith(ending)), Path(trace).suffix)


def files_of_children(trace: str | os.PathLike[str]) -> Iterator[Path]:
    """The traces of child processes beside their parent's, and their files of values."""
    path = Path(trace)
    of_any = child_path(glob.escape(path.name), "*")
    for pattern in (of_any, values_path(of_any)):
        yield from path.parent.glob(pattern.name)


def traces_of_ranks(trace: str | os.PathLike[str]) -> dict[int, Path]:
    """The traces by rank of a name that several ranks were given, in order; empty where it is a file itself."""
    return _of_ranks(Path(trace), _ending(trace))


def values_of_ranks(trace: str | os.PathLike[str]) -> list[Path]:
    """The file of values beside a trace; of a name that several ranks were given, those of the ranks in order."""
    path = values_path(trace)
    return list(_of_ranks(path, ".values").values()) or [path]


def _of_ranks(path: Path, ending: str) -> dict[int, Path]:
    if path.exists():
        return {}
    start = f"{path.name.removesuffix(ending)}.rank"
    beside = path.parent.glob(f"{glob.escape(start)}*{ending}")
    numbers = {file: file.name.removeprefix(start).removesuffix(ending) for file in beside}
    ranks = {int(number): file for file, number in numbers.items() if number.isdecimal()}
    return dict(sorted(ranks.items()))


# --- several traces: of many ranks, and of the processes of one program; what ranks have in common is decoded once
# --- and one object in all, so that merging and comparing cost once too


_Path = str | os.PathLike[str]
_Decode = Callable[[msgspec.Raw], Any]
_items = msgspec.json.Decoder(list[msgspec.Raw])


def _once(decode: _Decode) -> _Decode:
    """``decode``, called once for each distinct text."""
    from xxhash import xxh3_128_digest  # a run that records needs it later, if at all

    values: dict[bytes, Any] = {}

    def decoded(text: msgspec.Raw) -> Any:
        digest = xxh3_128_digest(text)
        if (value := values.get(digest)) is None:
            value = values[digest] = decode(text)
        return value

    return decoded


def _in_parts(record: type[msgspec.Struct], parts: dict[str, _Decode]) -> Callable[[bytes | msgspec.Raw], Any]:
    """Decodes records of one type, some of whose fields by decoders of their own."""
    fields: list[Any] = []
    for field in msgspec.structs.fields(record):
        kind, default, factory = field.type, field.default, field.default_factory
        if field.name in parts:
            kind, default = msgspec.Raw, msgspec.Raw(b"{}" if factory is dict else b"[]")
            factory = msgspec.NODEFAULT
        elif field.name == "schema":  # no schema is none that was ever written
            default = 0
        fields.append((field.name, kind, msgspec.field(default=default, default_factory=factory)))  # type: ignore[call-overload]
    decoder = msgspec.json.Decoder(msgspec.defstruct(record.__name__, fields, kw_only=True))

    def decoded(text: bytes | msgspec.Raw) -> Any:
        values = msgspec.structs.asdict(decoder.decode(text))
        return record(**values | {name: decode(values[name]) for name, decode in parts.items()})

    return decoded


def _list_of(record: Any) -> _Decode:
    decode: _Decode = msgspec.json.Decoder(record).decode
    if record is CallGroup:
        # Most groups that differ do so in their count: these are as large as all else of a group.
        kinds = {field.name: field.type for field in msgspec.structs.fields(record)}
        group_of = _in_parts(
            record, {name: _once(msgspec.json.Decoder(kinds[name]).decode) for name in ("facts", "given")}
        )

        def checked(text: msgspec.Raw) -> CallGroup:
            group: CallGroup = group_of(text)
            if fault := fault_of(group):
                raise msgspec.ValidationError(fault)
            return group

        decode = checked

    each = _once(decode)
    return _once(lambda text: tuple(map(each, _items.decode(text))))


def _trace_reader() -> Callable[[_Path], Trace]:
    """A function that reads as ``Trace.load`` does; records whose texts are equal are one object in all its traces."""
    kinds = {field.name: (get_args(field.type) or (None,))[0] for field in msgspec.structs.fields(Trace)}
    of_records = {name: kind for name, kind in kinds.items() if isinstance(kind, msgspec.StructMeta)}
    decode = _in_parts(Trace, {name: _list_of(kind) for name, kind in of_records.items()})

    def read(path: _Path) -> Trace:
        try:
            with collector_paused():
                trace: Trace = decode(read_packed(Path(path)))
            if trace.schema == SCHEMA:
                return trace
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            pass
        return Trace.load(path)  # which says what is wrong, and where

    return read


def load_traces(paths: Iterable[_Path]) -> list[Trace]:
    """Read and check each trace; what they have in common is one object."""
    return list(map(_trace_reader(), paths))


def role_of(trace: Trace) -> str:
    """The role of the process that was recorded; empty for the one that the user started, or without a source."""
    return trace.sources[0].child if trace.sources else ""


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
