"""The page on runs that were compared opens with what happened: in words, as a picture, and in figures."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.report.browser import CONTRAST, Browser, Opened
from tests.runner.repeated.comparisons import divergence, repeated, root
from tests.support.build import finding, judgement
from tracer.divergence.causes import RootCause
from tracer.divergence.model import Span, State
from tracer.names import Phase
from tracer.report import Report
from tracer.report.sections.calls_strip import MOST_LANES, STATES, picture_of
from tracer.runner.repeated.circumstances.declared import Circumstance

HOSTILE = "</script><b>not bold</b>"


def page(**fields: Any) -> Report:
    """A report on run 1, of runs that part at ``train.py:41`` and, with other threads, at a place of a hostile name."""
    report = Report(judgement(finding(op="aten.bmm.default", location="train.py:9")))
    other = root(60, RootCause.SETTING, module=HOSTILE, op="aten.sum.default", name=HOSTILE)
    return replace(
        report, repeated=repeated(divergence(root()), {Circumstance.THREADS.value: divergence(root(), other)}, **fields)
    )


def test_what_happened_stands_first_then_the_report() -> None:
    html = page().to_html()
    assert "Run 2 diverges from run 1 in step 3, forward, at train<span" in html
    order = ["What happened", "Where they diverge", "Under other circumstances", "What to change", "Calls by verdict"]
    places = [html.index(f">{title}</h") for title in order]
    assert places == sorted(places)
    assert HOSTILE not in html


def test_a_report_on_one_run_says_nothing_of_it() -> None:
    html = Report(judgement(finding())).to_html()
    assert "What happened" not in html
    assert 'id="calls-strip"' not in html


def test_the_picture_has_every_call_once_and_a_mark_at_each_root() -> None:
    picture = picture_of(divergence(root()))
    assert picture is not None
    assert picture.total == 120 == sum(span[1] for span in picture.spans)
    assert [(mark.number, mark.at) for mark in picture.root_marks] == [(1, 41)]
    assert picture.lanes == ("net.table", "outside modules")
    assert [row.steps for row in picture.rows] == ["0", "3"]
    assert sum(sum(row.counts) for row in picture.rows) == 120
    assert picture_of(divergence(calls=0, strip=())) is None


def test_a_model_of_many_modules_keeps_to_few_lanes_and_loses_no_call() -> None:
    spans = tuple(Span(State.AGREES, 0, Phase.FORWARD, f"block{at}.fc.weight", at, 1) for at in range(200))
    picture = picture_of(divergence(calls=200, strip=spans))
    assert picture is not None
    assert len(picture.lanes) <= MOST_LANES
    assert picture.total == 200


def test_a_call_of_the_second_run_alone_is_marked_where_it_stands() -> None:
    spans = (
        Span(State.AGREES, 0, Phase.FORWARD, "", 0, 10),
        Span(State.ONLY_SECOND, 0, Phase.FORWARD, "", 10, 3),
        Span(State.AGREES, 0, Phase.FORWARD, "", 10, 5),
    )
    one = root(10, RootCause.STRUCTURE, call=10, only_second=True)
    picture = picture_of(divergence(one, calls=15, strip=spans))
    assert picture is not None
    assert [mark.at for mark in picture.root_marks] == [10]
    assert set(STATES) == set(State)


def test_the_plan_puts_what_was_seen_before_what_could_and_numbers_it_anew() -> None:
    could = finding("cuda-could", op="aten.bmm.default", location="train.py:9", count=500)
    seen = finding("cuda-seen", op="aten.index_put_.default", location="train.py:41", count=1)
    report = Report(judgement(could, seen))
    before = [change.rules for change in report.plan]
    report = replace(report, repeated=repeated(divergence(root())))
    after = report.plan
    assert sorted(before) == sorted(change.rules for change in after)
    assert [change.number for change in after] == list(range(1, len(after) + 1))
    assert "cuda-seen" in after[0].rules
    assert after[0].seen == 1


@pytest.mark.parametrize(("dark", "width"), [(False, 1280), (True, 400)])
def test_the_picture_zooms_by_mouse_and_keyboard(chromium: Browser, tmp_path: Path, dark: bool, width: int) -> None:
    path = tmp_path / "repeat.html"
    path.write_text(page().to_html(), encoding="utf-8")
    opened = Opened(chromium, path, dark=dark, width=width)
    shown = opened.page
    box = shown.locator("#calls-strip svg")
    whole = box.get_attribute("viewBox")
    shown.get_by_role("button", name="Closer").click()
    assert box.get_attribute("viewBox") != whole
    shown.get_by_role("button", name="All", exact=True).click()
    assert box.get_attribute("viewBox") == whole
    box.focus()
    shown.keyboard.press("End")
    assert "outside modules" in shown.locator("#call-said").inner_text()
    shown.keyboard.press("ArrowLeft")
    assert "Step 3, forward, net.table: 1 call from 41 on: root." in shown.locator("#call-said").inner_text()
    shown.keyboard.press("+")
    assert float((box.get_attribute("viewBox") or "").split()[2]) < 120
    shown.keyboard.press("Escape")
    assert box.get_attribute("viewBox") == whole
    assert shown.evaluate(CONTRAST) == []
    opened.done()
