"""Compares traces: the random draws of two runs, and the settings and calls of the ranks of a distributed job.

Ranks are compared before they are merged: a merged trace has only the sums.
"""

from __future__ import annotations

import operator
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from tracer.files import collector_paused
from tracer.names import Phase
from tracer.trace.file import Trace
from tracer.trace.merging import merge_traces
from tracer.trace.records import CallGroup, Draw, Environment, FactValue


class SettingDifference(msgspec.Struct, frozen=True, kw_only=True):
    """A version, setting or environment variable that is not the same everywhere."""

    name: str
    values: tuple[str, ...]
    """As text, a value a recording or rank."""


class RankCalls(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One op at one place that not all ranks called alike."""

    op: str
    phase: Phase
    module: str = ""
    location: str = ""
    called_from: str = ""
    counts: tuple[int, ...]
    """Calls, a number a rank."""
    facts: tuple[str, ...] = ()
    """Names of the recorded facts that differ, where counts do not."""


class RankComparison(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The ranks of one job side by side. Columns of ``values`` and ``counts`` stand in the order of ``ranks``."""

    ranks: tuple[int, ...]
    alike: tuple[tuple[int, ...], ...]
    """Ranks that agree in all that is compared, together; one group: all of them."""
    settings: tuple[SettingDifference, ...] = ()
    calls: tuple[RankCalls, ...] = ()
    """The calls whose counts differ, the largest difference first. Random draws are calls."""

    @property
    def are_identical(self) -> bool:
        """Whether all ranks agree."""
        return len(self.alike) == 1


def compare_ranks(traces: Iterable[Trace]) -> RankComparison | None:
    """Compare the recordings of several ranks; ``None`` where they are not of two ranks at least, each told apart.

    Several recordings of one rank are merged first.
    """
    by_rank: dict[int, list[Trace]] = defaultdict(list)
    for trace in traces:
        ranks = {source.rank for source in trace.sources}
        rank = ranks.pop() if len(ranks) == 1 else None
        if rank is None:
            return None
        by_rank[rank].append(trace)
    if len(by_rank) < 2:
        return None
    merged = {rank: merge_traces(by_rank[rank]) for rank in sorted(by_rank)}
    with collector_paused():
        settings = tuple(differing_settings([trace.environment for trace in merged.values()]))
        all_calls = [trace.calls for trace in merged.values()]
        are_alike = all(calls == all_calls[0] for calls in all_calls)  # as most are: comparing them whole is quick
        tables = [{} for _ in merged] if are_alike else _tables(all_calls)
        calls = tuple(sorted(_calls(tables), key=_order))
        groups: dict[tuple[object, ...], list[int]] = defaultdict(list)
        for column, rank in enumerate(merged):
            counted = (frozenset(tables[column].get(_place_of(call), {}).items()) for call in calls)
            key = (*(setting.values[column] for setting in settings), *counted)
            groups[key].append(rank)
    alike = tuple(map(tuple, groups.values()))
    return RankComparison(ranks=tuple(merged), alike=alike, settings=settings, calls=calls)


#: The value of a variable or a setting that is not there, or could not be read.
NOT_SET = "not set"


def differing_settings(environments: Sequence[Environment]) -> Iterator[SettingDifference]:
    """Yield what differs; variables and further settings each by its own name."""
    for field in Environment.__struct_fields__:
        values = [getattr(environment, field) for environment in environments]
        if all(value == values[0] for value in values):
            continue
        if isinstance(values[0], dict):
            for name in sorted(set().union(*values)):
                if len({(type(value.get(name)), value.get(name)) for value in values}) > 1:
                    yield SettingDifference(name=name, values=tuple(_spelled(value.get(name)) for value in values))
        else:
            yield SettingDifference(name=field, values=tuple(map(_spelled, values)))


def _spelled(value: object) -> str:
    if value is None:
        return NOT_SET
    if isinstance(value, tuple):
        return ", ".join(getattr(item, "name", str(item)) for item in value) or "none"
    return str(value)


_Place = tuple[str, ...]
_Facts = frozenset[tuple[str, FactValue]]
_Table = dict[_Place, dict[_Facts, int]]
#: What calls or draws at one place agree in.
_place_of: Callable[[Any], _Place] = operator.attrgetter("op", "phase.value", "module", "location", "called_from")


def _calls(tables: Sequence[_Table]) -> Iterator[RankCalls]:
    nowhere: dict[_Facts, int] = {}
    for place in dict.fromkeys(place for table in tables for place in table):
        ranks = [table.get(place, nowhere) for table in tables]
        if all(counted == ranks[0] for counted in ranks):
            continue
        fields = dict(zip(("op", "phase", "module", "location", "called_from"), place, strict=True))
        counts = tuple(sum(counted.values()) for counted in ranks)
        facts = _differing(ranks) if len(set(counts)) == 1 else ()
        yield msgspec.convert({**fields, "counts": counts, "facts": facts}, RankCalls)


def _tables(all_calls: Sequence[tuple[CallGroup, ...]]) -> list[_Table]:
    """For each rank, place -> the calls there, counted by their facts; places that all have in common are left out."""
    shared = set(map(id, all_calls[0]))
    for calls in all_calls:
        numbers = set(map(id, calls))
        shared &= numbers if len(numbers) == len(calls) else set()
    groups = {id(group): group for calls in all_calls for group in calls}
    places = {(place := _place_of(group)): place for number, group in groups.items() if number not in shared}
    facts_of: dict[_Facts, _Facts] = {}
    entries: dict[int, tuple[_Place, _Facts]] = {}
    for number, group in groups.items():
        if (distinct := places.get(_place_of(group))) is not None:
            facts = frozenset(group.facts.items())
            entries[number] = distinct, facts_of.setdefault(facts, facts)
    tables: list[_Table] = []
    for calls in all_calls:
        table: _Table = {}
        for group in calls:
            if (entry := entries.get(id(group))) is not None:
                counted = table.setdefault(entry[0], {})
                counted[entry[1]] = counted.get(entry[1], 0) + group.count
        tables.append(table)
    return tables


def _differing(ranks: Iterable[Mapping[_Facts, int]]) -> tuple[str, ...]:
    """Names of the facts whose values are not counted alike."""
    distinct = {frozenset(counted.items()) for counted in ranks}
    by_name: dict[str, set[frozenset[tuple[FactValue | None, int]]]] = {}
    for name in sorted({name for counted in distinct for facts, _ in counted for name, _ in facts}):
        for counted in distinct:
            by_value: Counter[FactValue | None] = Counter()
            for facts, count in counted:
                by_value[dict(facts).get(name)] += count
            by_name.setdefault(name, set()).add(frozenset(by_value.items()))
    return tuple(name for name, tallies in by_name.items() if len(tallies) > 1)


def _order(calls: RankCalls) -> tuple[object, ...]:
    op, phase, module, location, called_from = _place_of(calls)
    return (min(calls.counts) - max(calls.counts), location, op, phase, module, called_from)


class DrawDifference(NamedTuple):
    """Two ledgers that disagree about one generator, at the first place where they do."""

    generator: str
    ahead: int
    """Draws by which the second ledger's generator is ahead of the first one's; negative where it is behind. 0: as many
    were drawn, at other places."""
    first: Draw | None
    """The first entry of the first ledger that the second has not, or not as often; ``None`` where it has them all."""
    second: Draw | None
    """The first entry of the second ledger that the first has not, or not as often."""


def compare_draws(first: Trace, second: Trace) -> tuple[DrawDifference, ...]:
    """Return the generators that the traces drew from differently, each with the first place at which they diverge.

    Two runs of one program draw alike; where they do not, the generator that ran ahead says which module and line drew
    more often. Seeds are not compared.
    """
    sides: list[dict[tuple[str, _Place], list[Draw]]] = [{}, {}]
    for side, trace in zip(sides, (first, second), strict=True):
        for draw in trace.draws:
            side.setdefault((draw.generator, _place_of(draw)), []).append(draw)
    ours, theirs = ({key: sum(draw.count for draw in draws) for key, draws in side.items()} for side in sides)
    differences = []
    for name in dict.fromkeys(generator for side in sides for generator, _ in side):
        first_more, second_more = (
            next((side[key][0] for key, n in own.items() if key[0] == name and n > other.get(key, 0)), None)
            for side, own, other in ((sides[0], ours, theirs), (sides[1], theirs, ours))
        )
        if first_more is not None or second_more is not None:
            drawn = [sum(n for key, n in counts.items() if key[0] == name) for counts in (ours, theirs)]
            differences.append(DrawDifference(name, drawn[1] - drawn[0], first_more, second_more))
    return tuple(differences)
