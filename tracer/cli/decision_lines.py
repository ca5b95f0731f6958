"""What a gate decided, a line a finding: what fails, and with ``--verbose`` why, and what was let through."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tracer.names import Detail

if TYPE_CHECKING:
    from tracer.findings import Finding
    from tracer.gating import Decision

#: Failing findings that are printed unless all are asked for.
_SHOWN = 50
#: Characters of a reason or a reference that are printed.
_LONGEST = 2_000


def told(decision: Decision, detail: Detail) -> Iterator[str]:
    """The lines between the trace and the summary; none in brief."""
    if detail is Detail.BRIEF:
        return
    whole = detail is Detail.WHOLE
    state = _states(decision)
    for one in decision.failing if whole else decision.failing[:_SHOWN]:
        remedy = f": {one.remedy}" if one.remedy else ""
        yield _one_line(f"{_said(one)}{state.get(id(one), '')}{remedy}")
        if whole:
            yield from _reasons(one)
    if not whole:
        if len(decision.failing) > _SHOWN:
            yield f"and {len(decision.failing) - _SHOWN:,} more; --verbose prints all"
        return
    for label, findings in (
        ("accepted", decision.compared.known),
        ("silenced by a comment", decision.silenced),
        ("not selected", decision.ignored),
        ("below the gate", decision.passing),
    ):
        for one in findings:
            yield _one_line(f"{label}: {_said(one)}")


def _said(one: Finding) -> str:
    """``train.py:10: cuda-index-add: aten.index_add_.default is nondeterministic``."""
    place = one.location or one.called_from or one.subject or one.module or "place not recorded"
    return f"{place}: {one.rule}: {one.op or one.subject} is {one.verdict}"


def _reasons(one: Finding) -> Iterator[str]:
    if one.why:
        yield f"  why: {_one_line(one.why)}"
    for row in one.evidence:
        yield f"  evidence, {_one_line(str(row))}"


def _states(decision: Decision) -> dict[int, str]:
    compared = decision.compared
    said = {id(one): ", worse than was accepted" for one in compared.worsened}
    return said | {id(one): ", accepted no longer" for one in compared.expired}


def _one_line(text: str) -> str:
    from tracer.report.plain import one_line

    return one_line(text, _LONGEST)
