"""A report: a judgement with everything that is said about it, and its formats, each loaded when it is asked for."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tracer.errors import ReportError
from tracer.files import write_whole
from tracer.findings import Finding, Judgement, PlannedChange, Process, Tally, Target
from tracer.names import VARYING, Verdict
from tracer.plan import PlanStep, make_plan, step_of
from tracer.trace.records import BlindSpot, FactValue

if TYPE_CHECKING:
    import pandas as pd

    from tracer.divergence.repeated import Repeated
    from tracer.findings import Acceptance
    from tracer.judging.call_findings import JudgedCall
    from tracer.trace.differences import RankComparison


class Format(NamedTuple):
    """One way to write a report: ``module`` has the function ``render(report) -> str``.

    The module is named, not imported, so that writing CSV loads neither jinja2 nor rich.
    """

    suffix: str
    module: str
    is_long: bool = False
    """Whether the module also has ``pieces(report)``, which yields the text of ``render`` piece by piece."""
    has_tables: bool = False
    """Whether it is one of the exported tables, so that ``render`` takes ``table``."""


#: Formats by the name that ``--format`` takes.
FORMATS: Mapping[str, Format] = {
    "text": Format(".txt", "tracer.report.render.terminal"),
    "html": Format(".html", "tracer.report.render.page"),
    "csv": Format(".csv", "tracer.report.finding_columns", has_tables=True),
    "json": Format(".json", "tracer.report.json_format", is_long=True),
    "markdown": Format(".md", "tracer.report.render.markdown"),
    "sarif": Format(".sarif", "tracer.report.sarif"),
    "junit": Format(".xml", "tracer.report.junit"),
}


class ModeEffect(NamedTuple):
    """Findings by what turning deterministic mode on would do."""

    fixed: list[Finding]
    """Not deterministic as things stand, deterministic then."""
    raises: list[Finding]
    no_effect: list[Finding]
    """At risk or unknown, then too."""


@dataclass(frozen=True, eq=False, repr=False)
class Report:
    """A trace judged for one target: ``findings``, ``tally`` and ``plan``, in every format.

    It never changes: setting an attribute raises ``AttributeError``. ``dataclasses.replace`` makes another one.
    """

    judgement: Judgement
    """The judgement."""
    _: KW_ONLY
    judged_calls: tuple[JudgedCall, ...] | None = None
    """The recorded calls as they were judged, one by one; ``None`` for a report made of a judgement alone."""
    traces: tuple[str, ...] = ("trace.json",)
    """File names of the traces, as the commands on the page spell them."""
    strict: bool = False
    """Whether a torch that is newer than the tables was called unknown."""
    accepted: tuple[Acceptance, ...] | None = None
    """Findings that a baseline or comments speak for; ``None`` where nobody held the report against any."""
    failing: frozenset[int] | None = None
    """Positions of the findings that fail a gate; ``None`` where there is none."""
    ranks: RankComparison | None = None
    """The differences between merged ranks; ``None`` if there was one rank, or none could be told apart."""
    processes: tuple[Process, ...] = ()
    """The processes of one program, where its children were recorded too; empty where one process was."""
    repeated: Repeated | None = None
    """Several runs that were compared, this report being on the first of them; ``None`` where there was one."""
    has_hints: bool = True
    """Whether hints are told: what may be otherwise elsewhere, without a verdict."""

    @property
    def diverged(self) -> bool:
        """Whether several runs were compared, and some differed, under the program's own settings or the plan's."""
        runs = (self.repeated, self.repeated.as_it_stands) if self.repeated is not None else ()
        return any(repeated is not None and not repeated.agrees for repeated in runs)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The findings that are not plainly deterministic, worst first."""
        return self.judgement.findings

    @cached_property
    def open_findings(self) -> tuple[Finding, ...]:
        """``findings`` but for ``repeating``: what a headline counts."""
        repeating = set(map(id, self.repeating))
        return tuple(finding for finding in self.findings if id(finding) not in repeating)

    @cached_property
    def repeating(self) -> tuple[Finding, ...]:
        """Findings that ask for nothing: they draw from generators that start alike in every run."""
        return tuple(finding for finding in self.findings if step_of(finding, self.target) is PlanStep.NOTHING)

    @cached_property
    def mode_effect(self) -> ModeEffect:
        """The effect of deterministic mode on what ``findings`` speak of."""
        effect = ModeEffect([], [], [])
        for finding in self.findings:
            in_mode, as_is = finding.deterministic_mode, finding.verdict
            if in_mode is Verdict.RAISES:
                effect.raises.append(finding)
            elif in_mode is Verdict.DETERMINISTIC and as_is not in (Verdict.DETERMINISTIC, Verdict.SEEDED):
                effect.fixed.append(finding)
            elif in_mode in (*VARYING, Verdict.UNKNOWN) and as_is is not Verdict.DETERMINISTIC:
                effect.no_effect.append(finding)
        return effect

    @property
    def spoken_for(self) -> dict[int, Acceptance]:
        """``accepted`` by the position of the finding."""
        return {accepted.finding: accepted for accepted in self.accepted or ()}

    @property
    def tally(self) -> Tally:
        """Calls by verdict; every recorded call is counted exactly once."""
        return self.judgement.tally

    @property
    def calls(self) -> tuple[JudgedCall, ...]:
        """Every group of recorded calls with what it was judged as, in the trace's order.

        Raises ``ReportError`` for a report that was made of a judgement alone.
        """
        if self.judged_calls is None:
            raise ReportError("this report was made without its trace, which holds the calls", hint="judge the trace")
        return self.judged_calls

    @cached_property
    def plan(self) -> tuple[PlannedChange, ...]:
        """The numbered changes that would make the step reproducible: first those at calls that were seen to vary, in
        compared runs or in trials, then by cost. A change that closes no finding is a suggestion."""
        varied = (finding for finding in self.findings if finding.tried is not None and finding.tried.varied)
        varied_at = {(finding.op, finding.phase, finding.location) for finding in varied}
        if self.repeated is not None:
            unplanned = self.repeated.as_it_stands
            roots = (*self.repeated.roots, *(unplanned.roots if unplanned is not None else ()))
            varied_at |= {(root.op, root.phase, root.location) for root in roots}
        plan = make_plan(self.judgement, varied_at)
        if self.repeated is None:
            return plan
        from tracer.divergence.repeated import next_steps

        return next_steps(self.repeated, plan, self.findings)

    @property
    def planned_settings(self) -> dict[str, FactValue]:
        """What the plan makes of the settings, beside those that the target asks for already: given to
        ``judge(trace, settings=...)`` for the same backend and torch, it yields the report that the plan promises.
        For a report on recorded settings, or on settings asked for by name."""
        return {**self.target.sets, **{name: value for change in self.plan for name, value in change.sets.items()}}

    @property
    def target(self) -> Target:
        """The backend, torch version and settings that the trace was judged for."""
        return self.judgement.target

    @property
    def blind_spots(self) -> tuple[BlindSpot, ...]:
        """The code that ran and was not seen, or seen only in part."""
        return self.judgement.trace.blind_spots

    @property
    def banners(self) -> tuple[str, ...]:
        """Warnings that every reader must see first."""
        return self.judgement.banners

    def to_html(self) -> str:
        """One self-contained page that opens offline. Raises ``ReportError`` if its templates are missing."""
        return rendered_as("html", self)

    def to_csv(self, table: str = "findings") -> str:
        """One row a finding, or with ``table="calls"`` one a group of recorded calls.

        The headers are those of ``tracer.report.finding_columns``; no cell is a formula. Raises ``ReportError``
        for a table that does not exist.
        """
        return rendered_as("csv", self, table=table)

    def to_json(self) -> str:
        """The judgement and its plan, as ``tracer.report.json_format.Document`` describes."""
        return rendered_as("json", self)

    def to_text(self, *, width: int | None = None, color: bool | None = None, limit: int | None = 10) -> str:
        """The report for a terminal: ``width`` columns, with ANSI ``color`` or not, ``limit`` rows of findings.

        ``None`` asks the terminal (``COLUMNS``, ``NO_COLOR``, whether standard output is one), or, for
        ``limit``, shows all. Findings with one answer are one row.
        """
        return str(_module("text").to_text(self, width=width, color=color, limit=limit))

    def to_dataframe(self, table: str = "findings") -> pd.DataFrame:
        """One row a finding, or a group of calls, with the CSV's columns; what a finding about the process
        speaks of is in ``findings``, ``op`` is empty there."""
        frame: pd.DataFrame = _module("csv").table_frame(self, table)
        return frame

    def write(self, path: str | os.PathLike[str]) -> Path:
        """Write the format that ``path``'s suffix names, whole or not at all, and return the path.

        Raises ``ReportError`` in one line for a suffix that names no format, and where the path cannot be
        written.
        """
        return write_whole(path, to_write(format_of(path), self), error=ReportError)

    def _repr_html_(self) -> str:
        """A few lines for a notebook; ``to_html()`` has the whole report."""
        return str(_module("html").to_notebook(self))

    def __repr__(self) -> str:
        target = self.target
        return (
            f"<Report: {len(self.findings)} findings in {self.tally.total} calls, "
            f"for {target.backend}, torch {target.torch}, settings {target.settings}>"
        )


