"""A table bound to one target: for each op and its facts, what happens as things stand and in deterministic mode.

What an op needs is worked out the first time it is met, and rulings are kept by the facts that they rest on: a
hundred thousand calls cost about as many dictionary look-ups.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from tracer.names import Backend, Cause, EvidenceKind, Prerequisite, Shown, UnknownReason, Verdict
from tracer.tables.conditions import DERIVATIONS, BoundRule, Met, conditions_of, derive
from tracer.tables.model import Rule, RuleEvidence, Table, Vouched
from tracer.tables.versions import judged_as, placed, release
from tracer.tables.vocabulary import Value

#: Namespaces whose ops a deny list vouches for by not naming them.
_VOUCHED_FOR = ("aten", "prims")


class RuleOutcome(NamedTuple):
    """What a table says of a call, both ways, in words."""

    backend: Backend
    rule: Rule | None
    rule_id: str
    """The rule's id, or what stands for the lack of one: ``cuda-opaque``, ``mps-no-table``."""
    verdict: Verdict
    verdict_in_deterministic_mode: Verdict
    """The verdict under deterministic mode."""
    reason: UnknownReason | None = None
    """Why a verdict is ``unknown``, when one is."""
    detail: str = ""
    """The op, the version or the facts that ``reason`` speaks of."""
    cause: Cause | None = None
    why: str = ""
    remedy: str = ""
    extrapolated: bool = False
    route: str = ""
    """What runs in the op's stead under deterministic mode; see ``model.Case.route``."""
    runs_as: str = ""
    """What the op becomes on the target, where that is another op; several, where which one is not known."""
    translated_by: tuple[RuleEvidence, ...] = ()
    """Why that is believed."""
    vouched_by: tuple[RuleEvidence, ...] = ()
    """Why an op that no rule names is held for deterministic, where more than a deny list says so."""
    needs: tuple[Prerequisite, ...] = ()
    """What must hold as well for the remedy to work."""
    shown: Shown | None = None
    """What generated code shows of the call, where that decided; see ``tables.ruling.compiled``."""
    decided: tuple[Met | None, Met | None] = (None, None)
    """The conditions of the cases that decided, as things stand and in deterministic mode; ``None`` where none did."""

    observed: bool = False
    """Do the data of the run settle what the table holds against it? See ``tables.ruling.run_evidence``."""
    refuted: Verdict | None = None
    """What the table says of calls of which trials showed otherwise."""

    @property
    def says(self) -> tuple[object, ...]:
        """All that it says, whichever case decided: rulings that agree in it are one finding."""
        return (self.backend, id(self.rule), *self._replace(decided=(None, None))[2:])

    @property
    def evidence(self) -> tuple[RuleEvidence, ...]:
        """Why the rule is believed, then why the call comes before it."""
        return (*(self.rule.evidence if self.rule is not None else self.vouched_by), *self.translated_by)

    @property
    def both(self) -> tuple[Verdict, Verdict]:
        """The verdict as things stand, and in deterministic mode."""
        return self.verdict, self.verdict_in_deterministic_mode

    @property
    def is_safe(self) -> bool:
        """Deterministic both ways: nothing to report."""
        return self.verdict is self.verdict_in_deterministic_mode is Verdict.DETERMINISTIC


_WHY_UNKNOWN = {
    UnknownReason.NO_TABLE: "No table exists for this call's backend.",
    UnknownReason.TABLE_NOT_REVIEWED: "The table was not reviewed for this version of torch.",
    UnknownReason.FACT_NOT_RECORDED: "The trace does not say on which device the call ran.",
    UnknownReason.UNLISTED: "The vendor's list names what is deterministic, and this op is not on it.",
    UnknownReason.NOT_COMPUTED: "The call was made on `meta` tensors: nothing was computed, and a device may run"
    " another op in its place.",
    UnknownReason.OPAQUE: "The op comes from outside torch's own namespaces, and no rule names it.",
}
_CAUSE_UNKNOWN = {UnknownReason.UNLISTED: Cause.VENDOR_UNLISTED, UnknownReason.OPAQUE: Cause.OPAQUE}
_REMEDY_UNKNOWN = "Run the op twice on the target with the same input and compare the bits; then add a rule for it."


