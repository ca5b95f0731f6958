"""Runs that frameworks resume: a right one goes on bit for bit, and what one goes on without is named at its line."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from tests.support.command import run_here
from tests.support.slow import slow_unless
from tracer.divergence.cut_lines import RunLines
from tracer.divergence.lines import read_run
from tracer.divergence.model import read_recording
from tracer.divergence.omissions import ResumedRun, hold_against

SCRIPTS = Path(__file__).parent / "resuming"
#: Optimizer steps that the checkpoint was written after.
STEP = 2
#: By framework and what is left out: the text of the line that is named, and a word of what is said. What a framework
#: restores or leaves with it is named too.
LACKS = {
    ("lightning", "counter"): [("self.warm = 0", "`self.warm` is 0, and 2")],
    ("lightning", "scheduler"): [("StepLR(", "1 step behind")],
    ("lightning", "optimizer"): [("AdamW(", "the optimizer's states")],
    ("lightning", "average"): [("self.kept = ", "`self.kept`")],
    ("trainer", "counter"): [("self.warm = 0", "warm` is 0, and 2")],
    ("trainer", "generator"): [("self.body(x)", "generator cpu")],
    ("trainer", "position"): [("trainer.train(", "is read again"), ("self.body(x)", "generator cpu")],
    ("trainer", "optimizer"): [("trainer.train(", "the optimizer's states"), ("trainer.train(", "2 steps behind")],
    ("accelerate", "generator"): [("for (x,) in loader", "generator cpu")],
    ("accelerate", "scheduler"): [("StepLR(", "1 step behind")],
    ("accelerate", "epoch"): [("for epoch in range", "`epoch` is 0, and 1")],
    ("accelerate", "best"): [("first_epoch, best = 0, 9.0", "`best` is 9.0")],
    ("accelerate", "average"): [("average = [parameter.detach()", "`average`")],
}
RIGHT = [(framework, "") for framework in ("lightning", "trainer", "accelerate")]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Returns the folder of a framework's whole run, with all of its checkpoints."""

    @cache
    def recorded(framework: str) -> Path:
        pytest.importorskip("transformers" if framework == "trainer" else framework)
        folder = tmp_path_factory.mktemp(framework)
        record(folder, framework, "", "whole")
        return folder

    return recorded


def record(folder: Path, framework: str, lacks: str, name: str, *args: str) -> list[str]:
    text = (SCRIPTS / f"{framework}_loop.py").read_text(encoding="utf-8").replace('LACKS = ""', f'LACKS = "{lacks}"')
    (folder / "train.py").write_text(text, encoding="utf-8")
    done = run_here(folder, "run", "--lines", "-o", f"{name}.json", "train.py", *args)
    assert done.code == 0, done.err
    return text.splitlines()


@pytest.mark.parametrize(("framework", "lacks"), slow_unless(set(RIGHT), [*RIGHT, *LACKS]))
def test_a_resumed_run_of_a_framework(whole: Callable[[str], Path], tmp_path: Path, framework: str, lacks: str) -> None:
    shutil.copytree(whole(framework), tmp_path, dirs_exist_ok=True)
    lines = record(tmp_path, framework, lacks, "resumed", "--resume")
    paths = tmp_path / "whole.json", tmp_path / "resumed.json"
    first, second = (RunLines(read_run(path)[""]) for path in paths)
    found: ResumedRun = hold_against(*map(read_recording, paths), STEP, (first, second, first))
    assert (found.step, found.unknown) == (STEP, "")
    if not lacks:
        assert found.agrees, found.not_restored
        return
    assert len(found.not_restored) == len(LACKS[framework, lacks])
    for omission, (text, words) in zip(found.not_restored, LACKS[framework, lacks], strict=True):
        assert text in lines[int(omission.location.rpartition(":")[2]) - 1]
        assert words in omission.what
        assert "`" in omission.remedy
