"""Tables bound to one target: the ruling on an op with its facts, and on a call that runs as another op there.

Of several ops that it may run as, the worst ruling stands.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, NamedTuple

from msgspec.structs import replace

from tracer.facts.fact import Value
from tracer.findings import Deciding, Evidence
from tracer.names import SEVERITY, TORCH_NAMESPACES, Backend, Cause, EvidenceKind, UnknownReason, Verdict
from tracer.tables.conditions import (
    BothWays,
    in_deterministic_mode,
    may_hold,
    wanted_values,
    with_derived,
    with_forward,
)
from tracer.tables.rules import Rule, RuleTable, Ruling, evidence_of
from tracer.tables.translation import STAYS, TargetNote, TargetOp, Translation, Translations
from tracer.tables.versions import judged_as, placed, release, speaks_of
from tracer.tables.vocabulary import SETTINGS, UNNOTED, in_domain

_WHY_UNKNOWN = {
    UnknownReason.NO_TABLE: "No table exists for this call's backend.",
    UnknownReason.TABLE_NOT_REVIEWED: "The table was not reviewed for this version of torch.",
    UnknownReason.FACT_NOT_RECORDED: "The trace does not say on which device the call ran.",
    UnknownReason.UNLISTED: "The vendor's list names what is deterministic, and this op is not on it.",
    UnknownReason.NOT_COMPUTED: "The call was made on `meta` tensors: nothing was computed, and a device may run"
    " another op instead.",
    UnknownReason.OPAQUE: "The op comes from outside torch's own namespaces, and no rule names it.",
}
_CAUSE_UNKNOWN = {UnknownReason.UNLISTED: Cause.VENDOR_UNLISTED, UnknownReason.OPAQUE: Cause.OPAQUE}
_REMEDY_UNKNOWN = "Run the op twice on the target with the same input and compare the bits; then add a rule for it."


def safe_ruling(backend: Backend, **fields: Any) -> Ruling:
    """Deterministic, without a rule, unless ``fields`` say otherwise."""
    safe: dict[str, Any] = {"rule": "", "verdict": Verdict.DETERMINISTIC, "deterministic_mode": Verdict.DETERMINISTIC}
    return Ruling(**{**safe, "backend": backend, **fields})


def unknown_ruling(
    backend: Backend, name: str, reason: UnknownReason, detail: str, why: str = "", remedy: str = _REMEDY_UNKNOWN
) -> Ruling:
    """Unknown with and without deterministic mode, without a rule; ``name`` completes its id."""
    return Ruling(
        rule=f"{backend}-{name}",
        verdict=Verdict.UNKNOWN,
        deterministic_mode=Verdict.UNKNOWN,
        cause=_CAUSE_UNKNOWN.get(reason),
        why=why or _WHY_UNKNOWN.get(reason, ""),
        remedy=remedy,
        reason=reason,
        reason_detail=detail,
        backend=backend,
    )


class BoundTable:
    """One table for one version and one set of settings."""

    def __init__(self, table: RuleTable, version: str, settings: Mapping[str, Value], *, strict: bool = False) -> None:
        """``version`` is a release (``2.9.0``). ``strict`` makes verdicts that are extrapolated to it ``unknown``."""
        self.table = table
        self.place = placed(table.reviewed, version)
        """The version's place among the reviewed ones; see ``versions.placed``."""
        self.extrapolated = self.place == "newer" and not strict
        self.version = judged_as(table.reviewed, version, extrapolated=self.extrapolated)
        """The release whose verdicts are used: the target's, or the newest reviewed one."""
        self.refusal: Ruling | None = None
        """The ruling on every call if the table does not cover the version."""
        if self.place != "reviewed" and not self.extrapolated:
            detail = f"torch {version}, reviewed for {table.reviewed}"
            self.refusal = unknown_ruling(table.backend, "not-reviewed", UnknownReason.TABLE_NOT_REVIEWED, detail)
        self._settings = settings
        self._by_rule: dict[str, BothWays[Rule]] = {}

    def asks(self, op: str) -> tuple[str, ...]:
        """The facts that the ruling on ``op`` depends on."""
        bound = self._bound(op)
        return () if isinstance(bound, Ruling) else bound.facts

    def outcome(self, op: str, facts: Mapping[str, Value], node: str | None = None) -> Ruling:
        """The ruling on a call of ``op``, an overload as torch prints it, with ``facts``. ``node`` is the
        autograd node of a backward call, empty if it is not known, and ``None`` outside the backward pass."""
        bound = self._bound(op)
        return bound if isinstance(bound, Ruling) else bound.decide(with_derived(facts, node, bound.facts))

    def _bound(self, op: str) -> BothWays[Rule] | Ruling:
        if self.refusal is not None:
            return self.refusal
        rule = self.table.find(op)
        if rule is None:
            return self._without_rule(op)
        if rule.id not in self._by_rule:
            how: dict[str, Any] = {"backend": self.table.backend, "extrapolated": self.extrapolated}
            self._by_rule[rule.id] = BothWays(rule, self.version, self._settings, **how)
        return self._by_rule[rule.id]

    def _without_rule(self, op: str) -> Ruling:
        """An op that a deny list does not name is deterministic; one that an allow list does not name is unknown."""
        table = self.table
        if op.partition(".")[0] not in TORCH_NAMESPACES:
            return unknown_ruling(table.backend, "opaque", UnknownReason.OPAQUE, op)
        if not table.deny_list:
            ask = table.ask.format(op=op.removesuffix(".default")) or _REMEDY_UNKNOWN
            return unknown_ruling(table.backend, "unlisted", UnknownReason.UNLISTED, op, table.unlisted, ask)
        dispatched, version = table.dispatched, _number(self.version)
        entries, device = (dispatched.vouched, dispatched.device) if dispatched is not None else ((), "")
        for entry in entries:
            if op in entry.ops and _number(entry.first) <= version <= _number(entry.last):
                ref = (
                    f"CUDA builds of torch {entry.first} to {entry.last} run without a device, as {device}:"
                    " each recorded call launched kernels that add nothing atomically and called into no library"
                )
                vouched = (Evidence(kind=EvidenceKind.DISPATCHED, ref=ref),)
                return safe_ruling(table.backend, extrapolated=self.extrapolated, evidence=vouched)
        return safe_ruling(table.backend, extrapolated=self.extrapolated)


