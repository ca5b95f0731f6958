"""Calls that run as other ops on the target: which they may be, and the ruling, which is that on the worst of them.

Three-valued like the rules: a candidate is out only where a fact or a setting that is known contradicts it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from msgspec.structs import replace

from tracer.names import SEVERITY, Backend, UnknownReason, Verdict
from tracer.tables.conditions import DERIVATIONS, derive, may_hold, wanted_values
from tracer.tables.ruling.bound_table import BoundTable, Lookup, RuleOutcome
from tracer.tables.translation import STAYS, Candidate, Note, Translation, Translations
from tracer.tables.versions import speaks_of
from tracer.tables.vocabulary import SETTINGS, UNNOTED, Value, in_domain


class _Choice(NamedTuple):
    """A candidate with version and settings already answered: what is left to ask of a call."""

    candidate: Candidate
    asks: tuple[tuple[str, frozenset[Value]], ...]

    def is_open(self, facts: Mapping[str, Value]) -> bool:
        """Whether no known fact contradicts it. A value outside the vocabulary counts as not recorded."""
        for key, wanted in self.asks:
            value = facts.get(key, UNNOTED.get(key))
            if value is not None and value not in wanted and in_domain(key, value):
                return False
        return True


class BoundTranslation:
    """One row for one version, as things stand and in deterministic mode."""

    def __init__(self, row: Translation, op: str, version: str, settings: Mapping[str, Value]) -> None:
        """``op`` is the recorded overload."""
        self.row = row
        self._as_is = tuple(_choices(row, op, version, settings))
        self._mode_on = tuple(_choices(row, op, version, {**settings, "deterministic_mode": "on"}))
        choices = (*self._as_is, *self._mode_on)
        self.facts = tuple(dict.fromkeys(key for choice in choices for key, _ in choice.asks))
        """Facts that can matter, in a fixed order."""
        self.ops = tuple(dict.fromkeys(choice.candidate.op for choice in choices if choice.candidate.op))
        """Every op that can come out of it."""

    def candidates(self, facts: Mapping[str, Value]) -> tuple[tuple[Candidate, ...], tuple[Candidate, ...]]:
        """What a call with ``facts`` may run as: as things stand, and in deterministic mode."""
        as_is, in_mode = (
            tuple(choice.candidate for choice in choices if choice.is_open(facts))
            for choices in (self._as_is, self._mode_on)
        )
        return as_is, in_mode


class Translator:
    """The rows that speak of one target, found by recorded op."""

    def __init__(self, table: Translations, backend: Backend, version: str, settings: Mapping[str, Value]) -> None:
        self._version = version
        self._settings = settings
        self._rows = {op: row for row in table.translation if backend in row.to for op in row.ops}
        self._notes = {op: note for note in table.note if backend in note.to for op in note.seen}
        self.notes: dict[str, Note] = {}
        """Notes whose ops were met, by id."""

    def row_of(self, op: str) -> BoundTranslation | None:
        """The row for a recorded overload: one that names it, else one that names its packet. Ask once an op."""
        packet = op.rpartition(".")[0]
        note = self._notes.get(op) or self._notes.get(packet)
        if note is not None:
            self.notes[note.id] = note
        row = self._rows.get(op) or self._rows.get(packet)
        return None if row is None else BoundTranslation(row, op, self._version, self._settings)


def _choices(row: Translation, op: str, version: str, settings: Mapping[str, Value]) -> Iterator[_Choice]:
    for named in row.becomes:
        candidate = replace(named, op=op) if named.op == STAYS else named
        if speaks_of(candidate.torch, version) and may_hold(candidate, settings):
            asks = tuple((key, wanted_values(candidate, key)) for key in candidate.when if key not in SETTINGS)
            yield _Choice(candidate, asks)


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
