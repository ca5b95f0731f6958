"""CSV: one table, a row an entry, safe to open in a spreadsheet."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING

from tracer.plain import visible
from tracer.report.column import Cell
from tracer.report.files.exported_tables import FINDINGS, table_named

if TYPE_CHECKING:
    from tracer.report.view import ReportView

#: What a spreadsheet takes for the start of a formula.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def render(report: ReportView, table: str = FINDINGS) -> str:
    """The header and a row an entry, lines ended by ``\\n``, cells quoted where they need it."""
    chosen = table_named(table)
    lines = io.StringIO()
    writer = csv.writer(lines, lineterminator="\n")
    writer.writerow(chosen.header)
    writer.writerows([_cell(value) for value in row] for row in chosen.cells(report))
    return lines.getvalue()


def _cell(value: Cell) -> str | int:
    """``value`` with an apostrophe before what would be a formula, and without control characters."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return value
    text = visible(value)
    return f"'{text}" if value.startswith(_FORMULA) else text
