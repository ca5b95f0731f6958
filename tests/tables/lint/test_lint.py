"""The lint finds what it is there for, and the tables that ship are clean."""

from __future__ import annotations

import json

import pytest

from tests.tables.samples import GOOD_REF, HEAD, rule_text, table
from tracer.names import Backend
from tracer.tables.lint.rule_lint import lint_table
from tracer.tables.loading import existing_tables, load_table
from tracer.tables.vocabulary import DOMAINS

OFF = '{ when = { deterministic_mode = "off" }, verdict = "nondeterministic" }'
WARN = '{ when = { deterministic_mode = "warn" }, verdict = "nondeterministic" }'
ON = '{ when = { deterministic_mode = "on" }, verdict = "raises" }'


@pytest.mark.parametrize("backend", existing_tables(), ids=str)
def test_the_tables_that_ship_are_clean(backend: Backend) -> None:
    assert lint_table(load_table(backend)) == []


def test_cases_that_cover_each_mode_once_are_sound() -> None:
    assert lint_table(table(rule_text(OFF, WARN, ON))) == []


def test_a_gap_is_named_with_version_and_values() -> None:
    assert lint_table(table(rule_text(OFF, ON))) == [
        "cuda-sample: gap in torch 1.11: no case for deterministic_mode = warn"
    ]


def test_an_overlap_is_named_with_both_cases() -> None:
    both = '{ when = { deterministic_mode = ["warn", "on"] }, verdict = "raises" }'
    assert lint_table(table(rule_text(OFF, WARN, both, ON))) == [
        "cuda-sample: overlap in torch 1.11: cases 1 and 2 both hold for deterministic_mode = warn",
        "cuda-sample: overlap in torch 1.11: cases 2 and 3 both hold for deterministic_mode = on",
    ]


def test_a_gap_in_one_version_alone_is_found() -> None:
    old = '{ torch = "<2.1", verdict = "raises" }'
    new = '{ torch = ">=2.2", verdict = "deterministic" }'
    assert lint_table(table(rule_text(old, new))) == ["cuda-sample: gap in torch 2.1: no case for always"]


def test_an_overlap_in_one_version_alone_is_found() -> None:
    old = '{ torch = "<2.2", verdict = "raises" }'
    new = '{ torch = ">=2.1", verdict = "deterministic" }'
    assert lint_table(table(rule_text(old, new))) == [
        "cuda-sample: overlap in torch 2.1: cases 0 and 1 both hold for always"
    ]


def test_a_dtype_class_counts_as_its_members() -> None:
    floats = '{ when = { dtype = ["floating", "complex"] }, verdict = "raises" }'
    rest = '{ when = { dtype = ["integral", "boolean", "quantized", "none"] }, verdict = "deterministic" }'
    half = '{ when = { dtype = "float16" }, verdict = "deterministic" }'
    assert lint_table(table(rule_text(floats, rest))) == []
    assert lint_table(table(rule_text(floats, rest, half))) == [
        "cuda-sample: overlap in torch 1.11: cases 0 and 2 both hold for dtype = float16"
    ]


def test_a_case_for_no_reviewed_version_is_dead() -> None:
    dead = '{ torch = ">=2.16", verdict = "raises" }'
    assert lint_table(table(rule_text(OFF, WARN, ON, dead))) == [
        "cuda-sample: case 3 is dead: `>=2.16` contains no reviewed release"
    ]


def test_a_key_that_allows_everything_is_useless() -> None:
    case = '{ when = { "arg.accumulate" = [true, false] }, verdict = "raises" }'
    assert lint_table(table(rule_text(case))) == [
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


def test_a_rule_that_asks_too_much_at_once_is_to_be_split() -> None:
    keys = ("dtype", "layout", "ndim", "device", "deterministic_mode", "arg.reduce", "arg.driver")
    cases = [
        f'{{ when = {{ "{key}" = {json.dumps(value)} }}, verdict = "raises" }}'
        for key in keys
        for value in DOMAINS[key]
    ]
    assert any("split the rule" in fault for fault in lint_table(table(rule_text(*cases))))


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
    rest = '{ when = { deterministic_mode = ["off", "warn"] }, verdict = "raises" }'
    (fault,) = lint_table(table(rule_text(case, *([rest] if "when" in case else []))))
    assert says in fault


def test_a_route_through_an_op_needs_no_warning() -> None:
    on = '{ when = { deterministic_mode = ["warn", "on"] }, verdict = "deterministic", route = "aten.index_put" }'
    assert lint_table(table(rule_text(OFF, on))) == []
