"""JUnit XML: a test case a rule and file, failed where a finding can make two runs differ."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from xml.etree import ElementTree

from tracer.baseline import file_of
from tracer.findings import Finding
from tracer.names import Verdict
from tracer.plan import name_of, place_of
from tracer.report.plain import visible

if TYPE_CHECKING:
    from tracer.report.report import Report

#: Verdicts that fail a case; the others are let through, and what is not known is skipped.
FAILS = (Verdict.RAISES, Verdict.NONDETERMINISTIC, Verdict.CONDITIONAL)
#: What XML 1.0 cannot hold in any spelling.
_NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def render(report: Report) -> str:
    """One suite; its cases are named by rule and file, so that they keep their names while code moves."""
    cases: dict[tuple[str, str], list[Finding]] = {}
    for finding in report.findings:
        cases.setdefault((finding.rule, file_of(finding.called_from or finding.location)), []).append(finding)
    failed = sum(any(one.verdict in FAILS for one in group) for group in cases.values())
    skipped = sum(_is_skipped(group) for group in cases.values())
    counts = {"tests": len(cases), "failures": failed, "errors": 0, "skipped": skipped}
    numbers = {name: str(count) for name, count in counts.items()}
    root = ElementTree.Element("testsuites", {"name": "determinism", **numbers, "time": "0"})
    suite = ElementTree.SubElement(
        root, "testsuite", {"name": _text(f"determinism on {report.target.backend}"), **numbers, "time": "0"}
    )
    for (rule, path), group in cases.items():
        case = ElementTree.SubElement(
            suite, "testcase", {"classname": _text(path or "process"), "name": _text(rule), "time": "0"}
        )
        worst = group[0]
        said = "\n".join(_line(one) for one in group)
        if worst.verdict in FAILS:
            failure = ElementTree.SubElement(
                case, "failure", {"message": _text(worst.why or worst.rule), "type": worst.verdict.value}
            )
            failure.text = _text(said)
        elif _is_skipped(group):
            ElementTree.SubElement(case, "skipped", {"message": _text(said)})
    ElementTree.indent(root, space=" ")
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"


def _is_skipped(group: list[Finding]) -> bool:
    """Is the group's worst verdict that nobody knows?"""
    return group[0].verdict is Verdict.UNKNOWN


def _line(finding: Finding) -> str:
    what = name_of(finding.op) or finding.subject or finding.rule
    calls = f"{finding.count:,} {'call' if finding.count == 1 else 'calls'}"
    remedy = f": {finding.remedy}" if finding.remedy else ""
    return " ".join(f"{place_of(finding)}: {what} is {finding.verdict}, {calls}, {finding.phase}{remedy}".split())


def _text(text: str) -> str:
    return _NO_XML.sub("?", visible(text))
