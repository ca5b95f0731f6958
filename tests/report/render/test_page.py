"""What a page is made of, with and without DataTables; a report in a notebook's cell, where nothing acts."""

from __future__ import annotations

import re
from html import unescape
from html.parser import HTMLParser

import pytest

from tests.report.samples import HOSTILE, full_report, hostile_process_report, hostile_report, process_report
from tests.support.build import call, finding, report, trace
from tracer import judge
from tracer.plain import one_line
from tracer.report import Report
from tracer.report.render import page as html
from tracer.report.sections.answers import headline
from tracer.report.sections.plan import worth
from tracer.report.words import subject_of


def test_the_bundle_of_itables_becomes_an_inline_script() -> None:
    script = html.datatables_script()
    assert script is not None
    assert "globalThis.tracerTables=" in script
    assert not re.search(r"\bexport\s*\{", script)
    assert not re.search("</?script|<!--", script, re.IGNORECASE)


@pytest.mark.parametrize(
    ("source", "safe"),
    [
        ('"</script>"', r'"<\/script>"'),
        ('"</SCRIPT "', r'"<\/SCRIPT "'),
        ('"<script>"', r'"\x3cscript>"'),
        ("/<!--/", r"/\x3c!--/"),
        ("a < b", "a < b"),
    ],
)
def test_nothing_in_a_script_ends_its_element(source: str, safe: str) -> None:
    assert html.script_safe(source) == safe


def test_without_itables_the_page_has_a_plain_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(html, "datatables_script", lambda: None)
    page = full_report().to_html()
    assert '<table class="list cells">' in page
    assert "<noscript>" not in page
    assert 'id="data"' not in page
    assert page.count("sha256-") == 1


def test_an_itables_of_another_shape_is_done_without(monkeypatch: pytest.MonkeyPatch) -> None:
    html.datatables_script.cache_clear()
    monkeypatch.setattr(html, "_JQUERY", re.compile("nothing like it"))
    assert html.datatables_script() is None
    html.datatables_script.cache_clear()


def test_a_thousand_findings_stay_under_a_megabyte_and_a_half() -> None:
    many = report(
        *(
            finding(
                location=f"src/model/part_{number % 50}.py:{number}",
                module=f"model.layers.{number}.attention",
                why=f"Reason {number % 40}. " * 8,
                remedy=f"Remedy {number % 40}. " * 8,
            )
            for number in range(1_000)
        )
    )
    assert len(many.to_html().encode()) < 1_500_000


#: What the fragment is made of; a name that became markup would add another, or an attribute.
TAGS = {
    "div",
    "p",
    "strong",
    "br",
    "ol",
    "li",
    "span",
    "pre",
    "code",
    "table",
    "thead",
    "tbody",
    "tr",
    "th",
    "td",
    "wbr",
}

ATTRIBUTES = {"style", "class", "scope", "value"}


class Fragment(HTMLParser):
    """Its elements, attributes and text."""

    def __init__(self, report: Report) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.said = ""
        self.feed(report._repr_html_())
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_data(self, data: str) -> None:
        self.said += data

    @property
    def text(self) -> str:
        return " ".join(self.said.split())


@pytest.mark.parametrize("made", [full_report(), process_report()], ids=["calls", "process"])
def test_the_cell_says_what_the_report_says(made: Report) -> None:
    shown = Fragment(made)
    assert headline(made)[1] in shown.text
    for banner in made.banners:
        assert one_line(banner)[:80] in shown.text
    for change in made.plan[:6]:
        assert one_line(change.title).replace("`", "")[:60] in shown.text.replace("`", "")
        assert worth(change) in shown.text
        for line in change.code.splitlines():
            assert line.strip() in unescape(shown.said)
    for one in made.findings[:10]:
        assert one_line(subject_of(one))[:60] in shown.text
    if made.blind_spots:
        assert re.search(rf"\b{len(made.blind_spots)} blind spots?:", shown.text)


def test_a_finding_about_the_process_is_in_the_cell() -> None:
    made = process_report()
    process = [one for one in made.findings[:10] if one.subject]
    assert process
    assert all(one_line(subject_of(one)) in Fragment(made).text for one in process)


def test_what_is_left_out_is_counted() -> None:
    made = report(*(finding(op=f"aten.op{number}") for number in range(30)))
    shown = Fragment(made)
    assert re.search(r"20 more findings, of (aten.op\d+, ){3}aten.op\d+ and 16 more", shown.text)
    assert made._repr_html_().count("<tr>") - 1 == 11


def test_a_report_without_findings_has_no_table_and_no_plan() -> None:
    shown = Fragment(judge(trace(call("aten.add.Tensor")), backend="cuda", settings="deterministic"))
    assert "No risk found" in shown.text
    assert not {"table", "ol"} & shown.tags


@pytest.mark.parametrize("text", HOSTILE, ids=repr)
def test_hostile_names_stay_text(text: str) -> None:
    for made in (hostile_report(text), hostile_process_report(text)):
        shown = Fragment(made)
        assert shown.tags <= TAGS
        assert shown.attributes <= ATTRIBUTES
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", shown.said)


def test_dollar_signs_are_no_formula_to_a_notebook() -> None:
    first = re.match(r'\s*<div class="([^"]*)"', full_report()._repr_html_())
    assert first is not None
    assert {"tex2jax_ignore", "mathjax_ignore"} <= set(first[1].split())
