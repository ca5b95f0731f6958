"""Merging recordings: steps, repeated runs, ranks.

What becomes of each field of a record is said once: in which fields records must agree to be one, and how the others
are joined. A field of which nothing is said fails when this module is loaded; none turns into its default.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar, get_origin

import msgspec
from msgspec.structs import replace

from tracer.errors import TraceError
from tracer.trace.file import Trace
from tracer.trace.records import (
    Allocation,
    ArmTrials,
    BlindSpot,
    CallGroup,
    Draw,
    Environment,
    Event,
    Generator,
    Kernel,
    Loader,
    MachineNumber,
    OverlapWrite,
    Region,
    Tried,
    UnwrittenRead,
)

Record = TypeVar("Record", bound=msgspec.Struct)
Key = TypeVar("Key")
#: What becomes of a field: from two records, the first one seen first, and the field's name.
Way = Callable[[Any, Any, str], Any]

#: What merging added to a region's id.
_NUMBERED = re.compile(r" \(\d+\)$")
_PLACE = "location function called_from"


def _first(one: Any, other: Any, name: str) -> Any:
    return getattr(one, name)


def _added(one: Any, other: Any, name: str) -> Any:
    return getattr(one, name) + getattr(other, name)


def _largest(one: Any, other: Any, name: str) -> Any:
    return max(getattr(one, name), getattr(other, name))


def _if_equal(one: Any, other: Any, name: str) -> str:
    """A text on which both agree."""
    text: str = getattr(one, name)
    return text if text == getattr(other, name) else ""


def _any_holds(one: Any, other: Any, name: str) -> bool | None:
    """True where one of them says so; else ``None``, not known, where one of them does."""
    both = (getattr(one, name), getattr(other, name))
    return True if True in both else None if None in both else False


def _all_hold(one: Any, other: Any, name: str) -> bool:
    return bool(getattr(one, name) and getattr(other, name))


def _summed(one: Any, other: Any, name: str) -> Any:
    more = getattr(other, name)
    return summed(getattr(one, name), more) if more else getattr(one, name)


def _tried_after(count: str) -> Way:
    """Trials of two groups, where the first one has so many calls."""

    def tried(one: Any, other: Any, name: str) -> Any:
        if one.tried is None or other.tried is None:
            return one.tried or other.tried
        return joined(one.tried, other.tried, getattr(one, count))

    return tried


def _arms(one: Tried, other: Tried, name: str) -> dict[Any, ArmTrials]:
    met = {arm: join(one.arms[arm], other.arms[arm]) for arm in one.arms if arm in other.arms}
    return {**one.arms, **other.arms, **met}


def _values_differ(one: Event, other: Event, name: str) -> bool:
    return one.values_differ or other.values_differ or one.value != other.value


class _Merging:
    """How records of one type become one."""

    def __init__(self, record: type[msgspec.Struct], same: str, ways: Mapping[str, Way]) -> None:
        """``same``: the fields in which they agree."""
        names = same.split()
        if unsaid := set(record.__struct_fields__) ^ {*names, *ways} or set(names) & ways.keys():
            raise TypeError(f"what merging does to {record.__name__}.{', '.join(sorted(unsaid))} is not said once")
        kinds = {field.name: field.type for field in msgspec.structs.fields(record)}
        mappings = [name for name in names if get_origin(kinds[name]) is dict]
        plain = [name for name in names if name not in mappings]
        self.ways = ways
        self._plain = operator.attrgetter(*plain) if plain else None
        self._mappings = [operator.attrgetter(name) for name in mappings]

    def key(self, record: Any) -> tuple[object, ...]:
        """What records that are one agree in."""
        items = [sorted(get(record).items()) for get in self._mappings]
        # True == 1 in Python, so a fact's type is part of what it says.
        facts = [(name, type(value), value) for pairs in items for name, value in pairs]
        return (self._plain(record) if self._plain is not None else None, *facts)


_MERGINGS: dict[type[msgspec.Struct], _Merging] = {}


def declare(record: type[msgspec.Struct], same: str, **ways: Way) -> None:
    """Say of each field of ``record`` how it is merged; ``TypeError`` for one that is left out, or said twice."""
    _MERGINGS[record] = _Merging(record, same, ways)


declare(
    CallGroup,
    f"op phase module {_PLACE} node forward_unknown host region kernels facts",
    count=_added,
    given=_first,
    inputs=_first,
    tried=_tried_after("count"),
    data=_summed,
)
declare(BlindSpot, "kind detail location", count=_added)
declare(
    Event,
    "kind name before location called_from phase while_recording parts_phases after_calls is_followed after_draws",
    value=_first,
    values_differ=_values_differ,
    function=_first,
    first=_first,
    last=_first,
    count=_added,
)
declare(Generator, "name origin seeded_at", before=_if_equal, after=_if_equal, drew=_any_holds)
declare(Draw, f"generator op phase module {_PLACE} origin seeded_at", count=_added)
declare(MachineNumber, f"source use what {_PLACE} phase by_library", count=_added)
declare(Allocation, f"op phase module {_PLACE}", count=_added, bytes=_added, unfollowed=_added)
declare(UnwrittenRead, f"op phase module {_PLACE} allocated_by allocated_at allocated_from", count=_added)
declare(OverlapWrite, f"op kind phase module {_PLACE} device", count=_added)
declare(
    Loader,
    f"{_PLACE} workers has_worker_init shuffles sampler has_generator origin seeded_at workers_origin workers_seeded_at"
    " workers_have_generator in_order persistent_workers start_method epoch_set worker_draws workers_seen",
    iterations=_added,
)
declare(
    Kernel,
    "name",
    **dict.fromkeys(("language", "device", "calls", "ops", "original_ops", "lines", "choice"), _first),
    is_matched=_all_hold,
    atomic=_any_holds,
    is_parallel=_any_holds,
    keeps_apart=_all_hold,
    by_stopwatch=_any_holds,
)
declare(
    Region,
    f"id kind {_PLACE} backend device direction mode dynamic fullgraph options deterministic_mode origin"
    " uses_cuda_graphs by_compiled_autograd guard inside why ops kernels",
    executions=_added,
    recompiles=_first,
    tried=_tried_after("executions"),
)
declare(ArmTrials, "", trials=_added, varied=_added)
declare(
    Tried,
    "",
    **dict.fromkeys(("calls", "trials", "varied", "varied_calls"), _added),
    **dict.fromkeys(("distinct", "ulp", "relative", "together"), _largest),
    first=lambda one, other, name: one.first or other.first,
    arms=_arms,
    untried=_summed,
)


def join(one: Record, other: Record) -> Record:
    """Two records that are one, ``one`` having been made first."""
    ways = _MERGINGS[type(one)].ways
    return replace(one, **{name: way(one, other, name) for name, way in ways.items()})


def merged(records: Iterable[Record]) -> tuple[Record, ...]:
    """``records`` with those as one that agree in all that is not joined; the first one seen keeps its place."""
    found: dict[tuple[object, ...], Record] = {}
    for record in records:
        key = _MERGINGS[type(record)].key(record)
        known = found.get(key)
        found[key] = record if known is None else join(known, record)
    return tuple(found.values())


def joined(one: Tried, other: Tried, after: int) -> Tried:
    """Both, where ``other`` is of calls that came ``after`` so many of these."""
    return join(one, replace(other, first=after + other.first) if other.first else other)


def summed(one: Mapping[Key, int], other: Mapping[Key, int]) -> dict[Key, int]:
    """Two tallies as one."""
    return {key: one.get(key, 0) + other.get(key, 0) for key in {**one, **other}}


def _with_own_ids(traces: Sequence[Trace]) -> list[Trace]:
    """``traces`` with ids of regions that are one only where the regions are alike.

    Two processes number what they compile alike, whatever it is.
    """
    known: dict[str, tuple[object, ...]] = {}
    renamed = []
    for trace in traces:
        ids = {region.id: _id_among(known, region) for region in trace.regions}
        if any(old != new for old, new in ids.items()):
            trace = replace(
                trace,
                calls=tuple(
                    replace(group, region=ids.get(group.region, group.region)) if group.region else group
                    for group in trace.calls
                ),
                regions=tuple(
                    replace(region, id=ids[region.id], recompiles=ids.get(region.recompiles, region.recompiles))
                    for region in trace.regions
                ),
            )
        renamed.append(trace)
    return renamed


def _id_among(known: dict[str, tuple[object, ...]], region: Region) -> str:
    """The id under which ``known`` has a region alike in all but how often it ran, else one that was free."""
    base, number = _NUMBERED.sub("", region.id), 1
    name = base
    while known.setdefault(name, key := _MERGINGS[Region].key(replace(region, id=name))) != key:
        number += 1
        name = f"{base} ({number})"
    return name


def _differing(traces: Sequence[Trace]) -> tuple[str, ...]:
    """What was named before, and the fields in which an environment is not the first one's."""
    first, *others = (trace.environment for trace in traces)
    named = (name for trace in traces for name in trace.differing_settings)
    fields = (
        name
        for name in Environment.__struct_fields__
        if any(getattr(other, name) != getattr(first, name) for other in others)
    )
    return tuple(dict.fromkeys((*named, *fields)))


