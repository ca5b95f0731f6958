"""A trace and its file: one JSON document, gzipped when the name ends in ``.gz``.

A trace is checked field by field as it is read. An error is one line: which file, what and where in it, what to do.
"""

from __future__ import annotations

import glob
import gzip
import os
import zlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import msgspec

from tracer.errors import TraceError, of_another_schema, reason_of
from tracer.files import open_plain, read_within, write_or_rescue, write_whole
from tracer.names import BlindSpotKind, Gradients, Phase, SeedOrigin, Training
from tracer.plain import json_text
from tracer.trace import records

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
        return self._blind_spots_of(BlindSpotKind.OTHER_PROCESS)

    @property
    def threads_not_followed(self) -> int:
        """Threads that computed beside the recorded one: their ops are in no recording."""
        return self._blind_spots_of(BlindSpotKind.COMPUTING_THREAD)

    def _blind_spots_of(self, kind: BlindSpotKind) -> int:
        return sum(spot.count for spot in self.blind_spots if spot.kind is kind)

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


_ORIGINS = frozenset(SeedOrigin)


class _Header(msgspec.Struct):
    schema: int


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
