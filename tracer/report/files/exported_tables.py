"""The tables of CSV and data frames. Columns keep their names and order; a new one is added at the end."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterator, Mapping
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from tracer.errors import ReportError
from tracer.plain import visible
from tracer.report import finding_columns
from tracer.report.finding_columns import Cell, Column

if TYPE_CHECKING:
    import pandas as pd

    from tracer.judging.call_findings import JudgedCall
    from tracer.report.view import ReportView

FINDINGS = "findings"
#: What a spreadsheet takes for the start of a formula.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")

#: Facts of a call that have a column of their own.
_OWN_COLUMNS = ("device", "dtype")


class ExportedTable(NamedTuple):
    """One table: its columns, and the rows that a report has for it."""

    columns: Callable[[], tuple[Column[Any], ...]]
    """Asked for when a table is made, never copied: what is declared is what stands in it."""
    rows: Callable[[ReportView], Iterator[Any]]

    @property
    def header(self) -> list[str]:
        """The names of its columns."""
        return [column.name for column in self.columns()]

    def cells(self, report: ReportView) -> Iterator[tuple[Cell, ...]]:
        """The cells of each row of ``report``."""
        readers = [column.cell for column in self.columns()]
        return (tuple([read(row) for read in readers]) for row in self.rows(report))


class _Call(NamedTuple):
    """A recorded group with what was ruled on it, and the torch that it was judged for."""

    judged: JudgedCall
    torch: str

    @property
    def facts(self) -> str:
        """The recorded data without a column of its own, as JSON."""
        facts = {name: value for name, value in sorted(self.judged.group.facts.items()) if name not in _OWN_COLUMNS}
        return json.dumps(facts, ensure_ascii=False, separators=(",", ":")) if facts else ""


def table_named(name: str) -> ExportedTable:
    """The table called ``name``; ``ReportError`` for a name that is none."""
    if name not in TABLES:
        raise ReportError(f"there is no table {name!r}", hint=f"choose from {', '.join(TABLES)}")
    return TABLES[name]


def _fields(path: str, *names: str) -> Iterator[Column[Any]]:
    """A column for each field called so, of what stands at ``path`` in a row."""
    return (Column(name=name, cell=attrgetter(f"{path}{name}")) for name in names)


#: A row a group of recorded calls, deterministic ones too.
CALLS: tuple[Column[_Call], ...] = (
    Column(name="backend", cell=lambda row: row.judged.ruling.backend.value),  # whose table judged it
    Column(name="torch", cell=lambda row: row.torch),
    Column(name="op", cell=lambda row: row.judged.group.op),
    Column(name="runs_as", cell=lambda row: row.judged.ruling.runs_as),
    Column(name="phase", cell=lambda row: row.judged.group.phase.value),
    *_fields("judged.group.", "module", "location", "function", "called_from", "node"),
    Column(name="count", cell=lambda row: row.judged.group.count, is_number=True),
    Column(name="verdict", cell=lambda row: row.judged.ruling.verdict.value),
    Column(name="deterministic_mode", cell=lambda row: row.judged.ruling.deterministic_mode.value),
    Column(name="rule", cell=lambda row: row.judged.ruling.rule),  # empty where none was needed
    Column(name="cause", cell=lambda row: row.judged.ruling.cause.value if row.judged.ruling.cause else ""),
    Column(name="reason", cell=lambda row: row.judged.ruling.reason.value if row.judged.ruling.reason else ""),
    Column(name="device", cell=lambda row: str(row.judged.group.facts.get("device", ""))),
    Column(name="dtype", cell=lambda row: str(row.judged.group.facts.get("dtype", ""))),
    Column(name="facts", cell=lambda row: row.facts),
    Column(name="region", cell=lambda row: row.judged.group.region or ""),  # empty for a call that ran eagerly
)

#: Tables by the name that ``--table`` takes.
TABLES: Mapping[str, ExportedTable] = {
    FINDINGS: ExportedTable(finding_columns.in_files, lambda report: finding_columns.rows(report.judgement)),
    "calls": ExportedTable(lambda: CALLS, lambda report: (_Call(call, report.target.torch) for call in report.calls)),
}


# --- formats ----------------------------------------------------------------------------------------------


def render(report: ReportView, table: str = FINDINGS) -> str:
    """CSV: the header and a row an entry, lines ended by ``\\n``, cells quoted where they need it."""
    chosen = table_named(table)
    lines = io.StringIO()
    writer = csv.writer(lines, lineterminator="\n")
    writer.writerow(chosen.header)
    writer.writerows([_cell(value) for value in row] for row in chosen.cells(report))
    return lines.getvalue()


def _cell(value: Cell) -> str | int:
    """``value`` with an apostrophe before what would be a formula, and without control characters."""
    if not isinstance(value, str):
        return value
    text = visible(value)
    return f"'{text}" if value.startswith(_FORMULA) else text


def table_frame(report: ReportView, table: str = FINDINGS) -> pd.DataFrame:
    """One of the exported tables: the CSV's columns, plain strings, integer counts.

    Strings are Python's own: a pyarrow-backed column refuses the lone surrogates that a file name can hold.
    """
    import pandas as pd

    chosen = table_named(table)
    frame: pd.DataFrame = pd.DataFrame(list(chosen.cells(report)), columns=chosen.header, dtype=object)
    for column in chosen.columns():
        if column.is_number:
            frame[column.name] = frame[column.name].astype("int64")
    return frame
