"""What lets a rule's calls off: facts that are noted where they hold, and turn each verdict that accuses into none.

A rule names such a fact once, and every case of it that accuses becomes two: one where the fact does not hold, with
the case's own verdict, and one where it does. What deterministic mode refuses it refuses all the same.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from tracer.names import Verdict
from tracer.tables.model import Case, Exemption, Rule, Table

#: Verdicts that accuse a call of letting two runs differ.
_ACCUSING = (Verdict.NONDETERMINISTIC, Verdict.CONDITIONAL)


def with_exemptions(table: Table) -> Table:
    """``table`` with the exemptions of its rules as cases."""
    return msgspec.structs.replace(table, rule=tuple(_spelt_out(rule) for rule in table.rule))


def _spelt_out(rule: Rule) -> Rule:
    cases = rule.case
    for exemption in rule.exempt:
        cases = tuple(one for case in cases for one in _split(case, exemption))
    return msgspec.structs.replace(rule, case=cases, exempt=())


def _split(case: Case, exemption: Exemption) -> Iterator[Case]:
    if case.verdict not in _ACCUSING:
        yield case
        return
    yield msgspec.structs.replace(case, when={**case.when, exemption.fact: False})
    yield Case(
        verdict=Verdict.DETERMINISTIC,
        when={**case.when, exemption.fact: True},
        torch=case.torch,
        why=exemption.why,
        cause=case.cause,
    )
