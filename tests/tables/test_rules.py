"""Each rule of each table meets a call that it must match, and one near it that it must not."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import pytest

from tests.support.build import call, trace
from tests.tables.samples import reaching, releases_of, split
from tracer.facts import Value
from tracer.facts.every_fact import SELECTING_NODES
from tracer.findings import Target
from tracer.judging import judge_calls
from tracer.names import SEVERITY, Backend, Settings, Verdict
from tracer.tables.conditions import BoundRule
from tracer.tables.loading import load_tables
from tracer.tables.rules import SETTINGS, Rule, RuleTable
from tracer.tables.versions import release

HOLDERS = [pytest.param(holder, id=str(holder.backend)) for holder in load_tables().values()]


def unmatched(holder: RuleTable, rule: Rule) -> Iterator[str]:
    """Cases that a call made for them does not come to."""
    if not rule.case:
        yield f"{rule.id} has no case"
    for number, case in enumerate(rule.case):
        versions = releases_of(holder, rule, case)
        if not versions and case is not rule.case[-1]:
            yield f"{rule.id}, case {number}: no call comes to it"
        for version in versions:
            facts, settings = split(reaching(rule, case, version))
            outcome = BoundRule(rule, release(version), settings).decide(facts)
            if outcome.case is not case or outcome.verdict is not case.verdict:
                yield f"{rule.id}, case {number}, torch {version}: {outcome.verdict}, not {case.verdict}"


@pytest.mark.parametrize("holder", HOLDERS)
def test_each_case_of_each_rule_decides_a_call(holder: RuleTable) -> None:
    assert [wrong for rule in holder.rule for wrong in unmatched(holder, rule)] == []


class Outcome(NamedTuple):
    """What a trace comes out with for one of its calls."""

    rule: str
    """The rule of its finding; empty where there is none."""
    verdict: Verdict


def judged(ops: Iterable[str], backend: Backend, values: dict[str, Value], version: str) -> dict[str, Outcome]:
    """What a trace with one call of each op comes out with."""
    facts, settings = split(values)
    nodes = {
        "backward.selects": min(SELECTING_NODES),
        "backward.attention_softmax": "SafeSoftmaxBackward",
    }
    asked = {key: facts.pop(key) for key in nodes if key in facts}
    node = next((f"{nodes[key]}0" for key, holds in asked.items() if holds), "ScatterBackward0" if asked else "")
    phase = "backward" if node else "forward"
    groups = [call(op, phase=phase, node=node, facts={"device": "cpu", **facts}) for op in ops]
    target = Target(
        backend=backend,
        torch=version,
        settings=Settings.RECORDED,
        conditions={**{key: domain[0] for key, domain in SETTINGS.items()}, **settings},
    )
    judgement, calls = judge_calls(trace(*groups), load_tables(), target)
    found = {finding.op: finding.rule for finding in judgement.findings}
    assert len(calls) == len(groups) == sum(judgement.tally.as_is.values())
    return {one.group.op: Outcome(found.get(one.group.op, ""), one.ruling.verdict) for one in calls}


def overload_of(holder: RuleTable, rule: Rule, op: str) -> str:
    """``op`` itself, or an overload of the packet that no other rule of the table names."""
    default = op if op.count(".") == 2 else f"{op}.default"
    return default if holder.find(default) is rule else f"{op}.another"


def misjudged(holder: RuleTable, rule: Rule) -> Iterator[str]:
    """Ops of the rule that come out otherwise, and neighbours of them that come out with the rule."""
    accusing = (verdict for verdict in SEVERITY if verdict not in (Verdict.RAISES, Verdict.DETERMINISTIC))
    cases = (case for verdict in (*accusing, Verdict.RAISES) for case in rule.case if case.verdict is verdict)
    case = next(cases, rule.case[0])
    minor = releases_of(holder, rule, case)[0]
    version, values = release(minor), {"device": "cpu", **reaching(rule, case, minor)}
    wanted = "" if case.verdict is Verdict.DETERMINISTIC else rule.id
    ops = [overload_of(holder, rule, op) for op in rule.ops]
    neighbours = {f"{'.'.join(op.split('.')[:2])}_of_nobody.default" for op in ops}
    outcomes = judged({*ops, *neighbours}, holder.backend, values, version)
    for op in ops:
        if outcomes[op].verdict is not case.verdict or (wanted and outcomes[op].rule != wanted):
            yield f"{rule.id}: {op} comes out {outcomes[op]}, not {case.verdict}"
    yield from (f"{rule.id}: speaks of {op}" for op in sorted(neighbours) if outcomes[op].rule == rule.id)


@pytest.mark.parametrize("holder", HOLDERS)
def test_a_call_of_each_op_comes_out_with_its_rules_verdict_and_a_neighbour_does_not(holder: RuleTable) -> None:
    assert [wrong for rule in holder.rule for wrong in misjudged(holder, rule)] == []


@pytest.mark.parametrize("backend", [Backend.CPU, Backend.CUDA], ids=str)
def test_allocating_alone_is_no_risk(backend: Backend) -> None:
    rule = load_tables()[backend].find("aten.empty.memory_format")
    assert rule is not None
    assert {case.verdict for case in rule.case} == {Verdict.DETERMINISTIC}
