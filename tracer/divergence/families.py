"""Two runs of a program and its child processes: processes paired by role, and where the runs diverge over all."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from tracer.divergence.causes import RootCause, Shows
from tracer.divergence.comparing import kept_otherwise
from tracer.divergence.model import Divergence, Family, Outputs, Recording, Root, has_values, read_recording
from tracer.divergence.roots import of_tables
from tracer.names import ChildState, StartedBy
from tracer.trace.file import LOWEST_SHARED, child_path, files_of_children, load_family, role_of, values_path
from tracer.trace.records import Child
from tracer.trace.values import ValueKind, Values, read_values

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
    traces = {role_of(trace): trace for trace in load_family(path)}
    # A child may have started processes too.
    family = {"": replace(first, trace=traces.get(role_of(first.trace), first.trace))}
    for role in _roles_beside(Path(path), first.trace.children):
        beside = child_path(Path(path), role)
        if has_values(beside):
            name = f"{first.name}, child {role}"
            family[role] = Recording(name=name, values=read_values(values_path(beside)), trace=traces.get(role))
    return family


def _roles_beside(path: Path, children: Sequence[Child]) -> list[str]:
    """The roles of ``children``; of some that were counted together, those of all that left something."""
    left = (each.stem.rpartition(".child-")[2] for each in files_of_children(path) if each.suffix == ".values")
    are_counted = any(child.count > 1 for child in children)
    return list(dict.fromkeys((*(child.role for child in children), *(sorted(left) if are_counted else ()))))


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
    """Return where two runs of a job diverge, over all ranks: their traces by rank, two in memory at a time."""
    both = [rank for rank in first if rank in second]
    compared = {f"rank {rank}": compare(read_recording(first[rank]), read_recording(second[rank])) for rank in both}
    return _joined(compared, "the runs had different ranks" if first.keys() != second.keys() else "")


def children_of(family: Family) -> tuple[Child, ...]:
    """Return each process that the run started: its role, its state, and how it ended."""
    trace = family[""].trace
    return () if trace is None else trace.children


def _with_siblings(divergence: Divergence, role: str, children: Sequence[Child]) -> Divergence:
    """``divergence`` of ``role``; roots that other processes may explain have the lines that started those."""
    others = (child for child in children if child.role != role and child.started_by is not StartedBy.LOADER)
    started = (child for child in others if child.calls or child.state is ChildState.RECORDED)
    places = " and ".join([*filter(None, dict.fromkeys(child.called_from or child.location for child in started))][:2])
    roots = []
    for root in divergence.roots if places else ():
        # Memory that both have may be written between a digest and the call, and between two replays: against the
        # tables no kernel is blamed then.
        if root.contradicts:
            root = replace(root, cause=RootCause.UNKNOWN, shows=Shows.THREADS, contradicts=False)
            root = replace(root, why=Shows.THREADS.says + of_tables(root))
        is_written = root.shows is not None and root.shows.is_against_tables
        if is_written or root.cause in (RootCause.INITIAL_STATE, RootCause.OUTSIDE_CHANGE):
            beside = f"; processes that were started at {places} compute beside it, and may share this memory"
            root = replace(root, why=root.why + beside)
        roots.append(root)
    return replace(divergence, roots=tuple(roots)) if places else divergence


def _joined(compared: Mapping[str, Divergence], reason: str) -> Divergence:
    """One answer for all processes: roots of those that diverge by themselves. ``reason``: why not all are paired."""
    by_source = defaultdict[int, list[list[Root]]](list)
    for process, divergence in compared.items():
        if divergence.roots:
            received = min(_RECEIVED.get(root.cause, 0) for root in divergence.roots)
            by_source[received].append([replace(root, process=process) for root in divergence.roots])
    least = min(by_source, default=0)
    causing = by_source[least] if least == 0 else by_source[least][:1]
    roots = tuple(_each_once(root for roots in causing for root in roots))
    shown = compared[roots[0].process] if roots else next(iter(compared.values()))
    every = list(compared.values())
    partial: Sequence[str] = [next((side.partial[at] for side in every if side.partial[at]), reason) for at in (0, 1)]
    numbers = ("calls_compared", "reordered", "states_compared", "not_digested", "calls", "only")
    return replace(
        shown,
        agrees=all(divergence.agrees for divergence in every),
        reaches_nothing=all(divergence.agrees or divergence.reaches_nothing for divergence in every),
        has_optimizer=any(divergence.has_optimizer for divergence in every),
        **summed(every, *numbers),
        roots=roots,
        follows=sum(_differing(divergence.follows, divergence.roots) for divergence in every) - _differing(0, roots),
        ends=tuple(end for divergence in every for end in divergence.ends),
        notes=tuple(end for divergence in every for end in divergence.notes),
        is_inference=all(divergence.is_inference for divergence in every),
        outputs=Outputs(**summed([divergence.outputs for divergence in every], *Outputs.__struct_fields__)),
        ends_compared=0 if any(partial) else sum(divergence.ends_compared for divergence in every),
        partial=(partial[0], partial[1]),
    )


def summed(records: Sequence[object], *names: str) -> dict[str, Any]:
    """The sums of these fields, which are numbers or pairs of them."""
    sums: dict[str, Any] = {}
    for name in names:
        values = [getattr(record, name) for record in records]
        is_pair = isinstance(values[0], tuple)
        sums[name] = tuple(map(sum, zip(*values, strict=True))) if is_pair else sum(values)
    return sums


#: Causes that lie in what a program does besides training. A kernel, unwritten memory and what is not known stay roots.
_HARMLESS = frozenset(
    {
        *(RootCause.DRAW, RootCause.INPUT_DATA, RootCause.ARGUMENT, RootCause.STRUCTURE, RootCause.THREAD_ORDER),
        *(RootCause.INITIAL_STATE, RootCause.OUTSIDE_CHANGE),
    }
)


def _without_effect(divergence: Divergence) -> Divergence:
    """Runs agree whose differences reach nothing that trains, if what the runs leave agrees; what one of them alone
    computed it may have written into a file that the other found."""
    is_open = any(divergence.partial) or divergence.not_digested
    ends = divergence.ends if divergence.is_inference else kept_otherwise(divergence.ends)
    is_computed_alone = all(root.cause is RootCause.STRUCTURE and not root.follows for root in divergence.roots)
    notes_agree = all(note.only_one and is_computed_alone for note in divergence.notes)
    left_alike = divergence.states_compared and not ends and notes_agree and not is_open
    is_harmless = all(root.cause in _HARMLESS for root in divergence.roots)
    if not (divergence.reaches_nothing and left_alike and is_harmless):
        return divergence
    return replace(divergence, agrees=True, roots=(), follows=0, ends=(), without_effect=divergence.roots)


def _each_once(roots: Iterable[Root]) -> Iterable[Root]:
    """Roots in order, those of one line and cause once: of the first process, with how often it shows in others."""

    def order(root: Root) -> tuple[object, ...]:
        return root.step, _RECEIVED.get(root.cause, 0), bool(root.process), root.call

    by_place: dict[tuple[str, ...], Root] = {}
    for root in sorted(roots, key=order):
        place = (*root.key, root.location, root.called_from, root.name)
        if (first := by_place.setdefault(place, root)) is not root:
            count, follows = first.same_cause + 1 + root.same_cause, first.follows + root.follows
            by_place[place] = replace(first, same_cause=count, follows=follows)
    return by_place.values()


def _differing(follows: int, roots: Iterable[Root]) -> int:
    """The number of calls that differ: the roots, those of the same causes, and those that follow."""
    return follows + sum(root.same_cause + 1 for root in roots)


# --- which processes of two runs correspond ----------------------------------------------------------------

Siblings = Mapping[tuple[object, ...], Sequence[str]]
"""Roles that two runs know by the same key. Its last part: whether they come in any order, as workers of a
pool do, and those that C code starts."""


def siblings(roles: Iterable[str], children: Iterable[Child]) -> Siblings:
    """The child processes among ``roles``, by what two runs have in common; ``children`` are all of the run."""
    by_role = {child.role: child for child in children}
    keyed: dict[tuple[object, ...], list[str]] = defaultdict(list)
    for role in roles:
        if role:
            keyed[_key(role, by_role)].append(role)
    return keyed


def paired_roles(
    first: Siblings, second: Siblings, distance: Callable[[str, str], float]
) -> tuple[dict[str, str], int]:
    """Each role of the first run with its own in the second, and how many have none. ``distance`` of two roles is 0 if
    they agree: where they come in any order those are a pair, then the nearest."""
    pairs: dict[str, str] = {}
    unpaired = 0
    for key in first.keys() | second.keys():
        roles, left = list(first.get(key, ())), list(second.get(key, ()))
        unpaired += abs(len(roles) - len(left))
        for role in tuple(roles) if key[-1] else ():
            agreeing = next((other for other in left if not distance(role, other)), None)
            if agreeing is not None:
                roles.remove(role)
                left.remove(agreeing)
                pairs[role] = agreeing
        while key[-1] and roles and left:
            role, other = min(product(roles, left), key=lambda pair: distance(*pair))
            roles.remove(role)
            left.remove(other)
            pairs[role] = other
        pairs |= zip(roles, left, strict=False)
    return pairs, unpaired


def _key(role: str, children: Mapping[str, Child]) -> tuple[object, ...]:
    parts: list[object] = []
    in_any_order = False
    names = role.split(".")
    for end in range(1, len(names) + 1):
        name = ".".join(names[:end])
        if int(names[end - 1]) >= LOWEST_SHARED:
            in_any_order = True
            continue
        child = children.get(name)
        parts.append((child.location, child.started_by, child.rank) if child is not None else names[end - 1])
        shares = any(other.startswith(f"{name}.") and int(other.split(".")[end]) >= LOWEST_SHARED for other in children)
        in_any_order |= shares or (child is not None and child.started_by is StartedBy.POOL)
    return (*parts, in_any_order)


# --- what the workers of a pool did, task by task: which worker runs which task is another in each run ------

_TASK = ", task "

Parts = dict[int, list[tuple[str, Recording]]]
"""By task, the digest of what a worker was sent, each run of it: the worker's role and number of the task, from 1. 0 is
what a worker did before its first task."""


def parts_of(family: Family) -> Parts:
    """The tasks of all processes of a run that were sent some."""
    parts: Parts = defaultdict(list)
    for role, recording in family.items():
        values = recording.values
        rows = values.moments_of(ValueKind.TASK).tolist()
        tasks = [0, *values.moments.digest[rows].tolist()]
        begins = [0, *values.moments.call[rows].tolist(), len(values)]
        told = [0, *rows, len(values.moments.call)]
        for number, task in enumerate(tasks if rows else ()):
            begin, end = begins[number : number + 2]
            if number or begin < end:
                part = _part(values, begin, end, np.arange(told[number], told[number + 1]))
                if number:  # a pool ends its workers when it has what they returned
                    part = replace(part, partial="")
                part_name = f"{role}{_TASK}{number}" if number else role
                parts[task].append((part_name, replace(recording, values=part)))
    return dict(parts)


def hang_on_workers(roots: Sequence[Root]) -> bool:
    """Return whether all are draws in tasks of a pool that nothing seeded: what a worker drew before decides, and which
    worker runs which task is another in each run."""
    return bool(roots) and all(
        _TASK in root.process and root.cause is RootCause.DRAW and root.seed is None for root in roots
    )


def paired_parts(first: Parts, second: Parts) -> tuple[list[tuple[str, Recording, Recording]], bool]:
    """Each run of a task in the first run with that of the second, and whether both runs had the same tasks."""
    pairs = [
        (name, ours, theirs)
        for task, several in first.items()
        for (name, ours), (_, theirs) in zip(several, second.get(task, ()), strict=False)
    ]
    tasks = first.keys() | second.keys()
    return pairs, all(len(first.get(task, ())) == len(second.get(task, ())) for task in tasks if task)


def _part(values: Values, begin: int, end: int, told: npt.NDArray[np.int64]) -> Values:
    """The calls from ``begin`` to ``end`` as a recording of their own, with steps from 0; ``told``: its moments."""
    starts = values.origin_start[begin : end + 1]
    origins = values.origins[starts[0] : starts[-1]]
    is_inside = (origins < 0) | (origins >= begin)
    owners = np.repeat(np.arange(end - begin), np.diff(starts))[is_inside]
    counts = np.bincount(owners, minlength=end - begin)
    keeps = values.keeps[(values.keeps[:, 0] >= begin) & (values.keeps[:, 0] < end)]
    keeps = keeps[(keeps[:, 1] < 0) | (keeps[:, 1] >= begin)]
    draws = (values.draws[0] >= begin) & (values.draws[0] < end)
    moments, entries = values.moments, values.entries
    is_loss = np.array([name.kind is ValueKind.LOSS for name in values.names], np.bool_)
    told = told[(moments.call[told] < len(values)) | is_loss[moments.name[told]]]
    stepped = (values.steps[0] > begin) & (values.steps[0] < end)
    first_step = values.step_of(begin)
    entered = np.where(
        (entries.call >= begin) & (entries.call < end), entries.call.astype(np.int64) - begin, end - begin
    )
    return replace(
        values,
        **{name: getattr(values, name)[begin:end] for name in ("group", "inputs", "outputs", "numbers", "mark_bits")},
        origin_start=np.concatenate(([0], np.cumsum(counts))).astype(np.int64),
        origins=np.where(origins >= begin, origins - begin, origins)[is_inside],
        keeps=np.where(keeps >= begin, keeps - begin, keeps),
        entries=replace(entries, call=entered.astype(np.uint32)),
        draws=(values.draws[0][draws] - np.uint32(begin), values.draws[1][draws], values.draws[2][draws]),
        moments=type(moments)(
            name=moments.name[told],
            position=moments.position[told],
            digest=moments.digest[told],
            call=moments.call[told] - np.uint32(begin),
            step=moments.step[told] - first_step,
        ),
        steps=(values.steps[0][stepped] - np.uint32(begin), values.steps[1][stepped] - first_step),
        partial=values.partial if end == len(values) else "",
    )
