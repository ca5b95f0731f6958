"""The tables that CSV, Parquet and data frames hold: columns that other programs read, and their rows.

A table's columns keep their names and their order; a new column is added behind the others.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from tracer.errors import ReportError
from tracer.names import SEVERITY, Verdict
from tracer.report.files import columns

if TYPE_CHECKING:
    from tracer.judging.calls.call_findings import JudgedCall
    from tracer.report.view import ReportView

Cell = str | int | bool
Cells = tuple[Cell, ...]

FINDINGS = "findings"

CALLS = (
    "backend",
    "torch",
    "op",
    "runs_as",
    "phase",
    "module",
    "location",
    "function",
    "called_from",
    "node",
    "count",
    "verdict",
    "deterministic_mode",
    "rule",
    "cause",
    "reason",
    "device",
    "dtype",
    "facts",
)
"""A row a group of recorded calls, deterministic ones too. ``backend`` is the table that judged it, ``rule`` is empty
where none was needed, ``reason`` says why a verdict is ``unknown``, ``facts`` holds what else was recorded, as JSON."""

MODULES = ("backend", "torch", "module", "calls", *(verdict.value for verdict in SEVERITY))
"""A row a module path, the worst first, with its calls by verdict under the target's settings; an empty ``module``
stands for calls outside modules."""

SETTINGS = ("kind", "name", "value", "differs")
"""A row a recorded ``version``, ``setting``, ``device`` or environment ``variable``, then every ``condition`` that
rules may read, as the target has it. ``differs``: merged recordings disagree, and the first one's value is shown."""

DRAWS = (
    "generator",
    "op",
    "phase",
    "module",
    "location",
    "function",
    "called_from",
    "count",
    "origin",
    "seeded_at",
)
"""A row an entry of the ledger of random draws: who drew from which generator, and who had seeded it."""

#: Fields of a recorded environment that are versions; the others are settings.
_VERSIONS = ("python", "platform", "torch", "cuda", "hip", "cudnn", "nccl")


class ExportedTable(NamedTuple):
    """One table: its columns, and the rows that a report has for it."""

    columns: tuple[str, ...]
    rows: Callable[[ReportView], Iterator[Cells]]
    counts: tuple[str, ...] = ()
    """Columns of whole numbers."""
    flags: tuple[str, ...] = ()
    """Columns that are true or false; all others are text."""


def table_named(name: str) -> ExportedTable:
    """The table called ``name``; ``ReportError`` for a name that is none."""
    if name not in TABLES:
        raise ReportError(f"there is no table {name!r}", hint=f"choose from {', '.join(TABLES)}")
    return TABLES[name]


def _findings(report: ReportView) -> Iterator[Cells]:
    return columns.rows(report.judgement)


def _calls(report: ReportView) -> Iterator[Cells]:
    torch = report.target.torch
    for one in report.calls:
        yield _call(one, torch)


def _call(one: JudgedCall, torch: str) -> Cells:
    group, ruling = one
    facts = {name: value for name, value in sorted(group.facts.items()) if name not in ("device", "dtype")}
    return (
        ruling.backend.value,
        torch,
        group.op,
        ruling.runs_as,
        group.phase.value,
        group.module,
        group.location,
        group.function,
        group.called_from,
        group.node,
        group.count,
        ruling.verdict.value,
        ruling.verdict_in_deterministic_mode.value,
        ruling.rule_id,
        ruling.cause.value if ruling.cause else "",
        ruling.reason.value if ruling.reason else "",
        str(group.facts.get("device", "")),
        str(group.facts.get("dtype", "")),
        json.dumps(facts, ensure_ascii=False, separators=(",", ":")) if facts else "",
    )


def _modules(report: ReportView) -> Iterator[Cells]:
    target, by_module = report.target, report.tally.by_module
    for module in sorted(by_module, key=lambda module: (_badness(by_module[module]), module)):
        counts = [by_module[module].get(verdict, 0) for verdict in SEVERITY]
        yield (target.backend.value, target.torch, module, sum(counts), *counts)


def _badness(counts: Mapping[Verdict, int]) -> tuple[int, ...]:
    return tuple(-counts.get(verdict, 0) for verdict in SEVERITY[:-1])


def _settings(report: ReportView) -> Iterator[Cells]:
    environment, differing = report.environment, report.judgement.differing_settings
    for field in environment.__struct_fields__:
        value = getattr(environment, field)
        if value is None:
            continue
        differs = field in differing
        if field == "devices":
            for device in value:
                yield ("device", device.name, device.capability, differs)
        elif field in ("variables", "settings"):
            kind = "variable" if field == "variables" else "setting"
            yield from ((kind, name, _spelled(one), differs) for name, one in sorted(value.items()))
        else:
            yield ("version" if field in _VERSIONS else "setting", field, _spelled(value), differs)
    for name, one in sorted(report.target.conditions.items()):
        yield ("condition", name, _spelled(one), False)


def _spelled(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _draws(report: ReportView) -> Iterator[Cells]:
    for draw in report.draws:
        yield (
            draw.generator,
            draw.op,
            draw.phase.value,
            draw.module,
            draw.location,
            draw.function,
            draw.called_from,
            draw.count,
            draw.origin.value,
            draw.seeded_at,
        )


#: Tables by the name that ``--table`` takes.
TABLES: Mapping[str, ExportedTable] = {
    FINDINGS: ExportedTable(columns.COLUMNS, _findings, counts=("count",)),
    "calls": ExportedTable(CALLS, _calls, counts=("count",)),
    "modules": ExportedTable(MODULES, _modules, counts=MODULES[3:]),
    "settings": ExportedTable(SETTINGS, _settings, flags=("differs",)),
    "draws": ExportedTable(DRAWS, _draws, counts=("count",)),
}
