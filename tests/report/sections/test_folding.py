"""Seeded draws of like modules are one row where people read; files for programs have each."""

from __future__ import annotations

import json
from dataclasses import replace

from tests.support.build import finding, report
from tracer.findings import Finding
from tracer.gate.baseline import Acceptance, AcceptedBy
from tracer.report.render.page import findings_json
from tracer.report.sections.findings import rows_of
from tracer.report.words import runs_as_of


def draw(layer: int, **fields: object) -> Finding:
    module = {"module": f"encoder.layers.{layer}.dropout", "location": f"model.py:{10 + layer % 2}"}
    seeded = {"verdict": "seeded", "deterministic_mode": "seeded", "op": "aten.native_dropout.default", "count": 2}
    return finding("cuda-dropout", **(seeded | module | fields))


def test_draws_of_modules_that_differ_by_a_number_are_one_row() -> None:
    risky, alone = finding(), draw(0, module="head", op="aten.bernoulli_.float")
    rows = rows_of([risky, *map(draw, range(12)), alone])
    assert rows[0] is risky
    assert rows[2] is alone
    assert (rows[1].subject, rows[1].module, rows[1].count) == ("random draws", "encoder.layers.*.dropout", 24)
    assert rows[1].ops == {"aten.native_dropout.default": 24}
    assert rows[1].location == "model.py:10 and 1 more"


def test_draws_whose_remedy_or_verdict_differs_stay_apart() -> None:
    unlike = [draw(0), draw(1, remedy="Another."), draw(2, deterministic_mode="nondeterministic")]
    assert rows_of(unlike) == tuple(unlike)


def test_what_a_gate_let_pass_and_what_it_did_not_are_not_one_row_of_the_page() -> None:
    made = report(finding(), *map(draw, range(4)))
    assert json.loads(findings_json(made))["targets"][0]["folds"] == [[1, 2, 3, 4]]
    made = replace(made, accepted=tuple(Acceptance(finding=place, by=AcceptedBy.BASELINE) for place in (2, 4)))
    assert json.loads(findings_json(made))["targets"][0]["folds"] == [[1, 3], [2, 4]]


def test_text_and_markdown_fold_and_files_for_programs_do_not() -> None:
    made = report(finding(), *map(draw, range(12)))
    assert made.to_text(width=100, color=False).count("native_dropout") == 1
    assert "Findings (13)" in made.to_text(width=100, color=False)
    assert len(made.to_csv().splitlines()) == 14
    assert len(made.to_dataframe()) == 13


def test_an_op_that_is_another_on_the_target_says_so_where_people_read() -> None:
    from tracer.report.files.junit import render as junit
    from tracer.report.render.markdown import render as markdown

    made = report(finding(op="aten.mkldnn_rnn_layer.default", runs_as="aten._cudnn_rnn.default"))
    assert runs_as_of(made.findings[0]) == ", which runs as aten._cudnn_rnn"
    shown = [made.to_text(width=100, color=False), markdown(made), junit(made), made._repr_html_()]
    shown += [made.to_html(), made.to_json()]
    assert [text for text in shown if "_cudnn_rnn" not in text.replace("\\", "").replace("<wbr>", "")] == []