def _records(name: str) -> Callable[[Sequence[Trace]], Any]:
    return lambda traces: merged(record for trace in traces for record in getattr(trace, name))


#: What becomes of each field of several traces.
WHOLE: Mapping[str, Callable[[Sequence[Trace]], Any]] = {
    "schema": lambda traces: min(trace.schema for trace in traces),
    "tracer_version": lambda traces: traces[0].tracer_version,
    "environment": lambda traces: traces[0].environment,
    # Which of several files of inputs a name speaks of cannot be told any more.
    "calls": lambda traces: tuple(
        replace(group, inputs="") if group.inputs else group for group in _records("calls")(traces)
    ),
    "sources": lambda traces: tuple(source for trace in traces for source in trace.sources),
    "differing_settings": _differing,
    "watched_from_start": lambda traces: all(trace.watched_from_start for trace in traces),
    "source_lines": lambda traces: {
        place: text for trace in reversed(traces) for place, text in trace.source_lines.items()
    },
    **{
        name: _records(name)
        for name in (
            *("blind_spots", "events", "generators", "host_draws", "allocations", "unwritten_reads", "overlaps"),
            *("loaders", "machine_numbers", "regions", "launched"),
        )
    },
}
if WHOLE.keys() != set(Trace.__struct_fields__):
    raise TypeError(f"what merging does to {WHOLE.keys() ^ set(Trace.__struct_fields__)} of a trace is not said")


def merge_traces(traces: Sequence[Trace]) -> Trace:
    """One trace whose counts are the sums; settings that differ are named, and the first recording's stand.

    Raises ``TraceError`` for an empty sequence.
    """
    if not traces:
        raise TraceError("there is no trace to merge", hint="name at least one")
    if len(traces) == 1:
        return traces[0]
    renamed = _with_own_ids(traces)
    return Trace(**{name: way(renamed) for name, way in WHOLE.items()})
