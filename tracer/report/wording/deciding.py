"""The conditions that decided a finding's verdicts, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracer.tables.explaining import in_words

if TYPE_CHECKING:
    from tracer.findings import Condition, Finding


def deciding_words(finding: Finding) -> str:
    """A line for each of the two verdicts that a case of the rule decided; empty where none did."""
    decided = finding.decided
    both = (("As the settings stand", decided.as_is), ("In deterministic mode", decided.deterministic_mode))
    return "\n".join(f"{label}: {' / or: '.join(map(_case, cases))}" for label, cases in both if cases)


def _case(conditions: tuple[Condition, ...]) -> str:
    return "; ".join(map(_condition, conditions)) or "always"


def _condition(condition: Condition) -> str:
    if condition.asks == "torch":
        return f"torch {condition.holds_for[0]}"
    return in_words(condition.asks, frozenset(condition.holds_for))
