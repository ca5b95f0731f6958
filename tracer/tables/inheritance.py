"""What a table takes over behind its own rules: another backend's, and classes of ops that cannot vary anywhere.

ROCm compiles torch's CUDA kernels after a mechanical translation (hipify), so what was read there is the best
guess where nothing was read on ROCm itself. A guess is weaker than a reading: inherited rules say so in their
first words, and whatever stood behind them counts as documented at best.

What multiplies two numbers, copies one or counts has nothing to vary, whatever the kernel: no order of additions, no
choice of an algorithm, no two writes that differ. Such a class of ops is written once and taken over by name.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from tracer.errors import TableError
from tracer.names import EvidenceKind
from tracer.tables.model import ClassTable, Rule, RuleEvidence, Table
from tracer.tables.versions import reviewed_releases, speaks_of

#: What leads the ids of classes; a table's own name stands there once it has taken a class over.
CLASS_ID = "class"
#: How each inherited reference begins, so that a reader and a count by grade can tell it from a reading.
INHERITED = "inherited from the {} table, not read or run on {}: "


def with_inherited(table: Table, parent: Table) -> Table:
    """``table`` with the rules of ``parent`` behind its own, for the ops that its own do not claim.

    An own rule for a packet keeps out the parent's rules for its overloads; one for an overload alone leaves
    the packet's other overloads to the parent. An id keeps its origin: ``cuda-histc`` becomes ``rocm-cuda-histc``.
    """
    claimed = {op for rule in table.rule for op in rule.ops}
    return replace(table, rule=(*table.rule, *_inherited(table, parent, claimed)))


def with_classes(table: Table, classes: ClassTable) -> Table:
    """``table`` with the classes that it names behind its own rules, for the ops that these do not claim.

    A rule for a packet keeps out the class; one for an overload alone leaves it the packet's other overloads.
    ``TableError`` for a class that does not exist.
    """
    known = {rule.id.removeprefix(f"{CLASS_ID}-"): rule for rule in classes.rule}
    if lacking := [name for name in table.classes if name not in known]:
        raise TableError(
            f"{table.backend}.toml: there is no class {' and no class '.join(map(repr, lacking))}",
            hint=f"classes.toml has {', '.join(known)}",
        )
    claimed = {op for rule in table.rule for op in rule.ops}
    return replace(table, rule=(*table.rule, *_taken_over(table, known, claimed)))


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
    return RuleEvidence(
        kind=min(EvidenceKind.DOCUMENTED, row.kind, key=list(EvidenceKind).index),
        ref=ref,
        inherited_from=parent.backend,
    )


def _packet(op: str) -> str:
    """``aten.scatter`` for ``aten.scatter.src``; an op that is a packet already stays as it is."""
    return op.rpartition(".")[0] if op.count(".") == 2 else op


def _taken_over(table: Table, known: dict[str, Rule], claimed: set[str]) -> Iterator[Rule]:
    for name in table.classes:
        ops = tuple(op for op in known[name].ops if op not in claimed)
        if ops:
            yield replace(known[name], id=f"{table.backend}-{name}", ops=ops)