@cache
def _number(version: str) -> tuple[int, ...]:
    major, minor = release(version).split(".")[:2]
    return int(major), int(minor)


_RANK = {verdict: rank for rank, verdict in enumerate(SEVERITY)}
_WORST = "Which one runs is not known here, so the worst verdict is reported."
_RECORD_THERE = "Record the step on the target itself: then its own ops are judged."


class _Choice(NamedTuple):
    """A candidate after version and settings were checked: the conditions on facts that are left."""

    candidate: TargetOp
    asks: tuple[tuple[str, frozenset[Value]], ...]
    hangs_on_target: bool
    """Whether it depends on a setting that the target lacks, such as the hardware, or on a choice of the program."""

    def is_open(self, facts: Mapping[str, Value]) -> bool:
        """Return whether it is compatible with the known facts. A value outside the vocabulary counts as unrecorded."""
        for key, wanted in self.asks:
            value = facts.get(key, UNNOTED.get(key))
            if value is not None and value not in wanted and in_domain(key, value):
                return False
        return True


class BoundTranslation:
    """One row for one recorded overload, one version and one set of settings."""

    def __init__(self, row: Translation, op: str, version: str, settings: Mapping[str, Value]) -> None:
        self.row = row
        self._op = op
        self._asks: tuple[str, ...] | None = None
        self._as_is = tuple(_choices(row, op, version, settings))
        self._in_mode = tuple(_choices(row, op, version, in_deterministic_mode(settings)))

    def _open(self, facts: Mapping[str, Value]) -> tuple[tuple[_Choice, ...], tuple[_Choice, ...]]:
        as_is = tuple(choice for choice in self._as_is if choice.is_open(facts))
        return as_is, tuple(choice for choice in self._in_mode if choice.is_open(facts))

    def asks(self, bound: BoundTable) -> tuple[str, ...]:
        """The facts that the ruling on the op depends on, if ``bound`` judges what it becomes."""
        if self._asks is None:
            choices = (*self._as_is, *self._in_mode)
            own = (key for choice in choices for key, _ in choice.asks)
            ops = dict.fromkeys(choice.candidate.op for choice in choices if choice.candidate.op)
            every = dict.fromkeys((*own, *(key for op in ops for key in bound.asks(op))))
            self._asks = tuple(key for key in every if key != "device")
        return self._asks

    def outcome(self, bound: BoundTable, device: str, facts: Mapping[str, Value], node: str | None) -> Ruling:
        """The ruling of ``bound`` on a call with ``facts`` on ``device``: the worst of all candidates, except for a
        refusal that not every hardware would meet."""
        as_is, in_mode = self._open(with_derived(facts, node, self.asks(bound)))
        here = [self._judged(choice.candidate, bound, device, facts, node) for choice in as_is]
        there = [self._judged(choice.candidate, bound, device, facts, node) for choice in in_mode]
        worst = min(here, key=lambda ruling: (_RANK[ruling.verdict], _RANK[ruling.deterministic_mode]))
        worst_on = min(there, key=lambda ruling: _RANK[ruling.deterministic_mode])
        verdict, verdict_on = worst.verdict, worst_on.deterministic_mode
        if _hangs_on_target(in_mode, [ruling.deterministic_mode for ruling in there]):
            verdict_on = Verdict.CONDITIONAL
        if _hangs_on_target(as_is, [ruling.verdict for ruling in here]):
            verdict = Verdict.CONDITIONAL
        spoken = replace(
            worst_on if verdict is Verdict.DETERMINISTIC else worst,
            verdict=verdict,
            deterministic_mode=verdict_on,
            route=worst_on.route,
            decided=Deciding(as_is=worst.decided.as_is, deterministic_mode=worst_on.decided.deterministic_mode),
        )
        names = tuple(dict.fromkeys(choice.candidate.op for choice in as_is if choice.candidate.op))
        if names in ((), (self._op,)):
            return spoken
        both = ((worst, worst.verdict), (worst_on, worst_on.deterministic_mode))
        unknown = next((ruling for ruling, verdict in both if verdict is Verdict.UNKNOWN), None)
        return replace(
            spoken,
            reason=unknown.reason if unknown is not None else None,
            reason_detail=unknown.reason_detail if unknown is not None else "",
            why=" ".join(filter(None, (spoken.why, self.row.why, _WORST if len({r.both for r in here}) > 1 else ""))),
            runs_as=" or ".join(name.removesuffix(".default") for name in names),
            evidence=spoken.evidence if spoken.translated else (*spoken.evidence, *evidence_of(self.row.evidence)),
            translated=True,
        )

    def _judged(
        self, candidate: TargetOp, bound: BoundTable, device: str, facts: Mapping[str, Value], node: str | None
    ) -> Ruling:
        if candidate.op:
            return bound.outcome(candidate.op, {**facts, "device": device, **candidate.facts}, node)
        asked = (bound.table.backend, "", UnknownReason.NO_EVIDENCE, self._op, candidate.why, _RECORD_THERE)
        evidence = evidence_of(self.row.evidence)
        return replace(unknown_ruling(*asked), rule=self.row.id, evidence=evidence, translated=True)


