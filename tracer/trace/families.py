"""The traces of one program's processes: that of the first one, and those of the children that it names."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Container, Iterable, Sequence

from msgspec.structs import replace

from tracer.names import BlindSpotKind, ChildState, StartedBy
from tracer.trace.decoded_once import trace_reader
from tracer.trace.file import Trace, load_trace
from tracer.trace.paths import child_path
from tracer.trace.records import Child


def load_family(
    path: str | os.PathLike[str], load: Callable[[str | os.PathLike[str]], Trace] = load_trace
) -> tuple[Trace, ...]:
    """The trace ``path`` and those of its children that lie beside it, with processes that trained first.

    A process that was recorded, or made no call, is no blind spot of its parent's any more. Raises ``TraceError`` in
    one line.
    """
    return family_of(load(path), path, load)


def family_of(
    first: Trace, path: str | os.PathLike[str], load: Callable[[str | os.PathLike[str]], Trace] = load_trace
) -> tuple[Trace, ...]:
    """``load_family`` for a ``first`` trace that is at hand; those of its children lie beside ``path``."""
    beside = {child.role: child_path(path, child.role) for child in first.children if child.count == 1}
    traces = {"": first} | {role: load(file) for role, file in beside.items() if file.is_file()}
    children = tuple(_met_again(child, traces.keys()) for child in first.children)
    traces[""] = replace(first, children=children)
    family = [_without_followed(trace, role, children, traces.keys()) for role, trace in traces.items()]
    return tuple(sorted(family, key=lambda trace: not any(source.steps for source in trace.sources)))


def _met_again(child: Child, loaded: Container[str]) -> Child:
    """``child``, as recorded if it ran on when its first process ended and has left a trace since."""
    has_trace = child.count == 1 and child.role in loaded
    return replace(child, state=ChildState.RECORDED) if has_trace else child


def load_families(paths: Iterable[str | os.PathLike[str]]) -> tuple[Trace, ...]:
    """The traces at ``paths`` with their children, each child once: ``trace*.json`` names the children too."""
    loaded: list[Trace] = []
    of_others: set[str] = set()
    in_order = sorted(paths, key=lambda path: ".child-" in os.path.basename(path))
    load = trace_reader() if len(in_order) > 1 else load_trace
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
        is_here = child.is_followed and (child.state is not ChildState.RECORDED or child.role in loaded)
        if _noted_by(child, loaded) == role and is_here and child.started_by is not StartedBy.LOADER:
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


def _noted_by(child: Child, loaded: Container[str]) -> str:
    """The role whose trace says that ``child`` was started: its parent's, a fork server's parent's."""
    role = child.parent
    while role not in loaded:
        role = role.rpartition(".")[0]
    return role
