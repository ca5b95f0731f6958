"""A fact that lets calls off: every case that accuses becomes two, and a trace without the fact is judged as before."""

from __future__ import annotations

import pytest

from tests.support.build import call, trace
from tests.tables.samples import HEAD, RULE
from tracer import judge
from tracer.errors import TableError
from tracer.names import Verdict
from tracer.tables.conditions import BoundRule
from tracer.tables.loading import load_tables, parse_table
from tracer.tables.rules import Rule
from tracer.tables.vocabulary import NOTED_FACTS

FACT = "shape.meets_at_most_twice"
CASES = """
  [[rule.case]]
  when = { deterministic_mode = "off" }
  verdict = "nondeterministic"
  [[rule.case]]
  when = { deterministic_mode = ["warn", "on"] }
  verdict = "raises"
"""


def rule_exempt_by(fact: str) -> Rule:
    exemption = f'  [[rule.exempt]]\n  fact = "{fact}"\n  why = "Two alone meet."\n'
    ref = "aten/src/ATen/native/cuda/Indexing.cu, index_add_cuda_impl, 2.6.0"
    text = RULE.format(id="cuda-sample", ops='["aten.sample"]', cases=exemption + CASES, ref=ref)
    return parse_table(HEAD + text, "sample.toml").rule[0]


def test_a_case_that_accuses_becomes_two_and_a_refusal_stays() -> None:
    cases = rule_exempt_by(FACT).case
    assert [(case.verdict.value, case.when.get(FACT)) for case in cases] == [
        ("nondeterministic", False),
        ("deterministic", True),
        ("raises", None),
    ]
    assert cases[1].why == "Two alone meet."


@pytest.mark.parametrize(
    ("facts", "verdict"),
    [({FACT: True}, Verdict.DETERMINISTIC), ({FACT: False}, Verdict.NONDETERMINISTIC), ({}, Verdict.NONDETERMINISTIC)],
)
def test_without_the_fact_the_verdict_stands(facts: dict[str, bool], verdict: Verdict) -> None:
    bound = BoundRule(rule_exempt_by(FACT), "2.13.0", {"deterministic_mode": "off"})
    assert bound.decide(facts).verdict is verdict


def test_an_unknown_fact_is_refused_with_those_there_are() -> None:
    with pytest.raises(
        TableError,
        match=r"'shape.windows_overlap' cannot exempt calls \(choose from collective.any_order, index.distinct",
    ):
        rule_exempt_by("shape.windows_overlap")


def test_no_shipped_case_accuses_outright_where_a_noted_fact_holds() -> None:
    asked = [
        (rule.id, case.verdict)
        for table in load_tables().values()
        for rule in table.rule
        for case in rule.case
        if any(case.when.get(fact) is True for fact in NOTED_FACTS)
    ]
    assert asked
    softened = {rule for rule, verdict in asked if verdict is not Verdict.DETERMINISTIC}
    assert softened == {"cuda-convolution", "cuda-cublas"}
    assert {verdict for _, verdict in asked} == {Verdict.DETERMINISTIC, Verdict.CONDITIONAL}


@pytest.mark.parametrize(
    ("fact", "verdict"),
    [
        ("index.adds_one_number", "deterministic"),
        ("shape.adds_whole_numbers", "deterministic"),
        ("", "nondeterministic"),
    ],
)
def test_sums_of_whole_numbers_or_of_one_are_exact(fact: str, verdict: str) -> None:
    facts = {"device": "cuda", "dtype": "float32", **({fact: True} if fact else {})}
    one = call("aten.scatter_add.default", phase="forward", facts=facts)
    report = judge(trace(one), backend="cuda", settings="default")
    assert {key.value: count for key, count in report.tally.as_is.items()} == {verdict: 1}
