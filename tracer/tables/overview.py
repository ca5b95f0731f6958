"""What the tables cover, counted: rules and ops a backend, by the strength of their evidence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from tracer.names import Backend, EvidenceKind
from tracer.tables.rules import GRADES, Rule, Table, strongest
from tracer.tables.versions import reviewed_releases


class TableSummary(NamedTuple):
    """One table in figures."""

    backend: Backend
    reviewed: tuple[str, str]
    """The oldest and the newest release of torch that it was reviewed for."""
    rules: int
    ops: int
    """Ops that rules name; a packet counts once, however many overloads it has."""
    by_grade: Mapping[EvidenceKind, int]
    """Rules by their strongest evidence; every grade is there."""
    deny_list: bool
    inherited: int
    """Rules that were taken over from another backend's table; their evidence counts as documented at best."""


def summarise(table: Table) -> TableSummary:
    """``table`` in figures."""
    releases = reviewed_releases(table.reviewed)
    grades = Counter(strongest(rule.evidence) for rule in table.rule)
    return TableSummary(
        table.backend,
        (releases[0], releases[-1]),
        len(table.rule),
        len({op for rule in table.rule for op in rule.ops}),
        {grade: grades[grade] for grade in GRADES},
        table.deny_list,
        sum(is_inherited(rule) for rule in table.rule),
    )


def is_inherited(rule: Rule) -> bool:
    """Whether a rule was taken over from another backend's table."""
    return bool(rule.evidence) and all(row.inherited_from is not None for row in rule.evidence)