def rendered_as(name: str, report: Report, *, table: str = "findings") -> str:
    """``report`` in the format called ``name``; ``table`` names the table, for formats that hold only one.

    Raises ``ReportError`` for a format or a table that does not exist.
    """
    form = _format(name)
    options = {"table": table} if form.has_tables else {}
    return str(_module(name).render(report, **options))


def to_write(name: str, report: Report, *, table: str = "findings") -> bytes | Iterator[bytes]:
    """The same, encoded, in pieces that are made as they are written where all at once would take far more memory."""
    if not _format(name).is_long:
        return rendered_as(name, report, table=table).encode("utf-8")
    pieces: Iterator[str] = _module(name).pieces(report)
    return (piece.encode("utf-8") for piece in pieces)


def _format(name: str) -> Format:
    if name not in FORMATS:
        raise ReportError(f"no report format is called {name!r}", hint=f"choose one of {', '.join(FORMATS)}")
    return FORMATS[name]


def _module(name: str) -> Any:
    return import_module(_format(name).module)


def format_of(path: str | os.PathLike[str]) -> str:
    """The name of the format that ``path``'s suffix asks for."""
    suffix = Path(path).suffix.lower()
    for name, form in FORMATS.items():
        if form.suffix == suffix:
            return name
    suffixes = ", ".join(form.suffix for form in FORMATS.values())
    raise ReportError(
        f"cannot tell a report format from {os.fspath(path)!r}", hint=f"end the name in one of {suffixes}"
    )
