"""Findings as people read them: one answer is one row, by the user's own lines, and what a gate accepted."""

from __future__ import annotations

import json
from dataclasses import replace
from html import unescape

import pytest

from tests.report.samples import full_report
from tests.support.build import call, finding, process_finding, report, trace
from tracer import judge
from tracer.findings import Acceptance, Finding
from tracer.names import AcceptedBy, Verdict
from tracer.report import rendered_as
from tracer.report.blocks import Badge, Code
from tracer.report.render.page import findings_json
from tracer.report.sections.findings import (
    MOST_LINES,
    OPEN_LINES,
    FindingRow,
    accepted_in_words,
    gate_in_words,
    rows_of,
    user_lines,
)
from tracer.report.words import which_runs_as


def rows(*findings: Finding) -> tuple[FindingRow, ...]:
    return rows_of(findings, lambda each: each.remedy)


def draw(layer: int, **fields: object) -> Finding:
    module = {"module": f"encoder.layers.{layer}.dropout", "location": f"model.py:{10 + layer % 2}"}
    seeded = {"verdict": "seeded", "deterministic_mode": "seeded", "op": "aten.native_dropout.default", "count": 2}
    return finding("cuda-dropout", **(seeded | module | fields))


def test_findings_with_one_answer_are_one_row_the_place_with_most_calls_first() -> None:
    alike = [finding(location=f"net.py:{line}", called_from="train.py:5", count=line) for line in range(1, 13)]
    (row,) = rows(*alike)
    assert (row.findings, row.calls) == (tuple(alike), 78)
    assert row.places == "net.py:12, :11 and 10 more places (called from train.py:5)"


@pytest.mark.parametrize(
    ("field", "other"),
    [
        ("op", "aten.cumsum.default"),
        ("remedy", "Another."),
        ("phase", "backward"),
        ("rule", "cuda-other"),
        ("deterministic_mode", "raises"),
        ("verdict", "conditional"),
    ],
)
def test_findings_whose_answers_differ_stay_apart(field: str, other: str) -> None:
    assert len(rows(finding(), finding(**{field: other}))) == 2


def test_rows_stand_by_verdict_then_by_calls() -> None:
    ordered = [
        finding(op="aten.a", verdict="raises"),
        finding(op="aten.b", count=9),
        finding(op="aten.c", count=8),
        finding(op="aten.d", verdict="conditional", count=99),
    ]
    assert [row.first for row in rows(*reversed(ordered))] == ordered


@pytest.mark.parametrize("most", [0, 1, 3, 7])
def test_what_a_reader_has_no_room_for_is_one_row_a_verdict_that_counts_it(most: int) -> None:
    verdicts = ("raises", "nondeterministic", "conditional", "unknown")
    findings = [finding(op=f"aten.op{n}", verdict=verdict, count=2) for verdict in verdicts for n in range(5)]
    shown = rows_of(findings, lambda each: each.remedy, most)
    assert sorted(each.op for row in shown for each in row.findings) == sorted(each.op for each in findings)
    assert {row.first.verdict for row in shown} == set(map(Verdict, verdicts))
    assert [row.is_rest for row in shown] == [False] * most + [True] * (len(shown) - most)
    assert sum(row.calls for row in shown) == 40


def test_a_row_names_the_first_modules_of_its_findings() -> None:
    (row,) = rows(*(finding(module=f"layers.{n}.mlp", location=f"net.py:{n}") for n in range(12)))
    assert row.modules == "layers.0.mlp, layers.1.mlp and 10 more"
    assert rows(finding(module="net.fc"))[0].modules == "net.fc"
    assert rows(finding(module=""))[0].modules == ""


def test_draws_that_repeat_are_one_line_and_no_finding_in_the_count() -> None:
    seeded = {"rng.generator": "cpu", "rng.origin": "program", "rng.seeded_at": "train.py:1"}
    calls = [call("aten.bernoulli_.float", module=f"layers.{n}", facts=seeded) for n in range(12)]
    made = judge(trace(call(), *calls), backend="cuda")
    counted = len(made.open_findings)
    assert len(made.findings) == counted + 12
    text = made.to_text(width=100, color=False)
    assert f"Findings ({counted})" in text
    assert f"{counted} findings; 13 calls" in text
    assert "12 seeded draws repeat and count as no finding here." in text
    assert "bernoulli_" not in text
    assert len(made.to_csv().splitlines()) == len(made.to_dataframe()) + 1 == counted + 13


def test_what_a_listed_change_closes_refers_to_it() -> None:
    made = full_report()
    text = made.to_text(width=100, color=False)
    assert "aten.index_add_ forward: as change 2" in text
    assert "aten.sort forward: as change 4" in text


def test_far_more_findings_than_a_screen_holds_stay_one_screen_and_every_verdict_shows() -> None:
    many = [finding(op=f"aten.op{n}", location=f"f{n}.py:1", verdict="raises", remedy=f"R{n}") for n in range(200)]
    many += [finding(op=f"aten.op{n}", location=f"f{n}.py:1", remedy=f"R{n}") for n in range(200)]
    text = report(*many).to_text(width=100, color=False)
    assert len(text.splitlines()) <= 70
    assert "190 more findings" in text
    assert "200 more findings" in text


def test_what_a_gate_let_pass_and_what_it_did_not_are_not_one_row_of_the_page() -> None:
    made = report(finding(), *map(draw, range(4)))
    assert json.loads(findings_json(made))["folds"] == [[1, 2, 3, 4]]
    made = replace(made, accepted=tuple(Acceptance(finding=place, by=AcceptedBy.BASELINE) for place in (2, 4)))
    assert json.loads(findings_json(made))["folds"] == [[1, 3], [2, 4]]


def test_an_op_that_is_another_on_the_target_says_so_where_people_read() -> None:
    made = report(finding(op="aten.addmm.default", runs_as="aten._cudnn_rnn.default"))
    assert which_runs_as(made.findings[0]) == ", which runs as aten._cudnn_rnn"
    shown = [rendered_as(name, made) for name in ("text", "markdown", "junit", "html", "json")]
    shown.append(made._repr_html_())
    assert [text for text in shown if "_cudnn_rnn" not in text.replace("\\", "").replace("<wbr>", "")] == []


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


def test_a_gate_says_what_spoke_for_what_it_accepted_and_counts_what_is_left() -> None:
    said = [
        (AcceptedBy.BASELINE, "", "By the baseline"),
        (AcceptedBy.COMMENT, "seen", "By a comment in the code: seen"),
    ]
    for by, reason, words in (*said, (AcceptedBy.SELECTION, "", "By what the gate was told to look at")):
        assert accepted_in_words(Acceptance(finding=0, by=by, reason=reason)) == words
    made = report(finding(), finding(location="b.py:2"))
    assert gate_in_words(made) == ""
    looked = "A gate has looked at this report: "
    made = replace(made, accepted=())
    assert gate_in_words(made) == f"{looked}0 findings are accepted, 2 are not."
    made = replace(made, accepted=(Acceptance(finding=1, by=AcceptedBy.BASELINE),))
    assert gate_in_words(made) == f"{looked}1 finding is accepted (1 by the baseline), 1 is not."
