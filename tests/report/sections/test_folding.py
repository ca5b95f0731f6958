"""Findings with one answer are one row where people read; files for programs have each."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from tests.report.samples import full_report
from tests.support.build import call, finding, report, trace
from tracer import judge
from tracer.findings import Acceptance, Finding
from tracer.names import AcceptedBy, Verdict
from tracer.report.render.page import findings_json
from tracer.report.sections.findings import FindingRow, rows_of, within
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
    "fields",
    [
        {"op": "aten.cumsum.default"},
        {"remedy": "Another."},
        {"phase": "backward"},
        {"rule": "cuda-other"},
        {"deterministic_mode": "raises"},
        {"verdict": "conditional"},
    ],
    ids=lambda fields: next(iter(fields)),
)
def test_findings_whose_answers_differ_stay_apart(fields: dict[str, str]) -> None:
    assert len(rows(finding(), finding(**fields))) == 2


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
    shown = within(rows(*findings), most)
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
    from tracer.report.junit import render as junit
    from tracer.report.render.markdown import render as markdown

    made = report(finding(op="aten.addmm.default", runs_as="aten._cudnn_rnn.default"))
    assert which_runs_as(made.findings[0]) == ", which runs as aten._cudnn_rnn"
    shown = [made.to_text(width=100, color=False), markdown(made), junit(made), made._repr_html_()]
    shown += [made.to_html(), made.to_json()]
    assert [text for text in shown if "_cudnn_rnn" not in text.replace("\\", "").replace("<wbr>", "")] == []
