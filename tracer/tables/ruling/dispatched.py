"""What builds of torch were seen to launch, as evidence: for rules, and for ops that no rule names.

``<backend>_dispatched.toml`` is made from recordings (``python -m benchmarks.dispatched --write``), and a test makes it
again: nothing in it is written by hand. It vouches for ops whose every recorded call launched kernels without atomic
additions and called into no library, lists the others with what stands against them, and says of rules in how many
recorded samples a build did what they say.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from tracer.names import EvidenceKind
from tracer.tables.model import Dispatched, RuleEvidence, Table, Vouched
from tracer.tables.versions import release


def with_dispatched(table: Table, dispatched: Dispatched) -> Table:
    """``table`` with what was seen beside its rules."""
    rules = tuple(
        msgspec.structs.replace(rule, evidence=(*rule.evidence, evidence_of(dispatched.rules[rule.id])))
        if rule.id in dispatched.rules
        else rule
        for rule in table.rule
    )
    return msgspec.structs.replace(table, rule=rules, dispatched=dispatched)


def evidence_of(ref: str) -> RuleEvidence:
    """A reference as evidence."""
    return RuleEvidence(kind=EvidenceKind.DISPATCHED, ref=ref)


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
    return evidence_of(
        f"CUDA builds of torch {entry.first} to {entry.last} run without a device, as {device}: each recorded call"
        " launched kernels that add nothing atomically and called into no library"
    )


def _number(version: str) -> tuple[int, ...]:
    major, minor = release(version).split(".")[:2]
    return int(major), int(minor)


def lint_dispatched(table: Table) -> Iterator[str]:
    """What the file says of rules that are not there, of ops that a rule names, or twice."""
    dispatched = table.dispatched
    if dispatched is None:
        return
    known = {rule.id for rule in table.rule}
    for id in dispatched.rules:
        if id not in known:
            yield f"dispatched: there is no rule {id}"
    told: set[tuple[str, str]] = set()
    for entry in dispatched.vouched:
        for op in entry.ops:
            rule = table.find(op)
            if rule is not None:
                yield f"dispatched: {op} is vouched for, and {rule.id} names it"
            if (op, entry.first) in told:
                yield f"dispatched: {op} is vouched for twice from {entry.first} on"
            told.add((op, entry.first))
