"""Data frames and pivots: the only module that imports pandas."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import pandas as pd

from tracer.findings import Tally
from tracer.names import SEVERITY, Phase, Verdict
from tracer.report.column import Holds
from tracer.report.files.exported_tables import FINDINGS, table_named

if TYPE_CHECKING:
    from tracer.report.view import ReportView


def table_frame(report: ReportView, table: str = FINDINGS) -> pd.DataFrame:
    """One of the exported tables: the CSV's columns, plain strings, integer counts, boolean flags.

    Strings are Python's own: a pyarrow-backed column refuses the lone surrogates that a file name can hold.
    """
    chosen = table_named(table)
    frame: pd.DataFrame = pd.DataFrame(list(chosen.cells(report)), columns=chosen.header, dtype=object)
    for name in chosen.holding(Holds.NUMBER):
        frame[name] = frame[name].astype("int64")
    for name in chosen.holding(Holds.FLAG):
        frame[name] = frame[name].astype("bool")
    return frame


def phase_pivot(tally: Tally) -> pd.DataFrame:
    """Calls by phase and verdict; phases in the order of a step, only those that occurred."""
    counts = {phase.value: tally.by_phase[phase] for phase in Phase if phase in tally.by_phase}
    return _pivot(counts, "phase")


def module_pivot(tally: Tally) -> pd.DataFrame:
    """Calls by module path and verdict; the module with the most of the worst verdict first."""
    order = sorted(tally.by_module, key=lambda module: _badness(tally.by_module[module]) + (module,))
    return _pivot({module: tally.by_module[module] for module in order}, "module")


def _badness(counts: Mapping[Verdict, int]) -> tuple[int | str, ...]:
    return tuple(-counts.get(verdict, 0) for verdict in SEVERITY[:-1])


def _pivot(counts: Mapping[str, Mapping[Verdict, int]], index: str) -> pd.DataFrame:
    """A row a key, a column a verdict, zero where nothing was counted."""
    columns = pd.Index([verdict.value for verdict in SEVERITY], name="verdict")
    values = [[row.get(verdict, 0) for verdict in SEVERITY] for row in counts.values()]
    keys = pd.Index(list(counts), name=index, dtype=object)
    pivot: pd.DataFrame = pd.DataFrame(values, index=keys, columns=columns, dtype="int64")
    return pivot
