"""Findings by the user's own lines, with the source line where the trace holds it."""

from __future__ import annotations

from html import unescape

from tests.support.build import finding, process_finding, report
from tracer.names import Verdict
from tracer.report.blocks import Badge, Code
from tracer.report.sections.findings import MOST_LINES, OPEN_LINES, user_lines


def test_a_librarys_line_stands_below_the_users_line_that_led_to_it() -> None:
    made = report(
        finding(location="lib/attention.py:193", called_from="train.py:11", count=3),
        finding(location="lib/attention.py:193", called_from="train.py:11", op="aten.cumsum.default"),
        finding(location="lib/mlp.py:7", called_from="train.py:11", verdict="seeded"),
        finding(location="train.py:4", verdict="seeded", count=2),
        finding(location="", verdict="seeded"),
        process_finding(location="setup.py:2"),
    )
    first, second = user_lines(made).open.items()
    assert (first[0], [line.place for line in first[1]]) == ("train.py", ["train.py:4", "train.py:11"])
    worst = first[1][1]
    assert (worst.number, worst.worst) == (1, (Badge(Verdict.NONDETERMINISTIC), " 3 findings, 5 calls"))
    assert worst.through == (Code("lib/attention.py:193, lib/mlp.py:7"), "")
    assert second[0] == "setup.py"
    assert second[1][0].worst == (Badge(Verdict.NONDETERMINISTIC), " 1 finding")


def test_the_text_of_a_line_is_shown_where_the_trace_holds_it() -> None:
    text = "x = y[<script>]  # &amp;"
    page = report(finding(location="train.py:4"), source_lines={"train.py:4": text}).to_html()
    assert text not in page.split('id="data"')[0]
    assert text in unescape(page)
    assert "--with-source" not in page
    assert "--with-source" in report(finding(location="train.py:4")).to_html()


def test_far_too_many_lines_are_folded_and_then_left_out() -> None:
    lines = user_lines(report(*(finding(location=f"a{n % 7}.py:{n}") for n in range(MOST_LINES + 30))))
    assert sum(map(len, lines.open.values())) == OPEN_LINES
    assert sum(map(len, (*lines.open.values(), *lines.folded.values()))) == MOST_LINES
    assert lines.left_out == 30
    assert user_lines(report()).open == {}


def test_a_place_that_is_no_line_stands_all_the_same() -> None:
    page = report(finding(location="somewhere"))
    assert list(user_lines(page).open) == ["somewhere"]
    assert '<span class="unseen">line </span>\u2013</a>' in page.to_html()
