"""What the page's template is given: figures and words, nothing left for a template to work out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import tracer
from tracer.findings import Finding
from tracer.names import SEVERITY, About, Cause, Phase, UnknownReason, Verdict, Word
from tracer.plan import place_of
from tracer.report.finding_columns import backend_of
from tracer.report.page.model_map import Block, model_map
from tracer.report.page.process_page import process_context
from tracer.report.page.reproduce import command
from tracer.report.regions import region_rows, regions_sentence
from tracer.report.wording.acceptance import gate_in_words
from tracer.report.wording.answers import answers, evidence_counts, unnamed_sentence
from tracer.report.wording.environment_rows import environment_rows
from tracer.report.wording.headline import headline
from tracer.report.wording.naming import is_call, phase_of, subject_of
from tracer.report.wording.portability import MOST_ROWS_ELSEWHERE, columns, mode_effect, target_rows
from tracer.report.wording.ranks import page_ranks
from tracer.report.wording.runs.tried import REFUTED, REFUTED_LEAD, SETTLED, SETTLED_LEAD, refuted, settled, to_report
from tracer.report.wording.user_lines import user_lines
from tracer.report.wording.words import ABOUT, GUARANTEE, UNKNOWN_REASONS, by_severity, plural, target_words
from tracer.tables.versions import reviewed_in_words

if TYPE_CHECKING:
    from tracer.report.view import ReportView

#: Rows of the table that stands in the page for browsers without scripts.
PLAIN_ROWS = 200
#: Rows of the modules' bars, and changes of the plan that are listed.
MODULE_ROWS = 12
PLAN_ROWS = 100
#: The plan's first changes, shown unfolded.
PLAN_OPEN = 6
#: Regions of compiled code that are listed, and kernels and ops of one.
MOST_REGIONS = 60
MOST_IN_REGION = 60
#: A part of a bar that was counted at all is never thinner than this, in percent.
_THINNEST = 1.2


class Segment(NamedTuple):
    """One verdict's part of a bar."""

    verdict: Verdict
    calls: int
    width: float
    """Percent of the bar."""


class Bar(NamedTuple):
    """Calls of one phase or module, by verdict."""

    label: str
    total: int
    segments: tuple[Segment, ...]


class Part(NamedTuple):
    """One phase of the strip."""

    phase: Phase
    calls: int
    verdict: Verdict
    """The worst in it."""


class Unknown(NamedTuple):
    """Findings that share a reason for not being answered."""

    reason: str
    meaning: str
    findings: int
    calls: int
    ops: tuple[str, ...]
    details: tuple[str, ...]


class PlainRow(NamedTuple):
    """A finding where no script runs."""

    finding: Finding
    op: str
    """The op, or what of the process it is."""
    phase: str
    place: str


def _parting(report: ReportView) -> dict[str, Any]:
    """What the page says of runs that were compared; a page on one run loads none of what reads their values."""
    if report.repeated is None:
        return {"parting": None}
    from tracer.report.page.parting_page import parting_context

    return {"parting": parting_context(report.repeated)}


def page_context(report: ReportView, blocks: tuple[Block, ...]) -> dict[str, Any]:
    """Everything that ``report.html`` names, so that it is complete without a script; ``blocks`` are ``map_of``'s."""
    verdict, line = headline(report)
    judgement = report.judgement
    backend, settings = target_words(judgement)
    shown = report.plan[:PLAN_ROWS]
    phases = report.tally.by_phase
    return {
        "version": tracer.__version__,
        "guarantee": GUARANTEE,
        "verdict": verdict,
        "headline": line,
        "traced": _traced(report),
        "target": report.target,
        "backend": backend,
        "settings": settings,
        "tables": [(name, reviewed_in_words(range_)) for name, range_ in sorted(judgement.tables.items())],
        "banners": report.banners,
        "refuted": refuted(judgement),
        "refuted_words": (REFUTED, REFUTED_LEAD, to_report(judgement, refuted(judgement))),
        "settled": settled(judgement)[:PLAIN_ROWS],
        "settled_words": (SETTLED, SETTLED_LEAD),
        "answers": answers(report),
        "tally": by_severity(report.tally.as_is),
        "total": report.tally.total,
        "plan": shown,
        "plan_open": PLAN_OPEN,
        "plan_more": len(report.plan) - len(shown),
        "strip": _strip(phases),
        "blocks": blocks,
        "levels": 1 + max((block.depth for block in blocks), default=0),
        "mode": mode_effect(report.findings),
        "lines": user_lines(report),
        "targets": target_rows(report),
        "target_columns": columns(report),
        "most_rows_elsewhere": MOST_ROWS_ELSEWHERE,
        "command": command(report, judgement.target),
        "phases": [_bar(phase.value, phases[phase]) for phase in Phase if phase in phases],
        "modules": _module_bars(report),
        "gate": gate_in_words(report),
        "findings": report.findings,
        "plain_rows": [
            PlainRow(finding, subject_of(finding), phase_of(finding), place_of(finding))
            for finding in report.findings[:PLAIN_ROWS]
        ],
        "evidence": evidence_counts(report.findings),
        "unnamed": unnamed_sentence(report.judgement),
        "causes": _met(Cause, (finding.cause for finding in report.findings)),
        "finding_verdicts": _met(SEVERITY, (finding.verdict for finding in report.findings)),
        "finding_phases": _met(Phase, (finding.phase for finding in report.findings if phase_of(finding))),
        "backends": sorted({backend_of(finding, judgement).value for finding in report.findings}),
        "abouts": [ABOUT[about].label for about in About if any(finding.about is about for finding in report.findings)],
        "unknowns": _unknowns(report),
        "blind_spots": report.blind_spots,
        "environment": environment_rows(report.environment, judgement.differing_settings),
        "sources": judgement.sources,
        "ranks": page_ranks(report.ranks),
        **_compiled(report),
        **process_context(report),
        **_parting(report),
    }


