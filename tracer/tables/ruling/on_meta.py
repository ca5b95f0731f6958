"""Calls on ``meta`` tensors: nothing was computed, so what the target would run was not seen.

Models are often built on ``meta`` and materialized later (deferred initialization): what allocates, views, fills or
draws there is no step of a training, and is not held against the recording.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache

from tracer.names import Backend, Phase, UnknownReason, Verdict
from tracer.tables.loading import load_classes
from tracer.tables.ruling.bound_table import RuleOutcome, safe_ruling, unknown_ruling
from tracer.trace.computed import META, has_computed_step
from tracer.trace.records import CallGroup

#: Classes of ops that allocate, view, fill or copy.
_MOVES = frozenset({"class-views", "class-copies", "class-bookkeeping"})
#: What the names of ops that only allocate have in common.
_ALLOCATES = "empty"
_CLEARED = {Verdict.DETERMINISTIC, Verdict.SEEDED}
_REMEDY = (
    "Record the step on real tensors, or under torch's `FakeTensorMode`: fake tensors claim a device, and take the path"
    " that real ones take on it."
)


class RulingsOnMeta:
    """Rulings on the calls of one trace, each made once: rulings are told by identity."""

    def __init__(self) -> None:
        self.has_computed_step = False
        """Was some step of the trace computed? What was called on ``meta`` outside of it then initialized a model."""
        self._unknown: dict[Backend, RuleOutcome] = {}
        self._safe: dict[Backend, RuleOutcome] = {}

    def rule_on(self, group: CallGroup, backend: Backend, on_target: Callable[[], RuleOutcome]) -> RuleOutcome:
        """The ruling on a call; ``on_target`` says what it would be for tensors of the target."""
        if moves_only(group.op):
            return self._safe.setdefault(backend, safe_ruling(backend))
        if group.phase is Phase.OTHER:
            ruling = on_target()
            if set(ruling.both) <= _CLEARED and (Verdict.SEEDED in ruling.both or self.has_computed_step):
                return self._safe.setdefault(backend, safe_ruling(backend))
        if backend not in self._unknown:
            self._unknown[backend] = unknown_ruling(backend, "not-computed", UnknownReason.NOT_COMPUTED, META)._replace(
                remedy=_REMEDY
            )
        return self._unknown[backend]


def meta_calls(calls: Iterable[CallGroup]) -> int:
    """How many of ``calls`` would compute something, had their tensors not been on ``meta``.

    What initialized a model on ``meta`` is not counted where a step was computed later.
    """
    calls = tuple(calls)
    computed = has_computed_step(calls)
    return sum(
        group.count
        for group in calls
        if group.facts.get("device") == META
        and not (computed and group.phase is Phase.OTHER)
        and not moves_only(group.op)
    )


def moves_only(op: str) -> bool:
    """Does ``op`` allocate, view, fill or copy, and compute nothing?"""
    packet = op.rpartition(".")[0]
    return _ALLOCATES in packet or packet in _moving_ops()


@cache
def _moving_ops() -> frozenset[str]:
    return frozenset(op for rule in load_classes().rule if rule.id in _MOVES for op in rule.ops)
