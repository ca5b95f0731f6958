"""The plan of the bundled step, applied: its own lines are pasted and run, and the step is recorded again."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.command import process
from tests.support.promise import promised
from tests.support.slow import slow_unless
from tracer import Trace, judge
from tracer.names import Verdict
from tracer.plan import PlanStep, step_of
from tracer.report import Report

ROOT = Path(__file__).parents[2]
STEP = """
from tracer.bundled import make_training
from tracer import DeterminismTracer

training = make_training()
with DeterminismTracer(training.model) as tracer:
    training.step()
tracer.trace.save({path!r})
"""


def recorded(folder: Path, name: str, lines: str = "") -> Trace:
    """The bundled step in a process of its own, after ``lines``."""
    path = folder / f"{name}.json"
    script = f"import os\n{lines}\n{STEP.format(path=str(path))}"
    done = process("-c", script, cwd=ROOT)
    assert done.code == 0, done.err
    return Trace.load(path)


@pytest.fixture(scope="module")
def unplanned(tmp_path_factory: pytest.TempPathFactory) -> Trace:
    """The step as it is, before any plan."""
    return recorded(tmp_path_factory.mktemp("unplanned"), "before")


def at_risk(report: Report) -> set[str]:
    """Lines that can still differ, raise or are unknown; the whole process has none."""
    good = (Verdict.DETERMINISTIC, Verdict.SEEDED)
    return {one.location or one.rule for one in report.findings if one.verdict not in good}


@pytest.mark.parametrize("backend", slow_unless({"cuda"}, ["cuda", "cpu", "recorded"]))
def test_the_plans_lines_leave_no_risk_but_where_the_plan_says_that_some_stays(
    unplanned: Trace, tmp_path: Path, backend: str
) -> None:
    before = judge(unplanned, backend=backend)
    lines = "\n".join(change.code for change in before.plan if change.sets and change.code)
    assert bool(lines) is bool(before.planned_settings)
    after = judge(recorded(tmp_path, "after", lines), backend=backend)
    stays = {
        identity[5] or identity[0]
        for identity, verdict in promised(before.judgement, before.plan)
        if verdict not in (Verdict.DETERMINISTIC, Verdict.SEEDED)
    }
    assert at_risk(after) <= stays
    ran_in = after.judgement.trace.environment
    for name, value in before.planned_settings.items():
        made = getattr(ran_in, name, None) or ran_in.variables.get(name)
        assert str(made) == str(value), name


def test_what_a_plan_says_would_stay_is_what_asks_for_an_edit(unplanned: Trace) -> None:
    report = judge(unplanned, backend="cuda")
    edits = {PlanStep.RAISES, PlanStep.NOT_FIXED, PlanStep.UNKNOWN, PlanStep.MEMORY, PlanStep.LATE, PlanStep.LOADING}
    stays = {one.location for one in report.findings if step_of(one, report.target) in edits}
    assert stays == at_risk(judge(unplanned, backend="cuda", settings=report.planned_settings))
