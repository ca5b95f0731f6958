"""Each rule meets a call that it must match and a near miss; a case is true, false, or unknown with what is missing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.build import call, trace
from tests.tables.samples import keys_of, reaching, releases_of, rule_text, split, table
from tracer import judge
from tracer.facts import Kind, Value
from tracer.facts.every_fact import SELECTING_NODES, of_kind
from tracer.findings import Target
from tracer.judging import judge_calls
from tracer.names import SEVERITY, Backend, Settings, UnknownReason, Verdict
from tracer.tables.conditions import BoundRule
from tracer.tables.loading import load_libraries, load_tables
from tracer.tables.rules import (
    DOMAINS,
    SETTINGS,
    UNNOTED,
    Case,
    Cased,
    EnvironmentTable,
    Reviewed,
    Rule,
    RuleTable,
    SettingRow,
    load_rows,
)
from tracer.tables.versions import release, reviewed_releases, speaks_of

HOLDERS = [pytest.param(holder, id=str(holder.backend)) for holder in load_tables().values()]
LIBRARIES, ROWS = load_libraries(), load_rows()
REVIEWED = [
    *HOLDERS,
    pytest.param(LIBRARIES, id="libraries"),
    pytest.param(ROWS, id="settings"),
]


def unmatched(holder: Reviewed, rule: Cased) -> Iterator[str]:
    """Cases that a call made for them does not come to."""
    if not rule.case:
        yield f"{rule.id} has no case"
    for number, case in enumerate(rule.case):
        versions = releases_of(holder, rule, case)
        if isinstance(rule, SettingRow):
            versions = [version for version in versions if speaks_of(rule.torch, version)]
        if not versions and (case is not rule.case[-1] or not isinstance(holder, RuleTable)):
            yield f"{rule.id}, case {number}: no call comes to it"
        for version in versions:
            facts, settings = split(reaching(rule, case, version))
            outcome = BoundRule(rule, release(version), settings).decide(facts)
            if outcome.case is not case or outcome.verdict is not case.verdict:
                yield f"{rule.id}, case {number}, torch {version}: {outcome.verdict}, not {case.verdict}"


@pytest.mark.parametrize("holder", REVIEWED)
def test_each_case_of_each_rule_decides_a_call(holder: Reviewed) -> None:
    rules = holder.row if isinstance(holder, EnvironmentTable) else holder.rule
    assert rules
    assert [wrong for rule in rules for wrong in unmatched(holder, rule)] == []


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


RULES = [(holder, rule) for holder in load_tables().values() for rule in holder.rule]

RACE = (
    '{ when = { "arg.accumulate" = true }, verdict = "deterministic" }',
    '{ when = { deterministic_mode = "off" }, verdict = "conditional" }',
    '{ verdict = "raises" }',
)


def bound(*cases: str, **settings: Value) -> BoundRule:
    (rule,) = table(rule_text(*cases)).rule
    return BoundRule(rule, "2.6.0", settings)


def test_the_first_case_that_matches_decides_and_the_last_takes_what_is_left() -> None:
    verdicts = [
        bound(*RACE, deterministic_mode=mode).decide({"arg.accumulate": sums}).verdict.value
        for sums in (True, False)
        for mode in ("off", "on")
    ]
    assert verdicts == ["deterministic", "deterministic", "conditional", "raises"]


def test_a_missing_fact_that_matters_is_named() -> None:
    outcome = bound(*RACE, deterministic_mode="off").decide({})
    assert outcome.verdict is Verdict.UNKNOWN
    assert outcome.reason is UnknownReason.FACT_NOT_RECORDED
    assert outcome.missing == ("arg.accumulate",)


def test_a_missing_fact_that_changes_nothing_is_not_missed() -> None:
    outcome = bound(*RACE[:1], '{ verdict = "deterministic" }').decide({})
    assert (outcome.verdict, outcome.reason, outcome.missing) == (Verdict.DETERMINISTIC, None, ())


def test_a_missing_setting_is_named_like_a_fact() -> None:
    outcome = bound(*RACE).decide({"arg.accumulate": False})
    assert outcome.missing == ("deterministic_mode",)


def test_a_value_outside_the_vocabulary_counts_as_not_recorded() -> None:
    race = bound(*RACE, deterministic_mode="off")
    for odd in (1, "true", 7, "yes"):
        assert race.decide({"arg.accumulate": odd}) == race.decide({})
    by_dtype = bound(
        '{ when = { dtype = "floating" }, verdict = "raises" }',
        '{ when = { dtype = ["complex", "integral", "boolean", "quantized", "none"] }, verdict = "deterministic" }',
    )
    assert by_dtype.decide({"dtype": "floating"}).missing == ("dtype",), "a class is no dtype"


def test_a_rule_that_says_that_nothing_is_known_is_no_missing_fact() -> None:
    outcome = bound('{ verdict = "unknown" }').decide({})
    assert (outcome.verdict, outcome.reason) == (Verdict.UNKNOWN, UnknownReason.NO_EVIDENCE)


def test_a_hole_that_no_lint_saw_is_unknown_rather_than_safe() -> None:
    outcome = bound('{ when = { "arg.accumulate" = true }, verdict = "deterministic" }').decide(
        {"arg.accumulate": False}
    )
    assert (outcome.verdict, outcome.reason) == (Verdict.UNKNOWN, UnknownReason.NO_EVIDENCE)


@st.composite
def situations(draw: st.DrawFn) -> tuple[Rule, str, dict[str, Value], dict[str, Value]]:
    """A rule that ships, a version that its table speaks of, and values for all of its keys, as facts and settings."""
    holder, rule = draw(st.sampled_from(RULES))
    values = {key: draw(st.sampled_from(DOMAINS[key])) for key in keys_of(rule)}
    facts = {key: value for key, value in values.items() if key not in SETTINGS}
    settings = {key: value for key, value in values.items() if key in SETTINGS}
    return rule, f"{draw(st.sampled_from(reviewed_releases(holder.reviewed)))}.0", facts, settings


@given(situations(), st.data())
def test_adding_a_fact_never_flips_a_decided_verdict(
    situation: tuple[Rule, str, dict[str, Value], dict[str, Value]], data: st.DataObject
) -> None:
    rule, version, facts, settings = situation
    known_facts = {key: value for key, value in facts.items() if key in UNNOTED or data.draw(st.booleans())}
    known_settings = {key: value for key, value in settings.items() if data.draw(st.booleans())}
    before = BoundRule(rule, version, known_settings).decide(known_facts)
    after = BoundRule(rule, version, settings).decide(facts)
    if before.reason is not UnknownReason.FACT_NOT_RECORDED:
        assert after.verdict is before.verdict
    else:
        assert before.missing
        assert not set(before.missing) & {*known_facts, *known_settings}


@given(situations())
def test_with_every_fact_known_exactly_one_case_decides(
    situation: tuple[Rule, str, dict[str, Value], dict[str, Value]],
) -> None:
    rule, version, facts, settings = situation
    outcome = BoundRule(rule, version, settings).decide(facts)
    assert outcome.case is not None
    assert outcome.verdict is outcome.case.verdict
    assert outcome.missing == ()


def test_a_case_before_which_others_come_tells_the_conditions_that_they_leave() -> None:
    outcome = bound(*RACE, deterministic_mode="on").decide({"arg.accumulate": False})
    assert {one.asks: one.holds_for for one in outcome.met or ()} == {
        "arg.accumulate": (False,),
        "deterministic_mode": ("warn", "on"),
    }


def test_no_shipped_case_accuses_outright_where_a_noted_fact_holds() -> None:
    asked = {(rule.id, case.verdict) for _, rule in RULES for case in rule.case if _holds_by_note(case)}
    softened = {rule for rule, verdict in asked if verdict is not Verdict.DETERMINISTIC}
    assert softened == {"cuda-cublas"}
    assert {verdict for _, verdict in asked} == {Verdict.DETERMINISTIC, Verdict.CONDITIONAL}


def _holds_by_note(case: Case) -> bool:
    return any(case.when.get(fact) is True for fact in of_kind(Kind.NOTED))


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
