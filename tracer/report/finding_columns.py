"""The columns of a finding, each declared once for CSV, data frames, and the page's data; and the tables made of them.

Columns of files keep their names and their order; a new one is added behind them.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from tracer.errors import ReportError
from tracer.findings import Condition, Deciding, Evidence, Finding, Judgement
from tracer.names import Backend, Word
from tracer.plain import visible
from tracer.plan import name_of, place_of
from tracer.report import Report
from tracer.report.words import (
    VERDICTS,
    is_call,
    ops_behind,
    phase_of,
    runs_as_of,
    subject_of,
)
from tracer.tables.rules import in_words
from tracer.trace.records import FactValue

if TYPE_CHECKING:
    import pandas as pd

    from tracer.judging.call_findings import JudgedCall

_EXTRAPOLATED = "Extrapolated: the target's torch is newer than the table."

Cell = str | int
RowT = TypeVar("RowT")


@dataclass(frozen=True, kw_only=True)
class CellColumn(Generic[RowT]):
    """One column of a table that programs read."""

    name: str
    """As headers and programs spell it; it never changes."""
    cell: Callable[[RowT], Cell]
    is_number: bool = False


class Judged(NamedTuple):
    """A row: a finding with the judgement that it belongs to."""

    finding: Finding
    judgement: Judgement


class Look(Word):
    """The look of a cell in an opened row of the page."""

    TEXT = "text"
    PROSE = "prose"
    """A sentence of a table; what stands between backticks is code."""
    CODE = "code"
    LINES = "lines"
    """A list, an item a line."""
    CODE_LINES = "code-lines"
    PASTE = "paste"
    """Lines of code to copy."""


@dataclass(frozen=True, kw_only=True)
class FindingColumn(CellColumn[Judged]):
    """One column of the findings, and in which formats it stands."""

    in_files: bool = False
    """Whether it stands in CSV and data frames."""
    is_on_page: bool = True
    """Whether the page's data have it."""
    on_page: Callable[[Judged], Cell] | None = None
    """Returns its cell for the page, where that is another text."""
    label: str = ""
    """Its name in an opened row of the page, where an empty cell is not shown; empty if it is not shown at all."""
    look: Look = Look.TEXT
    leads: bool = False
    """Whether it precedes what was recorded in an opened row, as the reason and the remedy do."""


def on_page() -> list[FindingColumn]:
    """The columns of the page's data."""
    return [column for column in COLUMNS if column.is_on_page]


def details() -> list[FindingColumn]:
    """Return the columns that an opened row shows, in the order of reading."""
    return sorted((column for column in COLUMNS if column.label), key=lambda column: not column.leads)


def backend_of(finding: Finding, judgement: Judgement) -> Backend:
    """The backend whose table judged ``finding``; the target's where the finding does not say."""
    return judgement.target.backend if finding.backend is Backend.RECORDED else finding.backend


def _location(row: Judged) -> str:
    """The place; of what has no line, what else says where it is."""
    finding = row.finding
    return finding.location or ("" if is_call(finding) or finding.called_from else place_of(finding))


def _ops(row: Judged) -> str:
    """A line an op, most calls first."""
    ordered = sorted(ops_behind(row.finding).items(), key=lambda item: (-item[1], item[0]))
    return "\n".join(f"{' '.join(name_of(op).split())}: {calls:,}" for op, calls in ordered)


@lru_cache(maxsize=4096)  # few distinct ones stand behind many findings
def _facts(facts: tuple[tuple[str, FactValue], ...]) -> str:
    return ", ".join(f"{name}={value}" for name, value in sorted(facts))


@lru_cache(maxsize=4096)
def _evidence(evidence: tuple[Evidence, ...]) -> str:
    """A line each; no other newline is among them."""
    return "\n".join(f"{item.kind.says}: {' '.join(item.ref.split())}" for item in evidence)


def _planned(row: Judged) -> str:
    """Return the verdict under the plan's settings, where they change anything."""
    if row.finding.planned is None:
        return ""
    as_is, in_mode = (VERDICTS[verdict].label for verdict in row.finding.planned)
    return as_is if as_is == in_mode else f"{as_is}; {in_mode} in deterministic mode"


@lru_cache(maxsize=4096)  # few cases decide many findings
def deciding_words(decided: Deciding) -> str:
    """A line for each of the two verdicts that a case of the rule decided; empty where none did."""
    both = (("As the settings stand", decided.as_is), ("In deterministic mode", decided.deterministic_mode))
    return "\n".join(
        f"{label}: {' / or: '.join('; '.join(map(_condition, case)) or 'always' for case in cases)}"
        for label, cases in both
        if cases
    )


