"""Adding a section is one row in ``report.sections.order``: page, terminal, Markdown and notebook draw it."""

from __future__ import annotations

import pytest

from tests.support.build import finding, report
from tracer.names import Detail, Verdict
from tracer.report import Report, rendered_as
from tracer.report.blocks import Badge, Code, Column, Fold, Paragraph, Reader, Section, Table, Tone
from tracer.report.sections import order
from tracer.report.sections.order import Listed

TITLE, LEAD, CELL, UNFOLDED = "Weather", "It rained while `train.py` ran.", "train.py:10 <b>", "Nine of ten days."


def weather(made: Report, reader: Reader) -> Section:
    table = Table((Column("Place"), Column("Sky")), ((Code(CELL), Badge(Verdict.UNKNOWN, "cloudy")),))
    blocks = (Paragraph(LEAD, Tone.LEAD), table, Fold("The days", (Paragraph(UNFOLDED),)))
    return Section(anchor="weather", title=TITLE, blocks=blocks)


@pytest.fixture(params=list(Detail))
def depth(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Detail:
    """The row, behind all others."""
    monkeypatch.setattr(order, "SECTIONS", (*order.SECTIONS, Listed(weather, request.param)))
    assert isinstance(request.param, Detail)
    return request.param


def test_the_page_shows_it_and_links_it_and_no_name_in_it_is_markup(depth: Detail) -> None:
    page = report(finding()).to_html()
    assert 'href="#weather"' in page
    shown = page[page.index('<section id="weather"') :].partition("</section>")[0]
    assert f"<h2>{TITLE}</h2>" in shown
    assert "<code>train.py</code>" in shown
    assert "cloudy" in shown
    assert UNFOLDED in shown
    assert "<b>" not in shown
    assert "&lt;b&gt;" in shown


def test_the_terminal_shows_it_to_whoever_asks_for_as_much(depth: Detail) -> None:
    text = report(finding()).to_text(width=80, color=False)
    assert (f"{CELL}: sky ? cloudy" in text) is (depth is not Detail.WHOLE)
    assert UNFOLDED not in text


def test_markdown_and_a_notebook_show_it_where_it_is_for_every_reader(depth: Detail) -> None:
    made = report(finding())
    for text in (made._repr_html_(), rendered_as("markdown", made)):
        assert (TITLE in text and "cloudy" in text) is (depth is Detail.BRIEF)
