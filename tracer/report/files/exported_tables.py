"""The tables of CSV and data frames. Columns keep their names and order; a new one is added at the end."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from tracer.errors import ReportError
from tracer.names import SEVERITY, Verdict
from tracer.plain import visible
from tracer.report import finding_columns
from tracer.report.finding_columns import Cell, Column, Holds

if TYPE_CHECKING:
    import pandas as pd

    from tracer.findings import Tally, Target
    from tracer.judging.call_findings import JudgedCall
    from tracer.report.view import ReportView
    from tracer.trace.records import Draw, Kernel, Region

FINDINGS = "findings"
#: What a spreadsheet takes for the start of a formula.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")

#: Facts of a call that have a column of their own.
_OWN_COLUMNS = ("device", "dtype")
#: Fields of a recorded environment that are versions; the others are settings.
_VERSIONS = ("python", "platform", "torch", "cuda", "hip", "cudnn", "nccl")


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

    def holding(self, holds: Holds) -> list[str]:
        """The names of the columns whose cells are of one kind."""
        return [column.name for column in self.columns() if column.holds is holds]


class _Call(NamedTuple):
    """A recorded group with what was ruled on it, and the torch that it was judged for."""

    judged: JudgedCall
    torch: str

    @property
    def facts(self) -> str:
        """The recorded data without a column of its own, as JSON."""
        facts = {name: value for name, value in sorted(self.judged.group.facts.items()) if name not in _OWN_COLUMNS}
        return json.dumps(facts, ensure_ascii=False, separators=(",", ":")) if facts else ""


class _Module(NamedTuple):
    """A module's calls by verdict under the target's settings."""

    target: Target
    module: str
    counts: Mapping[Verdict, int]


class _Setting(NamedTuple):
    """One thing of the recorded environment, or of the target's conditions."""

    kind: str
    name: str
    value: str
    differs: bool


class _Kernel(NamedTuple):
    """A kernel in its region; ``None`` for a region of which none was seen."""

    region: Region
    kernel: Kernel | None


def table_named(name: str) -> ExportedTable:
    """The table called ``name``; ``ReportError`` for a name that is none."""
    if name not in TABLES:
        raise ReportError(f"there is no table {name!r}", hint=f"choose from {', '.join(TABLES)}")
    return TABLES[name]


def _worst_first(tally: Tally) -> list[tuple[str, Mapping[Verdict, int]]]:
    """Modules with their counts, the one with the most calls of the worst verdict first."""
    return sorted(
        tally.by_module.items(), key=lambda item: (*(-item[1].get(verdict, 0) for verdict in SEVERITY[:-1]), item[0])
    )


def _settings(report: ReportView) -> Iterator[_Setting]:
    environment, differing = report.environment, report.judgement.trace.differing_settings
    for field in environment.__struct_fields__:
        value = getattr(environment, field)
        if value is None:
            continue
        differs = field in differing
        if field == "devices":
            for device in value:
                yield _Setting("device", device.name, device.capability, differs)
        elif field in ("variables", "settings"):
            kind = field.removesuffix("s")
            yield from (_Setting(kind, name, _spelled(held), differs) for name, held in sorted(value.items()))
        else:
            yield _Setting("version" if field in _VERSIONS else "setting", field, _spelled(value), differs)
    for name, value in sorted(report.target.conditions.items()):
        yield _Setting("condition", name, _spelled(value), False)


def _spelled(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _regions(report: ReportView) -> Iterator[_Kernel]:
    return (
        _Kernel(region, kernel) for region in report.judgement.trace.regions for kernel in region.kernels or (None,)
    )


def _spelled_if_known(value: bool | None) -> str:
    """``true``, ``false``, or nothing where it is not known."""
    return "" if value is None else _spelled(value)


def _count(verdict: Verdict, row: _Module) -> int:
    return row.counts.get(verdict, 0)


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
    Column(name="count", cell=lambda row: row.judged.group.count, holds=Holds.NUMBER),
    Column(name="verdict", cell=lambda row: row.judged.ruling.verdict.value),
    Column(name="deterministic_mode", cell=lambda row: row.judged.ruling.verdict_in_deterministic_mode.value),
    Column(name="rule", cell=lambda row: row.judged.ruling.rule_id),  # empty where none was needed
    Column(name="cause", cell=lambda row: row.judged.ruling.cause.value if row.judged.ruling.cause else ""),
    Column(name="reason", cell=lambda row: row.judged.ruling.reason.value if row.judged.ruling.reason else ""),
    Column(name="device", cell=lambda row: str(row.judged.group.facts.get("device", ""))),
    Column(name="dtype", cell=lambda row: str(row.judged.group.facts.get("dtype", ""))),
    Column(name="facts", cell=lambda row: row.facts),
    Column(name="region", cell=lambda row: row.judged.group.region or ""),  # empty for a call that ran eagerly
)

