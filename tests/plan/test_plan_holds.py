"""What a plan says, done: programs agree once their lines are changed, the bundled step's are pasted and run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support.command import process
from tests.support.promise import promised
from tests.support.slow import slow_unless
from tracer import Trace, judge
from tracer.names import Verdict
from tracer.plan import PlanStep, step_of
from tracer.report import Report
from tracer.report.sections.runs import nan_clause
from tracer.runner.repeated.repeating import Asked, Result, repeat_script
from tracer.runner.script import Task

STEP = """
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for index in range(3):
    optimizer.zero_grad()
    model(batch(index)).square().mean().backward()
    optimizer.step()
"""


class Planted(NamedTuple):
    """A program, the line of it to change, and what the plan says to write there."""

    head: str
    line: str
    said: str
    instead: str

    def text(self, line: str) -> str:
        return f"{self.head.format(line=line)}{STEP}"

    @property
    def place(self) -> str:
        lines = self.text(self.line).splitlines()
        return f"train.py:{next(at for at, text in enumerate(lines, 1) if text.strip() == self.line.strip())}"


PLANTED = {
    "a seed from the clock": Planted(
        "import time\nimport torch\n{line}\n\n\ndef batch(index):\n    return torch.randn(2, 4)\n",
        "torch.manual_seed(time.time_ns())",
        "torch.manual_seed(0)",
        "torch.manual_seed(0)",
    ),
    "memory that nobody wrote": Planted(
        "import torch\ntorch.manual_seed(0)\n\n\ndef batch(index):\n    torch.full((2, 4), torch.rand(()).item())\n"
        "{line}\n    held[0] = 1.0\n    return held + torch.rand(2, 4)\n",
        "    held = torch.empty(2, 4)",
        "torch.zeros",
        "    held = torch.zeros(2, 4)",
    ),
    "a generator made for each sample": Planted(
        "import numpy\nimport torch\ntorch.manual_seed(0)\n\n\ndef batch(index):\n{line}\n"
        "    return torch.from_numpy(rng.normal(size=(2, 4))).float()\n",
        "    rng = numpy.random.default_rng()",
        "numpy.random.default_rng([0, index])",
        "    rng = numpy.random.default_rng([0, index])",
    ),
}


def runs(text: str, folder: Path) -> Result:
    Path("train.py").write_text(text, encoding="utf-8")
    return repeat_script(Asked(task=Task(target="train.py"), folder=folder, hold=()))


@pytest.mark.slow
@pytest.mark.parametrize("name", PLANTED)
def test_the_plans_text_makes_runs_agree(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    planted = PLANTED[name]
    before = runs(planted.text(planted.line), tmp_path / "before")
    report = before.report()
    assert report is not None
    plan = replace(report, repeated=before.repeated).plan
    (change,) = (change for change in plan if planted.place in change.where or planted.place in change.title)
    assert planted.said in f"{change.remedy} {change.code}"
    assert not change.sets
    after = runs(planted.text(planted.instead), tmp_path / "after").repeated
    assert after.agrees
    assert len(after.divergence.losses) == 3
    assert not nan_clause(after.divergence.losses)


ROOT = Path(__file__).parents[2]

BUNDLED = """
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
    script = f"import os\n{lines}\n{BUNDLED.format(path=str(path))}"
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
def test_the_plans_lines_leave_no_risk_but_what_it_says(unplanned: Trace, tmp_path: Path, backend: str) -> None:
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
