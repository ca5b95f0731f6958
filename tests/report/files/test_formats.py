"""Formats: golden files, valid by the published schemas, written whole or not at all, safe with any name."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from email.message import Message
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import msgspec
import pytest
from junitparser import JUnitXml
from markdown_it import MarkdownIt

from tests.report.machine_rules import junit_faults, sarif_results
from tests.report.samples import full_report, process_report
from tests.support.build import finding, report
from tests.support.command import process
from tracer.errors import ReportError
from tracer.findings import Acceptance
from tracer.names import About, AcceptedBy, Verdict
from tracer.plain import json_text
from tracer.report import FORMATS, Report, json_format, rendered_as, sarif
from tracer.report.json_format import REPORT_SCHEMA, Document, JudgementForm
from tracer.report.render import markdown
from tracer.report.render import page as html
from tracer.report.sarif import FINGERPRINT, LIMIT
from tracer.trace.records import TraceSource

Golden = Callable[[str, str], None]


MADE = {"report": full_report, "process": process_report}


@pytest.mark.parametrize("made", MADE)
@pytest.mark.parametrize("name", ["csv", "json", "text", "markdown", "sarif", "junit"])
def test_a_report_reads_as_it_did(made: str, name: str, golden: Golden) -> None:
    golden(f"{made}{FORMATS[name].suffix}", rendered_as(name, MADE[made]()))


def test_the_page_reads_as_it_did(golden: Golden, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(html, "datatables_script", lambda: "/* DataTables, from itables */")
    assets = {"style.css": "/* style */", "script.js": "/* script */"}
    monkeypatch.setattr(html, "assets", lambda: assets)
    for name, make in MADE.items():
        golden(f"{name}.html", make().to_html())


@pytest.mark.parametrize("name", MADE)
def test_json_reads_back_into_the_same_judgement_and_plan(name: str) -> None:
    made = MADE[name]()
    document = msgspec.json.decode(made.to_json(), type=Document)
    assert document.judgement == JudgementForm.of(made.judgement)
    assert document.plan == made.plan
    assert document.schema == REPORT_SCHEMA


@pytest.mark.parametrize("count", [0, 1, 999, 1_000, 1_001, 2_500])
@pytest.mark.parametrize("name", ["net.py", "caf\u00e9.py", "\ud800.py", "\u202e.py", '\n    "findings": []'])
def test_json_in_pieces_is_the_same_text_as_json_at_once(count: int, name: str) -> None:
    made = report(*(finding(location=f"{name}:{line}") for line in range(count)))
    spelt = list(json_format.pieces(made))
    document = msgspec.json.decode("".join(spelt).encode("utf-8"), type=Document)
    assert "".join(spelt) == json_text(document) + "\n"
    assert len(document.judgement.findings) == count
    assert max(map(len, spelt)) < 2_000_000


@pytest.mark.parametrize("suffix", [one.suffix for one in FORMATS.values()])
def test_the_suffix_picks_the_format(suffix: str, tmp_path: Path) -> None:
    made = report(finding())
    path = made.write(tmp_path / f"report{suffix.upper()}")
    name = next(name for name, one in FORMATS.items() if one.suffix == suffix)
    assert path.read_bytes() == rendered_as(name, made).encode("utf-8")


@pytest.mark.parametrize("name", ["report", "report.docx", "report.", ".html"])
def test_an_unknown_suffix_gets_one_line_that_lists_the_formats(name: str, tmp_path: Path) -> None:
    with pytest.raises(ReportError) as caught:
        report().write(tmp_path / name)
    assert "\n" not in str(caught.value)
    assert all(one.suffix in str(caught.value) for one in FORMATS.values())
    assert list(tmp_path.iterdir()) == []


def test_a_report_that_cannot_be_rendered_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "report.html"
    path.write_text("old")
    monkeypatch.setattr(html, "_PACKAGE", tmp_path / "gone")
    html.page_environment.cache_clear()
    html.assets.cache_clear()
    with pytest.raises(ReportError, match="templates are not installed"):
        report().write(path)
    assert path.read_text() == "old"
    assert [one.name for one in tmp_path.iterdir()] == ["report.html"]


def test_a_folder_that_is_a_file_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ReportError, match="cannot write"):
        report().write(tmp_path / "file" / "report.csv")


def test_the_templates_of_an_installed_wheel_are_found_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(html, "_PACKAGE", tmp_path / "tracer")
    beside = tmp_path / "templates"
    inside = tmp_path / "tracer" / "_templates"
    for folder in (beside, inside):
        folder.mkdir(parents=True)
        (folder / "report.html").write_text("")
    assert html.template_folder() == inside
    (inside / "report.html").unlink()
    assert html.template_folder() == beside


LOADED = """
import sys
from tests.support.build import finding, report
made = report(finding())
{act}
print([name for name in ("torch", "pandas", "numpy", "jinja2", "rich", "itables") if name in sys.modules])
"""


@pytest.mark.parametrize(
    ("act", "loaded"),
    [
        ("", []),
        ("made.to_csv()", []),
        ("made.to_json()", []),
        ("made.to_text()", ["rich"]),
        ("made.to_html()", ["jinja2"]),
        ("made._repr_html_()", ["jinja2"]),
        ("made.to_dataframe()", ["pandas", "numpy"]),
    ],
)
def test_a_format_loads_only_what_it_needs(act: str, loaded: list[str]) -> None:
    done = process("-c", LOADED.format(act=act), cwd=Path(__file__).parents[3])
    assert done.out.strip() == str(loaded), done.err


def test_a_report_says_what_it_is_in_one_line() -> None:
    assert repr(report(finding())) == ("<Report: 1 findings in 101 calls, for cuda, torch 2.13.0, settings default>")


@pytest.mark.parametrize("name", ["findings", "plan", "judgement", "unheard_of"])
def test_a_report_is_frozen_when_it_is_made(name: str) -> None:
    made = full_report()
    before = made.to_json()
    with pytest.raises(AttributeError):
        setattr(made, name, None)
    assert made.to_json() == before


def setting(**fields: Any) -> Any:
    about = {"about": About.SETTING, "subject": "torch.backends.cudnn.benchmark = True"}
    return finding("environment-cudnn-benchmark", op="", location="", module="", function="", **about, **fields)


@pytest.mark.parametrize("made", [full_report(), process_report(), report()], ids=["full", "process", "none"])
def test_a_report_is_valid_sarif_with_one_rule_each(made: Report) -> None:
    assert len(sarif_results(made)) == len(made.findings)
    rules = json.loads(rendered_as("sarif", made))["runs"][0]["tool"]["driver"]["rules"]
    assert {rule["id"] for rule in rules} == {one.rule for one in made.findings}


@pytest.mark.parametrize("verdict", [one for one in Verdict if one is not Verdict.DETERMINISTIC])
def test_a_level_other_than_none_is_of_kind_fail(verdict: Verdict) -> None:
    (result,) = sarif_results(report(finding(verdict=verdict)))
    assert (result["kind"], result["level"] != "none") == ("fail", True)


def test_a_fingerprint_stays_while_lines_and_counts_move() -> None:
    one = finding(location="train.py:10", count=3)
    moved = finding(location="train.py:99", count=5)
    other = finding(location="train.py:10", module="net.other")
    prints = [sarif_results(report(each))[0]["partialFingerprints"][FINGERPRINT] for each in (one, moved, other)]
    assert prints[0] == prints[1] != prints[2]


def test_a_librarys_line_stands_under_the_users_line_that_led_to_it() -> None:
    (result,) = sarif_results(report(finding(location="transformers/models/gpt2.py:7", called_from="my train.py:3")))
    first = result["locations"][0]["physicalLocation"]
    assert (first["artifactLocation"]["uri"], first["region"]["startLine"]) == ("my%20train.py", 3)
    related = result["relatedLocations"][0]["physicalLocation"]
    assert (related["artifactLocation"]["uri"], related["region"]["startLine"]) == ("transformers/models/gpt2.py", 7)


def uri_of(result: dict[str, Any]) -> str:
    return str(result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"])


def test_a_setting_stands_at_the_script_and_is_named_by_its_value() -> None:
    (result,) = sarif_results(report(setting()))
    assert uri_of(result) == "train.py"
    assert result["locations"][0]["message"]["text"] == "The whole process: no line is to blame."
    assert "torch.backends.cudnn.benchmark = True" in result["message"]["text"]


@pytest.mark.parametrize("path", ["/etc/passwd:3", "C:\\x\\y.py:3", "../up.py:3", "http://host/x.py:3", "a b%.py:3"])
def test_no_uri_leaves_the_root(path: str) -> None:
    (result,) = sarif_results(report(finding(location=path)))
    assert not uri_of(result).startswith(("/", ".."))
    assert ":" not in uri_of(result)


def test_what_exceeds_the_limit_is_counted() -> None:
    one = finding()
    many = [msgspec.structs.replace(one, location=f"train.py:{n}") for n in range(LIMIT + 7)]
    log = json.loads(rendered_as("sarif", report(*many)))["runs"][0]
    assert len(log["results"]) == LIMIT
    assert log["properties"]["resultsLeftOut"] == 7
    assert "7 findings" in log["invocations"][0]["toolExecutionNotifications"][-1]["message"]["text"]


@pytest.mark.parametrize(
    ("places", "script"),
    [
        (["src/train.py:3", "net.py:4"], "src/train.py"),
        (["train.py:3", "src/train.py:4"], "train.py"),
        (["net.py:4"], "train.py"),
    ],
)
def test_the_whole_process_is_the_script_that_ran(places: list[str], script: str) -> None:
    found = sarif_results(report(setting(), *(finding(location=place) for place in places)))
    (result,) = [one for one in found if one["ruleId"] == "environment-cudnn-benchmark"]
    assert uri_of(result) == script


def test_without_any_file_a_result_still_has_a_place() -> None:
    (result,) = sarif_results(report(setting(), sources=(TraceSource(name="my recording"),)))
    assert uri_of(result) == "unknown"


def test_what_was_accepted_is_left_out_first() -> None:
    made = report(*(finding(location=f"train.py:{n}") for n in range(1, LIMIT + 3)))
    made = replace(made, accepted=tuple(Acceptance(finding=n, by=AcceptedBy.BASELINE) for n in range(5)))
    found = json.loads(rendered_as("sarif", made))["runs"][0]["results"]
    assert (len(found), sum(bool(one["suppressions"]) for one in found)) == (LIMIT, 3)


@pytest.mark.slow
def test_a_log_of_what_does_not_compress_stays_under_githubs_ten_megabytes() -> None:
    draw = random.Random(0)
    many = [
        finding(
            location=f"{draw.randbytes(60).hex()}.py:{n}",
            module=draw.randbytes(600).hex(),
            why=draw.randbytes(900).hex(),
            remedy=draw.randbytes(900).hex(),
        )
        for n in range(LIMIT)
    ]
    assert len(gzip.compress(rendered_as("sarif", report(*many)).encode())) < 10_000_000


def test_junit_counts_what_fails_and_what_is_not_known() -> None:
    suites = JUnitXml.fromstring(rendered_as("junit", full_report()).encode())
    (suite,) = list(suites)
    groups = {(one.rule, one.called_from or one.location) for one in full_report().findings}
    assert 0 < suite.failures < suite.tests <= len(groups)
    assert suite.tests == len(list(suite))
    failed = [case for case in suite if any(type(result).__name__ == "Failure" for result in case.result)]
    assert len(failed) == suite.failures


def test_junit_fails_where_the_gate_does_and_skips_what_was_accepted() -> None:
    found = [finding(f"cuda-{rule}", location=f"a.py:{line}") for line, rule in enumerate("aab", 1)]
    made = report(*found, finding("cuda-c", location="a.py:4", verdict="conditional"))
    places = {one.location: place for place, one in enumerate(made.findings)}
    accepted = [Acceptance(finding=places[at], by=AcceptedBy.BASELINE, reason="seen") for at in ("a.py:1", "a.py:3")]
    made = replace(made, accepted=tuple(accepted), failing=frozenset({places["a.py:2"]}))
    root = ElementTree.fromstring(rendered_as("junit", made))
    assert junit_faults(root) == []
    cases = {str(case.get("name")): case for case in root.iter("testcase")}
    ends = {name: [child.tag for child in case] for name, case in cases.items()}
    assert ends == {"cuda-a": ["failure"], "cuda-b": ["skipped"], "cuda-c": ["system-out"]}
    said = "a.py:1: aten.index_add_ is nondeterministic, 1 call, forward (accepted, baseline: seen)"
    assert said in (cases["cuda-a"][0].text or "")
    assert (root[0].get("failures"), root[0].get("skipped"), root[0].get("tests")) == ("1", "1", "3")


def test_junit_tells_a_hundred_findings_of_a_case_and_counts_the_rest() -> None:
    root = ElementTree.fromstring(rendered_as("junit", report(*(finding(location=f"a.py:{n}") for n in range(130)))))
    (failure,) = root.iter("failure")
    assert (failure.text or "").splitlines()[-1] == "and 30 more"


def test_junit_of_nothing_is_an_empty_suite() -> None:
    (suite,) = list(JUnitXml.fromstring(rendered_as("junit", report()).encode()))
    assert suite.tests == 0


def test_markdown_is_a_heading_a_verdict_and_a_table() -> None:
    text = rendered_as("markdown", full_report())
    kinds = [token.type for token in MarkdownIt("commonmark").enable("table").parse(text)]
    assert kinds[0] == "heading_open"
    assert "table_open" in kinds
    assert "html_block" not in kinds


def test_markdown_lists_what_is_left_and_counts_what_was_accepted() -> None:
    made = report(finding(location="a.py:1"), finding(location="b.py:2"))
    made = replace(made, accepted=(Acceptance(finding=0, by=AcceptedBy.COMMENT, reason="seen"),))
    text = rendered_as("markdown", made)
    assert "b.py" in text
    assert "a.py" not in text.split("### Findings")[1]
    assert "1 finding is accepted \\(1 by a comment in the code\\), 1 is not." in text


@pytest.mark.parametrize("limit", range(0, 4_000, 97))
def test_markdown_is_cut_between_parts(limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    made = process_report()
    whole = rendered_as("markdown", made)
    monkeypatch.setattr(markdown, "LIMIT", limit)
    text = rendered_as("markdown", made)
    assert len(text.encode()) <= limit
    if text and text != whole:
        kept = text.removesuffix("\n\nThe rest did not fit; the HTML report has it all.\n")
        assert whole.startswith(kept)
        assert text.count("```") % 2 == 0
    assert bool(text) is (limit > 200) or limit in (97, 194)


def test_markdown_stays_under_githubs_limit_and_says_so() -> None:
    long = "x" * 190
    many = [
        finding(location=f"{long}{n}.py:1", remedy=long, module=long, op=f"aten.{long}{n}.default") for n in range(3000)
    ]
    text = rendered_as("markdown", report(*many))
    assert len(text.encode()) <= markdown.LIMIT
    assert "2,900 more" in text


ADDRESS = "https://docs.example"


@pytest.fixture
def site(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An installed package whose ``[project.urls]`` name the site, none, or a package that is not installed."""

    def told(name: str) -> Message:
        if request.param is None:
            raise PackageNotFoundError(name)
        message = Message()
        message["Project-URL"] = "Source, https://code.example/tracer"
        if request.param:
            message["Project-URL"] = f"Documentation, {request.param}"
        return message

    monkeypatch.setattr(sarif, "metadata", told)
    sarif.site_address.cache_clear()
    yield
    sarif.site_address.cache_clear()


@pytest.mark.usefixtures("site")
@pytest.mark.parametrize("site", ["", None], indirect=True)
def test_without_an_address_a_log_has_no_link() -> None:
    text = rendered_as("sarif", full_report())
    assert "informationUri" not in text
    assert "helpUri" not in text


@pytest.mark.usefixtures("site")
@pytest.mark.parametrize("site", [ADDRESS], indirect=True)
@pytest.mark.parametrize("made", MADE)
def test_a_rule_that_cites_evidence_leads_to_its_page(made: str) -> None:
    report = MADE[made]()
    driver = json.loads(rendered_as("sarif", report))["runs"][0]["tool"]["driver"]
    assert driver["informationUri"] == f"{ADDRESS}/"
    linked = {rule["id"]: rule["helpUri"] for rule in driver["rules"] if "helpUri" in rule}
    cited = {finding.rule for finding in report.findings if finding.evidence}
    assert linked == {rule: f"{ADDRESS}/rules/{rule}.html" for rule in cited}
