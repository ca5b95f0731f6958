"""What trials and data of the run showed, in a terminal: a table that was refuted before anything else."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import RenderableType

from tracer.findings import Judgement
from tracer.plain import one_line, visible
from tracer.report.terminal.terminal import heading, indented
from tracer.report.wording.runs.tried import REFUTED, REFUTED_LEAD, SETTLED, SETTLED_LEAD, refuted, settled, to_report
from tracer.report.wording.words import plural

#: Characters of one string that are shown.
_LONGEST = 240
_ROWS = 12


def tried_parts(judgement: Judgement) -> Iterator[RenderableType]:
    """What trials refuted, with the text to send."""
    found = refuted(judgement)
    if not found:
        return
    yield heading(REFUTED)
    yield indented(REFUTED_LEAD)
    for line in visible(to_report(judgement, found)).splitlines():
        yield indented(line, 5, style="bold")


def settled_parts(judgement: Judgement) -> Iterator[RenderableType]:
    """What the data of the run settle."""
    rows = settled(judgement)
    if not rows:
        return
    yield heading(f"{SETTLED} ({len(rows):,})")
    yield indented(SETTLED_LEAD)
    for one in rows[:_ROWS]:
        calls = plural(one.finding.count, "call")
        yield indented(one_line(f"{one.op} {one.finding.phase}, {calls}, {one.place}", _LONGEST), 4)
        yield indented(one_line(one.why, _LONGEST), 6, style="dim")
    if len(rows) > _ROWS:
        yield indented(f"and {len(rows) - _ROWS:,} more; the HTML and JSON reports have them.", 4, style="dim")
