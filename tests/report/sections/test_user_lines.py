"""Findings by the user's own lines, with the source line where the trace holds it."""

from __future__ import annotations

from html import unescape

from tests.support.build import finding, process_finding, report
from tracer.names import Verdict
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
    (first, second) = user_lines(made).open
    assert (first.path, [line.line for line in first.lines]) == ("train.py", ["4", "11"])
    worst = first.lines[1]
    assert (worst.number, worst.verdict, worst.findings, worst.calls) == (1, Verdict.NONDETERMINISTIC, 3, 5)
    assert worst.through == (("lib/attention.py:193", 2), ("lib/mlp.py:7", 1))
    assert second.path == "setup.py"
    assert second.lines[0].calls == 0


def test_the_text_of_a_line_is_shown_where_the_trace_holds_it() -> None:
    text = "x = y[<script>]  # &amp;"
    page = report(finding(location="train.py:4"), source_lines={"train.py:4": text}).to_html()
    assert text not in page.split('id="data"')[0]
    assert text in unescape(page)
    assert "--with-source" not in page
    assert "--with-source" in report(finding(location="train.py:4")).to_html()


def test_far_too_many_lines_are_folded_and_then_left_out() -> None:
    lines = user_lines(report(*(finding(location=f"a{n % 7}.py:{n}") for n in range(MOST_LINES + 30))))
    assert sum(len(file.lines) for file in lines.open) == OPEN_LINES
    assert sum(len(file.lines) for file in (*lines.open, *lines.folded)) == MOST_LINES
    assert lines.left_out == 30
    assert user_lines(report()).open == ()


def test_a_place_that_is_no_line_stands_all_the_same() -> None:
    (file,) = user_lines(report(finding(location="somewhere"))).open
    assert (file.path, file.lines[0].line) == ("somewhere", "")
