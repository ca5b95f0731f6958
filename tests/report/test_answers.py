"""The three questions: figures that add up, and words that never promise more than the tables know."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.build import finding, report, target
from tests.test_plan import ANYTHING
from tracer.findings import Finding
from tracer.report.answers import answers, evidence_counts, headline


def test_risk_is_answered_with_calls_places_and_the_line_that_has_most() -> None:
    first, _, _ = answers(report(finding(count=8), finding(location="train.py:99", count=2), clean=90))
    assert first.sentence.startswith("Yes: 10 of 100 recorded calls, from 2 places")
    assert "aten.index_add_ at train.py:10" in first.sentence


def test_the_mode_is_answered_with_what_it_fixes_raises_and_leaves() -> None:
    _, second, _ = answers(
        report(
            finding(count=3),
            finding("cuda-b", location="b.py:1", deterministic_mode="raises", count=5),
            finding("cuda-c", location="c.py:1", deterministic_mode="nondeterministic", count=7),
        )
    )
    assert [(figure.value, figure.sites) for figure in second.figures] == [(3, 1), (5, 1), (7, 1)]
    assert "b.py:1" in second.sentence


def test_a_target_with_the_mode_on_is_not_told_to_switch_it_on() -> None:
    on = target(conditions={"deterministic_mode": "on"})
    _, second, _ = answers(report(finding(deterministic_mode="nondeterministic"), target=on))
    assert second.sentence.startswith("It is on for this target already")
    assert "0 calls raise and 1 call stays at risk" in second.sentence


def test_a_line_of_a_library_is_named_with_the_users_own() -> None:
    first, _, _ = answers(report(finding(location="transformers/attention.py:5", called_from="train.py:61")))
    assert "attention.py:5, called from train.py:61." in first.sentence


def test_two_edits_of_one_line_are_two_edits_and_one_place() -> None:
    both = (finding(rule, op=f"aten.{rule}.default", deterministic_mode="raises") for rule in ("cuda-a", "cuda-b"))
    _, second, third = answers(report(*both))
    assert second.figures[1].sites == 1
    assert "2 code edits" in third.sentence


@pytest.mark.parametrize(
    ("found", "words"),
    [
        ([], "No risk found"),
        ([finding(verdict="seeded", deterministic_mode="seeded")], "No risk found once seeded"),
        ([finding(verdict="unknown", deterministic_mode="unknown")], "No risk found in what is known"),
        ([finding(verdict="conditional")], "Two runs can differ for some data"),
        (
            [finding(verdict="conditional", cause="reduction-order")],
            "Two runs can differ under some conditions",
        ),
        ([finding()], "Two runs of this step can differ"),
        ([finding(verdict="raises", deterministic_mode="raises")], "The step would stop with an error"),
    ],
)
def test_the_headline_is_the_worst_that_was_found(found: list[Finding], words: str) -> None:
    assert headline(report(*found))[1] == words


def test_nothing_recorded_is_not_called_safe() -> None:
    empty = report(clean=0)
    assert headline(empty)[1] == "Nothing was recorded"
    first, second, third = (answer.sentence for answer in answers(empty))
    assert "nothing can be said" in first
    assert "nothing can be said" in second
    assert "Record a step" in third


@given(st.lists(ANYTHING, max_size=8))
def test_no_step_is_ever_called_deterministic(findings: list[Finding]) -> None:
    made = report(*findings)
    words = [headline(made)[1], *(answer.sentence for answer in answers(made))]
    assert not any("is deterministic" in line or "step deterministic" in line for line in words)
    assert sum(count for _, count in evidence_counts(findings)) == len(findings)
