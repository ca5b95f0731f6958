"""What a plan promises: the findings that are left once its settings were made."""

from __future__ import annotations

from collections.abc import Iterable

from tracer.findings import Finding, Judgement, PlannedChange
from tracer.names import Verdict
from tracer.trace.records import FactValue


def settings_of(plan: Iterable[PlannedChange]) -> dict[str, FactValue]:
    """The settings that all changes make together."""
    return {name: value for change in plan for name, value in change.sets.items()}


def identity_of(finding: Finding) -> tuple[str, ...]:
    """The identity of a finding, whatever its verdict: its rule, subject and op, and their place."""
    what = (finding.rule, finding.subject, finding.op, finding.phase.value)
    return (*what, finding.module, finding.location, finding.function, finding.called_from)


def promised(judgement: Judgement, plan: Iterable[PlannedChange]) -> frozenset[tuple[tuple[str, ...], Verdict]]:
    """Identity and verdict of every finding that is left under the settings of the whole plan."""
    assert settings_of(plan) == judgement.planned, "a promise is for the whole plan"
    verdicts = (
        (identity_of(finding), finding.planned or (finding.verdict, finding.deterministic_mode))
        for finding in judgement.findings
    )
    gone = (Verdict.DETERMINISTIC, Verdict.DETERMINISTIC)
    return frozenset((identity, after[0]) for identity, after in verdicts if after != gone)
