"""Every kind of block is drawn by every format; adding a section is one row in ``report.sections.order``."""

from __future__ import annotations

import re
from html import unescape
from typing import get_args

import pytest

from tests.support.build import finding, report
from tracer.names import Detail, Verdict
from tracer.plain import visible
from tracer.report import Report, rendered_as
from tracer.report import blocks as said
from tracer.report.blocks import Reader, Section
from tracer.report.sections import order

WORD = "cloudy <img src=x>"
STEP = said.Step(number=7, title=WORD, remedy="", code="rain()", where="sky.py:1", needs=(), worth="a coat")
#: One of each kind; each says ``WORD``, or holds what does.
ONE_OF_EACH: dict[type, said.Block] = {
    said.Paragraph: said.lead((WORD, said.Soft("soft"), said.Strong("strong"), said.Code("a.b"))),
    said.Heading: said.Heading(WORD),
    said.Sample: said.Sample(WORD, "the sky"),
    said.Bullets: said.Bullets((WORD,), left_out=3),
    said.Rows: said.Rows((said.Row(WORD, "aside", (said.quiet("below"),)),), left_out=2),
    said.Table: said.Table(said.columns("Sky", "Rain", figures=("Rain",)), ((WORD, "3 mm"),)),
    said.Pairs: said.Pairs((("sky", WORD),), "Weather"),
    said.Beside: said.Beside((said.lead(WORD),)),
    said.Steps: said.Steps((STEP,)),
    said.Cards: said.Cards((said.Card("Rain?", WORD, (said.Figure(1, "drop"),)),)),
    said.TallyBlock: said.TallyBlock(((Verdict.SEEDED, 3),), 3),
    said.Fold: said.Fold("Folded", (said.lead(WORD),), brief=WORD),
    said.Picture: said.Picture("a picture that no page draws", None, (said.lead(WORD),)),
}


def text_of(page: str) -> str:
    return " ".join(unescape(re.sub(r"<[^>]*>", "", page)).split())


@pytest.mark.parametrize("kind", get_args(said.Block), ids=lambda kind: kind.__name__)
def test_each_kind_of_block_is_drawn_by_each_format(kind: type, monkeypatch: pytest.MonkeyPatch) -> None:
    block = ONE_OF_EACH[kind]

    def weather(_: Report, __: Reader) -> Section:
        return Section(anchor="weather", title="Weather", blocks=(block,))

    monkeypatch.setattr(order, "SECTIONS", ((weather, Detail.BRIEF),))
    made = report(finding())
    expected = "seeded" if kind is said.TallyBlock else WORD
    page = made.to_html()
    drawn = page[page.index('<section id="weather"') :].partition("</section>")[0]
    assert expected in text_of(drawn)
    assert "<img" not in drawn
    assert expected in text_of(made._repr_html_())
    assert expected in made.to_text(width=80, color=False)
    assert visible(expected) in rendered_as("markdown", made).replace("\\", "")


TITLE, LEAD, CELL, UNFOLDED = "Weather", "It rained while `train.py` ran.", "train.py:10 <b>", "Nine of ten days."


def weather(made: Report, reader: Reader) -> Section:
    table = said.Table(said.columns("Place", "Sky"), ((said.Code(CELL), said.Badge(Verdict.UNKNOWN, "cloudy")),))
    blocks = (said.lead(LEAD), table, said.Fold("The days", (said.Paragraph(UNFOLDED),)))
    return Section(anchor="weather", title=TITLE, blocks=blocks)


@pytest.fixture(params=list(Detail))
def depth(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Detail:
    """The row, behind all others."""
    monkeypatch.setattr(order, "SECTIONS", (*order.SECTIONS, (weather, request.param)))
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
