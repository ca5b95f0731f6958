"""A judgement with everything that is said about it: findings, tally, plan, and the formats."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from tracer.baseline import Acceptance
from tracer.errors import ReportError
from tracer.findings import Change, FillCost, Finding, Judgement, Note, Tally, Target
from tracer.plan import make_plan, planned_settings
from tracer.report import formats
from tracer.trace.model import BlindSpot, Environment, FactValue
from tracer.trace.process import Allocation, Draw, Generator, Loader
from tracer.trace.ranks import RankComparison

if TYPE_CHECKING:
    import pandas as pd

    from tracer.judging.judged_calls import JudgedCall


class Report:
    """What a trace means for one target: ``findings``, ``tally`` and ``plan``, in every format.

    Nothing is judged here; a report only arranges what the judgement holds, so two reports on one judgement
    say the same.
    """

    def __init__(self, judgement: Judgement, *, calls: Callable[[], Iterable[JudgedCall]] | None = None) -> None:
        """``calls`` judges the recorded calls one by one when they are asked for; a judgement does not hold them."""
        self.judgement = judgement
        """What was judged."""
        self._judge_calls = calls

    portability: tuple[Judgement, ...] = ()
    """The same trace judged for other targets, for the page to switch to; see ``tracer report --targets``."""
    traces: tuple[str, ...] = ("trace.json",)
    """File names of the traces, as the commands on the page spell them."""
    strict = False
    """Was a torch that is newer than the tables called unknown?"""

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What is not plainly deterministic, worst first."""
        return self.judgement.findings

    @property
    def spoken_for(self) -> dict[int, Acceptance]:
        """``accepted`` by the position of the finding."""
        return {one.finding: one for one in self.accepted or ()}

    @property
    def tally(self) -> Tally:
        """Calls by verdict; every recorded call is counted exactly once."""
        return self.judgement.tally

    accepted: tuple[Acceptance, ...] | None = None
    """Findings that a baseline or comments speak for; ``None`` where nobody held the report against any."""
    ranks: RankComparison | None = None
    """What differs between the ranks whose traces were merged; ``None`` where there was one, or none was told apart."""
    failing: frozenset[int] | None = None
    """Positions of the findings that fail a gate; ``None`` where there is none."""

    @cached_property
    def calls(self) -> tuple[JudgedCall, ...]:
        """Every group of recorded calls with what it was judged as, in the trace's order; judged when first asked for.

        Raises ``ReportError`` for a report that was made of a judgement alone.
        """
        if self._judge_calls is None:
            raise ReportError("this report was made without its trace, which holds the calls", hint="judge the trace")
        return tuple(self._judge_calls())

    @cached_property
    def plan(self) -> tuple[Change, ...]:
        """The numbered changes that would make the step reproducible, the cheapest first. One that closes no finding
        is a suggestion."""
        return make_plan(self.judgement)

    @property
    def planned_settings(self) -> dict[str, FactValue]:
        """What the plan makes of the settings, beside those that the target asks for already: given to
        ``judge(trace, settings=...)`` for the same backend and torch, it yields the report that the plan promises.
        For a report on recorded settings, or on settings asked for by name."""
        return {**self.target.sets, **planned_settings(self.plan)}

    @property
    def target(self) -> Target:
        """The backend, torch version and settings that the trace was judged for."""
        return self.judgement.target

    @property
    def environment(self) -> Environment:
        """The recorded process's versions and settings."""
        return self.judgement.environment

    @property
    def blind_spots(self) -> tuple[BlindSpot, ...]:
        """What ran and was not seen, or seen only in part."""
        return self.judgement.blind_spots

    @property
    def notes(self) -> tuple[Note, ...]:
        """Settings that change results on other machines or versions, and between two runs nothing."""
        return self.judgement.notes

    @property
    def draws(self) -> tuple[Draw, ...]:
        """The ledger of random draws: which op or function drew, where, how often, from which generator, and whether
        the program had seeded that. NumPy's ``Generator`` objects cannot be seen."""
        return self.judgement.draws

    @property
    def generators(self) -> tuple[Generator, ...]:
        """The process's own generators over the recorded region: where their state came from, and whether the region
        drew from them."""
        return self.judgement.generators

    @property
    def loaders(self) -> tuple[Loader, ...]:
        """Each ``DataLoader`` that was iterated, by the line that made it."""
        return self.judgement.loaders

    @property
    def allocations(self) -> tuple[Allocation, ...]:
        """Calls that gave memory without writing it, by op and site, with the bytes that deterministic mode would
        fill."""
        return self.judgement.allocations

    @property
    def fill(self) -> FillCost | None:
        """What filling unwritten memory costs in deterministic mode, and whether a read before a write was seen;
        ``None`` where nothing was allocated without being written, or nobody looked."""
        return self.judgement.fill

    @property
    def banners(self) -> tuple[str, ...]:
        """What every reader must know first."""
        return self.judgement.banners

    def to_html(self) -> str:
        """One self-contained page that opens offline. Raises ``ReportError`` if its templates are missing."""
        return formats.render("html", self)

    def to_csv(self, table: str = "findings") -> str:
        """One row a finding, or an entry of another ``table``: ``calls``, ``modules``, ``settings``, ``draws``.

        The headers are those of ``tracer.report.exported_tables``; no cell is a formula. Raises ``ReportError`` for a
        table that does not exist.
        """
        return formats.encoded("csv", self, table=table).decode("utf-8")

    def to_json(self) -> str:
        """The judgement and its plan, as ``tracer.report.json_format.Document`` describes."""
        return formats.render("json", self)

    def to_text(self, *, width: int | None = None, color: bool | None = None, limit: int | None = 40) -> str:
        """The report for a terminal: ``width`` columns, with ANSI ``color`` or not, ``limit`` findings.

        ``None`` asks the terminal (``COLUMNS``, ``NO_COLOR``, whether standard output is one), or, for
        ``limit``, shows all.
        """
        from tracer.report.text import to_text

        return to_text(self, width=width, color=color, limit=limit)

    def to_dataframe(self, table: str = "findings") -> pd.DataFrame:
        """One row a finding, or an entry of another ``table``, with the CSV's columns; what a finding about the process
        speaks of is in ``findings``, ``op`` is empty there."""
        from tracer.report.frame import table_frame

        return table_frame(self, table)

    def pivot_by_phase(self) -> pd.DataFrame:
        """Calls by phase (rows) and verdict (columns, worst first), every recorded call counted once."""
        from tracer.report.frame import phase_pivot

        return phase_pivot(self.tally)

    def pivot_by_module(self) -> pd.DataFrame:
        """Calls by module path (rows, worst first) and verdict (columns), every call counted once."""
        from tracer.report.frame import module_pivot

        return module_pivot(self.tally)

    def write(self, path: str | os.PathLike[str]) -> Path:
        """Write the format that ``path``'s suffix names, whole or not at all, and return the path.

        Raises ``ReportError`` in one line for a suffix that names no format, and where the path cannot be
        written.
        """
        return formats.write(path, self)

    def _repr_html_(self) -> str:
        """A few lines for a notebook; ``to_html()`` has the whole report."""
        from tracer.report.html import to_notebook

        return to_notebook(self)

    def __repr__(self) -> str:
        target = self.target
        return (
            f"<Report: {len(self.findings)} findings in {self.tally.total} calls, "
            f"for {target.backend}, torch {target.torch}, settings {target.settings}>"
        )
