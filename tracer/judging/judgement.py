"""Holding a trace against determinism tables for one target: pure, from data to data.

Nothing is read but the arguments: no clock, no device, no torch. Every call is counted once; what is not
deterministic, as things stand or in deterministic mode, is a finding at its op, phase, module and site.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tracer.findings import Judgement, Target
from tracer.judging.banners import banners_of, process_banners, weak_banners
from tracer.judging.calls.call_findings import (
    JudgedCall,
    Unsafe,
    by_ruling,
    call_findings,
    tally_of,
    unnamed_calls,
    weakly_grounded,
)
from tracer.judging.calls.generated import GeneratedCode
from tracer.judging.calls.host_code import HostCalls, host_banners
from tracer.judging.calls.trials import TrialsHere
from tracer.judging.minimal_settings import MinimalSettings, Sets, seeded_in_its_place, with_plan
from tracer.judging.ordering import order_of
from tracer.judging.process.observations import fill_cost
from tracer.judging.process.process_findings import Process
from tracer.judging.process.trace_under_target import TraceUnderSettings
from tracer.names import Backend, Phase, Settings
from tracer.tables.compilers import CompilerTable
from tracer.tables.model import Table
from tracer.tables.ruling.bound_table import RuleOutcome
from tracer.tables.ruling.compiled import CompiledCalls, compilation_of
from tracer.tables.ruling.run_evidence import has_computed_step, meta_calls
from tracer.tables.ruling.target_tables import ForwardCalls, TargetTables
from tracer.tables.settings.declared import SEEDS
from tracer.tables.settings.rows import EnvironmentTable
from tracer.tables.settings.switches import Switches
from tracer.tables.settings.target_settings import settings_of
from tracer.tables.translation import NO_TRANSLATIONS, Translations
from tracer.trace.file import Trace
from tracer.trace.records import FactValue


def judge_trace(
    trace: Trace,
    tables: Mapping[Backend, Table],
    target: Target,
    *,
    strict: bool = False,
    translations: Translations = NO_TRANSLATIONS,
    rows: EnvironmentTable | None = None,
    switches: Switches | None = None,
    compilers: Mapping[str, CompilerTable] | None = None,
) -> Judgement:
    """Every call of ``trace`` under ``target``'s settings and under deterministic mode, and what no call shows.

    ``translations`` say what calls recorded on a CPU run as elsewhere; without them every op stands as recorded.
    ``rows`` judge settings, seeds, memory and data loading; without them nothing is said of those.
    ``switches`` say what can be turned where the line is a library's; without them a rule's own remedy stands.
    ``compilers`` say what becomes of compiled calls; without them these are unknown.
    ``strict`` makes ``unknown`` of verdicts that a newer torch only inherits. Each recorded call is counted
    exactly once in each of the tally's mappings. The order of findings is total: it does not depend on the
    order of the trace or of the rules.
    """
    return judge_calls(
        trace,
        tables,
        target,
        strict=strict,
        translations=translations,
        rows=rows,
        switches=switches,
        compilers=compilers,
    )[0]


def judge_calls(
    trace: Trace,
    tables: Mapping[Backend, Table],
    target: Target,
    *,
    strict: bool = False,
    translations: Translations = NO_TRANSLATIONS,
    rows: EnvironmentTable | None = None,
    switches: Switches | None = None,
    compilers: Mapping[str, CompilerTable] | None = None,
) -> tuple[Judgement, tuple[JudgedCall, ...]]:
    """As ``judge_trace``, with every group of calls in the trace's order and the ruling on it.

    A judgement keeps findings and a tally, which stay small however many groups a trace has; who lists the calls one by
    one gets them from here, as they were judged.
    """
    settings = TraceUnderSettings(trace, target)
    by_settings = _TablesBySettings(
        settings, tables, strict=strict, translations=translations, compilers=compilers or {}
    )
    target_tables = by_settings.under({})
    rulings: dict[int, RuleOutcome] = {}
    counted: dict[tuple[int, Phase, str], int] = {}
    judged: list[JudgedCall] = []
    host = HostCalls(trace.calls, target)
    trials = TrialsHere(trace, target)
    groups = trials.kept(host.marked(trace.calls))
    if target.sets:
        groups = [seeded_in_its_place(group, target.sets) for group in groups]
    for group in groups:
        ruling = target_tables.rule_on(group)
        judged.append(JudgedCall(group, ruling))
        name = id(ruling)
        rulings[name] = ruling
        where = (name, group.phase, group.module)
        counted[where] = counted.get(where, 0) + group.count
    process = Process(settings, rows, judged, strict=strict)
    observed = process.observe({})
    unsafe = _with(judged, rulings, lambda ruling: not ruling.is_safe)
    of_this_run = _with(judged, rulings, lambda ruling: ruling.observed or ruling.refuted is not None)
    calls_by_ruling = by_ruling(counted)
    settled = MinimalSettings(unsafe, by_settings.under, process, target.conditions, target.sets).settle(observed)
    calls = (Unsafe(*one, *after) for one, after in zip(unsafe, settled.calls, strict=True))
    code = GeneratedCode(by_settings.compilation)
    kept = [Unsafe(group, ruling, {}, ruling.both) for group, ruling in of_this_run if ruling.observed]
    findings = [*call_findings(calls, code, switches, trace.source_lines), *with_plan(observed.findings, settled)]
    on_meta = meta_calls(groups)
    judgement = Judgement(
        target=target,
        findings=tuple(sorted(findings, key=order_of)),
        tally=tally_of(counted, calls_by_ruling, rulings),
        banners=(
            *trials.banners(of_this_run),
            *banners_of(trace, target, target_tables, strict, on_meta),
            *weak_banners(weakly_grounded(calls_by_ruling, rulings)),
            *host_banners(groups, unsafe, target, target_tables),
            *process.banners(),
            *(process_banners(trace) if rows is not None else ()),
        ),
        environment=trace.environment,
        blind_spots=trace.blind_spots,
        sources=trace.sources,
        differing_settings=trace.differing_settings,
        tables={str(bound.table.backend): bound.table.reviewed for bound in target_tables.used()},
        notes=tuple(sorted(observed.notes, key=lambda note: (-sum(note.ops.values()), note.rule, note.subject))),
        draws=trace.draws,
        generators=trace.generators,
        allocations=trace.allocations,
        fill=fill_cost(trace, settings.under({})),
        loaders=trace.loaders,
        planned=settled.planned,
        source_lines=trace.source_lines,
        training=trace.training,
        observed=tuple(sorted(call_findings(kept, code, switches, trace.source_lines), key=order_of)),
        meta_calls=on_meta,
        nothing_computed=on_meta > 0 and not has_computed_step(groups),
        unnamed=unnamed_calls(calls_by_ruling, rulings),
        regions=trace.regions,
        watched_from_start=trace.watched_from_start,
    )
    return judgement, tuple(judged)


def _with(
    judged: list[JudgedCall], rulings: Mapping[int, RuleOutcome], is_one: Callable[[RuleOutcome], bool]
) -> list[JudgedCall]:
    """The calls with such a ruling; ``rulings`` are all of them, by identity, so that each is asked once."""
    names = {name for name, ruling in rulings.items() if is_one(ruling)}
    return [call for call in judged if id(call.ruling) in names] if names else []


class _TablesBySettings:
    """The tables bound to the target, once for each set of settings that is tried."""

    def __init__(
        self,
        settings: TraceUnderSettings,
        tables: Mapping[Backend, Table],
        *,
        strict: bool,
        translations: Translations,
        compilers: Mapping[str, CompilerTable],
    ) -> None:
        self._settings = settings
        self._tables = tables
        self._strict = strict
        self._translations = translations
        self.compilation = compilation_of(settings.trace, compilers)
        self._forward = ForwardCalls(settings.trace.calls, translations, settings.target.backend)
        self._kept: dict[tuple[tuple[str, FactValue], ...], TargetTables] = {}

    def under(self, sets: Sets) -> TargetTables:
        """The tables with ``sets`` on top of the target's own settings."""
        tried = tuple(sorted((name, value) for name, value in sets.items() if name not in SEEDS))
        target_tables = self._kept.get(tried)
        if target_tables is None:
            trace, target = self._settings.trace, self._settings.target
            conditions = self._settings.under(dict(tried)).conditions if tried else target.conditions
            compiled = CompiledCalls(
                self.compilation,
                target.torch,
                conditions,
                changed=frozenset({*target.sets, *dict(tried)}),
                strict=self._strict,
            )
            target_tables = self._kept[tried] = TargetTables(
                self._tables,
                target.backend,
                target.torch,
                conditions,
                is_rocm=trace.environment.hip is not None,
                strict=self._strict,
                translations=self._translations,
                compiled=compiled,
                recorded=settings_of(trace.environment, Settings.RECORDED),
            )
            target_tables.look_ahead(self._forward)
        return target_tables
