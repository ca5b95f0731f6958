"""What a gate decided, a line a finding: what fails, and with ``--verbose`` why, and what was let through."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from tracer.names import Detail
from tracer.plain import is_terminal

if TYPE_CHECKING:
    from rich.console import RenderableType

    from tracer.findings import Finding
    from tracer.gate.gating import Decision

#: Failing findings that are printed unless all are asked for.
_SHOWN = 50
#: Characters of a reason or a reference that are printed.
_LONGEST = 2_000


class Line(NamedTuple):
    """One finding, or what is said of several."""

    text: str
    remedy: str = ""
    reasons: tuple[str, ...] = ()


def printed_lines(decision: Decision, detail: Detail) -> str:
    """What stands before the summary; empty in brief.

    In a pipe or a file a finding is a line, as compilers print theirs; on a terminal it is wrapped.
    """
    lines = tuple(_lines(decision, detail))
    if not is_terminal(sys.stdout):
        return "".join(f"{row}\n" for line in lines for row in _in_rows(line))
    from tracer.report.render.terminal import Prose, indented, printed

    def parts(width: int) -> Iterator[RenderableType]:
        for line in lines:
            yield Prose(line.text, style="bold", overflow="fold")
            for row in (line.remedy, *line.reasons) if line.remedy else line.reasons:
                yield indented(row, 4)

    return printed(parts) if lines else ""


def _in_rows(line: Line) -> Iterator[str]:
    yield f"{line.text}: {line.remedy}" if line.remedy else line.text
    yield from (f"  {reason}" for reason in line.reasons)


def _lines(decision: Decision, detail: Detail) -> Iterator[Line]:
    if detail is Detail.BRIEF:
        return
    whole = detail is Detail.WHOLE
    state = _states(decision)
    for finding in decision.failing if whole else decision.failing[:_SHOWN]:
        reasons = tuple(_reasons(finding)) if whole else ()
        yield Line(_plain(f"{_said(finding)}{state.get(id(finding), '')}"), _plain(finding.remedy), reasons)
    if not whole:
        if len(decision.failing) > _SHOWN:
            yield Line(f"and {len(decision.failing) - _SHOWN:,} more; --verbose prints all")
        return
    for label, findings in (
        ("accepted", decision.compared.known),
        ("silenced by a comment", decision.silenced),
        ("not selected", decision.ignored),
        ("below the gate", decision.passing),
    ):
        for finding in findings:
            yield Line(_plain(f"{label}: {_said(finding)}"))


def _said(one: Finding) -> str:
    """``train.py:10: cuda-index-add: aten.index_add_.default forward in net.fc is nondeterministic``."""
    from tracer.report.words import answer_of, runs_as_of

    if one.subject and not one.location:
        return f"{one.rule}: {one.subject} {answer_of(one)}"
    place = one.location or one.called_from or one.module or "place not recorded"
    phase = f" {one.phase}" if one.op else ""
    module = f" in {one.module}" if one.module and place != one.module else ""
    led = f" (called from {one.called_from})" if one.called_from not in ("", place) else ""
    return f"{place}: {one.rule}: {one.op or one.subject}{phase}{runs_as_of(one)}{module}{led} {answer_of(one)}"


def _reasons(one: Finding) -> Iterator[str]:
    if one.why:
        yield f"why: {_plain(one.why)}"
    for row in one.evidence:
        yield f"evidence, {_plain(str(row))}"


def _states(decision: Decision) -> dict[int, str]:
    compared = decision.compared
    said = {id(finding): ", worse than was accepted" for finding in compared.worsened}
    return said | {id(finding): ", accepted no longer" for finding in compared.expired}


def _plain(text: str) -> str:
    """``text`` on one line, which neither drives a terminal nor speaks to GitHub."""
    from tracer.plain import one_line
    from tracer.report.files.annotations import inert

    return inert(one_line(text, _LONGEST))
