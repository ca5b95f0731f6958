"""The page on runs that were compared opens with what happened."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.runner.repeated.comparisons import divergence, repeated, root
from tests.support.build import finding, judgement
from tracer.divergence.causes import RootCause
from tracer.report import Report
from tracer.runner.repeated.declared import Circumstance

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
