"""What a format may read of a report; ``Report`` stands above the formats, and this below them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from tracer.errors import ReportError
from tracer.findings import Finding, Judgement, PlannedChange, Process, Tally, Target
from tracer.names import VARYING, Verdict
from tracer.plan import PlanStep, make_plan, step_of
from tracer.trace.records import BlindSpot, FactValue

if TYPE_CHECKING:
    from tracer.divergence.repeated import Repeated
    from tracer.findings import Acceptance
    from tracer.judging.call_findings import JudgedCall
    from tracer.trace.differences import RankComparison


class ModeEffect(NamedTuple):
    """Findings by what turning deterministic mode on would do."""

    fixed: list[Finding]
    """Not deterministic as things stand, deterministic then."""
    raises: list[Finding]
    no_effect: list[Finding]
    """At risk or unknown, then too."""


def mode_effect(findings: Iterable[Finding]) -> ModeEffect:
    """Return the effect of deterministic mode on the calls of ``findings``."""
    effect = ModeEffect([], [], [])
    for finding in findings:
        in_mode, as_is = finding.deterministic_mode, finding.verdict
        if in_mode is Verdict.RAISES:
            effect.raises.append(finding)
        elif in_mode is Verdict.DETERMINISTIC and as_is not in (Verdict.DETERMINISTIC, Verdict.SEEDED):
            effect.fixed.append(finding)
        elif in_mode in (*VARYING, Verdict.UNKNOWN) and as_is is not Verdict.DETERMINISTIC:
            effect.no_effect.append(finding)
    return effect


@dataclass(frozen=True, eq=False, repr=False)
class ReportView:
    """The part of a report that a format may read. It arranges what the judgement holds, and judges nothing.

    Its fields are set when it is made; ``dataclasses.replace`` makes another one.
    """

    judgement: Judgement
    """The judgement."""
    _: KW_ONLY
    judged_calls: tuple[JudgedCall, ...] | None = None
    """The recorded calls as they were judged, one by one; ``None`` for a report made of a judgement alone."""
    portability: tuple[Judgement, ...] = ()
    """The same trace judged for other targets, for the page to switch to; see ``tracer report --targets``."""
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
        return mode_effect(self.findings)

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
        varied = (finding for finding in self.findings if finding.tried is not None and finding.tried.has_varied)
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
