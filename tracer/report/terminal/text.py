"""The report in a terminal: the same story as the page, in as many columns as there are.

Colour only repeats what a sign and a word already say; in a pipe there is none.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich import box
from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table

from tracer.findings import Change, Finding
from tracer.names import Detail, Verdict
from tracer.plain import one_line, visible
from tracer.plan import name_of, place_of
from tracer.report.folding import rows_of
from tracer.report.terminal.compiled_text import compiled_parts
from tracer.report.terminal.process_text import process_parts
from tracer.report.terminal.ranks_text import ranks_parts
from tracer.report.terminal.terminal import Prose, hanging, heading, indented, printed
from tracer.report.terminal.tried_text import settled_parts, tried_parts
from tracer.report.wording.answers import answers, evidence_counts, unnamed_sentence
from tracer.report.wording.headline import headline
from tracer.report.wording.naming import (
    advice_of,
    calls_by_op,
    compiled_in,
    counted,
    needs_in_words,
    ops_behind,
    phase_of,
    subject_of,
    worth,
)
from tracer.report.wording.words import GUARANTEE, UNKNOWN_REASONS, VERDICTS, by_severity, plural, target_words

if TYPE_CHECKING:
    from tracer.report.view import ReportView

#: Columns from which findings are a table; below, each is a short paragraph.
_TABLE_FROM = 72
#: Characters of one string that are shown; the middle of a longer one is left out.
_LONGEST = 240
_PLAN_LIMIT = 12
_FILE_WIDTH = 100


def render(report: ReportView) -> str:
    """The whole report as a text file: plain, 100 columns, every finding."""
    return to_text(report, width=_FILE_WIDTH, color=False, limit=None)


def to_text(
    report: ReportView, *, width: int | None, color: bool | None, limit: int | None, detail: Detail = Detail.USUAL
) -> str:
    """The report as text; ``None`` asks the terminal for width and colour, and shows every finding.

    In brief it is the verdict and the counts; whole, every change and finding, with the reasons and the evidence.
    """
    if detail is Detail.BRIEF:
        return printed(lambda _: _brief(report), width=width, color=color)
    return printed(
        lambda columns: _parts(report, columns, None if detail is Detail.WHOLE else limit, detail),
        width=width,
        color=color,
    )


def _brief(report: ReportView) -> Iterator[RenderableType]:
    """Two lines: what holds, and how many calls and findings there are of each verdict."""
    yield _verdict(report)
    calls = ", ".join(f"{count:,} {VERDICTS[verdict].label}" for verdict, count in by_severity(report.tally.as_is))
    found = plural(len(report.findings), "finding")
    yield Prose(f"{found}; {plural(report.tally.total, 'call')}{f': {calls}' if calls else ''}")


def _verdict(report: ReportView) -> RenderableType:
    verdict, line = headline(report)
    return Prose(f"{VERDICTS[verdict].sign} {line}", style=f"bold {VERDICTS[verdict].style}")


def _parts(
    report: ReportView, width: int, limit: int | None, detail: Detail = Detail.USUAL
) -> Iterator[RenderableType]:
    """What is printed, from the top."""
    backend, settings = target_words(report.judgement)
    yield _verdict(report)
    yield Prose(f"Judged for {backend}, torch {one_line(report.target.torch, _LONGEST)}, settings {settings}.")
    yield Prose(GUARANTEE, style="dim")
    for banner in report.banners:
        yield Prose(f"Note: {one_line(banner, 2 * _LONGEST)}", style="bold")
    yield from tried_parts(report.judgement)
    yield from _plan(report.plan, None if detail is Detail.WHOLE else _PLAN_LIMIT)
    for answer in answers(report):
        yield Prose()
        yield Prose(answer.question, style="bold")
        yield indented(one_line(answer.sentence))
    yield from _tally(report)
    yield from _findings(report, width, limit, detail is Detail.WHOLE)
    if detail is Detail.WHOLE:
        yield from _reasons(report.findings)
    yield from settled_parts(report.judgement)
    yield from compiled_parts(report, whole=detail is Detail.WHOLE)
    yield from process_parts(report)
    yield from ranks_parts(report)
    yield from _blind_spots(report)


def _tally(report: ReportView) -> Iterator[RenderableType]:
    yield heading("Calls by verdict")
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    table.add_column()
    table.add_column(justify="right")
    for verdict, count in by_severity(report.tally.as_is):
        table.add_row(_signed(verdict), f"{count:,}")
    table.add_row("  all", f"{report.tally.total:,}")
    yield Padding(table, (0, 0, 0, 2))


def _plan(plan: tuple[Change, ...], limit: int | None) -> Iterator[RenderableType]:
    if not plan:
        return
    yield heading("What to change")
    for change in plan[:limit]:
        yield hanging(f"{change.number}.", one_line(advice_of(change), 2 * _LONGEST))
        for line in visible(change.code).splitlines():
            yield indented(line, 5, style="bold")
        if change.where:
            yield indented(one_line(change.where, _LONGEST), 5, style="dim")
        for need in needs_in_words(change):
            yield indented(need, 5)
        yield indented(worth(change), 5, style="dim")
    if limit is not None and len(plan) > limit:
        yield indented(f"and {plural(len(plan) - limit, 'more change')}.")


def _findings(report: ReportView, width: int, limit: int | None, whole: bool) -> Iterator[RenderableType]:
    findings = report.findings
    yield heading(f"Findings ({len(findings):,})")
    if not findings:
        yield indented("None. Calls without a finding are in the tally alone.")
        return
    rows = findings if whole else rows_of(findings)
    shown = rows if limit is None else rows[:limit]
    yield _table(shown) if width >= _TABLE_FROM else Padding(_paragraphs(shown), (0, 0, 0, 2))
    if len(shown) < len(rows):
        yield Prose(f"{len(rows) - len(shown):,} more; the HTML, CSV and JSON reports have them all.")
    if len(rows) < len(findings):
        yield Prose("Seeded draws are one row for like modules; --verbose, HTML, CSV and JSON have each.", style="dim")
    kinds = "; ".join(f"{count:,} {kind}" for kind, count in evidence_counts(findings))
    unnamed = unnamed_sentence(report.judgement)
    yield Prose(f"Best evidence for each finding: {kinds}. {unnamed}".rstrip(), style="dim")


def _table(findings: tuple[Finding, ...]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1), pad_edge=False, expand=True)
    table.add_column("Now, then under the mode", width=18, overflow="fold")
    table.add_column("Calls", justify="right", min_width=5, overflow="fold")
    table.add_column("Op and place", ratio=5, overflow="fold")
    table.add_column("What to do", ratio=4, overflow="fold")
    for finding in findings:
        verdicts = _signed(finding.verdict)
        if finding.deterministic_mode is not finding.verdict:
            verdicts.append("\n→ ").append_text(_signed(finding.deterministic_mode))
        table.add_row(verdicts, f"{finding.count:,}", _place(finding), Prose(_advice(finding)))
        table.add_section()
    return table


def _paragraphs(findings: tuple[Finding, ...]) -> Prose:
    """What fits a narrow terminal: a few lines a finding, nothing side by side."""
    text = Prose(overflow="fold")
    for finding in findings:
        text.append_text(_signed(finding.verdict))
        if finding.deterministic_mode is not finding.verdict:
            text.append(" → ").append_text(_signed(finding.deterministic_mode))
        text.append(f", {counted(finding)}\n").append_text(_place(finding)).append("\n")
        advice = _advice(finding)
        text.append(f"{advice}\n\n" if advice else "\n")
    text.rstrip()
    return text


def _place(finding: Finding) -> Prose:
    text = Prose(one_line(subject_of(finding), _LONGEST), style="bold")
    phase = phase_of(finding)
    text.append(f"{f' {phase}' if phase else ''}\n{one_line(place_of(finding), _LONGEST)}", style="not bold")
    if finding.runs_as:
        text.append(f"\nruns as {one_line(name_of(finding.runs_as), _LONGEST)}", style="not bold")
    if finding.regions:
        text.append(f"\n{one_line(compiled_in(finding), _LONGEST)}", style="not bold")
    if ops_behind(finding):
        text.append(f"\nfor {one_line(calls_by_op(finding.ops, 3), _LONGEST)}", style="not bold dim")
    if finding.module and (finding.location or finding.called_from):
        text.append(f"\n{one_line(finding.module, _LONGEST)}", style="not bold dim")
    return text


def _advice(finding: Finding) -> str:
    """The remedy; for what is unknown without one, why it is."""
    if finding.remedy or finding.reason is None:
        return one_line(finding.remedy, 2 * _LONGEST)
    detail = f" ({one_line(finding.reason_detail, _LONGEST)})" if finding.reason_detail else ""
    return f"{UNKNOWN_REASONS[finding.reason]}{detail}"


def _reasons(findings: tuple[Finding, ...]) -> Iterator[RenderableType]:
    """Why each rule says what it says, with its evidence: once, however many findings bear it."""
    told: dict[tuple[str, str], Finding] = {}
    for finding in findings:
        told.setdefault((finding.rule, finding.why), finding)
    if not told:
        return
    yield heading("Why, and the evidence")
    for finding in told.values():
        yield indented(one_line(finding.rule or "no rule", _LONGEST), style="bold")
        why = finding.why or (UNKNOWN_REASONS[finding.reason] if finding.reason is not None else "")
        if why:
            yield indented(one_line(why, 8 * _LONGEST), 4)
        for row in finding.evidence:
            yield indented(one_line(str(row), 8 * _LONGEST), 4, style="dim")


def _blind_spots(report: ReportView) -> Iterator[RenderableType]:
    if not report.blind_spots:
        return
    yield heading("Not seen")
    for spot in report.blind_spots:
        place = f" at {one_line(spot.location, _LONGEST)}" if spot.location else ""
        times = f", {spot.count:,} times" if spot.count > 1 else ""
        yield indented(f"{spot.kind}: {one_line(spot.detail, _LONGEST)}{place}{times}")


def _signed(verdict: Verdict) -> Prose:
    words = VERDICTS[verdict]
    return Prose(f"{words.sign} {words.label}", style=words.style)
