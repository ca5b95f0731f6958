"""The same trace under other targets, side by side: portability of determinism."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tracer.findings import Finding, Judgement
from tracer.names import SEVERITY, Verdict
from tracer.plan import place_of
from tracer.report import blocks as said
from tracer.report.blocks import Reader, Section, Words
from tracer.report.words import VERDICTS, is_call, number, plural

if TYPE_CHECKING:
    from tracer.report.view import ReportView

#: Findings of another target that the page holds, worst first.
MOST_ROWS_ELSEWHERE = 3_000

_RISK = (Verdict.NONDETERMINISTIC, Verdict.CONDITIONAL, Verdict.UNKNOWN)


class Counts(NamedTuple):
    """Calls, and the distinct lines that make them."""

    calls: int
    sites: int


class ModeEffect(NamedTuple):
    """What turning deterministic mode on would do."""

    fixed: Counts
    """Not deterministic as things stand, deterministic then."""
    raises: Counts
    no_effect: Counts
    """At risk or unknown, then too."""


class TargetRow(NamedTuple):
    """One target in the table."""

    number: int
    """From 1; the report's own target comes first."""
    backend: str
    torch: str
    verdict: Verdict
    """The worst that holds as the settings stand, of calls and of the process."""
    calls: tuple[int, ...]
    """By verdict, as ``columns`` of the table."""
    findings: int
    in_mode: str
    """What deterministic mode would do, in words."""


class Targets(NamedTuple):
    """All targets side by side, as the page draws them."""

    rows: tuple[TargetRow, ...]
    columns: tuple[Verdict, ...]


def targets(report: ReportView, reader: Reader) -> Section | None:
    """The section, where the trace was judged for several targets."""
    shown = Targets(target_rows(report), columns(report))
    if not shown.rows:
        return None
    lead = f"The same recording judged for {plural(len(shown.rows), 'target')}, under the same settings."
    heads = (
        said.Column("Target"),
        said.Column("Findings", said.Width.FIGURE),
        *(said.Column(VERDICTS[one].label) for one in shown.columns),
    )
    table = said.Table((*heads, said.Column("With mode on")), tuple(map(_cells, shown.rows)), noun="target")
    blocks = (said.lead(lead), said.Picture("targets", shown, (table,)))
    return Section(anchor="targets", title="Portability of determinism", label="Other targets", blocks=blocks)


def _cells(row: TargetRow) -> tuple[Words, ...]:
    name = (f"{row.backend}, torch {row.torch} ", said.Badge(row.verdict))
    return (name, number(row.findings), *map(number, row.calls), row.in_mode)


def targets_shown(report: ReportView) -> tuple[Judgement, ...]:
    """The report's own judgement, then the others, each target once."""
    shown = {
        (judgement.target.backend, judgement.target.torch): judgement
        for judgement in (*reversed(report.portability), report.judgement)
    }
    own = (report.target.backend, report.target.torch)
    others = [
        judgement for judgement in report.portability if (judgement.target.backend, judgement.target.torch) != own
    ]
    return (report.judgement, *(other for other in others if shown[other.target.backend, other.target.torch] is other))


def columns(report: ReportView) -> tuple[Verdict, ...]:
    """The verdicts that any of the targets has calls of, worst first."""
    return tuple(
        verdict for verdict in SEVERITY if any(judgement.tally[verdict] for judgement in targets_shown(report))
    )


def target_rows(report: ReportView) -> tuple[TargetRow, ...]:
    """A row a target; empty where the trace was judged for one alone."""
    shown = targets_shown(report)
    verdicts = columns(report)
    return tuple(
        TargetRow(
            place,
            one.target.backend.value,
            one.target.torch,
            _worst(one),
            tuple(one.tally[verdict] for verdict in verdicts),
            len(one.findings),
            _in_words(mode_effect(one.findings)),
        )
        for place, one in enumerate(shown, 1)
        if len(shown) > 1
    )


def mode_effect(findings: tuple[Finding, ...]) -> ModeEffect:
    """What deterministic mode would do for the calls behind ``findings``."""
    calls = [finding for finding in findings if is_call(finding)]
    fixed = [
        call
        for call in calls
        if call.deterministic_mode is Verdict.DETERMINISTIC
        and call.verdict not in (Verdict.DETERMINISTIC, Verdict.SEEDED)
    ]
    raises = [call for call in calls if call.deterministic_mode is Verdict.RAISES]
    stays = [call for call in calls if call.deterministic_mode in _RISK and call.verdict is not Verdict.DETERMINISTIC]
    return ModeEffect(_counted(fixed), _counted(raises), _counted(stays))


def _in_words(effect: ModeEffect) -> str:
    parts = ((effect.fixed, "fixed"), (effect.raises, "raise"), (effect.no_effect, "as before"))
    return ", ".join(f"{number(counts.calls)} {word}" for counts, word in parts if counts.calls) or "nothing to fix"


def _counted(findings: list[Finding]) -> Counts:
    return Counts(sum(finding.count for finding in findings), len({place_of(finding) for finding in findings}))


def _worst(judgement: Judgement) -> Verdict:
    found = {verdict for verdict in SEVERITY if judgement.tally[verdict]}
    found |= {finding.verdict for finding in judgement.findings if not is_call(finding)}
    return min(found, key=SEVERITY.index, default=Verdict.UNKNOWN)
