"""The conditions that decided a finding's verdicts, in words."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from tracer.tables.vocabulary import in_words

if TYPE_CHECKING:
    from tracer.findings import Condition, Deciding, Finding


def deciding_words(finding: Finding) -> str:
    """A line for each of the two verdicts that a case of the rule decided; empty where none did."""
    return _words(finding.decided)


@lru_cache(maxsize=4096)
def _words(decided: Deciding) -> str:
    """The words of what decided, made once: few cases decide many findings."""
    both = (("As the settings stand", decided.as_is), ("In deterministic mode", decided.deterministic_mode))
    return "\n".join(f"{label}: {' / or: '.join(map(_case, cases))}" for label, cases in both if cases)


def _case(conditions: tuple[Condition, ...]) -> str:
    return "; ".join(map(_condition, conditions)) or "always"


def _condition(condition: Condition) -> str:
    if condition.asks == "torch":
        return f"torch {condition.holds_for[0]}"
    return in_words(condition.asks, frozenset(condition.holds_for))
