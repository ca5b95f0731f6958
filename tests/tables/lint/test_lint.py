"""The lint finds what it is there for, and the tables that ship are clean."""

from __future__ import annotations

import pytest

from tests.tables.samples import GOOD_REF, HEAD, rule_text, table
from tracer.names import Backend
from tracer.tables.lint.rule_lint import lint_table
from tracer.tables.loading import existing_tables, load_table

OFF = '{ when = { deterministic_mode = "off" }, verdict = "nondeterministic" }'
WARN = '{ when = { deterministic_mode = "warn" }, verdict = "nondeterministic" }'
REST = '{ verdict = "deterministic" }'
ON = '{ when = { deterministic_mode = "on" }, verdict = "raises" }'


@pytest.mark.parametrize("backend", existing_tables(), ids=str)
def test_the_tables_that_ship_are_clean(backend: Backend) -> None:
    assert lint_table(load_table(backend)) == []


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
    assert faults == ["cuda-sample: 2 rules have this id"]


def test_an_op_is_claimed_once() -> None:
    faults = lint_table(table(rule_text(), rule_text(id="cuda-again")))
    assert faults == ["aten.sample: claimed by cuda-sample and cuda-again"]


def test_an_overload_may_stand_in_another_rule_than_its_packet() -> None:
    assert lint_table(table(rule_text(), rule_text(id="cuda-again", ops='["aten.sample.out"]'))) == []


def test_an_overload_beside_its_packet_says_nothing() -> None:
    faults = lint_table(table(rule_text(ops='["aten.sample", "aten.sample.out", "aten.sample"]')))
    assert faults == [
        "cuda-sample: aten.sample is listed 2 times",
        "cuda-sample: aten.sample.out is listed beside its packet",
    ]


@pytest.mark.parametrize(
    ("broken", "whole", "says"),
    [
        ('why = ""', 'why = "Two threads write."', "why is empty"),
        ('why = "two threads"', 'why = "Two threads write."', "not a plain sentence: 'two threads'"),
        ('remedy = " "', 'remedy = "Write once."', "remedy is empty"),
        ("ops = []", 'ops = ["aten.sample"]', "ops is empty"),
        ("evidence = []", f'  [[rule.evidence]]\n  kind = "source"\n  ref = "{GOOD_REF}"', "evidence is empty"),
        ("case = []", 'case = [{ verdict = "conditional" }]', "case is empty"),
    ],
)
def test_a_row_says_why_and_what_to_do_and_where_from(broken: str, whole: str, says: str) -> None:
    text = rule_text()
    assert whole in text
    assert f"cuda-sample: {says}" in lint_table(table(text.replace(whole, broken)))


@pytest.mark.parametrize(
    ("kind", "ref", "says"),
    [
        ("source", "", "is not one line of text"),
        ("source", "/home/me/pytorch/Indexing.cu, 2.6.0", "is a path on somebody's machine"),
        ("source", "I looked at it, 2.6.0", "names neither a source file nor a pull request or issue"),
        ("source", "aten/src/ATen/native/cuda/Indexing.cu", "names no version of the source"),
        ("documented", "torch.use_deterministic_algorithms page", "names no version of the page"),
    ],
)
def test_a_reference_can_be_followed(kind: str, ref: str, says: str) -> None:
    text = rule_text(ref=ref).replace('kind = "source"', f'kind = "{kind}"')
    assert lint_table(table(text)) == [f"cuda-sample: evidence {ref!r} {says}"]


@pytest.mark.parametrize(
    ("kind", "ref"),
    [("source", "PR #98060"), ("source", "issue cupy/cupy#9323"), ("documented", "torch.nn.LSTM page, 2.13")],
)
def test_threads_and_pages_are_references(kind: str, ref: str) -> None:
    text = rule_text(ref=ref).replace('kind = "source"', f'kind = "{kind}"')
    assert lint_table(table(text)) == []


def test_a_table_for_no_release_is_said_to_be_one() -> None:
    faults = lint_table(table(head=HEAD.replace(">=1.11,<=2.15", ">=9.0")))
    assert faults[0] == "cuda: `>=9.0` contains no release of torch"


@pytest.mark.parametrize(
    ("case", "says"),
    [
        (
            '{ when = { deterministic_mode = "on" }, verdict = "deterministic", route = "F.pad" }',
            "is neither a function",
        ),
        ('{ verdict = "deterministic", route = "aten.index_put" }', "the case holds without it"),
        ('{ when = { deterministic_mode = "on" }, verdict = "raises", route = "torch.pad" }', "what a direct call"),
    ],
)
def test_a_route_is_spelt_taken_and_explained(case: str, says: str) -> None:
    (fault,) = lint_table(table(rule_text(case, *([REST] if "when" in case else []))))
    assert says in fault


def test_a_route_through_an_op_needs_no_warning() -> None:
    on = '{ when = { deterministic_mode = ["warn", "on"] }, verdict = "deterministic", route = "aten.index_put" }'
    assert lint_table(table(rule_text(on, REST))) == []
