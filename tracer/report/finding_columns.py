"""The columns of a finding, each declared once: CSV, Parquet, data frames, the page's data and its script read this.

Columns that stand in files keep their names and their order; a new one is added behind the others that do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import Generic, NamedTuple, TypeVar

from tracer.findings import Condition, Deciding, Evidence, Finding, Judgement
from tracer.names import Backend, Word
from tracer.plan import name_of, place_of
from tracer.report.words import (
    ABOUT,
    EVIDENCE_STRENGTH,
    HOST_CODE,
    UNKNOWN_REASONS,
    VERDICTS,
    is_call,
    ops_behind,
    phase_of,
    subject_of,
)
from tracer.tables.vocabulary import in_words
from tracer.trace.records import FactValue

Cell = str | int | bool
Row = TypeVar("Row")


class Holds(Enum):
    """What the cells of a column are."""

    TEXT = str
    NUMBER = int
    FLAG = bool


@dataclass(frozen=True, kw_only=True)
class Column(Generic[Row]):
    """One column of a table that programs read."""

    name: str
    """As headers and programs spell it; it never changes."""
    cell: Callable[[Row], Cell]
    holds: Holds = Holds.TEXT


class Judged(NamedTuple):
    """A row: a finding with the judgement that it belongs to."""

    finding: Finding
    judgement: Judgement


class Part(Word):
    """The half of a page's row that a column belongs to; halves repeat, and each is written once."""

    PLACE = "place"
    """What was recorded."""
    RULING = "ruling"
    """What was ruled on it."""


class Look(Word):
    """How the page shows a cell in a row that was opened."""

    TEXT = "text"
    PROSE = "prose"
    """A sentence of a table; what stands between backticks is code."""
    CODE = "code"
    LINES = "lines"
    """A list, an item a line."""
    CODE_LINES = "code-lines"
    PASTE = "paste"
    """Lines of code to copy."""


class Detail(NamedTuple):
    """What an opened row says of a column; an empty cell is not shown."""

    label: str
    look: Look = Look.TEXT
    leads: bool = False
    """Does it stand before what was recorded, as the reason and the remedy do?"""


@dataclass(frozen=True, kw_only=True)
class FindingColumn(Column[Judged]):
    """One column of the findings, and in which formats it stands."""

    in_files: bool = True
    """Does it stand in CSV, Parquet and data frames?"""
    part: Part | None = None
    """``None``: the page does not have it."""
    on_page: Callable[[Judged], Cell] | None = None
    """How its cell is made for the page, where that is another text."""
    detail: Detail | None = None

    @property
    def page_cell(self) -> Callable[[Judged], Cell]:
        """How its cell is made for the page."""
        return self.on_page or self.cell


def rows(judgement: Judgement, findings: Sequence[Finding] | None = None) -> Iterator[Judged]:
    """A row a finding, in the judgement's order; of ``findings`` alone where they are given."""
    for finding in judgement.findings if findings is None else findings:
        yield Judged(finding, judgement)


def in_files() -> tuple[FindingColumn, ...]:
    """The columns of CSV, Parquet and data frames."""
    return tuple(column for column in COLUMNS if column.in_files)


def on_page(part: Part) -> tuple[FindingColumn, ...]:
    """The columns of one half of the page's rows."""
    return tuple(column for column in COLUMNS if column.part is part)


def details() -> tuple[tuple[str, Detail], ...]:
    """What an opened row shows, by the column's name, in the order of reading."""
    shown = [(column.name, column.detail) for column in COLUMNS if column.detail is not None]
    return tuple(sorted(shown, key=lambda one: not one[1].leads))


def backend_of(finding: Finding, judgement: Judgement) -> Backend:
    """The backend whose table judged ``finding``; the target's where the finding does not say."""
    return judgement.target.backend if finding.backend is Backend.RECORDED else finding.backend


def _location(row: Judged) -> str:
    """The place; of what has no line, what else says where it is."""
    one = row.finding
    return one.location or ("" if is_call(one) or one.called_from else place_of(one))


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
    return "\n".join(f"{EVIDENCE_STRENGTH[item.kind]}: {' '.join(item.ref.split())}" for item in evidence)


def _reason(row: Judged) -> str:
    one = row.finding
    return f"{UNKNOWN_REASONS[one.reason]} {one.reason_detail}".strip() if one.reason else ""


def _planned(row: Judged) -> str:
    """What the plan's settings make of it, where they change anything."""
    if row.finding.planned is None:
        return ""
    as_is, in_mode = (VERDICTS[verdict].label for verdict in row.finding.planned)
    return as_is if as_is == in_mode else f"{as_is}; {in_mode} in deterministic mode"


def deciding_words(finding: Finding) -> str:
    """A line for each of the two verdicts that a case of the rule decided; empty where none did."""
    return _decided(finding.decided)


@lru_cache(maxsize=4096)
def _decided(decided: Deciding) -> str:
    """The words of what decided, made once: few cases decide many findings."""
    both = (("As the settings stand", decided.as_is), ("In deterministic mode", decided.deterministic_mode))
    return "\n".join(f"{label}: {' / or: '.join(map(_case, cases))}" for label, cases in both if cases)


def _case(conditions: tuple[Condition, ...]) -> str:
    return "; ".join(map(_condition, conditions)) or "always"


def _condition(condition: Condition) -> str:
    if condition.asks == "torch":
        return f"torch {condition.holds_for[0]}"
    return in_words(condition.asks, frozenset(condition.holds_for))


