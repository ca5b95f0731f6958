"""Which finding is meant, and which of its recorded calls stands for it."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase

from tracer.errors import UsageError
from tracer.findings import Finding
from tracer.names import About
from tracer.one_call.given import given_by, tensors_in
from tracer.report import Report
from tracer.trace.records import CallGroup


def chosen_finding(findings: Sequence[Finding], name: str) -> tuple[int, int]:
    """Position of the first finding that ``name`` names, and how many it names.

    A name is a number, from 1 in the report's order, a rule or a glob of rules, an op, a line (``train.py:31``), or a
    rule or an op at a line: ``cuda-index-add@train.py:31``. A finding about a call comes before one about the process.
    Raises ``UsageError`` in one line where nothing is named so.
    """
    if not findings:
        raise UsageError("there is no finding", hint="another --backend may have some")
    if name.isdecimal():
        if not 1 <= int(name) <= len(findings):
            raise UsageError(f"there is no finding {name}", hint=f"they are numbered from 1 to {len(findings)}")
        return int(name) - 1, 1
    named = [place for place, finding in enumerate(findings) if _is_named(finding, name)]
    if not named:
        some = ", ".join(dict.fromkeys(finding.rule for finding in findings))
        raise UsageError(f"no finding is named {name!r}", hint=f"name a number, a line or one of {some}")
    named.sort(key=lambda place: findings[place].about is not About.CALL)
    return named[0], len(named)


def _is_named(finding: Finding, name: str) -> bool:
    what, _, line = name.rpartition("@")
    lines = (finding.location, finding.called_from)
    if not what:
        return name in lines or _is_what(finding, name)
    return line in lines and _is_what(finding, what)


def _is_what(finding: Finding, name: str) -> bool:
    packet = finding.op.rpartition(".")[0]
    return name in (finding.op, packet, packet.partition(".")[2]) or fnmatchcase(finding.rule, name)


def calls_of(report: Report, finding: Finding) -> tuple[CallGroup, ...]:
    """The recorded groups behind a finding, the one with most elements first: it shows most."""
    found = [
        judged.group
        for judged in report.calls
        if judged.ruling.rule_id == finding.rule
        and judged.ruling.verdict is finding.verdict
        and judged.ruling.verdict_in_deterministic_mode is finding.deterministic_mode
        and (judged.group.region is None) == (not finding.regions)
        and all(getattr(judged.group, name) == getattr(finding, name) for name in _SHARED)
    ]
    return tuple(sorted(found, key=lambda group: -_elements(group)))


_SHARED = ("op", "phase", "module", "location", "function", "called_from")


def _elements(group: CallGroup) -> int:
    try:
        return sum(one.numel for one in tensors_in(given_by(group.given)))
    except ValueError:
        return -1
