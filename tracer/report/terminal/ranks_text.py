"""What differs between ranks, in a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.console import RenderableType

from tracer.plain import one_line
from tracer.report.terminal.terminal import heading, indented
from tracer.report.wording.ranks import agreement, differences

if TYPE_CHECKING:
    from tracer.report.view import ReportView

#: Lines of one kind that are shown.
_LINES = 12
_LONGEST = 240


def ranks_parts(report: ReportView) -> Iterator[RenderableType]:
    """The section, where several ranks were compared."""
    compared = report.ranks
    if compared is None:
        return
    yield heading("Ranks")
    yield indented(agreement(compared))
    for title, rows in differences(compared):
        yield indented(f"{title}:", style="bold")
        for row in rows[:_LINES]:
            yield indented(one_line(row, _LONGEST), 4)
        if len(rows) > _LINES:
            yield indented(f"and {len(rows) - _LINES:,} more; the JSON report has them all.", 4, style="dim")
