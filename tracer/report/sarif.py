"""SARIF 2.1.0: findings for code-scanning services, one rule each, at the user's own lines.

A library's line that led to the op is a related location. Fingerprints hold no line number, so that findings stay the
same while code moves. Every result has a file: GitHub refuses a whole log for one result without.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, metadata
from typing import Any
from urllib.parse import quote

import tracer
from tracer.findings import Finding
from tracer.gate import file_of, risk_of
from tracer.names import AcceptedBy, Verdict
from tracer.plain import one_line, visible
from tracer.report import Report
from tracer.report.sections.findings import of_this_run, rests_on_a_rule
from tracer.report.words import VERDICTS, counted, phase_of, statement_of
from tracer.trace.records import split_place

SCHEMA_URI = "https://json.schemastore.org/sarif-2.1.0.json"
#: GitHub keeps this many results of a run, the worst by level; what is left out is counted in the file.
LIMIT = 5_000
#: Characters of a description or a message; GitHub takes no longer descriptions, and 10 MB of gzip in all.
LONGEST = 1_024
_LONGEST_NAME = 255
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
    spoken_for = report.spoken_for
    # Where not all fit, what somebody accepted is left out first.
    shown = sorted(sorted(range(len(report.findings)), key=spoken_for.__contains__)[:LIMIT])
    left_out = len(report.findings) - len(shown)
    rules: dict[str, dict[str, Any]] = {}
    for place in shown:
        rules.setdefault(report.findings[place].rule, _rule(report.findings[place]))
    index = {rule: place for place, rule in enumerate(rules)}
    script = _script(report)
    results = []
    for place in shown:
        finding = report.findings[place]
        result = _result(finding, index[finding.rule], script)
        if report.accepted is not None:  # the standard wants them at every result of a run, or at none
            result["suppressions"] = []
        if (acceptance := spoken_for.get(place)) is not None:  # by a comment, or by a lock file or the gate's options
            is_option = acceptance.by is AcceptedBy.SELECTION
            reason = _short(acceptance.reason or ("Chosen out by --select or --ignore." if is_option else ""))
            kind = "inSource" if acceptance.by is AcceptedBy.COMMENT else "external"
            result["suppressions"] = [{"kind": kind, **({"justification": reason} if reason else {})}]
        results.append(result)
    is_release = re.fullmatch(r"\d+\.\d+\.\d+", tracer.__version__)
    driver = {
        "name": "determinism-tracer",
        "semanticVersion" if is_release else "version": tracer.__version__,
        **({"informationUri": site} if (site := site_address()) else {}),
        "rules": list(rules.values()),
    }
    notes = [
        *report.banners,
        *([f"{left_out:,} findings beyond the first {LIMIT:,} were left out."] if left_out else []),
    ]
    run = {
        "tool": {"driver": driver},
        "automationDetails": {"id": f"determinism/{report.target.backend}/{report.target.torch}/"},
        "originalUriBaseIds": {
            "SRCROOT": {"description": {"text": "The folder that the step was run in."}},
            "PACKAGES": {"description": {"text": "The folder that a library is installed in."}},
        },
        "columnKind": "unicodeCodePoints",
        "invocations": [
            {
                "executionSuccessful": True,
                "toolExecutionNotifications": [{"level": "note", "message": {"text": _short(note)}} for note in notes],
            }
        ],
        "results": results,
        "properties": {"resultsLeftOut": left_out, "calls": report.tally.total},
    }
    return {"$schema": SCHEMA_URI, "version": "2.1.0", "runs": [run]}


def _script(report: Report) -> str:
    """The file that stands for the whole process: the script that was recorded, as places spell it."""
    places = (place for finding in report.findings for place in (finding.called_from, finding.location))
    files = [file_of(place) for place in places if place]
    names = [source.name for source in report.judgement.trace.sources if source.name.endswith(".py")]
    for name in names:
        if name in files:
            return name
        if script := next((path for path in files if path.endswith(f"/{name}")), None):
            return script
    own = [file_of(finding.called_from) for finding in report.findings if finding.called_from]
    return next(iter((*names, *own, *files)), "")


def _rule(finding: Finding) -> dict[str, Any]:
    """A rule as its first and worst finding tells it."""
    name = "".join(part.capitalize() for part in finding.rule.split("-"))
    why = _short(finding.why) or _short(f"{finding.rule} has no reason given.")
    rule: dict[str, Any] = {
        "id": visible(finding.rule),
        "name": one_line(name, _LONGEST_NAME),
        "shortDescription": {"text": _short(why.partition(". ")[0].rstrip(".") + ".")},
        "fullDescription": {"text": why},
        "defaultConfiguration": {"level": LEVELS[finding.verdict]},
        "help": {"text": _short(finding.remedy) or "No remedy is known."},
        "properties": {"tags": ["determinism", *([finding.cause.value] if finding.cause else [])]},
    }
    # Every rule cites evidence; what stands for the lack of a rule cites none, and has no page.
    if rests_on_a_rule(finding) and (site := site_address()):
        rule["helpUri"] = f"{site}rules/{finding.rule}.html"
    return rule


def _result(finding: Finding, rule: int, script: str) -> dict[str, Any]:
    calls = ", ".join(filter(None, (counted(finding), phase_of(finding))))
    under_mode = f"under deterministic mode: {VERDICTS[finding.deterministic_mode].label}"
    parts = (f"{statement_of(finding)} ({calls}; {under_mode}).", finding.why, finding.remedy)
    result: dict[str, Any] = {
        "ruleId": visible(finding.rule),
        "ruleIndex": rule,
        "kind": "fail",
        "level": LEVELS[finding.verdict],
        "message": {"text": _short(" ".join(filter(None, parts)))},
        "partialFingerprints": {FINGERPRINT: risk_of(finding).fingerprint},
        "properties": {
            "verdict": finding.verdict.value,
            "deterministicMode": finding.deterministic_mode.value,
            "phase": finding.phase.value,
            "calls": finding.count,
            **({"thisRun": _short(shown)} if (shown := of_this_run(finding)) else {}),
        },
    }
    places = [place for place in (finding.called_from, finding.location) if place]
    if places:
        result["locations"] = [_location(places[0], finding)]
    else:
        whole = {"message": {"text": "The whole process: no line is to blame."}}
        result["locations"] = [{**_location(f"{script or 'unknown'}:1", finding), **whole}]
    if len(places) > 1:
        led_to = {"message": {"text": "the library's line that called the op"}}
        result["relatedLocations"] = [{**_location(places[1], None, "PACKAGES"), "id": 1, **led_to}]
    return result


def _location(place: str, finding: Finding | None, root: str = "SRCROOT") -> dict[str, Any]:
    path, line = split_place(place)
    parts = [part for part in path.replace("\\", "/").split("/") if part not in ("", ".", "..")]
    # Relative: nothing in it reads as a scheme, a host or a step upwards.
    uri = "/".join(quote(part.encode("utf-8", "replace"), safe="") for part in parts) or "unknown"
    artifact = {"uri": uri, "uriBaseId": root}
    # GitHub asks for a line wherever there is a file.
    start = max(line or 1, 1)
    location: dict[str, Any] = {"physicalLocation": {"artifactLocation": artifact, "region": {"startLine": start}}}
    if finding is not None and (name := finding.module or finding.function):
        kind = "module" if finding.module else "function"
        location["logicalLocations"] = [{"fullyQualifiedName": one_line(name, _LONGEST_NAME), "kind": kind}]
    return location


def _short(text: str) -> str:
    """``text`` on one line, with what is longer than ``LONGEST`` left out of its middle."""
    return one_line(text, LONGEST)


# --- the documentation site, by ``[project.urls]`` of the package's metadata -------------------------------


@cache
def site_address() -> str:
    """The site's address with a slash at its end; empty where none is configured."""
    try:
        urls = metadata("determinism-tracer").get_all("Project-URL") or ()
    except PackageNotFoundError:
        return ""
    site = dict(url.split(", ", 1) for url in urls).get("Documentation")
    return f"{site.rstrip('/')}/" if site else ""
