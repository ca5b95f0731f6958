"""Proving a compiler's table: as for backends, and what its cases hand on must be there to be looked up."""

from __future__ import annotations

from collections.abc import Iterator

from tracer.names import Verdict
from tracer.tables.compilers import ITSELF, CompiledRule, CompilerTable
from tracer.tables.lint.rule_lint import claimed_twice, faults_of_rules


def lint_compiler(table: CompilerTable) -> list[str]:
    """Everything that is wrong with a table that loads, one line each; an empty list for a sound one."""
    faults = faults_of_rules(table.compiler, table.reviewed, table.rule)
    for backend in table.backends:
        faults += claimed_twice(table.speaking_of(backend))
    return [*faults, *(f"{rule.id}: {fault}" for rule in table.rule for fault in _faults(rule))]


def _faults(rule: CompiledRule) -> Iterator[str]:
    for number, case in enumerate(rule.case):
        if case.calls and case.verdict is not Verdict.UNKNOWN:
            yield f"case {number} has a verdict and calls {case.calls}, whose table speaks"
        if not case.calls and case.verdict is Verdict.UNKNOWN and not case.why:
            yield f"case {number} says neither what is called nor why nothing is known"
        if case.facts and case.calls in ("", ITSELF):
            yield f"case {number} has facts for no other op"
        if case.route:
            yield f"case {number} has a route: what runs instead is what it calls"
