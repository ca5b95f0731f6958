"""Runs that diverged: each root, hold and differing input has its next step, with the line to change."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace as replace_fields

from tests.runner.repeated.comparisons import divergence, repeated, root
from tests.support.build import finding, judgement, report
from tracer.divergence.causes import RootCause, Shows
from tracer.divergence.lines import LineKind, LineSource
from tracer.divergence.model import CallPlace, EndState, Seed
from tracer.divergence.repeated import Held, HeldLine, next_steps, remedy_of
from tracer.findings import PlannedChange
from tracer.names import Phase
from tracer.plan import make_plan
from tracer.report.blocks import PAGE, Rows
from tracer.report.compared import plan_after, repeated_json
from tracer.report.render.terminal import READER, drawn, printed
from tracer.report.sections.root_lines import root_line_blocks
from tracer.report.sections.runs import repeated_blocks
from tracer.trace.values import ValueKind

CALM = re.compile("no risk found|nothing asks for a change|asks for a change|whatever was found repeats", re.I)


@pytest.mark.parametrize("cause", RootCause)
def test_each_cause_has_a_step_at_its_line(cause: RootCause) -> None:
    (step,) = next_steps(repeated(divergence(root(41, cause))))
    assert step.roots == (1,)
    assert step.where == "train.py:41"
    assert step.title
    assert step.remedy


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


@pytest.mark.parametrize(
    ("row", "wheres"), [("file-exists", ["train.py:8"]), ("clock", ["train.py:8", "train.py:41", "train.py:60"])]
)
def test_what_a_held_circumstance_and_its_line_explain_is_one_step(row: str, wheres: list[str]) -> None:
    """A line of a kind that the circumstance does not reach is another matter."""
    held = Held(circumstances=("folder",), agrees=True, runs=2, is_cause=True, clause="it is", remedy="clear it")
    roots = divergence(root(41, RootCause.STRUCTURE), root(60, RootCause.ARGUMENT))
    steps = next_steps(repeated(roots, sources=(line(8, row),), held=(held,)))
    assert [*dict.fromkeys(step.where for step in steps)] == wheres


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


def line(at: int, source: str = "clock", **fields: Any) -> LineSource:
    return LineSource(location=f"train.py:{at}", source=source, reaches=True, **fields)


def proven(*lines: int, agrees: bool = True) -> HeldLine:
    return HeldLine(lines=tuple(f"train.py:{at}" for at in lines), agrees=agrees, runs=1)


@pytest.mark.parametrize("cause", RootCause)
def test_what_follows_from_a_proven_line_needs_no_second_step(cause: RootCause) -> None:
    runs = repeated(divergence(root(41, cause)), sources=(line(8),), held_lines=(proven(8),))
    first, *rest = next_steps(runs)
    assert (first.where, "clock" in first.title) == ("train.py:8", True)
    assert bool(rest) != cause.is_from_lines, "a kernel does not follow from a line"
    refuted = replace_fields(runs, held_lines=(proven(8, agrees=False),))
    assert len(next_steps(refuted)) == 2
    draws = replace_fields(runs, sources=(line(8, "draw-numpy", kind=LineKind.DRAW),), held_lines=())
    assert len(next_steps(draws)) == 2 - cause.is_from_lines
    assert len(next_steps(replace_fields(draws, held_lines=refuted.held_lines))) == 2


def test_what_runs_leave_has_no_step_beside_the_proven_line_that_makes_it_differ() -> None:
    ends = (EndState(kind=ValueKind.FILE, name="out.csv"),)
    (step,) = next_steps(repeated(divergence(ends=ends), sources=(line(8),), held_lines=(proven(8),)))
    assert step.where == "train.py:8"


def test_lines_that_are_proven_together_have_a_step_for_each_kind() -> None:
    sources = (line(8), line(9, "entropy"), line(10), line(11, ""), line(12, "file"))
    steps = next_steps(repeated(divergence(root()), sources=sources, held_lines=(proven(8, 9, 10, 11),)))
    assert [step.where for step in steps if step.where != "train.py:41"] == ["train.py:8", "train.py:9"]


def test_a_draw_that_the_plan_seeds_has_one_step() -> None:
    drawn = root(41, RootCause.DRAW, op="aten.rand.default", location="train.py:41", name="cpu")
    judged = judgement(finding("cpu-rng", op="aten.rand.default", location="train.py:41"))
    source = line(41, "draw-torch", kind=LineKind.DRAW, generator="torch")
    (step,) = next_steps(repeated(divergence(drawn), sources=(source,)), make_plan(judged), judged.findings)
    assert step.closes == 1


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (line(8, "", may_call=("builtins.int", "datasets.Dataset.shuffle")), "`datasets.Dataset.shuffle` gives"),
        (line(8, "", may_call=("decides",), kind=LineKind.BRANCH), "it decides by"),
        (line(8, "", may_call=("?.get",)), "it gives"),
        (line(8, "clock"), "from the clock"),
    ],
)
def test_a_line_of_whatever_kind_says_what_to_do(source: LineSource, words: str) -> None:
    assert words in remedy_of(source)
    (shown,) = [block for block in root_line_blocks((source,), PAGE) if isinstance(block, Rows)]
    assert remedy_of(source) in str(shown)


def unproven(at: int, source: str) -> LineSource:
    return replace_fields(line(at, source), reaches=False)


def test_what_may_explain_other_ends_is_named_without_proof_those_of_a_known_kind_first() -> None:
    ends = (EndState(kind=ValueKind.PARAMETER, name="parameter 0 of group 0"),)
    sources = (unproven(5, ""), unproven(9, "shared-by-threads"), unproven(11, "clock"), unproven(12, "clock"))
    runs = repeated(divergence(ends=ends), sources=sources)
    steps = next_steps(runs)
    assert [step.where for step in steps] == ["train.py:9", "train.py:11", "beside the recorded calls"]
    assert "parameter 0 of group 0" in steps[-1].title
    assert "parameter parameter" not in steps[-1].title
    text = " ".join(printed(drawn(repeated_blocks(runs, READER)), color=False).split())
    assert text.index("without proof") < text.index("train.py:9") < text.index("train.py:5")
    known = repeated(divergence(root()), sources=sources)
    explained = replace_fields(runs, held_lines=(proven(8),), sources=(line(8), *sources))
    assert [*known.possible, *explained.possible] == []


@pytest.mark.parametrize(
    ("fields", "is_optional"),
    [
        ({}, True),
        ({"partial": ("cut short", "")}, False),
        ({"ends": (EndState(kind=ValueKind.BUFFER, name="bn.running_mean"),)}, False),
        ({"states_compared": 0}, False),
        ({"is_inference": True}, False),
    ],
)
def test_a_change_of_what_reaches_nothing_that_trains_is_optional(fields: dict[str, Any], is_optional: bool) -> None:
    given = {"reaches_nothing": True, "states_compared": 4} | fields
    runs = repeated(divergence(root(8, RootCause.DRAW), **given), sources=(line(8, "entropy"),))
    assert ["optional" in step.remedy for step in next_steps(runs) if step.roots] == [is_optional] * 2
    reaching = repeated(divergence(root(8, RootCause.DRAW, reaches_training=True), **given))
    assert not any("optional" in step.remedy for step in next_steps(reaching))


def test_settings_that_explain_are_one_step() -> None:
    held = Held(circumstances=("settings",), agrees=True, runs=2, is_cause=True, clause="c", remedy="make the settings")
    judged = judgement(finding("cuda-index-put", op="aten.index_put_.default", location="train.py:41"))
    runs = repeated(divergence(root()), held=(held,))
    steps = next_steps(runs, make_plan(judged), judged.findings)
    assert [(bool(step.sets), step.roots) for step in steps] == [(True, (1,))]
    other = replace_fields(runs, held=(replace_fields(held, circumstances=("threads",)),))
    assert len(next_steps(other, make_plan(judged), judged.findings)) == 2
