"""What a plan promises: the findings that are left once its settings are made."""

from __future__ import annotations

from collections.abc import Iterable

from tracer.findings import Change, Finding, Judgement
from tracer.names import Verdict
from tracer.trace.records import FactValue

_GONE = (Verdict.DETERMINISTIC, Verdict.DETERMINISTIC)


def planned_settings(plan: Iterable[Change]) -> dict[str, FactValue]:
    """What all changes together make of the settings, as ``judge(..., settings=...)`` takes them."""
    return {name: value for change in plan for name, value in change.sets.items()}


def identity_of(finding: Finding) -> tuple[str, ...]:
    """What a finding is about, whatever its verdict: its rule, subject and op, and their place."""
    return (
        finding.rule,
        finding.subject,
        finding.op,
        finding.phase.value,
        finding.module,
        finding.location,
        finding.function,
        finding.called_from,
    )


def promised(judgement: Judgement, plan: Iterable[Change]) -> frozenset[tuple[tuple[str, ...], Verdict]]:
    """Identity and verdict of every finding that is left under the plan's settings, code being as it was recorded.

    The promise is for all of the plan's settings together; ``ValueError`` for a part of them, of which it says nothing.
    """
    if planned_settings(plan) != judgement.planned:
        raise ValueError("a promise is for the whole plan of the judgement")
    left = (
        (finding, finding.planned or (finding.verdict, finding.deterministic_mode)) for finding in judgement.findings
    )
    return frozenset((identity_of(one), after[0]) for one, after in left if after != _GONE)
