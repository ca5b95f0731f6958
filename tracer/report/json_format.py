"""JSON: the judgement and its plan, for programs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

import tracer
from tracer.findings import Acceptance, FillCost, Finding, Judgement, Note, PlannedChange, Process, Tally, Target
from tracer.names import EvidenceKind, RowOutcome, Training
from tracer.plain import json_text
from tracer.report import Report
from tracer.report.sections.answers import headline
from tracer.report.sections.process import hint_words
from tracer.trace import records
from tracer.trace.differences import RankComparison
from tracer.trace.records import FactValue

#: Raised when a field is renamed, removed or changes its meaning; a new optional field does not raise it.
REPORT_SCHEMA = 1


class JudgementForm(msgspec.Struct, frozen=True, kw_only=True):
    """``Judgement``, and what a report says of the trace that was judged; each field as it is documented there."""

    target: Target
    findings: tuple[Finding, ...]
    tally: Tally
    banners: tuple[str, ...] = ()
    environment: records.Environment
    blind_spots: tuple[records.BlindSpot, ...] = ()
    sources: tuple[records.TraceSource, ...] = ()
    differing_settings: tuple[str, ...] = ()
    tables: Mapping[str, str] = {}
    notes: tuple[Note, ...] = ()
    draws: tuple[records.Draw, ...] = ()
    generators: tuple[records.Generator, ...] = ()
    allocations: tuple[records.Allocation, ...] = ()
    fill: FillCost | None = None
    loaders: tuple[records.Loader, ...] = ()
    planned: dict[str, FactValue] = {}
    source_lines: dict[str, str] = {}
    observed: tuple[Finding, ...] = ()
    meta_calls: int = 0
    nothing_computed: bool = False
    unnamed: dict[EvidenceKind, int] = {}
    training: Training = Training.UNKNOWN
    regions: tuple[records.Region, ...] = ()
    watched_from_start: bool | None = None

    @classmethod
    def of(cls, judgement: Judgement) -> JudgementForm:
        """The fields of ``judgement``, and of its trace those that it has not itself."""
        own, trace = Judgement.__struct_fields__, judgement.trace
        return cls(**{name: getattr(judgement if name in own else trace, name) for name in cls.__struct_fields__})


class RowsSummary(msgspec.Struct, frozen=True, kw_only=True):
    """What calls gave that were made again on a part of their rows."""

    calls: int
    """Calls that were."""
    equal: int
    """Those among them whose rows are equal, bit by bit."""
    dependent: tuple[records.RowTrial, ...]
    """Those whose rows differ by rounding, by place."""
    left_out: tuple[records.RowTrial, ...]
    """Calls whose rows cannot tell: several rows go into one, or which arguments hold rows is not known."""

    @classmethod
    def of(cls, trials: Sequence[records.RowTrial]) -> RowsSummary:
        equal = sum(trial.count for trial in trials if trial.outcome is RowOutcome.EQUAL)
        dependent = tuple(trial for trial in trials if trial.outcome is RowOutcome.ROUNDING)
        rest = (trial for trial in trials if trial.outcome not in (RowOutcome.EQUAL, RowOutcome.ROUNDING))
        calls = equal + sum(trial.count for trial in dependent)
        return cls(calls=calls, equal=equal, dependent=dependent, left_out=tuple(rest))


class Document(msgspec.Struct, frozen=True, kw_only=True):
    """A report as a file. Fields that have their default are left out of findings and changes."""

    schema: int = REPORT_SCHEMA
    tracer_version: str = ""
    """The release that wrote the file."""
    headline: str = ""
    """The report in one sentence, as every other format opens with it."""
    judgement: JudgementForm
    """Target, findings, tally, banners, environment, blind spots, sources and tables."""
    plan: tuple[PlannedChange, ...]
    """The numbered changes."""
    hints: tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET
    """What may be otherwise in another run, process or machine, a sentence each; no verdicts."""
    accepted: tuple[Acceptance, ...] | msgspec.UnsetType = msgspec.UNSET
    """Behind a gate: the findings that somebody spoke for."""
    failing: tuple[int, ...] | msgspec.UnsetType = msgspec.UNSET
    """Behind a gate: positions in the judgement's findings, from 0, of those that fail."""
    ranks: RankComparison | msgspec.UnsetType = msgspec.UNSET
    """Of several ranks: what differs between them."""
    rows: RowsSummary | msgspec.UnsetType = msgspec.UNSET
    """Of a recording that made calls again on a part of their rows."""
    processes: tuple[Process, ...] | msgspec.UnsetType = msgspec.UNSET
    """Of a program whose children were recorded too: its processes, and which findings each has."""


#: Findings that are spelt at a time: the whole text of many would take several times the memory of the report.
_AT_A_TIME = 1_000
#: The findings' line in a document without them, and what its items are indented by beyond those of a list alone.
_NONE, _DEEPER = '\n    "findings": []', "    "


def render(report: Report) -> str:
    """``Document`` as indented JSON; read it back with ``msgspec.json.decode(text, type=Document)``."""
    return "".join(pieces(report))


def pieces(report: Report) -> Iterator[str]:
    """The same text, a piece for each thousand findings."""
    findings, form = report.findings, JudgementForm.of(report.judgement)
    document = Document(
        tracer_version=tracer.__version__,
        headline=headline(report)[1],
        judgement=msgspec.structs.replace(form, findings=()),
        plan=report.plan,
        hints=(hint_words(report) if report.has_hints else ()) or msgspec.UNSET,
        accepted=msgspec.UNSET if report.accepted is None else report.accepted,
        failing=msgspec.UNSET if report.failing is None else tuple(sorted(report.failing)),
        ranks=report.ranks or msgspec.UNSET,
        rows=RowsSummary.of(report.judgement.trace.rows) if report.judgement.trace.rows else msgspec.UNSET,
        processes=report.processes or msgspec.UNSET,
    )
    before, line, after = f"{json_text(document)}\n".partition(_NONE)  # no string holds a line's end
    yield before
    if not findings:
        yield line
    for start in range(0, len(findings), _AT_A_TIME):
        items = json_text(findings[start : start + _AT_A_TIME]).removeprefix("[").removesuffix("\n]")
        yield (line.removesuffix("]") if start == 0 else ",") + items.replace("\n", f"\n{_DEEPER}")
    if findings:
        yield f"\n{_DEEPER}]"
    yield after
