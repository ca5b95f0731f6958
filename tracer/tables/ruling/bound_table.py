"""A table bound to one target: the ruling on an op with its facts, with and without deterministic mode."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from tracer.facts.fact import Met, Value
from tracer.names import TORCH_NAMESPACES, Backend, Cause, EvidenceKind, Prerequisite, Shown, UnknownReason, Verdict
from tracer.tables.conditions import BothWays, with_derived
from tracer.tables.rules import Rule, RuleEvidence, Table
from tracer.tables.versions import judged_as, placed, release


class RuleOutcome(NamedTuple):
    """A table's answer for a call, under the target's settings and in deterministic mode, in words."""

    backend: Backend
    rule: Rule | None
    rule_id: str
    """The rule's id, or an id for the lack of a rule: ``cuda-opaque``, ``mps-no-table``."""
    verdict: Verdict
    verdict_in_deterministic_mode: Verdict
    """The verdict under deterministic mode."""
    reason: UnknownReason | None = None
    """The reason for an ``unknown`` verdict; ``None`` for any other."""
    detail: str = ""
    """The op, the version or the facts that ``reason`` is about."""
    cause: Cause | None = None
    why: str = ""
    remedy: str = ""
    extrapolated: bool = False
    route: str = ""
    """The op or function that runs instead under deterministic mode; see ``rules.Case.route``."""
    runs_as: str = ""
    """The op that runs on the target instead; several if it is not known which."""
    translated_by: tuple[RuleEvidence, ...] = ()
    """Its evidence."""
    vouched_by: tuple[RuleEvidence, ...] = ()
    """Evidence for an op without a rule, if there is more than the deny list."""
    needs: tuple[Prerequisite, ...] = ()
    """Further conditions for the remedy to work."""
    shown: Shown | None = None
    """The result that generated code shows of the call, if that decided; see ``tables.ruling.compiled``."""
    decided: tuple[Met | None, Met | None] = (None, None)
    """Conditions of the cases that decided, with and without deterministic mode; ``None`` if none did."""

    observed: bool = False
    """Whether the data of the run exclude the table's risk. See ``tables.ruling.run_evidence``."""
    refuted: Verdict | None = None
    """The table's verdict, if trials refuted it."""

    @property
    def identity(self) -> tuple[object, ...]:
        """All that it says and what decided. Rulings with equal identities are the same object."""
        return (self.backend, id(self.rule), *self[2:])

    @property
    def says(self) -> tuple[object, ...]:
        """All that it says, whichever case decided. Rulings with equal claims are one finding."""
        return self._replace(decided=(None, None)).identity

    @property
    def evidence(self) -> tuple[RuleEvidence, ...]:
        """Evidence of the rule, then of the translation that led to it."""
        return (*(self.rule.evidence if self.rule is not None else self.vouched_by), *self.translated_by)

    @property
    def both(self) -> tuple[Verdict, Verdict]:
        """The verdict under the target's settings, and in deterministic mode."""
        return self.verdict, self.verdict_in_deterministic_mode

    @property
    def is_safe(self) -> bool:
        """Whether it is deterministic with and without deterministic mode, so that there is nothing to report."""
        return self.verdict is self.verdict_in_deterministic_mode is Verdict.DETERMINISTIC


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


def safe_ruling(backend: Backend) -> RuleOutcome:
    """Deterministic, without a rule."""
    return RuleOutcome(backend, None, "", Verdict.DETERMINISTIC, Verdict.DETERMINISTIC)


def unknown_ruling(backend: Backend, name: str, reason: UnknownReason, detail: str, why: str = "") -> RuleOutcome:
    """Unknown with and without deterministic mode, without a rule; ``name`` completes its id."""
    cause, why = _CAUSE_UNKNOWN.get(reason), why or _WHY_UNKNOWN.get(reason, "")
    both = (Verdict.UNKNOWN, Verdict.UNKNOWN)
    return RuleOutcome(backend, None, f"{backend}-{name}", *both, reason, detail, cause, why, _REMEDY_UNKNOWN)


