"""Findings by the user's own lines: the line that led to them, and through which library lines."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from tracer.findings import Finding
from tracer.names import SEVERITY, Verdict
from tracer.plain import visible
from tracer.report import blocks as said
from tracer.report.blocks import Reader, Section, Words
from tracer.report.words import is_call, plural, subject_of
from tracer.trace.records import split_place

if TYPE_CHECKING:
    from tracer.report.view import ReportView

#: Lines that the page lists, worst first; ops and library lines that one of them names.
MOST_LINES = 200
#: Lines of files that stand unfolded.
OPEN_LINES = 25
_OPS = 4
#: Characters of a source line.
_LONGEST = 200
_THROUGH = 4


class Line(NamedTuple):
    """One line of code and what was found there."""

    number: int
    """Its place among the lines, worst first, from 1: what an address names."""
    place: str
    """``path:line``: what the table of findings filters by."""
    line: str
    """The line number alone."""
    source: str
    """Its text, where the trace holds it."""
    verdict: Verdict
    """The worst found there."""
    findings: int
    calls: int
    ops: tuple[str, ...]
    ops_more: int
    through: tuple[tuple[str, int], ...]
    """Library lines that it led to, with the findings there."""
    through_more: int

    @property
    def led_through(self) -> Words:
        """Those library lines in words."""
        return _named(tuple(place for place, _ in self.through), self.through_more)


class File(NamedTuple):
    """A file with its lines, from the top."""

    path: str
    lines: tuple[Line, ...]


class Lines(NamedTuple):
    """Everything for the page's section."""

    open: tuple[File, ...]
    folded: tuple[File, ...]
    left_out: int
    """Lines beyond ``MOST_LINES``."""
    has_source: bool


def line_of(finding: Finding) -> str:
    """The user's own ``path:line``, else the innermost one; empty where neither was recorded."""
    return finding.called_from or finding.location


def own_lines(report: ReportView, reader: Reader) -> Section | None:
    """The lines behind the findings, with their text where the trace holds it."""
    lines = user_lines(report)
    if not lines.open:
        return None
    lead = "The lines of your code that led to the findings, and the library lines between."
    how = "" if lines.has_source else " `tracer run --with-source` keeps their text."
    columns = said.columns("Line", "Worst", "Ops", "Through", brief="Worst")
    rows = tuple(_cells(line) for file in (*lines.open, *lines.folded) for line in file.lines)
    table = said.Table(columns, rows, noun="line", left_out=lines.left_out, elsewhere="the table of findings has")
    blocks = (said.lead(f"{lead}{how}"), said.Picture("lines", lines, (table,)))
    return Section(anchor="lines", title="Your lines", blocks=blocks)


def _cells(line: Line) -> tuple[Words, ...]:
    counted = plural(line.findings, "finding") + (f", {plural(line.calls, 'call')}" if line.calls else "")
    return (
        said.Code(line.place),
        (said.Badge(line.verdict), f" {counted}"),
        _named(line.ops, line.ops_more),
        line.led_through,
    )


def _named(names: tuple[str, ...], more: int) -> Words:
    return (said.Code(", ".join(names)), f" and {more:,} more" if more else "")


def user_lines(report: ReportView) -> Lines:
    """The lines behind the findings, by file; the file with the worst line first."""
    found: dict[str, list[Finding]] = {}
    for finding in report.findings:
        if place := line_of(finding):
            found.setdefault(place, []).append(finding)
    ordered = sorted(found.items(), key=lambda item: (_worst(item[1]), -_calls(item[1]), item[0]))
    sources = report.judgement.trace.source_lines
    lines = [
        _line(number, place, group, sources.get(place, ""))
        for number, (place, group) in enumerate(ordered[:MOST_LINES], 1)
    ]
    left_out = max(0, len(ordered) - MOST_LINES)
    has_source = any(line.source for line in lines)
    return Lines(_by_file(lines[:OPEN_LINES]), _by_file(lines[OPEN_LINES:]), left_out, has_source)


def _by_file(lines: list[Line]) -> tuple[File, ...]:
    files: dict[str, list[Line]] = {}
    for line in lines:
        files.setdefault(line.place.rpartition(":")[0] or line.place, []).append(line)
    return tuple(File(path, tuple(sorted(members, key=_position))) for path, members in files.items())


def _position(line: Line) -> tuple[int, str]:
    return (split_place(line.place)[1] or 0, line.place)


def _line(number: int, place: str, group: list[Finding], source: str) -> Line:
    ops = list(dict.fromkeys(map(subject_of, group)))
    through = Counter(finding.location for finding in group if finding.called_from and finding.location)
    return Line(
        number,
        place,
        place.rpartition(":")[2] if ":" in place else "",
        " ".join(visible(source).splitlines())[:_LONGEST],
        SEVERITY[_worst(group)],
        len(group),
        _calls(group),
        tuple(ops[:_OPS]),
        max(0, len(ops) - _OPS),
        tuple(through.most_common(_THROUGH)),
        max(0, len(through) - _THROUGH),
    )


def _worst(group: list[Finding]) -> int:
    return min(SEVERITY.index(finding.verdict) for finding in group)


def _calls(group: list[Finding]) -> int:
    return sum(finding.count for finding in group if is_call(finding))