#: A row a module path, the worst first; an empty ``module`` stands for calls outside modules.
MODULES: tuple[Column[_Module], ...] = (
    Column(name="backend", cell=lambda row: row.target.backend.value),
    Column(name="torch", cell=lambda row: row.target.torch),
    Column(name="module", cell=lambda row: row.module),
    Column(name="calls", cell=lambda row: sum(row.counts.values()), holds=Holds.NUMBER),
    *(Column(name=verdict.value, cell=partial(_count, verdict), holds=Holds.NUMBER) for verdict in SEVERITY),
)

#: A row a recorded ``version``, ``setting``, ``device`` or environment ``variable``, then every ``condition`` that
#: rules may read, as the target has it. ``differs``: merged recordings disagree, and the first one's value is shown.
SETTINGS: tuple[Column[_Setting], ...] = (
    *_fields("", "kind", "name", "value"),
    Column(name="differs", cell=lambda row: row.differs, holds=Holds.FLAG),
)

#: A row an entry of the ledger of random draws: who drew from which generator, and who had seeded it.
DRAWS: tuple[Column[Draw], ...] = (
    *_fields("", "generator", "op"),
    Column(name="phase", cell=lambda draw: draw.phase.value),
    *_fields("", "module", "location", "function", "called_from"),
    Column(name="count", cell=lambda draw: draw.count, holds=Holds.NUMBER),
    Column(name="origin", cell=lambda draw: draw.origin.value),
    Column(name="seeded_at", cell=lambda draw: draw.seeded_at),
)

#: A row a kernel of a region of compiled code, and one for a region of which no kernel was seen.
REGIONS: tuple[Column[_Kernel], ...] = (
    Column(name="region", cell=lambda row: row.region.id),
    *_fields("region.", "function", "location", "backend", "device"),
    Column(name="direction", cell=lambda row: row.region.direction.value),
    Column(name="origin", cell=lambda row: row.region.origin.value),
    Column(name="executions", cell=lambda row: row.region.executions, holds=Holds.NUMBER),
    Column(name="ops", cell=lambda row: row.region.ops, holds=Holds.NUMBER),
    Column(name="inside", cell=lambda row: row.region.inside.value),  # how much of it was seen
    Column(name="why", cell=lambda row: row.region.why.value if row.region.why else ""),  # why no more
    Column(name="kernel", cell=lambda row: row.kernel.name if row.kernel else ""),
    Column(name="language", cell=lambda row: row.kernel.language.value if row.kernel else ""),
    Column(name="calls", cell=lambda row: row.kernel.calls if row.kernel else 0, holds=Holds.NUMBER),  # a run
    Column(name="adds_atomically", cell=lambda row: _spelled_if_known(row.kernel.atomic if row.kernel else None)),
    Column(name="kernel_ops", cell=lambda row: "; ".join(row.kernel.ops) if row.kernel else ""),
    Column(name="choice", cell=lambda row: row.kernel.choice if row.kernel else ""),
    Column(name="by_stopwatch", cell=lambda row: _spelled_if_known(row.kernel.by_stopwatch if row.kernel else None)),
)

#: Tables by the name that ``--table`` takes.
TABLES: Mapping[str, ExportedTable] = {
    FINDINGS: ExportedTable(finding_columns.in_files, lambda report: finding_columns.rows(report.judgement)),
    "calls": ExportedTable(lambda: CALLS, lambda report: (_Call(call, report.target.torch) for call in report.calls)),
    "modules": ExportedTable(
        lambda: MODULES, lambda report: (_Module(report.target, *item) for item in _worst_first(report.tally))
    ),
    "settings": ExportedTable(lambda: SETTINGS, _settings),
    "draws": ExportedTable(lambda: DRAWS, lambda report: iter(report.draws)),
    "regions": ExportedTable(lambda: REGIONS, _regions),
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
        return _spelled(value) if isinstance(value, bool) else value
    text = visible(value)
    return f"'{text}" if value.startswith(_FORMULA) else text


def table_frame(report: ReportView, table: str = FINDINGS) -> pd.DataFrame:
    """One of the exported tables: the CSV's columns, plain strings, integer counts, boolean flags.

    Strings are Python's own: a pyarrow-backed column refuses the lone surrogates that a file name can hold.
    """
    import pandas as pd

    chosen = table_named(table)
    frame: pd.DataFrame = pd.DataFrame(list(chosen.cells(report)), columns=chosen.header, dtype=object)
    for name in chosen.holding(Holds.NUMBER):
        frame[name] = frame[name].astype("int64")
    for name in chosen.holding(Holds.FLAG):
        frame[name] = frame[name].astype("bool")
    return frame
