"""A table bound to one target: the ruling on an op with its facts, with and without deterministic mode."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from tracer.facts.fact import Value
from tracer.findings import Evidence
from tracer.names import TORCH_NAMESPACES, Backend, Cause, EvidenceKind, UnknownReason, Verdict
from tracer.tables.conditions import BothWays, with_derived
from tracer.tables.rules import Rule, Ruling, Table
from tracer.tables.versions import judged_as, placed, release

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

    def __init__(self, table: Table, version: str, settings: Mapping[str, Value], *, strict: bool = False) -> None:
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
