"""Markdown for a pull request's comment or a job's summary: verdict, plan, the worst findings.

It stays under what GitHub takes for a summary; what does not fit is counted.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from tracer.findings import Change, Finding
from tracer.plain import one_line, visible
from tracer.plan import name_of, place_of
from tracer.report.folding import rows_of
from tracer.report.wording.headline import headline
from tracer.report.wording.naming import advice_of, compiled_in, needs_in_words, runs_as_of, worth
from tracer.report.wording.words import VERDICTS, by_severity, plural, target_words

if TYPE_CHECKING:
    from tracer.report.view import ReportView

#: Bytes; GitHub refuses a summary of more than 1 MiB, and of a comment more than 65,536 characters.
LIMIT = 900_000
#: What stands in place of what did not fit, and the parts that must stand before it: the heading and the verdict.
_CUT = "\n\nThe rest did not fit; the HTML report has it all.\n"
_FIRST = 3
_FINDINGS = 100
_CHANGES = 20
_LONGEST = 200
#: What Markdown or GitHub would act on: emphasis, code, links, tables, HTML, mentions, issue numbers, headings.
_ACTS = re.compile(r"([\\`*_{}\[\]<>()#+\-.!|~@:&$^=])")


def render(report: ReportView) -> str:
    """The report in Markdown, under ``LIMIT`` bytes."""
    return shortened(report, LIMIT)


def shortened(report: ReportView, limit: int) -> str:
    """The report in at most ``limit`` bytes; empty where not even its first lines fit.

    It is cut between parts, so that no table's row, item or block of code stands half.
    """
    room = limit - len(_CUT)
    kept: list[str] = []
    for part in _parts(report):
        size = len(part.encode("utf-8")) + 1
        if size > room:
            return "\n".join(kept) + _CUT if len(kept) >= _FIRST else ""
        room -= size
        kept.append(part)
    return "\n".join(kept) + "\n"


def _parts(report: ReportView) -> Iterator[str]:
    _, line = headline(report)
    backend, settings = target_words(report.judgement)
    yield "## Determinism report"
    yield ""
    yield f"**{_said(line)}**"
    yield ""
    yield _said(f"Judged for {backend}, torch {report.target.torch}, {settings}.")
    yield ""
    counts = ", ".join(f"{count:,} {verdict}" for verdict, count in by_severity(report.tally.as_is))
    yield _said(f"{plural(report.tally.total, 'call')}: {counts}.") if counts else "Nothing was recorded."
    for banner in report.banners:
        yield f"\n> {_said(banner)}"
    if report.plan:
        yield "\n### What to change\n"
        yield from _plan(report.plan)
    spoken_for = report.spoken_for
    left = tuple(one for place, one in enumerate(report.findings) if place not in spoken_for)
    if left:
        yield f"\n### Findings ({len(left):,})\n"
        yield from _findings(left)
    if spoken_for:
        by = Counter(str(accepted.by) for accepted in spoken_for.values())
        told = ", ".join(f"{count:,} by {words}" for words, count in sorted(by.items()))
        yield f"\nAccepted, and not listed: {told}."


def _plan(plan: tuple[Change, ...]) -> Iterator[str]:
    for change in plan[:_CHANGES]:
        aside = "; ".join(
            filter(
                None,
                (
                    _said(change.where),
                    *(f"{need[:1].lower()}{need[1:]}" for need in needs_in_words(change)),
                    worth(change),
                ),
            )
        )
        lines = [f"{change.number}. {_said(advice_of(change))} ({aside})"]
        if change.code:
            code = visible(change.code)
            fence = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", code)), default=0))
            lines += [f"   {fence}python", *(f"   {line}" for line in code.splitlines()), f"   {fence}"]
        yield "\n".join(lines)
    if len(plan) > _CHANGES:
        yield f"\n{len(plan) - _CHANGES:,} more."


def _findings(findings: tuple[Finding, ...]) -> Iterator[str]:
    yield "| now | under the mode | calls | what | where | what to do |"
    yield "|---|---|---:|---|---|---|"
    rows = rows_of(findings)
    for row in rows[:_FINDINGS]:
        what = name_of(row.op) or row.subject or row.rule
        cells = (
            f"{VERDICTS[row.verdict].sign} {row.verdict}",
            str(row.deterministic_mode),
            f"{row.count:,}",
            f"{what} {row.phase}{runs_as_of(row)}" if row.op else what,
            f"{place_of(row)} ({compiled_in(row)})" if row.regions else place_of(row),
            row.remedy,
        )
        yield f"| {' | '.join(_said(cell) for cell in cells)} |"
    if len(rows) > _FINDINGS:
        yield f"\n{len(rows) - _FINDINGS:,} more."
    if len(rows) < len(findings):
        yield "\nSeeded draws are one row for like modules; the HTML report has each."


def _said(text: str) -> str:
    """``text`` on one line, shown as it is: nothing in it is markup, a mention or a link."""
    return _ACTS.sub(r"\\\1", one_line(text, _LONGEST)).replace("\\.", ".").replace("\\-", "-")
