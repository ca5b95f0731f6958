"""Merging recordings: steps, repeated runs, ranks."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

import msgspec

from tracer.errors import TraceError
from tracer.trace.file import Trace
from tracer.trace.model import BlindSpot, CallGroup, Environment
from tracer.trace.process import Allocation, Draw, Event, Generator, Loader, MachineNumber, OverlapWrite, UnwrittenRead
from tracer.trace.regions import Kernel, Region
from tracer.trace.tried import Tried, summed

Counted = TypeVar("Counted", Draw, Allocation, UnwrittenRead, OverlapWrite, Loader, MachineNumber)

#: Fields that are added up where everything else agrees.
_SUMS = ("count", "bytes", "unfollowed", "iterations")

#: What merging added to a region's id.
_NUMBERED = re.compile(r" \(\d+\)$")


def merge_groups(groups: Iterable[CallGroup]) -> tuple[CallGroup, ...]:
    """Join groups that agree in everything but their count; the first one seen keeps its place."""
    merged: dict[tuple[object, ...], CallGroup] = {}
    for group in groups:
        key = (
            group.op,
            group.phase,
            group.module,
            group.location,
            group.function,
            group.called_from,
            group.node,
            group.forward_unknown,
            group.host,
            group.region,
            group.kernels,
            tuple(sorted(group.facts.items())),
            # True == 1 in Python, so a fact's type is part of what it says.
            tuple(type(value) for _, value in sorted(group.facts.items())),
        )
        known = merged.get(key)
        merged[key] = group if known is None else _joined(known, group)
    return tuple(merged.values())


def _joined(one: CallGroup, other: CallGroup) -> CallGroup:
    """Two groups of the same calls, ``one`` having been made first."""
    tried = _tried_of(one.tried, other.tried, one.count)
    return msgspec.structs.replace(
        one, count=one.count + other.count, tried=tried, data=summed(one.data, other.data) if other.data else one.data
    )


def _tried_of(one: Tried | None, other: Tried | None, after: int) -> Tried | None:
    return one or other if one is None or other is None else one.joined(other, after)


def _without_inputs(group: CallGroup) -> CallGroup:
    return msgspec.structs.replace(group, inputs="") if group.inputs else group


def merge_blind_spots(spots: Iterable[BlindSpot]) -> tuple[BlindSpot, ...]:
    """Join blind spots that agree in everything but their count."""
    merged: dict[tuple[object, ...], BlindSpot] = {}
    for spot in spots:
        key = (spot.kind, spot.detail, spot.location)
        known = merged.get(key)
        merged[key] = spot if known is None else msgspec.structs.replace(known, count=known.count + spot.count)
    return tuple(merged.values())


def merge_counted(records: Iterable[Counted]) -> tuple[Counted, ...]:
    """Join records that agree in everything but what they count; the first one seen keeps its place."""
    merged: dict[tuple[object, ...], Counted] = {}
    for record in records:
        fields = record.__struct_fields__
        key = tuple(getattr(record, name) for name in fields if name not in _SUMS)
        known = merged.get(key)
        if known is None:
            merged[key] = record
            continue
        sums = {name: getattr(known, name) + getattr(record, name) for name in fields if name in _SUMS}
        merged[key] = msgspec.structs.replace(known, **sums)
    return tuple(merged.values())


def _merge_events(events: Iterable[Event]) -> tuple[Event, ...]:
    """Events of several processes: alike in all but when and how often, they are one; the earliest positions stand."""
    merged: dict[tuple[object, ...], Event] = {}
    for event in events:
        key = (event.kind, event.name, event.before, event.location, event.called_from, event.phase)
        known = merged.get(key)
        if known is not None:
            event = msgspec.structs.replace(
                known,
                count=known.count + event.count,
                values_differ=known.values_differ or event.values_differ or known.value != event.value,
            )
        merged[key] = event
    return tuple(merged.values())


def _merge_generators(generators: Iterable[Generator]) -> tuple[Generator, ...]:
    """A generator a name and origin; digests of several processes that differ are left out."""
    merged: dict[tuple[object, ...], Generator] = {}
    for generator in generators:
        key = (generator.name, generator.origin, generator.seeded_at)
        known = merged.get(key)
        if known is not None:
            drew = (known.drew, generator.drew)
            generator = msgspec.structs.replace(
                known,
                before=known.before if known.before == generator.before else "",
                after=known.after if known.after == generator.after else "",
                drew=True if True in drew else None if None in drew else False,
            )
        merged[key] = generator
    return tuple(merged.values())


def _merge_kernels(kernels: Iterable[Kernel]) -> tuple[Kernel, ...]:
    return tuple({kernel.name: kernel for kernel in kernels}.values())


def merge_regions(traces: Sequence[Trace]) -> tuple[tuple[Region, ...], list[Trace]]:
    """The regions of all traces, alike ones as one, and the traces with the ids that their regions bear there.

    Two processes number what they compile alike, whatever it is.
    """
    merged: dict[str, Region] = {}
    renamed = []
    for trace in traces:
        ids = {region.id: _place_for(region, merged) for region in trace.regions}
        for region in trace.regions:
            known = merged.get(ids[region.id])
            merged[ids[region.id]] = msgspec.structs.replace(
                region,
                id=ids[region.id],
                recompiles=ids.get(region.recompiles, region.recompiles),
                executions=region.executions + (known.executions if known is not None else 0),
                tried=region.tried if known is None else _tried_of(known.tried, region.tried, known.executions),
            )
        groups = trace.calls
        if any(old != new for old, new in ids.items()):
            groups = tuple(
                msgspec.structs.replace(group, region=ids.get(group.region, group.region)) if group.region else group
                for group in groups
            )
        renamed.append(msgspec.structs.replace(trace, calls=groups))
    return tuple(merged.values()), renamed


def _place_for(region: Region, merged: Mapping[str, Region]) -> str:
    """The id under which ``merged`` holds a region alike in all but how often it ran, else one that is free."""
    base, number = _NUMBERED.sub("", region.id), 1
    name = base
    while name in merged:
        known = merged[name]
        if _as_made(known) == _as_made(region):
            break
        number += 1
        name = f"{base} ({number})"
    return name


def _as_made(region: Region) -> Region:
    """Without what its executions came to."""
    return msgspec.structs.replace(region, id="", executions=0, recompiles="", tried=None)


def merge_traces(traces: Sequence[Trace]) -> Trace:
    """One trace whose counts are the sums; settings that differ are named, and the first recording's stand.

    Raises ``TraceError`` for an empty sequence.
    """
    if not traces:
        raise TraceError("there is no trace to merge", hint="name at least one")
    first = traces[0]
    if len(traces) == 1:
        return first
    regions, traces = merge_regions(traces)
    differing = dict.fromkeys(name for trace in traces for name in trace.differing_settings)
    for name in Environment.__struct_fields__:
        value = getattr(first.environment, name)
        if any(getattr(trace.environment, name) != value for trace in traces[1:]):
            differing[name] = None
    return Trace(
        schema=min(trace.schema for trace in traces),
        tracer_version=first.tracer_version,
        environment=first.environment,
        # Which of several files of inputs a name speaks of cannot be told any more.
        calls=merge_groups(_without_inputs(group) for trace in traces for group in trace.calls),
        blind_spots=merge_blind_spots(spot for trace in traces for spot in trace.blind_spots),
        sources=tuple(source for trace in traces for source in trace.sources),
        differing_settings=tuple(differing),
        watched_from_start=all(trace.watched_from_start for trace in traces),
        events=_merge_events(event for trace in traces for event in trace.events),
        generators=_merge_generators(generator for trace in traces for generator in trace.generators),
        host_draws=merge_counted(draw for trace in traces for draw in trace.host_draws),
        allocations=merge_counted(allocation for trace in traces for allocation in trace.allocations),
        unwritten_reads=merge_counted(read for trace in traces for read in trace.unwritten_reads),
        overlaps=merge_counted(write for trace in traces for write in trace.overlaps),
        machine_numbers=merge_counted(number for trace in traces for number in trace.machine_numbers),
        loaders=merge_counted(loader for trace in traces for loader in trace.loaders),
        regions=regions,
        launched=_merge_kernels(kernel for trace in traces for kernel in trace.launched),
        source_lines={place: text for trace in reversed(traces) for place, text in trace.source_lines.items()},
    )
