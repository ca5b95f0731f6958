"""SARIF 2.1.0: findings for code-scanning services, one rule each, at the user's own lines.

The primary location is the user's line; where a library's line led to the op, that one is a related location. A
fingerprint holds no line number, so a finding stays the same while code moves around it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import tracer
from tracer.baseline import file_of, risk_of
from tracer.findings import Finding
from tracer.names import Verdict
from tracer.plan import name_of
from tracer.report.plain import visible
from tracer.report.words import VERDICTS

if TYPE_CHECKING:
    from tracer.report.report import Report

SCHEMA_URI = "https://json.schemastore.org/sarif-2.1.0.json"
INFORMATION_URI = "https://pypi.org/project/determinism-tracer/"
#: GitHub keeps this many results of a run, the worst by level; what is left out is counted in the file.
LIMIT = 5_000
#: A result's fingerprint; the number changes with what goes into it.
FINGERPRINT = "determinismRisk/v1"

#: SARIF's levels: what stops two runs from agreeing, what may, what is not known or only wants a seed.
LEVELS: Mapping[Verdict, str] = {
    Verdict.RAISES: "error",
    Verdict.NONDETERMINISTIC: "error",
    Verdict.CONDITIONAL: "warning",
    Verdict.UNKNOWN: "note",
    Verdict.SEEDED: "note",
    Verdict.DETERMINISTIC: "note",
}


def render(report: Report) -> str:
    """The log as indented JSON, ASCII only."""
    return json.dumps(sarif_log(report), indent=1) + "\n"


def sarif_log(report: Report) -> dict[str, Any]:
    """The log as plain values."""
    shown = report.findings[:LIMIT]
    left_out = len(report.findings) - len(shown)
    rules: dict[str, dict[str, Any]] = {}
    for finding in shown:
        rules.setdefault(finding.rule, _rule(finding))
    index = {rule: place for place, rule in enumerate(rules)}
    results = [_result(finding, index[finding.rule]) for finding in shown]
    return {
        "$schema": SCHEMA_URI,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "determinism-tracer",
                        "semanticVersion": tracer.__version__,
                        "informationUri": INFORMATION_URI,
                        "rules": list(rules.values()),
                    }
                },
                "automationDetails": {"id": f"determinism/{report.target.backend}/{report.target.torch}/"},
                "originalUriBaseIds": {"SRCROOT": {"description": {"text": "The folder that the step was run in."}}},
                "columnKind": "unicodeCodePoints",
                "invocations": [_invocation(report, left_out)],
                "results": results,
                "properties": {"resultsLeftOut": left_out, "calls": report.tally.total},
            }
        ],
    }


def _invocation(report: Report, left_out: int) -> dict[str, Any]:
    """What every reader must know of the run: banners, and what was left out."""
    notes = [*report.banners]
    if left_out:
        notes.append(f"{left_out:,} findings beyond the first {LIMIT:,} were left out.")
    return {
        "executionSuccessful": True,
        "toolExecutionNotifications": [{"level": "note", "message": {"text": visible(note)}} for note in notes],
    }


def _rule(finding: Finding) -> dict[str, Any]:
    """A rule as its first and worst finding tells it."""
    name = "".join(part.capitalize() for part in finding.rule.split("-"))
    why = _sentence(finding.why) or f"{finding.rule} has no reason given."
    rule: dict[str, Any] = {
        "id": finding.rule,
        "name": name,
        "shortDescription": {"text": why.partition(". ")[0].rstrip(".") + "."},
        "fullDescription": {"text": why},
        "defaultConfiguration": {"level": LEVELS[finding.verdict]},
        "help": {"text": _sentence(finding.remedy) or "No remedy is known."},
        "properties": {"tags": ["determinism", *([finding.cause.value] if finding.cause else [])]},
    }
    return rule


def _result(finding: Finding, rule: int) -> dict[str, Any]:
    what = name_of(finding.op) or finding.subject or finding.rule
    runs_as = f", which runs as {finding.runs_as}" if finding.runs_as else ""
    calls = f"{finding.count:,} {'call' if finding.count == 1 else 'calls'}"
    under_mode = VERDICTS[finding.deterministic_mode].label
    parts = [
        f"{what}{runs_as} is {finding.verdict} ({calls}, {finding.phase}; under deterministic mode: {under_mode}).",
        finding.why,
        finding.remedy,
    ]
    result: dict[str, Any] = {
        "ruleId": finding.rule,
        "ruleIndex": rule,
        "kind": "fail",
        "level": LEVELS[finding.verdict],
        "message": {"text": visible(" ".join(part for part in parts if part))},
        "partialFingerprints": {FINGERPRINT: risk_of(finding).fingerprint},
        "properties": {
            "verdict": finding.verdict.value,
            "deterministicMode": finding.deterministic_mode.value,
            "phase": finding.phase.value,
            "calls": finding.count,
        },
    }
    places = [place for place in (finding.called_from, finding.location) if place]
    if places:
        result["locations"] = [_location(places[0], finding)]
    elif finding.module or finding.function:
        result["locations"] = [{"logicalLocations": [_logical(finding)]}]
    if len(places) > 1:
        led_to = {"message": {"text": "the library's line that called the op"}}
        result["relatedLocations"] = [{**_location(places[1], None), "id": 1, **led_to}]
    return result


def _location(place: str, finding: Finding | None) -> dict[str, Any]:
    path = file_of(place)
    line = place.removeprefix(f"{path}:")
    artifact = {"uri": _uri(path), "uriBaseId": "SRCROOT"}
    physical: dict[str, Any] = {"artifactLocation": artifact}
    if line.isdecimal() and int(line) > 0:
        physical["region"] = {"startLine": int(line)}
    location: dict[str, Any] = {"physicalLocation": physical}
    if finding is not None and (finding.module or finding.function):
        location["logicalLocations"] = [_logical(finding)]
    return location


def _logical(finding: Finding) -> dict[str, Any]:
    """The module path, or the function where there is none."""
    if finding.module:
        return {"fullyQualifiedName": visible(finding.module), "kind": "module"}
    return {"fullyQualifiedName": visible(finding.function), "kind": "function"}


def _uri(path: str) -> str:
    """A relative URI: nothing in it reads as a scheme, a host or a step upwards."""
    parts = [part for part in path.replace("\\", "/").split("/") if part not in ("", ".", "..")]
    return "/".join(quote(part.encode("utf-8", "replace"), safe="") for part in parts) or "unknown"


def _sentence(text: str) -> str:
    return visible(" ".join(text.split()))