class BoundTable:
    """One table for one version and one set of settings."""

    def __init__(self, table: Table, version: str, settings: Mapping[str, Value], *, strict: bool = False) -> None:
        """``version`` is a release (``2.9.0``). ``strict`` makes verdicts that are extrapolated to it ``unknown``."""
        self.table = table
        self.place = placed(table.reviewed, version)
        """The version's place among the reviewed ones; see ``versions.placed``."""
        self.extrapolated = self.place == "newer" and not strict
        self.version = judged_as(table.reviewed, version, extrapolated=self.extrapolated)
        """The release whose verdicts are used: the target's, or the newest reviewed one."""
        self.refusal: RuleOutcome | None = None
        """The ruling on every call if the table does not cover the version."""
        if self.place != "reviewed" and not self.extrapolated:
            detail = f"torch {version}, reviewed for {table.reviewed}"
            self.refusal = unknown_ruling(table.backend, "not-reviewed", UnknownReason.TABLE_NOT_REVIEWED, detail)
        self._settings = settings
        self._of_op: dict[str, BothWays[Rule] | RuleOutcome] = {}
        self._by_rule: dict[str, BothWays[Rule]] = {}

    def asks(self, op: str) -> tuple[str, ...]:
        """The facts that the ruling on ``op`` depends on."""
        bound = self._bound(op)
        return () if isinstance(bound, RuleOutcome) else bound.facts

    def outcome(self, op: str, facts: Mapping[str, Value], node: str | None = None) -> RuleOutcome:
        """The ruling on a call of ``op``, an overload as torch prints it, with ``facts``. ``node`` is the
        autograd node of a backward call, empty if it is not known, and ``None`` outside the backward pass."""
        bound = self._bound(op)
        if isinstance(bound, RuleOutcome):
            return bound
        answer, rule = bound.decide(with_derived(facts, node, bound.facts)), bound.rule
        return RuleOutcome(
            self.table.backend,
            rule,
            rule.id,
            *answer.both,
            answer.reason,
            answer.missing,
            answer.cause,
            answer.why,
            answer.remedy,
            self.extrapolated,
            answer.in_mode.case.route if answer.in_mode.case is not None else "",
            needs=next((case.needs for case in answer.cases if case.remedy), rule.needs),
            decided=answer.decided,
        )

    def _bound(self, op: str) -> BothWays[Rule] | RuleOutcome:
        if self.refusal is not None:
            return self.refusal
        if op not in self._of_op:
            rule = self.table.find(op)
            if rule is not None and rule.id not in self._by_rule:
                self._by_rule[rule.id] = BothWays(rule, self.version, self._settings)
            self._of_op[op] = self._without_rule(op) if rule is None else self._by_rule[rule.id]
        return self._of_op[op]

    def _without_rule(self, op: str) -> RuleOutcome:
        """An op that a deny list does not name is deterministic; one that an allow list does not name is unknown."""
        table = self.table
        if op.partition(".")[0] not in TORCH_NAMESPACES:
            return unknown_ruling(table.backend, "opaque", UnknownReason.OPAQUE, op)
        if not table.deny_list:
            ruling = unknown_ruling(table.backend, "unlisted", UnknownReason.UNLISTED, op, table.unlisted)
            return ruling._replace(remedy=table.ask.format(op=op.removesuffix(".default"))) if table.ask else ruling
        safe = safe_ruling(table.backend)._replace(extrapolated=self.extrapolated)
        dispatched, version = table.dispatched, _number(self.version)
        entries, device = (dispatched.vouched, dispatched.device) if dispatched is not None else ((), "")
        for entry in entries:
            if op in entry.ops and _number(entry.first) <= version <= _number(entry.last):
                ref = (
                    f"CUDA builds of torch {entry.first} to {entry.last} run without a device, as {device}:"
                    " each recorded call launched kernels that add nothing atomically and called into no library"
                )
                return safe._replace(vouched_by=(RuleEvidence(kind=EvidenceKind.DISPATCHED, ref=ref),))
        return safe


def _number(version: str) -> tuple[int, ...]:
    major, minor = release(version).split(".")[:2]
    return int(major), int(minor)
