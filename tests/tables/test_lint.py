"""The lint finds what it is there for; that the tables which ship are clean, ``tests/cli/test_tables.py`` asks it."""

from __future__ import annotations

import pytest

from tests.tables.samples import GOOD_REF, HEAD, rule_text, table
from tracer.tables.lint import faults_of
from tracer.tables.rules import RuleTable

OFF = '{ when = { deterministic_mode = "off" }, verdict = "nondeterministic" }'
WARN = '{ when = { deterministic_mode = "warn" }, verdict = "nondeterministic" }'
REST = '{ verdict = "deterministic" }'
ON = '{ when = { deterministic_mode = "on" }, verdict = "raises" }'


def lint_table(linted: RuleTable) -> list[str]:
    return list(faults_of(linted))


def test_ordered_cases_whose_last_takes_the_rest_are_sound() -> None:
    assert lint_table(table(rule_text(OFF, WARN, REST))) == []


@pytest.mark.parametrize("last", [ON, '{ torch = ">=2.1", verdict = "raises" }'])
def test_a_last_case_with_conditions_leaves_calls_without_one(last: str) -> None:
    assert lint_table(table(rule_text(OFF, WARN, last))) == [
        "cuda-sample: the last case has conditions: what no other case takes is left without one"
    ]


def test_a_case_that_earlier_ones_take_whole_can_never_be_reached() -> None:
    both = '{ when = { deterministic_mode = ["off", "warn"] }, verdict = "conditional" }'
    half = '{ when = { dtype = "float16", deterministic_mode = "warn" }, verdict = "raises" }'
    assert lint_table(table(rule_text(OFF, WARN, both, half, REST))) == [
        "cuda-sample: case 2 can never be reached",
        "cuda-sample: case 3 can never be reached",
    ]


def test_a_case_that_one_version_alone_reaches_is_sound() -> None:
    new = '{ torch = ">=2.1", when = { deterministic_mode = "off" }, verdict = "deterministic" }'
    assert lint_table(table(rule_text(new, OFF, REST))) == []
    assert lint_table(table(rule_text(OFF, new, REST))) == ["cuda-sample: case 1 can never be reached"]


def test_a_case_for_no_reviewed_version_is_dead() -> None:
    dead = '{ torch = ">=2.16", verdict = "raises" }'
    assert lint_table(table(rule_text(OFF, dead, REST))) == [
        "cuda-sample: case 1 is dead: `>=2.16` contains no reviewed release"
    ]


def test_a_key_that_allows_everything_is_useless() -> None:
    case = '{ when = { "arg.accumulate" = [true, false] }, verdict = "raises" }'
    assert lint_table(table(rule_text(case, REST))) == [
        "cuda-sample: case 0 lists every value of arg.accumulate; leave the key out"
    ]


def test_an_id_is_borne_once() -> None:
    faults = lint_table(table(rule_text(), rule_text(ops='["aten.other"]')))
    assert faults == ["cuda-sample: 2 of them have this id"]


def test_an_op_is_claimed_once() -> None:
    faults = lint_table(table(rule_text(), rule_text(id="cuda-again")))
    assert faults == ["aten.sample: claimed by cuda-sample and cuda-again"]


def test_an_overload_may_stand_in_another_rule_than_its_packet() -> None:
    assert lint_table(table(rule_text(), rule_text(id="cuda-again", ops='["aten.sample.out"]'))) == []


@pytest.mark.parametrize(
    ("broken", "whole", "says"),
    [
        ("evidence = []", f'  [[rule.evidence]]\n  kind = "source"\n  ref = "{GOOD_REF}"', "evidence is empty"),
        ("case = []", 'case = [{ verdict = "conditional" }]', "case is empty"),
    ],
)
def test_a_rule_has_cases_and_says_where_from(broken: str, whole: str, says: str) -> None:
    text = rule_text()
    assert whole in text
    assert f"cuda-sample: {says}" in lint_table(table(text.replace(whole, broken)))


def test_a_table_for_no_release_is_said_to_be_one() -> None:
    faults = lint_table(table(head=HEAD.replace(">=1.11,<=2.15", ">=9.0")))
    assert faults[0] == "`>=9.0` contains no release of torch"
