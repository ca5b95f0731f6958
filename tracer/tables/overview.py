"""Counts of what the tables cover: rules and ops per backend, by the strength of their evidence."""

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
    """The oldest and the newest reviewed release of torch."""
    rules: int
    ops: int
    """Number of ops that rules name; a packet counts once."""
    by_grade: Mapping[EvidenceKind, int]
    """Rules by their strongest evidence; all grades are present."""
    deny_list: bool
    inherited: int
    """Number of rules inherited from another backend's table; their evidence is at best ``documented``."""


def summarise(table: Table) -> TableSummary:
    """Counts of ``table``."""
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
    """Return whether a rule was inherited from another backend's table."""
    return bool(rule.evidence) and all(row.inherited_from is not None for row in rule.evidence)
