"""Classes of ops that cannot vary on any device, behind a table's own rules.

What multiplies two numbers, copies one or counts has nothing to vary, whatever the kernel: no order of additions, no
choice of an algorithm, no two writes that differ. Such a class is written once and taken over by the tables that name
it; a table's own rule for an op goes before.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from tracer.errors import TableError
from tracer.tables.model import ClassTable, Rule, Table

#: What leads the ids of classes; a table's own name stands there once it has taken a class over.
CLASS_ID = "class"


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


def _taken_over(table: Table, known: dict[str, Rule], claimed: set[str]) -> Iterator[Rule]:
    for name in table.classes:
        ops = tuple(op for op in known[name].ops if op not in claimed)
        if ops:
            yield replace(known[name], id=f"{table.backend}-{name}", ops=ops)
