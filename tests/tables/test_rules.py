"""Each rule of each table meets a call that it must match, and one near it that it must not."""

from __future__ import annotations

import pytest

from tests.build import call, trace
from tests.tables.samples import keys_of, near_misses, releases_of, satisfying, split
from tracer.findings import Target
from tracer.judging import judge_trace
from tracer.names import Backend, Settings, Verdict
from tracer.tables.loading import load_tables
from tracer.tables.model import Rule, Table
from tracer.tables.ruling.conditions import BoundRule
from tracer.tables.versions import release
from tracer.tables.vocabulary import COUNTING_NODES, SELECTING_NODES, SETTINGS, Value

RULES = [pytest.param(holder, rule, id=rule.id) for holder in load_tables().values() for rule in holder.rule]


@pytest.mark.parametrize(("holder", "rule"), RULES)
def test_each_case_matches_what_it_asks_for(holder: Table, rule: Rule) -> None:
    assert rule.case
    for number, case in enumerate(rule.case):
        facts, settings = split(satisfying(case, keys_of(rule)))
        for version in releases_of(holder, case):
            outcome = BoundRule(rule, release(version), settings).decide(facts)
            assert outcome.case is case, f"case {number}, torch {version}"
            assert outcome.verdict is case.verdict, f"case {number}, torch {version}"


@pytest.mark.parametrize(("holder", "rule"), RULES)
def test_no_case_matches_a_near_miss(holder: Table, rule: Rule) -> None:
    for number, case in enumerate(rule.case):
        version = release(releases_of(holder, case)[0])
        for key, values in near_misses(case):
            facts, settings = split(values)
            outcome = BoundRule(rule, version, settings).decide(facts)
            assert outcome.case is not case, f"case {number}: {key} = {values[key]} should have kept it out"


def judged(op: str, backend: Backend, values: dict[str, Value], version: str) -> tuple[str, Verdict]:
    """The rule and verdict that a trace of one call comes out with; an empty id where nothing is found."""
    facts, settings = split(values)
    nodes = {
        "backward.selects": min(SELECTING_NODES),
        "backward.counts": min(COUNTING_NODES),
        "backward.attention_softmax": "SafeSoftmaxBackward",
    }
    asked = {key: facts.pop(key) for key in nodes if key in facts}
    node = next((f"{nodes[key]}0" for key, holds in asked.items() if holds), "ScatterBackward0" if asked else "")
    group = call(
        op,
        phase="backward" if node else "forward",
        node=node,
        facts={"device": "cpu", **facts},
    )
    target = Target(
        backend=backend,
        torch=version,
        settings=Settings.RECORDED,
        conditions={**{key: domain[0] for key, domain in SETTINGS.items()}, **settings},
    )
    judgement = judge_trace(trace(group), load_tables(), target)
    (verdict,) = judgement.tally.as_is
    found = {finding.rule for finding in judgement.findings}
    return found.pop() if found else "", verdict


@pytest.mark.parametrize(("holder", "rule"), RULES)
def test_a_call_of_each_op_comes_out_with_the_rules_verdict_and_a_neighbour_does_not(holder: Table, rule: Rule) -> None:
    case = next((c for c in rule.case if c.verdict is not Verdict.DETERMINISTIC), rule.case[0])
    version = release(releases_of(holder, case)[0])
    values = {**satisfying(case, keys_of(rule)), "device": satisfying(case).get("device", "cpu")}
    is_risk = case.verdict is not Verdict.DETERMINISTIC
    for op in rule.ops:
        overload = op if op.count(".") == 2 else f"{op}.default"
        found, verdict = judged(overload, holder.backend, values, version)
        assert verdict is case.verdict
        assert found == rule.id or not is_risk
        neighbour = f"{'.'.join(op.split('.')[:2])}_of_nobody.default"
        assert judged(neighbour, holder.backend, values, version)[0] != rule.id


@pytest.mark.parametrize(("holder", "rule"), RULES)
def test_a_rule_speaks_plainly(holder: Table, rule: Rule) -> None:
    texts = [rule.why, rule.remedy, *(c.why for c in rule.case), *(c.remedy for c in rule.case)]
    for text in filter(None, texts):
        assert len(text) < 500
        assert "/work" not in text
        assert "\n" not in text
    assert len(rule.why.split()) > 5


@pytest.mark.parametrize("backend", [Backend.CPU, Backend.CUDA], ids=str)
def test_allocating_alone_is_no_risk(backend: Backend) -> None:
    rule = load_tables()[backend].find("aten.empty.memory_format")
    assert rule is not None
    assert {case.verdict for case in rule.case} == {Verdict.DETERMINISTIC}
