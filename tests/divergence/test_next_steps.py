"""Runs that diverged: each root, hold and differing input has its next step, with the line to change."""

from __future__ import annotations

import re
from dataclasses import replace

import msgspec
import pytest

from tests.runner.repeated.comparisons import divergence, repeated, root
from tests.support.build import finding, judgement, report
from tracer.divergence.causes import RootCause, Shows
from tracer.divergence.model import CallPlace, EndState, Seed
from tracer.divergence.repeated import Held, next_steps
from tracer.findings import PlannedChange
from tracer.names import Phase
from tracer.plan import make_plan
from tracer.report.compared import plan_after, repeated_json
from tracer.trace.values import ValueKind

CALM = re.compile("no risk found|nothing asks for a change|asks for a change|whatever was found repeats", re.I)


@pytest.mark.parametrize("cause", RootCause)
def test_each_cause_has_a_step_at_its_line(cause: RootCause) -> None:
    (step,) = next_steps(repeated(divergence(root(41, cause))))
    assert step.roots == (1,)
    assert step.where == "train.py:41"
    assert step.title
    assert step.remedy


@pytest.mark.parametrize("shows", Shows)
def test_whatever_shows_at_a_root_has_a_step(shows: Shows) -> None:
    (step,) = next_steps(repeated(divergence(root(41, shows.cause, shows=shows))))
    assert step.roots == (1,)


def test_the_line_that_seeds_is_the_line_to_change() -> None:
    seed = Seed(location="train.py:7", first="1", second="2")
    drawn = root(41, RootCause.DRAW, name="cpu", shows=Shows.DRAW, seed=seed)
    (step,) = next_steps(repeated(divergence(drawn)))
    assert step.where == "train.py:7"
    assert "stands in the code" in step.remedy


def test_memory_is_written_where_it_was_given() -> None:
    gave = CallPlace(op="aten.empty.memory_format", location="train.py:3", phase=Phase.FORWARD)
    read = root(41, RootCause.UNWRITTEN_MEMORY, earlier=gave, shows=Shows.UNWRITTEN)
    (step,) = next_steps(repeated(divergence(read)))
    assert step.where == "train.py:3"
    assert "torch.zeros" in step.remedy


def test_a_hold_that_explains_comes_first_and_is_for_all_roots() -> None:
    held = Held(
        circumstances=("clock",), agrees=True, runs=2, is_cause=True, clause="the clock is held", remedy="pass it"
    )
    first, *rest = next_steps(
        repeated(divergence(root(), root(60, RootCause.ARGUMENT, op="aten.mul.Tensor")), held=(held,))
    )
    assert (first.number, first.roots, first.remedy) == (1, (1, 2), "Pass it.")
    assert "the clock is held" in first.title
    assert [step.roots for step in rest] == [(1,), (2,)]


def test_a_change_of_the_plan_is_the_step_of_the_root_that_its_finding_stands_at() -> None:
    judged = judgement(finding("cuda-index-put", op="aten.index_put_.default", location="train.py:41"))
    (change,) = next_steps(repeated(divergence(root())), make_plan(judged), judged.findings)
    assert (change.roots, change.sets) == ((1,), {"deterministic_mode": "on"})


def test_a_setting_that_was_made_and_did_not_help_is_no_step() -> None:
    judged = judgement(finding("cuda-index-put", op="aten.index_put_.default", location="train.py:41"))
    runs = repeated(divergence(root()), sets={"deterministic_mode": "on"})
    step, change = next_steps(runs, make_plan(judged), judged.findings)
    assert (step.roots, change.roots) == ((1,), ())


def test_what_runs_leave_in_other_bytes_has_a_step_without_any_root() -> None:
    left = repeated(divergence(ends=(EndState(kind=ValueKind.FILE, name="out.csv"),)))
    assert not left.agrees
    (step,) = next_steps(left)
    assert "out.csv" in step.title


def test_runs_that_agree_ask_for_nothing() -> None:
    assert next_steps(repeated(divergence())) == ()


@pytest.mark.parametrize("cause", RootCause)
def test_after_a_divergence_nothing_says_that_all_is_well(cause: RootCause) -> None:
    runs = repeated(divergence(root(41, cause)))
    said = replace(report(clean=24), repeated=runs)
    plan = plan_after(runs, lambda: report(clean=24))
    assert plan
    texts = (said.to_html(), said.to_text(), said.to_json(), str(repeated_json(runs, plan)))
    assert not [found for text in texts if (found := CALM.search(text))]
    assert CALM.search(report(clean=24).to_html())


def test_the_order_of_what_hangs_together_stays() -> None:
    raises = finding("cuda-put", op="aten.put_.default", location="train.py:3", deterministic_mode="raises")
    mode = finding("cuda-index-put", op="aten.index_put_.default", location="train.py:41", count=9)
    judged = judgement(raises, mode)
    edit, change = next_steps(repeated(divergence(root())), make_plan(judged), judged.findings)
    assert change.roots == (1,)
    assert change.needs[0].changes == (edit.number,)
    assert isinstance(msgspec.convert(msgspec.to_builtins(change), PlannedChange), PlannedChange)
