"""JUnit XML: a test case a rule and file, failed where a finding can make two runs differ."""

from __future__ import annotations

import re
from xml.etree import ElementTree

from tracer.gate import file_of
from tracer.names import AT_RISK, Verdict
from tracer.plain import one_line, visible
from tracer.plan import place_of
from tracer.report import Report
from tracer.report.words import counted, phase_of, statement_of

#: Findings of a case that are told, and the characters of each.
_LINES, _LONGEST = 100, 2_000
#: What XML 1.0 cannot hold in any spelling.
_NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def render(report: Report) -> str:
    """One suite; its cases are named by rule and file, so that they keep their names while code moves.

    Behind a gate a case fails where the gate does, and one that was accepted whole is skipped.
    """
    cases: dict[tuple[str, str], list[int]] = {}
    for place, finding in enumerate(report.findings):
        cases.setdefault((finding.rule, file_of(finding.called_from or finding.location)), []).append(place)
    elements = [_case(report, rule, path, places) for (rule, path), places in cases.items()]

    def count(outcome: str) -> str:
        return str(sum(element.find(outcome) is not None for element in elements))

    counts = {"tests": str(len(elements)), "failures": count("failure"), "errors": "0"}
    root = ElementTree.Element("testsuites", {"name": "determinism", "time": "0", **counts})
    is_fake = any(source.fake_calls for source in report.judgement.trace.sources)
    name = _text(f"determinism on {report.target.backend}{', recorded on fake tensors' if is_fake else ''}")
    attributes = {"name": name, **counts, "skipped": count("skipped"), "time": "0"}
    ElementTree.SubElement(root, "testsuite", attributes).extend(elements)
    ElementTree.indent(root, space=" ")
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"


def _case(report: Report, rule: str, path: str, places: list[int]) -> ElementTree.Element:
    """One rule in one file: failed by findings that fail, else skipped where nothing is known or all is accepted."""
    case = ElementTree.Element("testcase", {"name": _text(rule), "classname": _text(path or "process"), "time": "0"})
    spoken_for = report.spoken_for
    left = [place for place in places if place not in spoken_for]
    fails = report.failing
    failing = [
        place for place in left if (place in fails if fails is not None else report.findings[place].verdict in AT_RISK)
    ]
    worst = report.findings[(failing or left or places)[0]]
    why = {"message": _text(worst.why or worst.rule), "type": worst.verdict.value}
    if failing:
        outcome = ElementTree.SubElement(case, "failure", why)
    elif not left:
        by = ", ".join(sorted({str(spoken_for[place].by) for place in places}))
        outcome = ElementTree.SubElement(case, "skipped", {"message": f"accepted: {by}", "type": "accepted"})
    elif worst.verdict is Verdict.UNKNOWN:
        outcome = ElementTree.SubElement(case, "skipped", why)
    else:
        outcome = ElementTree.SubElement(case, "system-out")
    ordered = [*failing, *(place for place in places if place not in failing)]
    lines = []
    for place in ordered[:_LINES]:
        finding, acceptance = report.findings[place], spoken_for.get(place)
        parts = filter(None, (statement_of(finding), counted(finding), phase_of(finding)))
        remedy = f": {finding.remedy}" if finding.remedy else ""
        accepted = f" (accepted, {acceptance.by}: {acceptance.reason})" if acceptance is not None else ""
        lines.append(one_line(f"{place_of(finding)}: {', '.join(parts)}{accepted}{remedy}", _LONGEST))
    if len(ordered) > _LINES:
        lines.append(f"and {len(ordered) - _LINES:,} more")
    outcome.text = _text("\n".join(lines))
    return case


def _text(text: str) -> str:
    return _NO_XML.sub("?", visible(text))