class Translator:
    """The translations for one target, by recorded op."""

    def __init__(self, table: Translations, backend: Backend, version: str, settings: Mapping[str, Value]) -> None:
        self._version = version
        self._settings = settings
        self._rows = {op: row for row in table.translation if backend in row.to for op in row.ops}
        self._notes = {op: note for note in table.note if backend in note.to for op in note.seen}
        self.notes: dict[str, TargetNote] = {}
        """Notes whose ops were recorded, by id."""

    def row_of(self, op: str) -> BoundTranslation | None:
        """The row for a recorded overload: one that names it, else one that names its packet. Call it once per op."""
        packet = op.rpartition(".")[0]
        note = self._notes.get(op) or self._notes.get(packet)
        if note is not None:
            self.notes[note.id] = note
        row = self._rows.get(op) or self._rows.get(packet)
        return None if row is None else BoundTranslation(row, op, self._version, self._settings)


def _choices(row: Translation, op: str, version: str, settings: Mapping[str, Value]) -> Iterator[_Choice]:
    settings = with_forward(settings)
    for named in row.becomes:
        candidate = replace(named, op=op) if named.op == STAYS else named
        if speaks_of(candidate.torch, version) and may_hold(candidate, settings):
            asks = tuple((key, wanted_values(candidate, key)) for key in candidate.when if key not in SETTINGS)
            is_untold = any(key in SETTINGS and key not in settings for key in candidate.when)
            yield _Choice(candidate, asks, candidate.perhaps or is_untold)


def _hangs_on_target(choices: tuple[_Choice, ...], verdicts: list[Verdict]) -> bool:
    """Return whether the call is refused only on some hardware, while the target's is not known."""
    refused = [
        choice.hangs_on_target for choice, verdict in zip(choices, verdicts, strict=True) if verdict is Verdict.RAISES
    ]
    return 0 < len(refused) < len(verdicts) and all(refused)