def _compiled(report: ReportView) -> dict[str, Any]:
    """The regions of compiled code, the worst first."""
    rows = region_rows(report)
    return {
        "regions": rows[:MOST_REGIONS],
        "regions_more": max(0, len(rows) - MOST_REGIONS),
        "regions_told": regions_sentence(report),
        "most_in_region": MOST_IN_REGION,
    }


def map_of(report: ReportView) -> tuple[Block, ...]:
    """The model's map, coloured for the report's own target."""
    return model_map(report.tally.by_module)


def _strip(phases: Mapping[Phase, Mapping[Verdict, int]]) -> list[Part]:
    """The phases that ran, in the order of a step."""
    ran = [(phase, counts) for phase in Phase if (counts := phases.get(phase)) and any(counts.values())]
    return [Part(phase, sum(counts.values()), by_severity(counts)[0][0]) for phase, counts in ran]


def _met(words: Iterable[Word], met: Iterable[Word | None]) -> list[Word]:
    """Those of ``words`` that occur, in their own order: what a filter offers."""
    occurring = set(met)
    return [word for word in words if word in occurring]


def _traced(report: ReportView) -> str:
    """What was recorded, in one line: recordings, ranks, optimizer steps, calls."""
    sources = report.judgement.sources
    names = list(dict.fromkeys(source.name for source in sources if source.name))
    ranks = len({source.rank for source in sources if source.rank is not None})
    steps = max((source.optimizer_steps for source in sources), default=0)
    rest = f" and {len(names) - 3} more" if len(names) > 3 else ""
    parts = [", ".join(names[:3]) + rest] if names else []
    if len(sources) > 1:
        parts.append(plural(len(sources), "recording"))
    if ranks:
        parts.append(plural(ranks, "rank"))
    parts.append(plural(steps, "optimizer step"))
    parts.append(plural(report.tally.total, "call"))
    return " · ".join(parts)


def _bar(label: str, counts: Mapping[Verdict, int]) -> Bar:
    total = sum(counts.values())
    present = by_severity(counts)
    widths = [max(100 * count / total, _THINNEST) for _, count in present] if total else []
    scale = 100 / sum(widths) if widths else 0
    parts = (
        Segment(verdict, count, round(width * scale, 2))
        for (verdict, count), width in zip(present, widths, strict=True)
    )
    return Bar(label, total, tuple(parts))


def _module_bars(report: ReportView) -> list[Bar]:
    """The modules with the most calls of the worst verdicts; those without any risk are left out."""
    worse = SEVERITY[:-1]
    risky = [
        (module, counts)
        for module, counts in report.tally.by_module.items()
        if any(counts.get(verdict) for verdict in worse)
    ]
    risky.sort(key=lambda item: (*(-item[1].get(verdict, 0) for verdict in worse), item[0]))
    return [_bar(module or "outside modules", counts) for module, counts in risky[:MODULE_ROWS]]


def _unknowns(report: ReportView) -> list[Unknown]:
    groups: dict[UnknownReason | None, list[Finding]] = {}
    for finding in report.findings:
        if Verdict.UNKNOWN in (finding.verdict, finding.deterministic_mode):
            groups.setdefault(finding.reason, []).append(finding)
    return [
        Unknown(
            reason.value if reason else "no reason given",
            UNKNOWN_REASONS[reason] if reason else "The table does not say why.",
            len(group),
            sum(finding.count for finding in group if is_call(finding)),
            tuple(op for op, _ in Counter(subject_of(finding) for finding in group).most_common(8)),
            tuple(dict.fromkeys(finding.reason_detail for finding in group if finding.reason_detail))[:8],
        )
        for reason, group in groups.items()
    ]
