"""What a report tells of trials and data: a refuted table first, with the text to send; what data settle apart."""

from __future__ import annotations

import json

import pytest

from tests.support.build import call, environment, trace
from tracer.names import DataShown, Detail, EvidenceKind
from tracer.report import Report
from tracer.report.render.terminal import to_text
from tracer.session import judge
from tracer.trace.records import CudaDevice, Tried

FACTS = {"device": "cuda", "dtype": "float32", "layout": "strided", "ndim": 2}
VARIED = Tried(calls=1, trials=5, varied=3, distinct=2, first=1)


@pytest.fixture(scope="module")
def report() -> Report:
    made = trace(
        call("aten.neg.default", facts=FACTS, tried=VARIED, location="train.py:3"),
        call("aten.index_add_.default", facts=FACTS, data={DataShown.DISTINCT: 1}, location="train.py:4"),
        call("aten.scatter_add_.default", facts=FACTS, location="train.py:5"),
        call("aten.index_add_.default", facts=FACTS, tried=VARIED, location="train.py:6"),
        call("mine.op.default", facts=FACTS, location="train.py:7"),
        environment=environment(devices=(CudaDevice(name="GPU One"),), cuda="13.0"),
    )
    return judge(made)


def test_a_refuted_table_stands_before_the_plan_with_the_text_to_send(report: Report) -> None:
    text = report.to_text(width=100, color=False)
    assert text.index("The table is wrong for this device") < text.index("What to change")
    assert "GPU One; torch 2.13.0, CUDA 13.0" in text
    assert "aten.neg (forward): cuda table says deterministic (rule cuda-tried)" in text
    assert "tried: varied in 3 of 5 trials of 1 call" in text
    page = report.to_html()
    assert page.index('id="refuted"') < page.index('id="plan"')


def test_what_varied_comes_first_in_the_plan(report: Report) -> None:
    has_varied = [change.seen > 0 for change in report.plan]
    assert has_varied == sorted(has_varied, reverse=True)
    assert set(has_varied) == {True, False}


def test_what_data_settle_is_a_section_of_its_own_and_no_finding(report: Report) -> None:
    brief = report.to_text(width=200, color=False)
    assert "Settled by the data of this run: 1 call (aten.index_add_): deterministic for these data" in brief
    text = to_text(report, width=100, color=False, limit=None, detail=Detail.WHOLE)
    assert "Settled by the data of this run (1)" in text
    assert "no element written twice" in text
    assert 'id="settled"' in report.to_html()
    assert [finding.location for finding in report.findings if finding.op].count("train.py:4") == 0


def test_every_file_tells_of_trials_where_it_tells_evidence(report: Report) -> None:
    document = json.loads(report.to_json())
    found = next(one for one in document["judgement"]["findings"] if one["op"] == "aten.neg.default")
    assert found["refuted"] == "deterministic"
    assert found["tried"]["varied"] == 3
    assert found["evidence"][0]["kind"] == EvidenceKind.TRIED
    assert document["judgement"]["observed"][0]["data"] == {"distinct": 1}
    assert "tried: varied in 3 of 5 trials" in report.to_csv()


def test_a_report_without_trials_says_nothing_of_them() -> None:
    plain = judge(trace(call(facts=FACTS)))
    for word in ("Trials", "Settled by", 'id="refuted"'):
        assert word not in plain.to_text(width=100, color=False)
        assert word not in plain.to_html()


def test_where_nothing_else_is_at_risk_the_headline_says_that_data_decided() -> None:
    settled = judge(trace(call("aten.index_add_.default", facts=FACTS, data={DataShown.DISTINCT: 1})))
    assert settled.to_text(width=100, color=False).startswith("= No risk found for the data of this run")
