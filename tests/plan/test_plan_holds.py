"""What a plan says, done: programs whose runs differ agree once its line is changed as it says, and no loss is NaN."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest

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
