"""Two runs of a program and its child processes: processes paired by role, and where the runs diverge over all."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path

import msgspec

from tracer.divergence.causes import RootCause, Shows
from tracer.divergence.end_states import kept_otherwise
from tracer.divergence.model import Divergence, Outputs, Root
from tracer.divergence.pool_tasks import paired_parts, parts_of
from tracer.divergence.process_pairs import paired_roles, siblings
from tracer.divergence.reasons import of_processes, of_tables
from tracer.divergence.recordings import Family, Recording, has_values, read_recording
from tracer.names import ChildState, StartedBy
from tracer.trace.families import load_family
from tracer.trace.paths import child_path, values_path
from tracer.trace.records import Child
from tracer.trace.values import read_values

#: Causes that lie in what a process took over, and how likely from another one: that one then has a lesser one.
_RECEIVED = {
    RootCause.ARGUMENT: 1,
    RootCause.INITIAL_STATE: 2,
    RootCause.INPUT_DATA: 2,
    RootCause.OUTSIDE_CHANGE: 2,
    RootCause.COLLECTIVE: 3,
}


def read_family(path: str | os.PathLike[str]) -> dict[str, Recording]:
    """The recording at ``path`` and those of its children beside it. Raises ``TraceError`` in one line."""
    first = read_recording(path)
    if first.trace is None or not first.trace.children:
        return {"": first}
    traces = {trace.sources[0].child: trace for trace in load_family(path)}
    of_itself = first.trace.sources[0].child if first.trace.sources else ""  # a child may have started processes too
    family = {"": msgspec.structs.replace(first, trace=traces.get(of_itself, first.trace))}
    for child in first.trace.children:
        beside = child_path(Path(path), child.role)
        if has_values(beside):
            name = f"{first.name}, child {child.role}"
            family[child.role] = Recording(
                name=name, values=read_values(values_path(beside)), trace=traces.get(child.role)
            )
    return family


def compare_families(
    first: Family, second: Family, compare: Callable[[Recording, Recording], Divergence]
) -> Divergence:
    """Return where two runs diverge, over all processes that both have; ``compare`` holds one against its own."""
    held = cache(lambda role, other: compare(first[role], second[other]))
    parts = [parts_of(family) for family in (first, second)]
    workers = {name.partition(",")[0] for side in parts for several in side.values() for name, _ in several}
    tasks, are_alike = paired_parts(parts[0], parts[1])
    ours, theirs = (
        siblings([role for role in family if role not in workers], children_of(family)) for family in (first, second)
    )
    roles, unpaired = paired_roles(ours, theirs, lambda role, other: float(held(role, other).differs))
    whole = held("", "")
    if not roles and not unpaired and not tasks and are_alike:
        return _without_effect(whole)
    compared = {"": whole} | {role: held(role, other) for role, other in roles.items()}
    compared |= {name: compare(of_first, of_second) for name, of_first, of_second in tasks}
    children = children_of(first)
    beside = {
        f"child {role}" if role else "": _with_siblings(divergence, role.partition(",")[0], children)
        for role, divergence in compared.items()
    }
    reason = "the runs started different numbers of processes" if unpaired else ""
    reason = reason or ("" if are_alike else "the workers of a pool were sent other tasks, which are not compared")
    return _without_effect(_joined(beside, reason))


def compare_jobs(
    first: Mapping[int, Path], second: Mapping[int, Path], compare: Callable[[Recording, Recording], Divergence]
) -> Divergence:
    """Return where two runs of a job diverge, over all ranks: their traces by rank. Two ranks are in memory at a time.

    Raises ``TraceError`` in one line.
    """
    both = [rank for rank in first if rank in second]
    compared = {f"rank {rank}": compare(read_recording(first[rank]), read_recording(second[rank])) for rank in both}
    return _joined(compared, "the runs had different ranks" if first.keys() != second.keys() else "")


def children_of(family: Family) -> tuple[Child, ...]:
    """Return each process that the run started: its role, its state, and how it ended."""
    trace = family[""].trace
    return () if trace is None else trace.children


def _with_siblings(divergence: Divergence, role: str, children: Sequence[Child]) -> Divergence:
    """``divergence`` of ``role``; roots that other processes may explain have the lines that started those."""
    started = [
        child.called_from or child.location
        for child in children
        if child.role != role
        and child.started_by is not StartedBy.LOADER
        and (child.calls or child.state is ChildState.RECORDED)
    ]
    places = tuple(dict.fromkeys(filter(None, started)))
    if not places:
        return divergence
    return msgspec.structs.replace(divergence, roots=tuple(_beside(root, places) for root in divergence.roots))


def _beside(root: Root, places: tuple[str, ...]) -> Root:
    """``root`` with the lines that started other processes, if one of them may have written what differs.

    Memory that both have may be written between a digest and the call, and between two replays: against the tables no
    kernel is blamed then.
    """
    if root.contradicts:
        root = msgspec.structs.replace(root, cause=RootCause.UNKNOWN, shows=Shows.THREADS, contradicts=False)
        root = msgspec.structs.replace(root, why=Shows.THREADS.says + of_tables(root))
    is_written = root.shows is not None and root.shows.is_against_tables
    if not (is_written or root.cause in (RootCause.INITIAL_STATE, RootCause.OUTSIDE_CHANGE)):
        return root
    return msgspec.structs.replace(root, why=root.why + of_processes(places))


def _joined(compared: Mapping[str, Divergence], reason: str) -> Divergence:
    """One answer for all processes, by their names: the roots of those that diverge by themselves, if there are any.

    ``reason``: why not all have a counterpart.
    """
    of_process = [
        tuple(msgspec.structs.replace(root, process=process) for root in divergence.roots)
        for process, divergence in compared.items()
    ]
    differing = [roots for roots in of_process if roots]
    received = [min(map(_received_by, roots)) for roots in differing]
    least = min(received, default=0)
    causing = [roots for roots, how in zip(differing, received, strict=True) if how == least]
    causing = causing if least == 0 else causing[:1]
    roots = tuple(_each_once(sorted((root for roots in causing for root in roots), key=_order)))
    shown = compared[roots[0].process] if roots else next(iter(compared.values()))
    every = compared.values()
    sums = {
        name: sum(getattr(divergence, name) for divergence in every)
        for name in ("calls_compared", "reordered", "states_compared", "not_digested")
    }
    partial: Sequence[str] = [next((side.partial[at] for side in every if side.partial[at]), reason) for at in (0, 1)]
    return msgspec.structs.replace(
        shown,
        agrees=all(divergence.agrees for divergence in every),
        reaches_nothing=all(divergence.agrees or divergence.reaches_nothing for divergence in every),
        **sums,
        calls=(sum(side.calls[0] for side in every), sum(side.calls[1] for side in every)),
        roots=roots,
        follows=sum(_differing(divergence.follows, divergence.roots) for divergence in every) - _differing(0, roots),
        ends=tuple(end for divergence in every for end in divergence.ends),
        notes=tuple(end for divergence in every for end in divergence.notes),
        is_inference=all(divergence.is_inference for divergence in every),
        outputs=Outputs(
            returned=sum(divergence.outputs.returned for divergence in every),
            printed=sum(divergence.outputs.printed for divergence in every),
            files=sum(divergence.outputs.files for divergence in every),
        ),
        ends_compared=0 if any(partial) else sum(divergence.ends_compared for divergence in every),
        partial=(partial[0], partial[1]),
    )


#: Causes that lie in what a program does besides training. A kernel, unwritten memory and what is not known stay roots.
_HARMLESS = frozenset(
    {
        *(RootCause.DRAW, RootCause.INPUT_DATA, RootCause.ARGUMENT, RootCause.STRUCTURE, RootCause.THREAD_ORDER),
        *(RootCause.INITIAL_STATE, RootCause.OUTSIDE_CHANGE),
    }
)


def _without_effect(divergence: Divergence) -> Divergence:
    """Runs agree whose differences reach nothing that trains, if what the runs leave agrees."""
    is_open = any(divergence.partial) or divergence.not_digested
    ends = divergence.ends if divergence.is_inference else kept_otherwise(divergence.ends)
    left_alike = divergence.states_compared and not ends and not divergence.notes and not is_open
    is_harmless = all(root.cause in _HARMLESS for root in divergence.roots)
    if not (divergence.reaches_nothing and left_alike and is_harmless):
        return divergence
    return msgspec.structs.replace(
        divergence, agrees=True, roots=(), follows=0, ends=(), without_effect=divergence.roots
    )


def _each_once(roots: Iterable[Root]) -> list[Root]:
    """Roots at one line with one cause, once: of the process that comes first, with how often it shows in others."""
    by_place: dict[tuple[str, ...], Root] = {}
    for root in roots:
        place = (*root.key, root.location, root.called_from, root.name)
        first = by_place.get(place)
        if first is not None:
            root = msgspec.structs.replace(
                first, same_cause=first.same_cause + 1 + root.same_cause, follows=first.follows + root.follows
            )
        by_place[place] = root
    return list(by_place.values())


def _received_by(root: Root) -> int:
    """Return how likely what differs came from another process; 0 if it did not."""
    return _RECEIVED.get(root.cause, 0)


def _differing(follows: int, roots: Iterable[Root]) -> int:
    """Return the number of calls that differ: the roots, those of the same causes, and those that follow."""
    return follows + sum(root.same_cause + 1 for root in roots)


def _order(root: Root) -> tuple[object, ...]:
    """By step; of one step those that no other process explains first."""
    return root.step, _received_by(root), bool(root.process), root.call
