"""A judgement with everything that is said about it: findings, tally, plan, and the formats."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tracer.report.files import formats
from tracer.report.view import ReportView

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False, repr=False)
class Report(ReportView):
    """A trace judged for one target: ``findings``, ``tally`` and ``plan``, in every format.

    It never changes: setting an attribute raises ``AttributeError``.
    """

    def to_html(self) -> str:
        """One self-contained page that opens offline. Raises ``ReportError`` if its templates are missing."""
        return formats.render("html", self)

    def to_csv(self, table: str = "findings") -> str:
        """One row a finding, or with ``table="calls"`` one a group of recorded calls.

        The headers are those of ``tracer.report.finding_columns``; no cell is a formula. Raises ``ReportError``
        for a table that does not exist.
        """
        return formats.render("csv", self, table=table)

    def to_json(self) -> str:
        """The judgement and its plan, as ``tracer.report.files.json_format.Document`` describes."""
        return formats.render("json", self)

    def to_text(self, *, width: int | None = None, color: bool | None = None, limit: int | None = 10) -> str:
        """The report for a terminal: ``width`` columns, with ANSI ``color`` or not, ``limit`` rows of findings.

        ``None`` asks the terminal (``COLUMNS``, ``NO_COLOR``, whether standard output is one), or, for
        ``limit``, shows all. Findings with one answer are one row.
        """
        from tracer.report.render.terminal import to_text

        return to_text(self, width=width, color=color, limit=limit)

    def to_dataframe(self, table: str = "findings") -> pd.DataFrame:
        """One row a finding, or a group of calls, with the CSV's columns; what a finding about the process
        speaks of is in ``findings``, ``op`` is empty there."""
        from tracer.report.finding_columns import table_frame

        return table_frame(self, table)

    def write(self, path: str | os.PathLike[str]) -> Path:
        """Write the format that ``path``'s suffix names, whole or not at all, and return the path.

        Raises ``ReportError`` in one line for a suffix that names no format, and where the path cannot be
        written.
        """
        return formats.write(path, self)

    def _repr_html_(self) -> str:
        """A few lines for a notebook; ``to_html()`` has the whole report."""
        from tracer.report.render.page import to_notebook

        return to_notebook(self)

    def __repr__(self) -> str:
        target = self.target
        return (
            f"<Report: {len(self.findings)} findings in {self.tally.total} calls, "
            f"for {target.backend}, torch {target.torch}, settings {target.settings}>"
        )
