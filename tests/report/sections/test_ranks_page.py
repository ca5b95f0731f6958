"""The page's section on ranks: there where several were compared, each difference a line, any name as text."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.report.samples import HOSTILE
from tests.report.test_hostile import Page
from tests.support.build import call, environment, report, trace
from tracer.report import Report
from tracer.report.render import page as html
from tracer.report.sections.process import ROWS
from tracer.trace.differences import compare_ranks
from tracer.trace.records import TraceSource


@pytest.fixture(autouse=True)
def light(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(html, "datatables_script", lambda: "void 0")


def of_ranks(text: str, *, apart: int, calls: int = 1) -> Report:
    """A report on two ranks; the second one calls and draws ``apart`` times more, at ``text``."""
    made = report()
    return replace(
        made,
        ranks=compare_ranks(
            trace(
                *(call(op=f"{text}{n}", module=text, location=f"{text}:{n}", count=1 + more) for n in range(calls)),
                environment=environment(num_threads=1 + more, variables={text: str(more)}),
                sources=(TraceSource(rank=rank),),
            )
            for rank, more in enumerate((0, apart))
        ),
    )


def test_ranks_that_agree_are_one_sentence() -> None:
    page = of_ranks("train.py", apart=0).to_html()
    assert "All 2 ranks agree in settings, calls and the random draws of torch." in page
    assert "<h3>" not in page[page.index('<section id="ranks">') :].partition("</section>")[0]


def test_a_report_on_one_recording_has_no_section() -> None:
    assert 'id="ranks"' not in report().to_html()


def test_each_difference_is_a_line_up_to_a_limit() -> None:
    page = of_ranks("train.py", apart=1, calls=ROWS + 7).to_html()
    section = page[page.index('<section id="ranks">') :].partition("</section>")[0]
    assert section.count("<li>") == ROWS + 2
    assert "7 more" in section
    for heading in ("Settings", "Calls"):
        assert f"<h3>{heading}</h3>" in section


@pytest.mark.parametrize("text", HOSTILE)
def test_a_hostile_name_stays_text(text: str) -> None:
    made = of_ranks(text, apart=1)
    page, plain = Page(made.to_html()), Page(of_ranks("train.py", apart=1).to_html())
    assert page.handlers == []
    assert {tag: n for tag, n in page.tags.items() if tag not in ("span", "wbr")} == {
        tag: n for tag, n in plain.tags.items() if tag not in ("span", "wbr")
    }
    made.to_text(width=80, color=False).encode("utf-8")
    made.to_json().encode("utf-8")
