"""The columns of a finding, each declared once for CSV, data frames, and the page's data; and the tables made of them.

Columns of files keep their names and their order; a new one is added behind them.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, cast

from tracer.errors import ReportError
from tracer.findings import Deciding, Evidence, Finding, Judgement
from tracer.names import Backend, Word
from tracer.plain import visible
from tracer.plan import name_of, place_of
from tracer.report import Report
from tracer.report.words import VERDICTS, is_call, ops_behind, phase_of, runs_as_of, subject_of
from tracer.tables.rules import in_words
from tracer.trace.records import FactValue

if TYPE_CHECKING:
    import pandas as pd

    from tracer.judging.call_findings import JudgedCall

Cell = str | int


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
class FindingColumn:
    """One column of the findings, and in which formats it stands."""

    name: str
    """As headers and programs spell it; it never changes."""
    cell: Callable[[Finding, Judgement], Cell]
    is_number: bool = False
    in_files: bool = False
    """Whether it stands in CSV and data frames."""
    is_on_page: bool = True
    """Whether the page's data have it."""
    on_page: Callable[[Finding, Judgement], Cell] | None = None
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


def _ops(finding: Finding, _: Judgement) -> str:
    """A line an op, most calls first."""
    ordered = sorted(ops_behind(finding).items(), key=lambda item: (-item[1], item[0]))
    return "\n".join(f"{' '.join(name_of(op).split())}: {calls:,}" for op, calls in ordered)


@lru_cache(maxsize=4096)  # few distinct ones stand behind many findings
def _facts(facts: tuple[tuple[str, FactValue], ...]) -> str:
    return ", ".join(f"{name}={value}" for name, value in sorted(facts))


@lru_cache(maxsize=4096)
def _evidence(evidence: tuple[Evidence, ...]) -> str:
    """A line each; no other newline is among them."""
    return "\n".join(f"{item.kind.says}: {' '.join(item.ref.split())}" for item in evidence)


def _planned(finding: Finding, _: Judgement) -> str:
    """Return the verdict under the plan's settings, where they change anything."""
    if finding.planned is None:
        return ""
    as_is, in_mode = (VERDICTS[verdict].label for verdict in finding.planned)
    return as_is if as_is == in_mode else f"{as_is}; {in_mode} in deterministic mode"


@lru_cache(maxsize=4096)  # few cases decide many findings
def deciding_words(decided: Deciding) -> str:
    """A line for each of the two verdicts that a case of the rule decided; empty where none did."""
    lines = []
    both = (("As the settings stand", decided.as_is), ("In deterministic mode", decided.deterministic_mode))
    for label, cases in both:
        words = [
            [
                f"torch {one.holds_for[0]}" if one.asks == "torch" else in_words(one.asks, frozenset(one.holds_for))
                for one in case
            ]
            for case in cases
        ]
        lines += [f"{label}: {' / or: '.join('; '.join(case) or 'always' for case in words)}"] if cases else []
    return "\n".join(lines)


def _field(record: object, name: str) -> Cell:
    """A field as a cell: the spelling of a word, nothing for what is not known."""
    value = getattr(record, name)
    if isinstance(value, Word):
        return str(value)
    return "" if value is None else cast("Cell", value)


def _column(
    name: str,
    label: str = "",
    look: Look = Look.TEXT,
    *,
    cell: Callable[[Finding, Judgement], Cell] | None = None,
    **more: Any,
) -> FindingColumn:
    """A column that holds the finding's field ``name`` unless ``cell`` says otherwise."""
    return FindingColumn(name=name, cell=cell or (lambda row, _: _field(row, name)), label=label, look=look, **more)


