"""Merging recordings: steps, repeated runs, ranks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from tracer.errors import TraceError
from tracer.trace.model import BlindSpot, CallGroup, Environment, Trace


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
            tuple(sorted(group.facts.items())),
            # True == 1 in Python, so a fact's type is part of what it says.
            tuple(type(value) for _, value in sorted(group.facts.items())),
        )
        known = merged.get(key)
        merged[key] = group if known is None else msgspec.structs.replace(known, count=known.count + group.count)
    return tuple(merged.values())


def merge_blind_spots(spots: Iterable[BlindSpot]) -> tuple[BlindSpot, ...]:
    """Join blind spots that agree in everything but their count."""
    merged: dict[tuple[object, ...], BlindSpot] = {}
    for spot in spots:
        key = (spot.kind, spot.detail, spot.location)
        known = merged.get(key)
        merged[key] = spot if known is None else msgspec.structs.replace(known, count=known.count + spot.count)
    return tuple(merged.values())


def merge_traces(traces: Sequence[Trace]) -> Trace:
    """One trace whose counts are the sums; settings that differ are named, and the first recording's stand.

    Raises ``TraceError`` for an empty sequence.
    """
    if not traces:
        raise TraceError("there is no trace to merge", hint="name at least one")
    first = traces[0]
    if len(traces) == 1:
        return first
    differing = dict.fromkeys(name for trace in traces for name in trace.differing_settings)
    for name in Environment.__struct_fields__:
        value = getattr(first.environment, name)
        if any(getattr(trace.environment, name) != value for trace in traces[1:]):
            differing[name] = None
    return Trace(
        tracer_version=first.tracer_version,
        environment=first.environment,
        calls=merge_groups(group for trace in traces for group in trace.calls),
        blind_spots=merge_blind_spots(spot for trace in traces for spot in trace.blind_spots),
        sources=tuple(source for trace in traces for source in trace.sources),
        differing_settings=tuple(differing),
    )
