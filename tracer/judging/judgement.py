"""Holding a trace against determinism tables for one target: pure, from data to data.

Nothing is read but the arguments: no clock, no device, no torch. Every call is counted once; what is not
deterministic, as things stand or in deterministic mode, is a finding at its op, phase, module and site.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from enum import Enum
from typing import TypeVar

from tracer.findings import Evidence, Finding, Judgement, Tally, Target
from tracer.names import (
    SEVERITY,
    Backend,
    BlindSpotKind,
    Phase,
    Settings,
    Verdict,
)
from tracer.tables.bench import Bench, device_of
from tracer.tables.binding import Ruling
from tracer.tables.model import Table
from tracer.tables.translation import NO_TRANSLATIONS, Translations
from tracer.tables.versions import reviewed_releases
from tracer.trace.model import CallGroup, Trace

WordType = TypeVar("WordType", bound=Enum)

_RANK = {verdict: rank for rank, verdict in enumerate(SEVERITY)}


def judge_trace(
    trace: Trace,
    tables: Mapping[Backend, Table],
    target: Target,
    *,
    strict: bool = False,
    translations: Translations = NO_TRANSLATIONS,
) -> Judgement:
    """Every call of ``trace`` under ``target``'s settings and under deterministic mode.

    ``translations`` say what calls recorded on a CPU run as elsewhere; without them every op stands as recorded.
    ``strict`` makes ``unknown`` of verdicts that a newer torch only inherits. Each recorded call is counted
    exactly once in each of the tally's mappings. The order of findings is total: it does not depend on the
    order of the trace or of the rules.
    """
    bench = Bench(
        tables,
        target.backend,
        target.torch,
        target.conditions,
        is_rocm=trace.environment.hip is not None,
        strict=strict,
        translations=translations,
    )
    bench.look_ahead(trace.calls)
    rulings: dict[int, Ruling] = {}
    counted: dict[tuple[int, str, str], int] = {}
    gathered: dict[tuple[object, ...], list[CallGroup]] = {}
    for group in trace.calls:
        ruling = bench.rule_on(group)
        name = id(ruling)
        rulings[name] = ruling
        # Keys are plain strings: hashing an enum's member costs a call in Python.
        where = (name, group.phase.value, group.module)
        counted[where] = counted.get(where, 0) + group.count
        if not ruling.is_safe:
            gathered.setdefault(_identity(name, group), []).append(group)
    findings = _findings(gathered, rulings)
    return Judgement(
        target=target,
        findings=tuple(sorted(findings, key=_order)),
        tally=_tally(counted, rulings),
        banners=tuple(_banners(trace, target, bench, strict)),
        environment=trace.environment,
        blind_spots=trace.blind_spots,
        sources=trace.sources,
        differing_settings=trace.differing_settings,
        tables={str(bound.table.backend): bound.table.reviewed for bound in bench.used()},
    )


def _tally(counted: Mapping[tuple[int, str, str], int], rulings: Mapping[int, Ruling]) -> Tally:
    as_is: Counter[Verdict] = Counter()
    mode_on: Counter[Verdict] = Counter()
    by_phase: dict[str, Counter[Verdict]] = {}
    by_module: dict[str, Counter[Verdict]] = {}
    for (name, phase, module), count in counted.items():
        verdict = rulings[name].verdict
        as_is[verdict] += count
        mode_on[rulings[name].mode_on] += count
        for counts, key in ((by_phase, phase), (by_module, module)):
            if key not in counts:
                counts[key] = Counter()
            counts[key][verdict] += count
    return Tally(
        as_is=dict(as_is),
        deterministic_mode=dict(mode_on),
        by_phase={Phase(phase): dict(counts) for phase, counts in by_phase.items()},
        by_module={module: dict(counts) for module, counts in by_module.items()},
    )


def _identity(ruling: int, group: CallGroup) -> tuple[object, ...]:
    """What makes two groups one finding: the same ruling on the same op at the same place."""
    return (
        ruling,
        group.op,
        group.phase.value,
        group.module,
        group.location,
        group.function,
        group.called_from,
        group.facts.get("device"),
    )


def _findings(
    gathered: Mapping[tuple[object, ...], list[CallGroup]], rulings: Mapping[int, Ruling]
) -> Iterator[Finding]:
    evidence: dict[int, tuple[Evidence, ...]] = {}
    for (name, *_), groups in gathered.items():
        assert isinstance(name, int)
        ruling = rulings[name]
        if name not in evidence:
            evidence[name] = tuple(Evidence(kind=row.kind, ref=row.ref) for row in ruling.evidence)
        yield _finding(groups, ruling, evidence[name])


def _runs_elsewhere(group: CallGroup, ruling: Ruling) -> str:
    """What the rule itself says that the op becomes, for a call that was recorded on another device than judged for."""
    if ruling.rule is None or group.facts.get("device") == device_of(ruling.backend):
        return ""
    return ruling.rule.runs_as


def _finding(groups: list[CallGroup], ruling: Ruling, evidence: tuple[Evidence, ...]) -> Finding:
    """One finding for groups that differ in nothing that it says; it keeps the facts on which they agree."""
    first = groups[0]
    facts = dict(first.facts)
    for group in groups[1:]:
        facts = {key: value for key, value in facts.items() if group.facts.get(key) == value}
    return Finding(
        rule=ruling.rule_id,
        op=first.op,
        runs_as=ruling.runs_as or _runs_elsewhere(first, ruling),
        phase=first.phase,
        module=first.module,
        location=first.location,
        function=first.function,
        called_from=first.called_from,
        count=sum(group.count for group in groups),
        verdict=ruling.verdict,
        deterministic_mode=ruling.mode_on,
        route=ruling.route,
        cause=ruling.cause,
        why=ruling.why,
        remedy=ruling.remedy,
        evidence=evidence,
        facts=facts,
        node=first.node if all(group.node == first.node for group in groups) else "",
        reason=ruling.reason,
        reason_detail=ruling.detail if ruling.reason is not None else "",
        extrapolated=ruling.extrapolated,
        backend=ruling.backend,
    )


def _order(finding: Finding) -> tuple[object, ...]:
    """Worst first, then most calls; then by place and name, so that no two findings tie."""
    return (
        _RANK[finding.verdict],
        _RANK[finding.deterministic_mode],
        -finding.count,
        finding.location,
        finding.op,
        finding.rule,
        finding.phase,
        finding.module,
        finding.function,
        finding.called_from,
        finding.backend,
        finding.reason_detail,
        finding.runs_as,
        finding.why,
        finding.remedy,
        str(finding.facts.get("device")),
    )


def _banners(trace: Trace, target: Target, bench: Bench, strict: bool) -> Iterator[str]:
    """What every reader must know first, a sentence each."""
    if partial := trace.partial:
        yield f"The trace is partial ({partial}): calls after that point are missing."
    for name in bench.missing():
        yield f"There is no table for {name}: its calls are unknown."
    for bound in bench.used():
        name, reviewed = bound.table.backend, bound.table.reviewed
        if bound.extrapolated:
            newest = reviewed_releases(reviewed)[-1]
            yield (
                f"The {name} table was reviewed up to torch {newest}; for torch {target.torch} its verdicts are"
                f" those of {newest}, extrapolated."
            )
        elif bound.place != "reviewed":
            relation = "not among them" if bound.place == "between" else f"{bound.place} than those"
            refused = " and strict judging does not extrapolate" if bound.place == "newer" and strict else ""
            yield (
                f"The {name} table was reviewed for torch {reviewed}; torch {target.torch} is {relation}"
                f"{refused}: its calls are unknown."
            )
    elsewhere = sorted(bench.devices - {"none", "meta"})
    if target.backend is not Backend.RECORDED and elsewhere and device_of(target.backend) not in elsewhere:
        how = "calls that run as another op there are judged as that op" if bench.was_translated else "ops as recorded"
        notes = "".join(f" {note.says}" for note in bench.notes())
        yield f"Recorded on {' and '.join(elsewhere)}, judged for {target.backend}: {how}.{notes}"
    unlinked = sum(s.count for s in trace.blind_spots if s.kind is BlindSpotKind.NO_FORWARD_LINK)
    if unlinked:
        yield f"Backward calls without a link to their forward line: {unlinked}."
    if trace.differing_settings and target.settings is Settings.RECORDED:
        names = ", ".join(trace.differing_settings)
        yield f"The merged recordings differ in {names}; the first recording's settings were judged."