def _condition(condition: Condition) -> str:
    if condition.asks == "torch":
        return f"torch {condition.holds_for[0]}"
    return in_words(condition.asks, frozenset(condition.holds_for))


def _column(
    name: str,
    label: str = "",
    look: Look = Look.TEXT,
    *,
    cell: Callable[[Judged], Cell] | None = None,
    **more: Any,
) -> FindingColumn:
    """A column that holds the finding's field ``name`` unless ``cell`` says otherwise."""
    return FindingColumn(name=name, cell=cell or attrgetter(f"finding.{name}"), label=label, look=look, **more)


#: Every column. Files have theirs in this order; so do the page's rows, and what an opened row shows.
COLUMNS: tuple[FindingColumn, ...] = (
    _column(
        "backend",
        "Judged by the table of",
        in_files=True,
        cell=lambda row: backend_of(row.finding, row.judgement).value,
    ),
    _column("torch", cell=attrgetter("judgement.target.torch"), in_files=True, is_on_page=False),
    _column("rule", "Rule", Look.CODE, in_files=True),
    _column("subject", "Speaks of", Look.CODE),
    _column("ops", "Matters for these calls", Look.CODE_LINES, cell=_ops),
    _column("op", "Op", Look.CODE, in_files=True, on_page=lambda row: subject_of(row.finding)),
    _column("runs_as", "Runs as", Look.CODE, cell=lambda row: runs_as_of(row.finding)),
    _column(
        "host",
        "Runs on the host",
        cell=lambda row: f"{row.finding.host.says}: judged for cpu" if row.finding.host else "",
    ),
    _column("phase", in_files=True, cell=attrgetter("finding.phase.value"), on_page=lambda row: phase_of(row.finding)),
    _column("about", cell=attrgetter("finding.about.label")),
    _column("module", "Module", Look.CODE, in_files=True),
    _column("location", "Place", Look.CODE, in_files=True, on_page=_location),
    _column("function", "Function", Look.CODE, in_files=True),
    _column("called_from", "Called from", Look.CODE, in_files=True),
    _column("node", "Autograd node", Look.CODE),
    _column("regions", "Compiled, in region", Look.CODE_LINES, cell=lambda row: "\n".join(row.finding.regions)),
    _column("kernels", "Kernels", Look.CODE_LINES, cell=lambda row: "\n".join(row.finding.kernels)),
    _column("facts", "Facts recorded", Look.CODE, cell=lambda row: _facts(tuple(row.finding.facts.items()))),
    _column("count", in_files=True, is_number=True),
    _column("verdict", in_files=True, cell=attrgetter("finding.verdict.value")),
    _column("deterministic_mode", in_files=True, cell=attrgetter("finding.deterministic_mode.value")),
    _column("cause", in_files=True, cell=lambda row: row.finding.cause.value if row.finding.cause else ""),
    _column("why", "Why", Look.PROSE, leads=True),
    _column(
        "reason",
        "Unknown because",
        leads=True,
        cell=lambda row: f"{row.finding.reason.says} {row.finding.reason_detail}".strip() if row.finding.reason else "",
    ),
    _column("remedy", "What to do", Look.PROSE, leads=True, in_files=True),
    _column("code", "Code to paste", Look.PASTE, leads=True),
    _column(
        "where",
        "Where it must stand",
        Look.PROSE,
        leads=True,
        cell=lambda row: row.finding.where if row.finding.code else "",
    ),
    _column(
        "decided",
        "Conditions that decided",
        Look.LINES,
        leads=True,
        cell=lambda row: deciding_words(row.finding.decided),
    ),
    _column("planned", "With the plan's settings", leads=True, cell=_planned),
    _column("note", "Note", leads=True, cell=lambda row: _EXTRAPOLATED if row.finding.extrapolated else ""),
    _column(
        "evidence",
        "Evidence",
        Look.LINES,
        leads=True,
        in_files=True,
        cell=lambda row: "; ".join(map(str, row.finding.evidence)),
        on_page=lambda row: _evidence(row.finding.evidence),
    ),
)


# --- tables of CSV and data frames -------------------------------------------------------------------------

FINDINGS = "findings"
#: What a spreadsheet takes for the start of a formula.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")

