"""Merges recordings: steps, repeated runs, ranks.

Records are merged if they agree in all fields but those for which it is declared here how they are joined.
"""

from __future__ import annotations

import itertools
import operator
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, reduce
from typing import Any, TypeVar, get_origin

import msgspec
from msgspec.structs import replace

from tracer.errors import TraceError
from tracer.trace import records
from tracer.trace.file import Trace

RecordT = TypeVar("RecordT", bound=msgspec.Struct)
Key = TypeVar("Key")
#: Joins two values of a field, the earlier one first.
Join = Callable[[Any, Any], Any]

#: The suffix that merging adds to a region's id.
_NUMBERED = re.compile(r" \(\d+\)$")


def _first(first: Any, _: Any) -> Any:
    return first


def _if_equal(first: str, second: str) -> str:
    return first if first == second else ""


def _any_holds(*both: bool | None) -> bool | None:
    """``True`` if either holds; else ``None``, not known, if either is ``None``."""
    return True if True in both else None if None in both else False


def summed(first: Mapping[Key, int], second: Mapping[Key, int]) -> Mapping[Key, int]:
    """The sum of two tallies."""
    return {key: first.get(key, 0) + second.get(key, 0) for key in {**first, **second}} if second else first


def joined_trials(first: records.Tried | None, second: records.Tried | None) -> records.Tried | None:
    """The trials of both; ``None`` if neither has any."""
    return join(first, second) if first is not None and second is not None else first or second


#: How fields are joined, by record; all others must agree.
_COUNTED: Mapping[str, Join] = {"count": operator.add}
_JOINED: Mapping[type[msgspec.Struct], Mapping[str, Join]] = {
    records.CallGroup: {
        **_COUNTED,
        **dict.fromkeys(("given", "inputs"), _first),
        "tried": joined_trials,
        "data": summed,
    },
    records.Event: {
        **_COUNTED,
        **dict.fromkeys(("value", "seed", "drawn_at", "function", "first", "last"), _first),
        **dict.fromkeys(("is_drawn", "values_differ"), _any_holds),
    },
    records.Generator: {"before": _if_equal, "after": _if_equal, "drew": _any_holds},
    records.Allocation: dict.fromkeys(("count", "bytes", "unfollowed"), operator.add),
    records.RowTrial: {**_COUNTED, "relative": max},
    records.Loader: {
        "iterations": operator.add,
        "iterated_at": lambda first, more: tuple(dict.fromkeys((*first, *more))),
    },
    records.Kernel: {
        **dict.fromkeys(("language", "device", "calls", "ops", "original_ops", "choice"), _first),
        **dict.fromkeys(("atomic", "is_parallel", "by_stopwatch"), _any_holds),
    },
    records.Region: {"graph": _if_equal, "code": _if_equal, "executions": operator.add},
    records.Tried: {
        **dict.fromkeys(("calls", "trials", "varied"), operator.add),
        **dict.fromkeys(("distinct", "relative"), max),
        "first": lambda first, second: first or second,
        "untried": summed,
    },
}


@cache
def _readers(record: type[msgspec.Struct]) -> tuple[Callable[[Any], Any] | None, list[Callable[[Any], Any]]]:
    """The readers of fields that must agree: plain ones, and each mapping."""
    agreeing = [field for field in msgspec.structs.fields(record) if field.name not in _JOINED.get(record, _COUNTED)]
    mappings = [field.name for field in agreeing if get_origin(field.type) is dict]
    plain = [field.name for field in agreeing if field.name not in mappings]
    return operator.attrgetter(*plain) if plain else None, list(map(operator.attrgetter, mappings))


def key_of(record: msgspec.Struct) -> tuple[object, ...]:
    """The values that records to be merged agree in."""
    plain, mappings = _readers(type(record))
    # True == 1 in Python, so a fact's type is part of what it says.
    facts = [(name, type(value), value) for get in mappings for name, value in sorted(get(record).items())]
    return (plain(record) if plain is not None else None, *facts)


