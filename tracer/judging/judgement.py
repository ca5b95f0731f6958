"""Holding a trace against determinism tables for one target: pure, from data to data.

Nothing is read but the arguments: no clock, no device, no torch. Every call is counted once; what is not
deterministic, as things stand or in deterministic mode, is a finding at its op, phase, module and site.
"""

from __future__ import annotations

from collections.abc import Mapping

from tracer.findings import Judgement, Target
from tracer.judging.banners import banners_of, process_banners
from tracer.judging.calls.call_findings import Unsafe, call_findings, tally_of
from tracer.judging.minimal_settings import MinimalSettings, Sets, seeded_in_its_place, with_plan
from tracer.judging.ordering import order_of
from tracer.judging.process.observations import fill_cost
from tracer.judging.process.process_findings import Process
from tracer.judging.process.trace_under_target import scene_of
from tracer.names import Backend
from tracer.tables.model import Table
from tracer.tables.ruling.binding import RuleOutcome
from tracer.tables.ruling.target_tables import TargetTables
from tracer.tables.settings.rows import EnvironmentTable
from tracer.tables.settings.target_settings import SEEDS
from tracer.tables.translation import NO_TRANSLATIONS, Translations
from tracer.trace.file import Trace
from tracer.trace.model import CallGroup


def judge_trace(
    trace: Trace,
    tables: Mapping[Backend, Table],
    target: Target,
    *,
    strict: bool = False,
    translations: Translations = NO_TRANSLATIONS,
    rows: EnvironmentTable | None = None,
) -> Judgement:
    """Every call of ``trace`` under ``target``'s settings and under deterministic mode, and what no call shows.

    ``translations`` say what calls recorded on a CPU run as elsewhere; without them every op stands as recorded.
    ``rows`` judge settings, seeds, memory and data loading; without them nothing is said of those.
    ``strict`` makes ``unknown`` of verdicts that a newer torch only inherits. Each recorded call is counted
    exactly once in each of the tally's mappings. The order of findings is total: it does not depend on the
    order of the trace or of the rules.
    """
    benches = _Benches(trace, tables, target, strict=strict, translations=translations)
    bench = benches.under({})
    rulings: dict[int, RuleOutcome] = {}
    counted: dict[tuple[int, str, str], int] = {}
    judged: list[tuple[CallGroup, RuleOutcome]] = []
    for recorded in trace.calls:
        group = seeded_in_its_place(recorded, target.sets) if target.sets else recorded
        ruling = bench.rule_on(group)
        judged.append((group, ruling))
        name = id(ruling)
        rulings[name] = ruling
        # Keys are plain strings: hashing an enum's member costs a call in Python.
        where = (name, group.phase.value, group.module)
        counted[where] = counted.get(where, 0) + group.count
    process = Process(trace, target, rows, judged, strict=strict)
    observed = process.observe({})
    unsafe = [(group, ruling) for group, ruling in judged if not ruling.is_safe]
    settled = MinimalSettings(unsafe, benches.under, process, target.conditions, target.sets).settle(observed)
    calls = (Unsafe(*one, *after) for one, after in zip(unsafe, settled.calls, strict=True))
    findings = [*call_findings(calls), *with_plan(observed.findings, settled)]
    return Judgement(
        target=target,
        findings=tuple(sorted(findings, key=order_of)),
        tally=tally_of(counted, rulings),
        banners=(
            *banners_of(trace, target, bench, strict),
            *process.banners(),
            *(process_banners(trace) if rows is not None else ()),
        ),
        environment=trace.environment,
        blind_spots=trace.blind_spots,
        sources=trace.sources,
        differing_settings=trace.differing_settings,
        tables={str(bound.table.backend): bound.table.reviewed for bound in bench.used()},
        notes=tuple(sorted(observed.notes, key=lambda note: (-sum(note.ops.values()), note.rule, note.subject))),
        draws=trace.draws,
        generators=trace.generators,
        allocations=trace.allocations,
        fill=fill_cost(trace, scene_of(trace, target, {})),
        loaders=trace.loaders,
        planned=settled.planned,
        source_lines=trace.source_lines,
    )


class _Benches:
    """The tables bound to the target, once for each set of settings that is tried."""

    def __init__(
        self,
        trace: Trace,
        tables: Mapping[Backend, Table],
        target: Target,
        *,
        strict: bool,
        translations: Translations,
    ) -> None:
        self._trace = trace
        self._tables = tables
        self._target = target
        self._strict = strict
        self._translations = translations
        self._kept: dict[tuple[tuple[str, object], ...], TargetTables] = {}

    def under(self, sets: Sets) -> TargetTables:
        """The tables with ``sets`` on top of the target's own settings."""
        tried = tuple(sorted((name, value) for name, value in sets.items() if name not in SEEDS))
        bench = self._kept.get(tried)
        if bench is None:
            bench = self._kept[tried] = TargetTables(
                self._tables,
                self._target.backend,
                self._target.torch,
                scene_of(self._trace, self._target, dict(tried)).conditions if tried else self._target.conditions,
                is_rocm=self._trace.environment.hip is not None,
                strict=self._strict,
                translations=self._translations,
            )
            bench.look_ahead(self._trace.calls)
        return bench
