"""Two runs of a program and its child processes: processes paired by role, and where the runs diverge over all."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import msgspec

from tracer.divergence.causes import RootCause
from tracer.divergence.model import Divergence, Root
from tracer.divergence.recordings import Recording, has_values, read_recording
from tracer.names import StartedBy
from tracer.trace.families import load_family
from tracer.trace.paths import LOWEST_SHARED, child_path, values_path
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

Family = Mapping[str, Recording]
"""Role -> recording; the first process has an empty role."""


def read_family(path: str | os.PathLike[str]) -> dict[str, Recording]:
    """The recording at ``path`` and those of its children beside it. Raises ``TraceError`` in one line."""
    first = read_recording(path)
    if first.trace is None or not first.trace.children:
        return {"": first}
    traces = {trace.sources[0].child: trace for trace in load_family(path)}
    family = {"": msgspec.structs.replace(first, trace=traces[""])}
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
    """Where two runs diverge, over all processes that both have; ``compare`` holds one against its own."""
    whole = compare(first[""], second[""])
    compared = {"": whole}
    ours, theirs = _siblings(first), _siblings(second)
    unpaired = 0
    for key in ours.keys() | theirs.keys():
        roles, left = list(ours.get(key, ())), list(theirs.get(key, ()))
        unpaired += abs(len(roles) - len(left))
        if key[-1]:
            for role in tuple(roles):  # those that agree are a pair, then the others in order
                divergences = ((other, compare(first[role], second[other])) for other in left)
                agreeing = next((pair for pair in divergences if not pair[1].differs), None)
                if agreeing is not None:
                    roles.remove(role)
                    left.remove(agreeing[0])
                    compared[role] = agreeing[1]
        for role, other in zip(roles, left, strict=False):
            compared[role] = compare(first[role], second[other])
    if len(compared) == 1 and not unpaired:
        return whole
    return _joined(compared, unpaired)


def _siblings(family: Family) -> dict[tuple[object, ...], list[str]]:
    """Roles by what two runs have in common: who started them, at which line, how, as which rank. The last part of the
    key: do they come in any order, as workers of a pool do, and those that C code starts?"""
    first = family[""].trace
    children = {child.role: child for child in first.children} if first is not None else {}
    siblings: dict[tuple[object, ...], list[str]] = defaultdict(list)
    for role in family:
        if role:
            siblings[_key(role, children)].append(role)
    return siblings


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


def _joined(compared: Mapping[str, Divergence], unpaired: int) -> Divergence:
    """One answer for all processes: the roots of those that diverge by themselves, if there are any."""
    of_role = {
        role: tuple(msgspec.structs.replace(root, process=f"child {role}" if role else "") for root in divergence.roots)
        for role, divergence in compared.items()
    }
    differing = [roots for roots in of_role.values() if roots]
    least = min((_received(roots) for roots in differing), default=0)
    causing = [roots for roots in differing if _received(roots) == least]
    causing = causing if least == 0 else causing[:1]
    roots = tuple(sorted((root for roots in causing for root in roots), key=_order))
    shown = compared[""]
    if roots:
        shown = next(compared[role] for role, own in of_role.items() if own and roots[0] in own)
    every = compared.values()
    reason = "the runs started different numbers of processes" if unpaired else ""
    partial: Sequence[str] = [next((side.partial[at] for side in every if side.partial[at]), reason) for at in (0, 1)]
    return msgspec.structs.replace(
        shown,
        agrees=all(divergence.agrees for divergence in every),
        calls_compared=sum(divergence.calls_compared for divergence in every),
        calls=(sum(side.calls[0] for side in every), sum(side.calls[1] for side in every)),
        roots=roots,
        ends=tuple(end for divergence in every for end in divergence.ends),
        ends_compared=0 if any(partial) else sum(divergence.ends_compared for divergence in every),
        not_digested=sum(divergence.not_digested for divergence in every),
        partial=(partial[0], partial[1]),
        outside=compared[""].outside,
    )


def _received(roots: Iterable[Root]) -> int:
    """How likely what makes a process diverge came from another one; 0 if it did not."""
    return min(_RECEIVED.get(root.cause, 0) for root in roots)


def _order(root: Root) -> tuple[object, ...]:
    """By step; of one step those that no other process explains first."""
    return root.step, _RECEIVED.get(root.cause, 0), bool(root.process), root.call
