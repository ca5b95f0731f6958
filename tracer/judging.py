"""Holding a trace against determinism tables for one target: pure, from data to data.

Nothing is read but the arguments: no clock, no device, no torch. Every call is counted once; what is not
deterministic, as things stand or in deterministic mode, is a finding at its op, phase, module and site.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from enum import Enum
from typing import TypeVar

from tracer.errors import TargetError
from tracer.findings import Evidence, Finding, Judgement, Tally, Target
from tracer.names import (
    SEVERITY,
    Backend,
    BlindSpotKind,
    Phase,
    Settings,
    UnknownReason,
    Verdict,
)
from tracer.tables.binding import BoundTable, Ruling, safe_ruling, unknown_ruling
from tracer.tables.model import Table
from tracer.tables.settings import settings_of
from tracer.tables.versions import release, reviewed_releases
from tracer.tables.vocabulary import SELECTING_NODES
from tracer.trace.model import CallGroup, Environment, FactValue, Trace

WordType = TypeVar("WordType", bound=Enum)

_RANK = {verdict: rank for rank, verdict in enumerate(SEVERITY)}


def make_target(
    environment: Environment,
    *,
    backend: Backend | str = Backend.RECORDED,
    torch: str = "recorded",
    settings: Settings | str = Settings.RECORDED,
) -> Target:
    """What to judge for, checked; ``recorded`` parts come from ``environment``.

    ``torch`` is a version (``2.9``, ``2.13.0+cpu``). Raises ``TargetError`` in one line, listing what exists.
    """
    under = _word(Settings, settings, "settings")
    asked = environment.torch if torch == "recorded" else str(torch)
    try:
        version = release(asked)
    except ValueError as problem:
        hint = "write a release such as 2.13, or `recorded`"
        raise TargetError(f"torch version {problem}", hint=hint) from problem
    return Target(
        backend=_word(Backend, backend, "backend"),
        torch=version,
        settings=under,
        conditions=settings_of(environment, under),
    )


def judge_trace(trace: Trace, tables: Mapping[Backend, Table], target: Target, *, strict: bool = False) -> Judgement:
    """Every call of ``trace`` under ``target``'s settings and under deterministic mode.

    ``strict`` makes ``unknown`` of verdicts that a newer torch only inherits. Each recorded call is counted
    exactly once in each of the tally's mappings. The order of findings is total: it does not depend on the
    order of the trace or of the rules.
    """
    bench = _Bench(trace.environment, tables, target, strict)
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
    by_phase: dict[Phase, Counter[Verdict]] = {}
    by_module: dict[str, Counter[Verdict]] = {}
    for (name, phase, module), count in counted.items():
        verdict = rulings[name].verdict
        as_is[verdict] += count
        mode_on[rulings[name].mode_on] += count
        by_phase.setdefault(Phase(phase), Counter())[verdict] += count
        by_module.setdefault(module, Counter())[verdict] += count
    return Tally(
        as_is=dict(as_is),
        deterministic_mode=dict(mode_on),
        by_phase={phase: dict(counts) for phase, counts in by_phase.items()},
        by_module={module: dict(counts) for module, counts in by_module.items()},
    )


class _Bench:
    """The tables bound to the target, and which of them a call comes before."""

    def __init__(self, environment: Environment, tables: Mapping[Backend, Table], target: Target, strict: bool) -> None:
        self._hip = environment.hip is not None
        self._tables = tables
        self._target = target
        self._strict = strict
        self._no_device = unknown_ruling(Backend.RECORDED, "no-device", UnknownReason.FACT_NOT_RECORDED, "device")
        self._bound: dict[Backend, BoundTable | Ruling] = {}
        self._safe: dict[Backend, Ruling] = {}
        self._unseen: dict[tuple[Backend, str], Ruling] = {}

    def rule_on(self, group: CallGroup) -> Ruling:
        """The ruling for one group of calls."""
        facts = group.facts
        device = facts.get("device")
        backend = self._target.backend
        if backend is Backend.RECORDED:
            if device is None:
                return self._no_device
            backend = self._backend_of(str(device))
        if device == "meta":
            return self._no_kernel(backend)
        if "subclass" in facts:
            return self._delegated(backend, group, facts.get("subclass_inner"))
        if group.op.startswith("higher_order."):
            return self._delegated(backend, group, facts.get("body_recorded"))
        bound = self._bound.get(backend)
        if bound is None:
            bound = self._bound[backend] = self._bind(backend, str(device))
        if isinstance(bound, Ruling):
            return bound
        if group.phase is Phase.BACKWARD:
            selects = _selects(group.node)
            facts = facts if selects is None else {**facts, "backward.selects": selects}
        else:
            facts = {**facts, "backward.selects": False}
        return bound.rule_on(group.op, facts)

    def used(self) -> Iterator[BoundTable]:
        """The tables that some call came before."""
        return (bound for bound in self._bound.values() if isinstance(bound, BoundTable))

    def missing(self) -> Iterator[str]:
        """Backends that some call needed a table for and that have none."""
        return (bound.detail for bound in self._bound.values() if isinstance(bound, Ruling))

    def _backend_of(self, device: str) -> Backend:
        """The backend of a recorded device. ROCm calls its devices ``cuda``; a call without any runs on the host."""
        if device == "cuda" and self._hip:
            return Backend.ROCM
        if device in ("none", "meta"):
            return Backend.CPU
        return Backend(device) if device in Backend._value2member_map_ else Backend.RECORDED

    def _bind(self, backend: Backend, device: str) -> BoundTable | Ruling:
        table = self._tables.get(backend)
        if table is None:
            name = device if backend is Backend.RECORDED else str(backend)
            return unknown_ruling(backend, "no-table", UnknownReason.NO_TABLE, name)
        return BoundTable(table, self._target.torch, self._target.conditions, strict=self._strict)

    def _no_kernel(self, backend: Backend) -> Ruling:
        """Safe, since nothing is computed: shapes on ``meta``, or work that inner calls do."""
        return self._safe.setdefault(backend, safe_ruling(backend))

    def _delegated(self, backend: Backend, group: CallGroup, inner_recorded: FactValue | None) -> Ruling:
        """An op that runs no kernel of its own: its inner calls are judged where they stand, if they were seen."""
        if inner_recorded is True:
            return self._no_kernel(backend)
        key = (backend, group.op)
        if key not in self._unseen:
            why = "The op hands its work to code that was not recorded: what ran inside it is not known."
            self._unseen[key] = unknown_ruling(backend, "opaque", UnknownReason.OPAQUE, group.op, why)
        return self._unseen[key]


def _selects(node: str) -> bool | None:
    """Whether an autograd node writes each element at most once; ``None`` where the node is not known."""
    return node.rstrip("0123456789") in SELECTING_NODES if node else None


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
    evidence: dict[str, tuple[Evidence, ...]] = {}
    for (name, *_), groups in gathered.items():
        assert isinstance(name, int)
        ruling = rulings[name]
        if ruling.rule_id not in evidence:
            rows = ruling.rule.evidence if ruling.rule is not None else ()
            evidence[ruling.rule_id] = tuple(Evidence(kind=row.kind, ref=row.ref) for row in rows)
        yield _finding(groups, ruling, evidence[ruling.rule_id])


def _runs_elsewhere(group: CallGroup, ruling: Ruling) -> bool:
    """Whether the call was recorded on another backend than it is judged for."""
    return group.facts.get("device") != str(ruling.backend)


def _finding(groups: list[CallGroup], ruling: Ruling, evidence: tuple[Evidence, ...]) -> Finding:
    """One finding for groups that differ in nothing that it says; it keeps the facts on which they agree."""
    first, rule = groups[0], ruling.rule
    facts = dict(first.facts)
    for group in groups[1:]:
        facts = {key: value for key, value in facts.items() if group.facts.get(key) == value}
    return Finding(
        rule=ruling.rule_id,
        op=first.op,
        runs_as=rule.runs_as if rule is not None and _runs_elsewhere(first, ruling) else "",
        phase=first.phase,
        module=first.module,
        location=first.location,
        function=first.function,
        called_from=first.called_from,
        count=sum(group.count for group in groups),
        verdict=ruling.verdict,
        deterministic_mode=ruling.mode_on,
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
        finding.why,
        finding.remedy,
        str(finding.facts.get("device")),
    )


def _banners(trace: Trace, target: Target, bench: _Bench, strict: bool) -> Iterator[str]:
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
    unlinked = sum(s.count for s in trace.blind_spots if s.kind is BlindSpotKind.NO_FORWARD_LINK)
    if unlinked:
        yield f"Backward calls without a link to their forward line: {unlinked}."
    if trace.differing_settings and target.settings is Settings.RECORDED:
        names = ", ".join(trace.differing_settings)
        yield f"The merged recordings differ in {names}; the first recording's settings were judged."


def _word(words: type[WordType], text: WordType | str, what: str) -> WordType:
    try:
        return words(text)
    except ValueError as problem:
        known = ", ".join(str(word) for word in words)
        raise TargetError(f"{what} {str(text)!r} does not exist", hint=f"choose one of {known}") from problem
