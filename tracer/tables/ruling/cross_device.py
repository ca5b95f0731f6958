"""RuleOutcome on a call that runs as another op on the target: every candidate is judged, and the worst stands."""

from __future__ import annotations

from collections.abc import Mapping

from tracer.names import SEVERITY, Backend, UnknownReason, Verdict
from tracer.tables.ruling.binding import BoundTable, Lookup, RuleOutcome
from tracer.tables.ruling.derived import DERIVATIONS, derive
from tracer.tables.ruling.translating import BoundTranslation
from tracer.tables.translation import Candidate, Translation
from tracer.tables.vocabulary import Value

_RANK = {verdict: rank for rank, verdict in enumerate(SEVERITY)}
_REMEDY_UNKNOWN = "Record the step on the target itself: its own ops are judged as they are."


class Retold:
    """The calls of one recorded op that a translation speaks of, before one table; rulings are kept by their facts."""

    def __init__(self, op: str, translation: BoundTranslation, bound: BoundTable, device: str) -> None:
        self.forward = translation.row.forward
        """The forward op whose facts hold of these calls too; empty for none."""
        self._op = op
        self._translation = translation
        self._bound = bound
        self._device = device
        asked = [bound.asks(name) for name in translation.ops]
        keys = dict.fromkeys((*translation.facts, *(key for asks in asked for key in (*asks.facts, *asks.derived))))
        self.asks = Lookup(
            tuple(key for key in keys if key not in DERIVATIONS and key != "device"),
            tuple(key for key in keys if key in DERIVATIONS),
        )
        """What a ruling on one of them rests on."""
        self._kept: dict[tuple[Value | None, ...], RuleOutcome] = {}

    def rule_on(self, facts: Mapping[str, Value], node: str | None) -> RuleOutcome:
        """The ruling for a call with ``facts``; ``node`` as for ``BoundTable.rule_on``."""
        get = facts.get
        values: list[Value | None] = [get(name) for name in self.asks.facts]
        values += [derive(key, node, facts) for key in self.asks.derived]
        key = tuple(values)
        ruling = self._kept.get(key)
        if ruling is None:
            ruling = self._kept[key] = self._bound.same(self._ruling(facts, node))
        return ruling

    def _ruling(self, facts: Mapping[str, Value], node: str | None) -> RuleOutcome:
        derived = {key: derive(key, node, facts) for key in self.asks.derived}
        known = {**facts, **{key: value for key, value in derived.items() if value is not None}}
        as_is, in_mode = self._translation.candidates(known)
        here = [self._judged(candidate, facts, node) for candidate in as_is]
        there = [self._judged(candidate, facts, node) for candidate in in_mode]
        worst = min(here, key=lambda ruling: (_RANK[ruling.verdict], _RANK[ruling.verdict_in_deterministic_mode]))
        worst_on = min(there, key=lambda ruling: _RANK[ruling.verdict_in_deterministic_mode])
        spoken = worst_on if worst.verdict is Verdict.DETERMINISTIC else worst
        names = tuple(dict.fromkeys(candidate.op for candidate in as_is if candidate.op))
        if names in ((), (self._op,)):
            return spoken._replace(
                verdict=worst.verdict,
                verdict_in_deterministic_mode=worst_on.verdict_in_deterministic_mode,
                route=worst_on.route,
                decided=(worst.decided[0], worst_on.decided[1]),
            )
        row = self._translation.row
        both = ((worst, worst.verdict), (worst_on, worst_on.verdict_in_deterministic_mode))
        unknown = [ruling for ruling, verdict in both if verdict is Verdict.UNKNOWN]
        return spoken._replace(
            verdict=worst.verdict,
            verdict_in_deterministic_mode=worst_on.verdict_in_deterministic_mode,
            reason=unknown[0].reason if unknown else None,
            detail=unknown[0].detail if unknown else "",
            why=_why(spoken, row, here),
            route=worst_on.route,
            runs_as=" or ".join(name.removesuffix(".default") for name in names),
            translated_by=row.evidence,
            decided=(worst.decided[0], worst_on.decided[1]),
        )

    def _judged(self, candidate: Candidate, facts: Mapping[str, Value], node: str | None) -> RuleOutcome:
        if not candidate.op:
            return _unknown(self._bound.table.backend, self._translation.row, self._op, candidate.why)
        return self._bound.rule_on(candidate.op, {**facts, "device": self._device, **candidate.facts}, node)


def _why(spoken: RuleOutcome, row: Translation, judged: list[RuleOutcome]) -> str:
    """The rule's reason, then how the call came before it."""
    parts = [spoken.why, row.why]
    if len({(ruling.verdict, ruling.verdict_in_deterministic_mode) for ruling in judged}) > 1:
        parts.append("Which one runs is not known here, so the worst of them is what is reported.")
    return " ".join(part for part in parts if part)


def _unknown(backend: Backend, row: Translation, op: str, why: str) -> RuleOutcome:
    unknown = Verdict.UNKNOWN
    return RuleOutcome(
        backend,
        None,
        row.id,
        unknown,
        unknown,
        UnknownReason.NO_EVIDENCE,
        op,
        why=why,
        remedy=_REMEDY_UNKNOWN,
        translated_by=row.evidence,
    )
