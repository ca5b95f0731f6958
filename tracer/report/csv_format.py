"""CSV: one row a finding, safe to open in a spreadsheet."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING

from tracer.report.columns import COLUMNS, rows
from tracer.report.plain import visible

if TYPE_CHECKING:
    from tracer.report.report import Report

#: What a spreadsheet takes for the start of a formula.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def render(report: Report) -> str:
    """The header and a row a finding, lines ended by ``\\n``, cells quoted where they need it."""
    lines = io.StringIO()
    writer = csv.writer(lines, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows([_cell(value) for value in row] for row in rows(report.judgement))
    return lines.getvalue()


def _cell(value: str | int) -> str | int:
    """``value`` with an apostrophe before what would be a formula, and without control characters."""
    if isinstance(value, int):
        return value
    text = visible(value)
    return f"'{text}" if value.startswith(_FORMULA) else text