#: Facts of a call that have a column of their own.
_OWN_COLUMNS = ("device", "dtype")


class _CallRow(NamedTuple):
    """A recorded group with what was ruled on it, and the torch that it was judged for."""

    judged: JudgedCall
    torch: str

    @property
    def facts(self) -> str:
        """The recorded data without a column of its own, as JSON."""
        facts = {name: value for name, value in sorted(self.judged.group.facts.items()) if name not in _OWN_COLUMNS}
        return json.dumps(facts, ensure_ascii=False, separators=(",", ":")) if facts else ""


#: A row a group of recorded calls, deterministic ones too.
CALLS: tuple[CellColumn[_CallRow], ...] = (
    CellColumn(name="backend", cell=lambda row: row.judged.ruling.backend.value),  # whose table judged it
    CellColumn(name="torch", cell=lambda row: row.torch),
    CellColumn(name="op", cell=lambda row: row.judged.group.op),
    CellColumn(name="runs_as", cell=lambda row: row.judged.ruling.runs_as),
    CellColumn(name="phase", cell=lambda row: row.judged.group.phase.value),
    *(
        CellColumn(name=name, cell=attrgetter(f"judged.group.{name}"))
        for name in ("module", "location", "function", "called_from", "node")
    ),
    CellColumn(name="count", cell=lambda row: row.judged.group.count, is_number=True),
    CellColumn(name="verdict", cell=lambda row: row.judged.ruling.verdict.value),
    CellColumn(name="deterministic_mode", cell=lambda row: row.judged.ruling.deterministic_mode.value),
    CellColumn(name="rule", cell=lambda row: row.judged.ruling.rule),  # empty where none was needed
    CellColumn(name="cause", cell=lambda row: row.judged.ruling.cause.value if row.judged.ruling.cause else ""),
    CellColumn(name="reason", cell=lambda row: row.judged.ruling.reason.value if row.judged.ruling.reason else ""),
    CellColumn(name="device", cell=lambda row: str(row.judged.group.facts.get("device", ""))),
    CellColumn(name="dtype", cell=lambda row: str(row.judged.group.facts.get("dtype", ""))),
    CellColumn(name="facts", cell=lambda row: row.facts),
    CellColumn(name="region", cell=lambda row: row.judged.group.region or ""),  # empty for a call that ran eagerly
)

#: Tables by the name that ``--table`` takes.
TABLES = (FINDINGS, "calls")


def table_columns(table: str) -> tuple[CellColumn[Any], ...]:
    """The columns of the table called so; ``ReportError`` for a name that is none."""
    if table not in TABLES:
        raise ReportError(f"there is no table {table!r}", hint=f"choose from {', '.join(TABLES)}")
    return tuple(column for column in COLUMNS if column.in_files) if table == FINDINGS else CALLS


def _cells(report: Report, table: str) -> list[tuple[Cell, ...]]:
    """The cells of each row."""
    readers = [column.cell for column in table_columns(table)]
    entries: Iterator[Any] = (Judged(finding, report.judgement) for finding in report.findings)
    if table != FINDINGS:
        entries = (_CallRow(call, report.target.torch) for call in report.calls)
    return [tuple([read(entry) for read in readers]) for entry in entries]


def render(report: Report, table: str = FINDINGS) -> str:
    """CSV: the header and a row an entry, lines ended by ``\\n``, cells quoted where they need it."""
    lines = io.StringIO()
    writer = csv.writer(lines, lineterminator="\n")
    writer.writerow(column.name for column in table_columns(table))
    writer.writerows(map(_inert, row) for row in _cells(report, table))
    return lines.getvalue()


def _inert(value: Cell) -> str | int:
    """``value`` with an apostrophe before what would be a formula, and without control characters."""
    if not isinstance(value, str):
        return value
    text = visible(value)
    return f"'{text}" if value.startswith(_FORMULA) else text


def table_frame(report: Report, table: str = FINDINGS) -> pd.DataFrame:
    """One of the tables: the CSV's columns, plain strings, integer counts.

    Strings are Python's own: a pyarrow-backed column refuses the lone surrogates that a file name can hold.
    """
    import pandas as pd

    columns = table_columns(table)
    names = [column.name for column in columns]
    frame: pd.DataFrame = pd.DataFrame(_cells(report, table), columns=names, dtype=object)
    for column in columns:
        if column.is_number:
            frame[column.name] = frame[column.name].astype("int64")
    return frame
