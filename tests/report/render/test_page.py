"""What a page is made of, with and without DataTables; a report in a notebook's cell, where nothing acts."""

from __future__ import annotations

import re
from html import unescape

import pytest

from tests.report.samples import full_report, process_report
from tests.report.test_hostile import Page, of_ranks
from tests.support.build import call, finding, report, trace
from tracer import judge
from tracer.plain import one_line
from tracer.report import Report
from tracer.report.render import page as html
from tracer.report.sections.answers import headline
from tracer.report.sections.plan import worth
from tracer.report.sections.process import ROWS
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
    found = [
        finding(
            location=f"src/part_{n % 50}.py:{n}", module=f"layers.{n}", why=f"Why {n % 40}. " * 8, remedy="Do. " * 8
        )
        for n in range(1_000)
    ]
    assert len(report(*found).to_html().encode()) < 1_500_000


def cell(made: Report) -> tuple[Page, str]:
    """A report in a notebook's cell, and its text."""
    page = Page(made._repr_html_())
    return page, " ".join(page.said.split())


@pytest.mark.parametrize("made", [full_report(), process_report()], ids=["calls", "process"])
def test_the_cell_says_what_the_report_says(made: Report) -> None:
    page, text = cell(made)
    assert headline(made)[1] in text
    for banner in made.banners:
        assert one_line(banner)[:80] in text
    for change in made.plan[:6]:
        assert one_line(change.title).replace("`", "")[:60] in text.replace("`", "")
        assert worth(change) in text
        for line in change.code.splitlines():
            assert line.strip() in unescape(page.said)
    for one in made.findings[:10]:
        assert one_line(subject_of(one))[: 60 if one.op else None] in text
    if made.blind_spots:
        assert re.search(rf"\b{len(made.blind_spots)} blind spots?:", text)


def test_what_is_left_out_is_counted() -> None:
    page, text = cell(report(*(finding(op=f"aten.op{number}") for number in range(30))))
    assert re.search(r"20 more findings, of (aten.op\d+, ){3}aten.op\d+ and 16 more", text)
    assert page.tags["tr"] - 1 == 11


def test_a_report_without_findings_has_no_table_and_no_plan() -> None:
    page, text = cell(judge(trace(call("aten.add.Tensor")), backend="cuda", settings="deterministic"))
    assert "No risk found" in text
    assert not {"table", "ol"} & page.tags.keys()


def test_dollar_signs_are_no_formula_to_a_notebook() -> None:
    first = re.match(r'\s*<div class="([^"]*)"', full_report()._repr_html_())
    assert first is not None
    assert {"tex2jax_ignore", "mathjax_ignore"} <= set(first[1].split())


# ------------------------------------------------------------------------------- its sections on ranks


def section(made: Report) -> str:
    return made.to_html().partition('<section id="ranks">')[2].partition("</section>")[0]


def test_ranks_that_agree_are_one_sentence_and_one_recording_has_none() -> None:
    said = section(of_ranks("train.py", apart=0))
    assert "All 2 ranks agree in settings, calls and the random draws of torch." in said
    assert "<h3>" not in said
    assert section(report()) == ""


def test_each_difference_between_ranks_is_a_line_up_to_a_limit() -> None:
    said = section(of_ranks("train.py", calls=ROWS + 7))
    assert said.count("<li>") == ROWS + 2
    assert "7 more" in said
    assert re.findall("<h3>(.*?)</h3>", said) == ["Settings", "Calls"]