class Lookup(NamedTuple):
    """What a ruling on an op rests on."""

    facts: tuple[str, ...]
    """Recorded facts."""
    derived: tuple[str, ...]
    """Facts derived from the autograd node; see ``tables.derived``."""


def safe_ruling(backend: Backend, *, extrapolated: bool = False) -> RuleOutcome:
    """Deterministic, without a rule."""
    safe = Verdict.DETERMINISTIC
    return RuleOutcome(backend, None, "", safe, safe, extrapolated=extrapolated)


def unknown_ruling(backend: Backend, name: str, reason: UnknownReason, detail: str, why: str = "") -> RuleOutcome:
    """Unknown both ways, without a rule; ``name`` completes the id that stands for it."""
    return RuleOutcome(
        backend,
        None,
        f"{backend}-{name}",
        Verdict.UNKNOWN,
        Verdict.UNKNOWN,
        reason,
        detail,
        _CAUSE_UNKNOWN.get(reason),
        why or _WHY_UNKNOWN[reason],
        _REMEDY_UNKNOWN,
    )


class _Plan(NamedTuple):
    """A rule bound both ways, and the facts that either asks for."""

    rule: Rule
    asks: Lookup
    as_is: BoundRule
    in_mode: BoundRule


class BoundTable:
    """One table for one version and one set of settings."""

    def __init__(self, table: Table, version: str, settings: Mapping[str, Value], *, strict: bool = False) -> None:
        """``version`` is a release (``2.9.0``). ``strict`` refuses one that the table only reaches by inference."""
        self.table = table
        self.place = placed(table.reviewed, version)
        """Where the version lies against what was reviewed; see ``versions.placed``."""
        self.extrapolated = self.place == "newer" and not strict
        self._version = judged_as(table.reviewed, version, extrapolated=self.extrapolated)
        self._settings = settings
        self._plans: dict[str, _Plan | RuleOutcome] = {}
        self._by_rule: dict[str, _Plan] = {}
        self._kept: dict[tuple[str, tuple[Value | None, ...]], RuleOutcome] = {}
        self._alike: dict[tuple[object, ...], RuleOutcome] = {}
        self._refusal: RuleOutcome | None = None
        if self.place != "reviewed" and not self.extrapolated:
            detail = f"torch {version} against {table.reviewed}"
            reason = UnknownReason.TABLE_NOT_REVIEWED
            self._refusal = unknown_ruling(table.backend, "not-reviewed", reason, detail)

    @property
    def version(self) -> str:
        """The release whose verdicts stand: the target's, or the newest reviewed one."""
        return self._version

    @property
    def refusal(self) -> RuleOutcome | None:
        """The ruling on every call, where the table does not speak of the version."""
        return self._refusal

    def rule_on(self, op: str, facts: Mapping[str, Value], node: str | None = None) -> RuleOutcome:
        """The ruling for a call of ``op``, an overload as torch prints it, with ``facts``.

        ``node`` is the autograd node that made a backward call, empty where it is not known, and ``None`` for a call
        outside the backward pass. Rulings that say the same are the same object.
        """
        if self._refusal is not None:
            return self._refusal
        plan = self._plans.get(op)
        if plan is None:
            plan = self._plans[op] = self._plan(op)
        if isinstance(plan, RuleOutcome):
            return plan
        get = facts.get
        values: list[Value | None] = [get(name) for name in plan.asks.facts]
        if plan.asks.derived:
            derived = {key: derive(key, node, facts) for key in plan.asks.derived}
            values += derived.values()
            facts = {**facts, **{key: value for key, value in derived.items() if value is not None}}
        key = (op, tuple(values))
        ruling = self._kept.get(key)
        if ruling is None:
            ruling = self._kept[key] = self._ruling(plan, facts)
        return ruling

    def asks(self, op: str) -> Lookup:
        """What the ruling on ``op`` rests on."""
        plan = self._plans.get(op)
        if plan is None:
            plan = self._plans[op] = self._plan(op)
        return Lookup((), ()) if isinstance(plan, RuleOutcome) else plan.asks

    def same(self, ruling: RuleOutcome) -> RuleOutcome:
        """The one object that stands for every ruling that says the same."""
        return self._alike.setdefault(ruling[2:], ruling)

    def _plan(self, op: str) -> _Plan | RuleOutcome:
        rule = self.table.find(op)
        if rule is None:
            return self._without_rule(op)
        plan = self._by_rule.get(rule.id)
        if plan is None:
            as_is = BoundRule(rule, self._version, self._settings)
            in_mode = BoundRule(rule, self._version, {**self._settings, "deterministic_mode": "on"})
            keys = dict.fromkeys((*as_is.facts, *in_mode.facts))
            asks = Lookup(
                tuple(key for key in keys if key not in DERIVATIONS), tuple(key for key in keys if key in DERIVATIONS)
            )
            plan = self._by_rule[rule.id] = _Plan(rule, asks, as_is, in_mode)
        return plan

    def _without_rule(self, op: str) -> RuleOutcome:
        """A deny list holds what it does not name for deterministic, an allow list for unknown."""
        if op.partition(".")[0] not in _VOUCHED_FOR:
            return unknown_ruling(self.table.backend, "opaque", UnknownReason.OPAQUE, op)
        if self.table.deny_list:
            safe = safe_ruling(self.table.backend, extrapolated=self.extrapolated)
            entry = vouches_for(self.table, op, self._version)
            if entry is None or self.table.dispatched is None:
                return safe
            return self.same(safe._replace(vouched_by=(evidence_for(entry, self.table.dispatched.device),)))
        ruling = unknown_ruling(self.table.backend, "unlisted", UnknownReason.UNLISTED, op, self.table.unlisted)
        return (
            ruling._replace(remedy=self.table.ask.format(op=op.removesuffix(".default"))) if self.table.ask else ruling
        )

    def _ruling(self, plan: _Plan, facts: Mapping[str, Value]) -> RuleOutcome:
        as_is, in_mode = plan.as_is.decide(facts), plan.in_mode.decide(facts)
        rule = plan.rule
        # A case's own words come before its rule's: as things stand first, then deterministic mode's bad news.
        spoken = [as_is.case, in_mode.case if in_mode.verdict is not Verdict.DETERMINISTIC else None]
        cases = [case for case in spoken if case is not None]
        ruling = RuleOutcome(
            self.table.backend,
            rule,
            rule.id,
            as_is.verdict,
            in_mode.verdict,
            as_is.reason or in_mode.reason,
            ", ".join(dict.fromkeys((*as_is.missing, *in_mode.missing))),
            next((case.cause for case in cases if case.cause), rule.cause),
            next((case.why for case in cases if case.why), rule.why),
            next((case.remedy for case in cases if case.remedy), rule.remedy),
            self.extrapolated,
            in_mode.case.route if in_mode.case is not None else "",
            needs=next((case.needs for case in cases if case.remedy), rule.needs),
            decided=(conditions_of(as_is.case), conditions_of(in_mode.case)),
        )
        return self.same(ruling)


def vouches_for(table: Table, op: str, version: str) -> Vouched | None:
    """The entry that vouches for an overload in a release, if any does."""
    dispatched = table.dispatched
    if dispatched is None:
        return None
    at = _number(version)
    for entry in dispatched.vouched:
        if op in entry.ops and _number(entry.first) <= at <= _number(entry.last):
            return entry
    return None


def evidence_for(entry: Vouched, device: str) -> RuleEvidence:
    """Why an op of ``entry`` is held for deterministic."""
    return RuleEvidence(
        kind=EvidenceKind.DISPATCHED,
        ref=f"CUDA builds of torch {entry.first} to {entry.last} run without a device, as {device}: each recorded call"
        " launched kernels that add nothing atomically and called into no library",
    )


def _number(version: str) -> tuple[int, ...]:
    major, minor = release(version).split(".")[:2]
    return int(major), int(minor)
