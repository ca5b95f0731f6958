"""A table that builds on another: its own rules first, the other's for the ops that it says nothing of.

ROCm compiles torch's CUDA kernels after a mechanical translation (hipify), so what was read there is the best
guess where nothing was read on ROCm itself. A guess is weaker than a reading: inherited rules say so in their
first words, and whatever stood behind them counts as documented at best.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from tracer.names import EvidenceKind
from tracer.tables.model import Rule, RuleEvidence, Table
from tracer.tables.versions import reviewed_releases, speaks_of

#: How each inherited reference begins, so that a reader and a count by grade can tell it from a reading.
INHERITED = "inherited from the {} table, not read or run on {}: "


def with_inherited(table: Table, parent: Table) -> Table:
    """``table`` with the rules of ``parent`` behind its own, for the ops that its own do not claim.

    An own rule for a packet keeps out the parent's rules for its overloads; one for an overload alone leaves
    the packet's other overloads to the parent. An id keeps its origin: ``cuda-histc`` becomes ``rocm-cuda-histc``.
    """
    claimed = {op for rule in table.rule for op in rule.ops}
    return replace(table, rule=(*table.rule, *_inherited(table, parent, claimed)))


def _inherited(table: Table, parent: Table, claimed: set[str]) -> Iterator[Rule]:
    releases = reviewed_releases(table.reviewed)
    for rule in parent.rule:
        ops = tuple(op for op in rule.ops if op not in claimed and _packet(op) not in claimed)
        if ops:
            yield replace(
                rule,
                id=f"{table.backend}-{rule.id}",
                ops=ops,
                why=f"Taken over from {parent.backend}, whose source {table.backend} compiles; not read or run there."
                f" {rule.why}",
                case=tuple(
                    replace(case, why=f"Taken over from {parent.backend}. {case.why}") if case.why else case
                    for case in rule.case
                    if any(speaks_of(case.torch, release) for release in releases)
                ),
                evidence=tuple(_weakened(row, table, parent) for row in rule.evidence),
            )


def _weakened(row: RuleEvidence, table: Table, parent: Table) -> RuleEvidence:
    ref = INHERITED.format(parent.backend, table.backend) + row.ref
    return RuleEvidence(kind=min(EvidenceKind.DOCUMENTED, row.kind, key=list(EvidenceKind).index), ref=ref)


def _packet(op: str) -> str:
    """``aten.scatter`` for ``aten.scatter.src``; an op that is a packet already stays as it is."""
    return op.rpartition(".")[0] if op.count(".") == 2 else op
