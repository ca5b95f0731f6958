"""Runs that take in other things from outside: the report names them, with their lines, and seeds by their numbers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.support.command import process
from tracer.runner.repeated.within.function import repeat

TRAINS = """\
import os, time
import torch

SEED
model = torch.nn.Linear(2, 1)
RESUME
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(2):
    optimizer.zero_grad()
    model(torch.randn(3, 2)).sum().backward()
    optimizer.step()
torch.save(model.state_dict(), "last.pt")
with open("seed.txt", "w") as file:
    file.write("1002")
"""
RESUMES = 'model.load_state_dict(torch.load("last.pt")) if os.path.exists("last.pt") else None'
READS_ITS_SEED = 'torch.manual_seed(int(open("seed.txt").read()))'


def repeated(folder: Path, *, seed: str = "torch.manual_seed(0)", resume: str = "") -> dict[str, Any]:
    (folder / "train.py").write_text(TRAINS.replace("SEED", seed).replace("RESUME", resume))
    (folder / "seed.txt").write_text("1001")
    done = process("repeat", "--no-hold", "--format", "text,json,html", "train.py", cwd=folder, module=True)
    assert done.code in (0, 1), done.err
    document: dict[str, Any] = json.loads((folder / "repeat" / "repeat.json").read_text())
    return document


@pytest.mark.slow
def test_a_checkpoint_that_the_run_before_left_is_named_with_its_line(tmp_path: Path) -> None:
    told = repeated(tmp_path, resume=RESUMES)
    (last,) = (one for one in told["outside"] if (one["kind"], one["name"]) == ("file", "last.pt"))
    assert (last["kind"], last["location"], last["differs"]) == ("file", "train.py:6", True)
    assert last["first"] == "not taken in"
    assert "before it the program reads last.pt (train.py:6), which the previous run wrote" in told["first"]["why"]
    page = (tmp_path / "repeat" / "repeat.html").read_text()
    assert "Inputs from outside" in page


@pytest.mark.slow
def test_a_seed_that_came_from_a_file_is_told_by_both_numbers(tmp_path: Path) -> None:
    told = repeated(tmp_path, seed=READS_ITS_SEED)
    assert told["first"]["cause"] == "draw"
    assert "it was seeded at train.py:4 with 1001, in the second run with 1002" in told["first"]["why"]
    assert "reads seed.txt (train.py:4), which the previous run wrote" in told["first"]["why"]


BESIDE = """\
import threading, time
import torch

model, average, halt = torch.nn.Linear(4, 4), torch.zeros(4, 4), threading.Event()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

def follow():
    while not halt.is_set():
        SHARED

beside = threading.Thread(target=follow)
beside.start()
for _ in range(40):
    optimizer.zero_grad()
    model(torch.ones(3, 4)).square().sum().backward()
    optimizer.step()
halt.set()
beside.join()
torch.save(average, "average.pt")
"""


@pytest.mark.parametrize(
    "does",
    [
        pytest.param("average.add_(model.weight.detach())", id="a-file"),
        pytest.param("optimizer.param_groups[0]['lr'] *= 0.999", id="a-number", marks=pytest.mark.slow),
    ],
)
def test_a_thread_that_works_beside_the_step_is_named_by_its_function(tmp_path: Path, does: str) -> None:
    text = "torch = __import__('torch'); torch.manual_seed(0)\n" + BESIDE.replace("SHARED", does)
    (tmp_path / "train.py").write_text(text)
    done = process("repeat", "--no-hold", "--format", "text,json", "train.py", cwd=tmp_path, module=True)
    assert done.code == 1
    said = " ".join(done.out.split())
    assert "lets a thread run follow at train.py:8 (train.py:13), beside the recorded calls" in said


@pytest.mark.slow
def test_an_array_of_numpy_that_nobody_wrote_is_named_and_zero_where_memory_is_held(tmp_path: Path) -> None:
    lines = (
        "import numpy, torch",
        "table = {number: str(number) * 5 for number in range(3000)}",
        "del table",
        "total = numpy.empty(48, dtype=numpy.int64)",
        "y = torch.from_numpy(total % 1013).float() * 2",
    )
    (tmp_path / "train.py").write_text("\n".join(lines))
    done = process("repeat", "--hold", "memory", "--format", "text,json", "train.py", cwd=tmp_path, module=True)
    told = json.loads((tmp_path / "repeat" / "repeat.json").read_text())
    assert "takes unwritten memory from numpy.empty (train.py:4)" in told["first"]["why"], done.out
    assert told["held"][-1]["is_cause"]


@pytest.mark.slow
def test_what_is_the_same_in_both_runs_differs_in_none(tmp_path: Path) -> None:
    (tmp_path / "data.txt").write_text("data")
    told = repeated(tmp_path, resume='open("data.txt").read(); os.listdir("."); os.environ.get("HOME")')
    assert told["agrees"]
    kinds = {one["kind"]: one["differs"] for one in told["outside"]}
    assert kinds["file"] is False
    assert kinds["variable"] is False


def test_a_function_that_reads_what_it_wrote_before_is_told_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("scale.txt").write_text("1.5")

    def step() -> None:
        scale = float(Path("scale.txt").read_text())
        (torch.ones(2) * scale).sum()
        Path("scale.txt").write_text(str(scale + 1))

    found = repeat(step, runs=2)
    assert not found.agrees
    (scale,) = found.outside
    assert (scale.name, scale.differs, scale.by_first_run) == ("scale.txt", True, True)