def join(first: RecordT, second: RecordT) -> RecordT:
    """Merge ``second`` into ``first``, the earlier one."""
    ways = _JOINED.get(type(first), _COUNTED)
    fields = {name: way(getattr(first, name), getattr(second, name)) for name, way in ways.items()}
    if isinstance(first, records.Event) and isinstance(second, records.Event):
        fields["values_differ"] |= first.value != second.value
    return replace(first, **fields)


def merged(records: Iterable[RecordT]) -> tuple[RecordT, ...]:
    """Merges those of ``records`` that agree in all fields that must; the first keeps its place. An object that comes
    often, as one that ranks have in common does, costs hardly more than once."""
    stream = list(records)
    times = Counter(map(id, stream))
    by_key: dict[tuple[object, ...], list[RecordT]] = {}
    for record in {id(record): record for record in stream}.values():
        by_key.setdefault(key_of(record), []).append(_multiplied(record, times[id(record)]))
    return tuple(reduce(join, alike) for alike in by_key.values())


def _multiplied(record: RecordT, times: int) -> RecordT:
    """``record``, joined with itself until it stands for so many."""
    if times == 1:
        return record
    half = _multiplied(record, times // 2)
    double = join(half, half)
    return join(double, record) if times % 2 else double


def _with_own_ids(traces: Sequence[Trace]) -> list[Trace]:
    """``traces`` with ids renamed so that only regions that are alike share one: every process numbers them from 0."""
    keys: dict[str, tuple[object, ...]] = {}
    renamed = []
    for trace in traces:
        ids = {region.id: _id_among(keys, region) for region in trace.regions}
        if any(old != new for old, new in ids.items()):
            calls = (
                replace(call, region=ids.get(call.region, call.region)) if call.region else call for call in trace.calls
            )
            regions = (replace(region, id=ids[region.id]) for region in trace.regions)
            trace = replace(trace, calls=tuple(calls), regions=tuple(regions))
        renamed.append(trace)
    return renamed


def _id_among(keys: dict[str, tuple[object, ...]], region: records.Region) -> str:
    """The id under which ``keys`` has a region alike in all but how often it ran, else a new one."""
    base = _NUMBERED.sub("", region.id)
    for number in itertools.count(1):
        name = base if number == 1 else f"{base} ({number})"
        key = key_of(replace(region, id=name))
        if keys.setdefault(name, key) == key:
            break
    return name


def _differing(traces: Sequence[Trace]) -> tuple[str, ...]:
    """Settings that differed before, and fields in which an environment differs from the first."""
    first, *others = (trace.environment for trace in traces)
    before = (name for trace in traces for name in trace.differing_settings)
    fields = records.Environment.__struct_fields__
    now = (name for name in fields if any(getattr(second, name) != getattr(first, name) for second in others))
    return tuple(dict.fromkeys((*before, *now)))


#: How fields of a trace are merged; the others are lists of records, merged one by one.
_WHOLE: Mapping[str, Callable[[Sequence[Trace]], Any]] = {
    "schema": lambda traces: records.SCHEMA,
    "tracer_version": lambda traces: traces[0].tracer_version,
    "environment": lambda traces: traces[0].environment,
    # Of which file of inputs a name speaks is not known any more.
    "calls": lambda traces: tuple(
        replace(group, inputs="") if group.inputs else group for group in _records(traces, "calls")
    ),
    "sources": lambda traces: tuple(source for trace in traces for source in trace.sources),
    "differing_settings": _differing,
    "watched_from_start": lambda traces: all(trace.watched_from_start for trace in traces),
    "source_lines": lambda traces: {
        place: text for trace in reversed(traces) for place, text in trace.source_lines.items()
    },
}


def _records(traces: Sequence[Trace], name: str) -> tuple[Any, ...]:
    return merged(record for trace in traces for record in getattr(trace, name))


def merge_traces(traces: Sequence[Trace]) -> Trace:
    """One trace whose counts are the sums; of settings that differ, which are named, the first recording's stand."""
    if not traces:
        raise TraceError("there is no trace to merge", hint="name at least one")
    if len(traces) == 1:
        return traces[0]
    renamed = _with_own_ids(traces)
    fields: dict[str, Any] = {name: _records(renamed, name) for name in Trace.__struct_fields__ if name not in _WHOLE}
    return Trace(**fields, **{name: join_field(renamed) for name, join_field in _WHOLE.items()})