#: Every column. Files have theirs in this order; so do the page's rows, and what an opened row shows.
COLUMNS: tuple[FindingColumn, ...] = (
    _column("backend", "Judged by the table of", in_files=True, cell=lambda *row: backend_of(*row).value),
    _column("torch", cell=lambda _, judgement: judgement.target.torch, in_files=True, is_on_page=False),
    _column("rule", "Rule", Look.CODE, in_files=True),
    _column("subject", "Speaks of", Look.CODE),
    _column("ops", "Matters for these calls", Look.CODE_LINES, cell=_ops),
    _column("op", "Op", Look.CODE, in_files=True, on_page=lambda finding, _: subject_of(finding)),
    _column("runs_as", "Runs as", Look.CODE, cell=lambda finding, _: runs_as_of(finding)),
    _column(
        "host",
        "Runs on the host",
        cell=lambda finding, _: f"{finding.host.says}: judged for cpu" if finding.host else "",
    ),
    _column("phase", in_files=True, on_page=lambda finding, _: phase_of(finding)),
    _column("about", cell=lambda finding, _: finding.about.label),
    _column("module", "Module", Look.CODE, in_files=True),
    _column(
        "location",
        "Place",
        Look.CODE,
        in_files=True,
        # Of what has no line, what else says where it is.
        on_page=lambda finding, _: (
            finding.location or ("" if is_call(finding) or finding.called_from else place_of(finding))
        ),
    ),
    _column("function", "Function", Look.CODE, in_files=True),
    _column("called_from", "Called from", Look.CODE, in_files=True),
    _column("node", "Autograd node", Look.CODE),
    _column("regions", "Compiled, in region", Look.CODE_LINES, cell=lambda finding, _: "\n".join(finding.regions)),
    _column("kernels", "Kernels", Look.CODE_LINES, cell=lambda finding, _: "\n".join(finding.kernels)),
    _column("facts", "Facts recorded", Look.CODE, cell=lambda finding, _: _facts(tuple(finding.facts.items()))),
    _column("count", in_files=True, is_number=True),
    _column("verdict", in_files=True),
    _column("deterministic_mode", in_files=True),
    _column("cause", in_files=True),
    _column("why", "Why", Look.PROSE, leads=True),
    _column(
        "reason",
        "Unknown because",
        leads=True,
        cell=lambda finding, _: f"{finding.reason.says} {finding.reason_detail}".strip() if finding.reason else "",
    ),
    _column("remedy", "What to do", Look.PROSE, leads=True, in_files=True),
    _column("code", "Code to paste", Look.PASTE, leads=True),
    _column(
        "where",
        "Where it must stand",
        Look.PROSE,
        leads=True,
        cell=lambda finding, _: finding.where if finding.code else "",
    ),
    _column(
        "decided",
        "Conditions that decided",
        Look.LINES,
        leads=True,
        cell=lambda finding, _: deciding_words(finding.decided),
    ),
    _column("planned", "With the plan's settings", leads=True, cell=_planned),
    _column(
        "note",
        "Note",
        leads=True,
        cell=lambda finding, _: (
            "Extrapolated: the target's torch is newer than the table." if finding.extrapolated else ""
        ),
    ),
    _column(
        "evidence",
        "Evidence",
        Look.LINES,
        leads=True,
        in_files=True,
        cell=lambda finding, _: "; ".join(map(str, finding.evidence)),
        on_page=lambda finding, _: _evidence(finding.evidence),
    ),
)


# --- tables of CSV and data frames -------------------------------------------------------------------------

#: Tables by the name that ``--table`` takes; of ``calls``, a row a group of recorded ones, deterministic ones too.
TABLES = ("findings", "calls")
#: What a spreadsheet takes for the start of a formula.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def _of_group(name: str) -> Callable[[JudgedCall, Judgement], Cell]:
    return lambda call, _: _field(call.group, name)


def _of_ruling(name: str) -> Callable[[JudgedCall, Judgement], Cell]:
    return lambda call, _: _field(call.ruling, name)


def _further_facts(call: JudgedCall, _: Judgement) -> str:
    """The recorded facts without a column of their own, as JSON."""
    facts = {name: value for name, value in sorted(call.group.facts.items()) if name not in ("device", "dtype")}
    return json.dumps(facts, ensure_ascii=False, separators=(",", ":")) if facts else ""


CALLS: Mapping[str, Callable[[JudgedCall, Judgement], Cell]] = {
    "backend": _of_ruling("backend"),  # whose table judged it
    "torch": lambda _, judgement: judgement.target.torch,
    "op": _of_group("op"),
    "runs_as": _of_ruling("runs_as"),
    **{name: _of_group(name) for name in ("phase", "module", "location", "function", "called_from", "node", "count")},
    **{name: _of_ruling(name) for name in ("verdict", "deterministic_mode", "rule", "cause", "reason")},
    "device": lambda call, _: str(call.group.facts.get("device", "")),
    "dtype": lambda call, _: str(call.group.facts.get("dtype", "")),
    "facts": _further_facts,
    "region": _of_group("region"),
}


def table_columns(table: str) -> Mapping[str, Callable[[Any, Judgement], Cell]]:
    """The columns of the table called so, with what gives a cell; ``ReportError`` for a name that is none."""
    if table not in TABLES:
        raise ReportError(f"there is no table {table!r}", hint=f"choose from {', '.join(TABLES)}")
    if table == "findings":
        return {column.name: column.cell for column in COLUMNS if column.in_files}
    return CALLS


def _cells(report: Report, table: str) -> list[tuple[Cell, ...]]:
    """The cells of each row."""
    readers = [*table_columns(table).values()]
    entries = report.findings if table == "findings" else report.calls
    return [tuple([read(entry, report.judgement) for read in readers]) for entry in entries]


def render(report: Report, table: str = "findings") -> str:
    """CSV: the header and a row an entry, lines ended by ``\\n``, cells quoted where they need it.

    What would be a formula has an apostrophe before it, and no cell has control characters.
    """

    def inert(value: Cell) -> Cell:
        if not isinstance(value, str):
            return value
        return f"'{visible(value)}" if value.startswith(_FORMULA) else visible(value)

    lines = io.StringIO()
    writer = csv.writer(lines, lineterminator="\n")
    writer.writerow(table_columns(table))
    writer.writerows(map(inert, row) for row in _cells(report, table))
    return lines.getvalue()


def table_frame(report: Report, table: str = "findings") -> pd.DataFrame:
    """One of the tables: the CSV's columns, plain strings, integer counts.

    Strings are Python's own: a pyarrow-backed column refuses the lone surrogates that a file name can hold.
    """
    import pandas as pd

    names = list(table_columns(table))
    numbers = [column.name for column in COLUMNS if column.is_number and column.name in names]
    frame: pd.DataFrame = pd.DataFrame(_cells(report, table), columns=names, dtype=object)
    frame[numbers] = frame[numbers].astype("int64")
    return frame