#: Every column. Files have theirs in this order; so do the halves of the page's rows, and what an opened row shows.
COLUMNS: tuple[FindingColumn, ...] = (
    FindingColumn(
        name="backend",
        cell=lambda row: backend_of(row.finding, row.judgement).value,
        part=Part.RULING,
        detail=Detail("Judged by the table of"),
    ),
    FindingColumn(name="torch", cell=lambda row: row.judgement.target.torch),
    FindingColumn(name="rule", cell=lambda row: row.finding.rule, part=Part.RULING, detail=Detail("Rule", Look.CODE)),
    FindingColumn(
        name="subject",
        cell=lambda row: row.finding.subject,
        in_files=False,
        part=Part.PLACE,
        detail=Detail("Speaks of", Look.CODE),
    ),
    FindingColumn(
        name="ops",
        cell=_ops,
        in_files=False,
        part=Part.PLACE,
        detail=Detail("Matters for these calls", Look.CODE_LINES),
    ),
    FindingColumn(
        name="op",
        cell=lambda row: row.finding.op,
        on_page=lambda row: subject_of(row.finding),
        part=Part.PLACE,
        detail=Detail("Op", Look.CODE),
    ),
    FindingColumn(
        name="runs_as",
        cell=lambda row: name_of(row.finding.runs_as),
        in_files=False,
        part=Part.RULING,
        detail=Detail("Runs as", Look.CODE),
    ),
    FindingColumn(
        name="host",
        cell=lambda row: "" if row.finding.host is None else HOST_CODE[row.finding.host],
        in_files=False,
        part=Part.RULING,
        detail=Detail("Runs on the host"),
    ),
    FindingColumn(
        name="phase",
        cell=lambda row: row.finding.phase.value,
        on_page=lambda row: phase_of(row.finding),
        part=Part.PLACE,
    ),
    FindingColumn(name="about", cell=lambda row: ABOUT[row.finding.about].label, in_files=False, part=Part.PLACE),
    FindingColumn(
        name="module", cell=lambda row: row.finding.module, part=Part.PLACE, detail=Detail("Module", Look.CODE)
    ),
    FindingColumn(
        name="location",
        cell=lambda row: row.finding.location,
        on_page=_location,
        part=Part.PLACE,
        detail=Detail("Place", Look.CODE),
    ),
    FindingColumn(
        name="function", cell=lambda row: row.finding.function, part=Part.PLACE, detail=Detail("Function", Look.CODE)
    ),
    FindingColumn(
        name="called_from",
        cell=lambda row: row.finding.called_from,
        part=Part.PLACE,
        detail=Detail("Called from", Look.CODE),
    ),
    FindingColumn(
        name="node",
        cell=lambda row: row.finding.node,
        in_files=False,
        part=Part.PLACE,
        detail=Detail("Autograd node", Look.CODE),
    ),
    FindingColumn(
        name="regions",
        cell=lambda row: "\n".join(row.finding.regions),
        in_files=False,
        part=Part.PLACE,
        detail=Detail("Compiled, in region", Look.CODE_LINES),
    ),
    FindingColumn(
        name="kernels",
        cell=lambda row: "\n".join(row.finding.kernels),
        in_files=False,
        part=Part.PLACE,
        detail=Detail("Kernels", Look.CODE_LINES),
    ),
    FindingColumn(
        name="facts",
        cell=lambda row: _facts(tuple(row.finding.facts.items())),
        in_files=False,
        part=Part.PLACE,
        detail=Detail("Facts recorded", Look.CODE),
    ),
    FindingColumn(name="count", cell=lambda row: row.finding.count, holds=Holds.NUMBER, part=Part.PLACE),
    FindingColumn(name="verdict", cell=lambda row: row.finding.verdict.value, part=Part.RULING),
    FindingColumn(name="deterministic_mode", cell=lambda row: row.finding.deterministic_mode.value, part=Part.RULING),
    FindingColumn(
        name="cause", cell=lambda row: row.finding.cause.value if row.finding.cause else "", part=Part.RULING
    ),
    FindingColumn(
        name="why",
        cell=lambda row: row.finding.why,
        in_files=False,
        part=Part.RULING,
        detail=Detail("Why", Look.PROSE, leads=True),
    ),
    FindingColumn(
        name="reason",
        cell=_reason,
        in_files=False,
        part=Part.RULING,
        detail=Detail("Unknown because", leads=True),
    ),
    FindingColumn(
        name="remedy",
        cell=lambda row: row.finding.remedy,
        part=Part.RULING,
        detail=Detail("What to do", Look.PROSE, leads=True),
    ),
    FindingColumn(
        name="code",
        cell=lambda row: row.finding.code,
        in_files=False,
        part=Part.RULING,
        detail=Detail("Code to paste", Look.PASTE, leads=True),
    ),
    FindingColumn(
        name="where",
        cell=lambda row: row.finding.where if row.finding.code else "",
        in_files=False,
        part=Part.RULING,
        detail=Detail("Where it must stand", Look.PROSE, leads=True),
    ),
    FindingColumn(
        name="decided",
        cell=lambda row: deciding_words(row.finding),
        in_files=False,
        part=Part.RULING,
        detail=Detail("Conditions that decided", Look.LINES, leads=True),
    ),
    FindingColumn(
        name="planned",
        cell=_planned,
        in_files=False,
        part=Part.RULING,
        detail=Detail("With the plan's settings", leads=True),
    ),
    FindingColumn(
        name="note",
        cell=lambda row: (
            "Extrapolated: the target's torch is newer than the table." if row.finding.extrapolated else ""
        ),
        in_files=False,
        part=Part.RULING,
        detail=Detail("Note", leads=True),
    ),
    FindingColumn(
        name="evidence",
        cell=lambda row: "; ".join(map(str, row.finding.evidence)),
        on_page=lambda row: _evidence(row.finding.evidence),
        part=Part.RULING,
        detail=Detail("Evidence", Look.LINES, leads=True),
    ),
)
