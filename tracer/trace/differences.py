"""What differs between traces: random draws, and between the ranks of one distributed job settings and calls too.

Ranks of a data-parallel step run the same calls; one that does more, or draws more often, falls out of step with the
others. Merged traces add up and cannot tell, so ranks are compared before they are merged.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from tracer.names import Phase
from tracer.trace.file import Trace
from tracer.trace.merging import merge_traces
from tracer.trace.records import CallGroup, Draw, Environment, FactValue

#: What a value is called that a rank has not.
_ABSENT = "not set"


class RankSetting(msgspec.Struct, frozen=True, kw_only=True):
    """A version, setting or environment variable that is not the same on all ranks."""

    name: str
    values: tuple[str, ...]
    """As text, a value a rank."""


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


class RankDraws(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A generator that a rank drew from otherwise than the first one."""

    rank: int
    generator: str
    ahead: int
    """Draws by which it is ahead of the first rank; negative where it is behind. 0: as many, at other places."""
    op: str = ""
    """The first draw that the ranks do not share."""
    location: str = ""
    module: str = ""


class RankComparison(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The ranks of one job side by side. Columns of ``values`` and ``counts`` stand in the order of ``ranks``."""

    ranks: tuple[int, ...]
    alike: tuple[tuple[int, ...], ...]
    """Ranks that agree in all that is compared, together; one group: all of them."""
    settings: tuple[RankSetting, ...] = ()
    calls: tuple[RankCalls, ...] = ()
    """Where counts lie apart most first."""
    draws: tuple[RankDraws, ...] = ()

    @property
    def are_identical(self) -> bool:
        """Do all ranks agree?"""
        return len(self.alike) == 1


def compare_ranks(traces: Iterable[Trace]) -> RankComparison | None:
    """Compare the recordings of several ranks; ``None`` where they are not of two ranks at least, each told apart.

    Several recordings of one rank are merged first.
    """
    by_rank: dict[int, list[Trace]] = {}
    for trace in traces:
        ranks = {source.rank for source in trace.sources}
        rank = ranks.pop() if len(ranks) == 1 else None
        if rank is None:
            return None
        by_rank.setdefault(rank, []).append(trace)
    if len(by_rank) < 2:
        return None
    merged = {rank: merge_traces(by_rank[rank]) for rank in sorted(by_rank)}
    settings = tuple(_settings([trace.environment for trace in merged.values()]))
    tables = _tables(list(merged.values()))
    calls = tuple(sorted(_calls(tables), key=_order))
    draws = tuple(_draws(merged))
    alike = _alike(merged, tables, settings, calls, draws)
    return RankComparison(ranks=tuple(merged), alike=alike, settings=settings, calls=calls, draws=draws)


def _settings(environments: Sequence[Environment]) -> Iterator[RankSetting]:
    """Fields that differ; variables and further settings each by its own name."""
    for field in Environment.__struct_fields__:
        values = [getattr(environment, field) for environment in environments]
        if all(value == values[0] for value in values):
            continue
        if isinstance(values[0], dict):
            for name in sorted(set().union(*values)):
                if len({(type(value.get(name)), value.get(name)) for value in values}) > 1:
                    yield RankSetting(name=name, values=tuple(_spelled(value.get(name)) for value in values))
        else:
            yield RankSetting(name=field, values=tuple(map(_spelled, values)))


def _spelled(value: object) -> str:
    if value is None:
        return _ABSENT
    if isinstance(value, tuple):
        return ", ".join(getattr(item, "name", str(item)) for item in value) or "none"
    return str(value)


_Place = tuple[str, ...]
_Facts = frozenset[tuple[str, FactValue]]


_Table = dict[_Place, dict[_Facts, int]]


def _tables(traces: Sequence[Trace]) -> list[_Table]:
    """Each rank's calls by place; none where all are the same, as most are: comparing them whole is quick."""
    if all(trace.calls == traces[0].calls for trace in traces):
        return [{} for _ in traces]
    return [_by_place(trace.calls) for trace in traces]


def _calls(tables: Sequence[_Table]) -> Iterator[RankCalls]:
    for place in dict.fromkeys(place for table in tables for place in table):
        found = [table.get(place, {}) for table in tables]
        if all(value == found[0] for value in found):
            continue
        op, phase, module, location, called_from = place
        counts = tuple(sum(rank_counts.values()) for rank_counts in found)
        yield RankCalls(
            op=op,
            phase=Phase(phase),
            module=module,
            location=location,
            called_from=called_from,
            counts=counts,
            facts=_differing(found) if len(set(counts)) == 1 else (),
        )


def _by_place(groups: Iterable[CallGroup]) -> _Table:
    """Place -> what was recorded of the calls there, counted."""
    table: _Table = {}
    for group in groups:
        place = (group.op, group.phase.value, group.module, group.location, group.called_from)
        facts = frozenset(group.facts.items())
        counted = table.setdefault(place, {})
        counted[facts] = counted.get(facts, 0) + group.count
    return table


def _differing(found: Sequence[Mapping[_Facts, int]]) -> tuple[str, ...]:
    """Names of the facts whose values are not counted alike."""
    names = sorted({name for rank_facts in found for facts in rank_facts for name, _ in facts})

    def values(one: Mapping[_Facts, int], name: str) -> Counter[FactValue | None]:
        counted: Counter[FactValue | None] = Counter()
        for facts, count in one.items():
            counted[dict(facts).get(name)] += count
        return counted

    return tuple(
        name for name in names if any(values(rank_facts, name) != values(found[0], name) for rank_facts in found[1:])
    )


def _order(one: RankCalls) -> tuple[object, ...]:
    return (min(one.counts) - max(one.counts), one.location, one.op, one.phase.value, one.module, one.called_from)


def _draws(merged: Mapping[int, Trace]) -> Iterator[RankDraws]:
    """Each rank's ledger against the first one's."""
    (_, first), *others = merged.items()
    for rank, trace in others:
        if trace.calls == first.calls and trace.host_draws == first.host_draws:
            continue
        for difference in compare_draws(first, trace):
            place = difference.second or difference.first
            yield RankDraws(
                rank=rank,
                generator=difference.generator,
                ahead=difference.ahead,
                op=place.op if place else "",
                location=place.location if place else "",
                module=place.module if place else "",
            )


def _alike(
    merged: Mapping[int, Trace],
    tables: Sequence[_Table],
    settings: Sequence[RankSetting],
    calls: Sequence[RankCalls],
    draws: Sequence[RankDraws],
) -> tuple[tuple[int, ...], ...]:
    """Ranks in groups, by all that was found to differ between any of them."""
    groups: dict[tuple[object, ...], list[int]] = {}
    ledgers = {rank: _host_draws(trace) for rank, trace in merged.items()} if draws else {}
    for column, rank in enumerate(merged):
        seen = (
            *(setting.values[column] for setting in settings),
            *(_frozen(tables[column], call) for call in calls),
            ledgers.get(rank),
        )
        groups.setdefault(seen, []).append(rank)
    return tuple(map(tuple, groups.values()))


def _host_draws(trace: Trace) -> frozenset[tuple[_Place, int]]:
    """The ledger of the generators that no op draws from."""
    counted: Counter[_Place] = Counter()
    for draw in trace.host_draws:
        counted[draw.generator, draw.op, draw.phase.value, draw.module, draw.location, draw.called_from] += draw.count
    return frozenset(counted.items())


def _frozen(table: Mapping[_Place, Mapping[_Facts, int]], one: RankCalls) -> frozenset[tuple[_Facts, int]]:
    place = (one.op, one.phase.value, one.module, one.location, one.called_from)
    return frozenset(table.get(place, {}).items())


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
    """Which generators the two traces drew from differently, each with the first place at which they part.

    Two runs of one program draw alike; where they do not, the generator that ran ahead says which module and line drew
    more often. Seeds are not compared.
    """
    ledgers = [_by_generator(trace) for trace in (first, second)]
    names = dict.fromkeys(name for ledger in ledgers for name in ledger)
    found = (_difference(name, ledgers[0].get(name, {}), ledgers[1].get(name, {})) for name in names)
    return tuple(difference for difference in found if difference is not None)


def _by_generator(trace: Trace) -> dict[str, dict[_Place, tuple[Draw, int]]]:
    """Generator -> place -> its first entry and the calls there, in the order of the first draw."""
    ledger: dict[str, dict[_Place, tuple[Draw, int]]] = {}
    for draw in trace.draws:
        place = (draw.op, draw.phase.value, draw.module, draw.location, draw.called_from)
        entries = ledger.setdefault(draw.generator, {})
        known, calls = entries.get(place, (draw, 0))
        entries[place] = (known, calls + draw.count)
    return ledger


def _difference(
    name: str, one: dict[_Place, tuple[Draw, int]], other: dict[_Place, tuple[Draw, int]]
) -> DrawDifference | None:
    def lacking(here: dict[_Place, tuple[Draw, int]], there: dict[_Place, tuple[Draw, int]]) -> Draw | None:
        return next((draw for place, (draw, n) in here.items() if n > there.get(place, (draw, 0))[1]), None)

    first, second = lacking(one, other), lacking(other, one)
    if first is None and second is None:
        return None
    ahead = sum(n for _, n in other.values()) - sum(n for _, n in one.values())
    return DrawDifference(name, ahead, first, second)
