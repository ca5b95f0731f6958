"""``tracer compare`` over a program and the processes that it starts: the process and place of a fault."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.command import tracer_process

TRAINING = """
import torch

def build(gelu):
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.GELU(gelu), torch.nn.Linear(32, 4))

def train(rank, gelu, wrap=lambda model: model):
    model = wrap(build(gelu if rank == 1 else "none"))
    torch.manual_seed(rank)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(2):
        loss = torch.nn.functional.cross_entropy(model(torch.randn(8, 16)), torch.randint(0, 4, (8,)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""
FORKED = """
import sys
import torch.multiprocessing
from training import train

if __name__ == "__main__":
    torch.multiprocessing.start_processes(train, (sys.argv[1],), nprocs=2, start_method="fork")
"""
RANKS = """
import subprocess, sys

command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "rank.py"]
sys.exit(subprocess.run([*command, sys.argv[1]]).returncode)
"""
RANK = """
import sys
import torch
import torch.distributed as dist
from training import train

dist.init_process_group("gloo")
train(dist.get_rank(), sys.argv[1], torch.nn.parallel.DistributedDataParallel)
dist.destroy_process_group()
"""


def compared(folder: Path, start: str, *options: str) -> tuple[int, dict[str, Any], str]:
    for name, text in (("start.py", start), ("training.py", TRAINING), ("rank.py", RANK)):
        (folder / name).write_text(text)
    done = tracer_process(
        *("compare", "--yardstick-runs", "1", "--format", "text,json", *options, "start.py"), cwd=folder
    )
    assert done.code in (0, 1, 3), done.err
    return done.code, json.loads((folder / "compare" / "compare.json").read_text()), " ".join(done.out.split())


@pytest.mark.parametrize(
    ("start", "process"),
    [
        pytest.param(FORKED, "child 2", id="forked", marks=pytest.mark.slow),
        pytest.param(RANKS, "child 1.2", id="ranks", marks=pytest.mark.slow),
    ],
)
def test_the_fault_of_one_process_is_named_alone(tmp_path: Path, start: str, process: str) -> None:
    code, result, text = compared(tmp_path, start, "--a", "none", "--b", "tanh")
    assert (code, result["verdict"], result["processes"]) == (1, "significant", 2)
    assert {place["process"] for place in result["significant"]} == {process}
    first = result["first"]
    assert (first["module"].rpartition(".")[2], first["kind"], first["step"]) == ("1", "output", 0)
    assert result["call"]["op"] == "aten.gelu.default"
    assert process in text


@pytest.mark.slow
def test_processes_that_agree_are_equal(tmp_path: Path) -> None:
    code, result, _ = compared(tmp_path, FORKED, "--children", "--a", "none", "--b", "none", "--env-b", "NAME=1")
    assert (code, result["verdict"], result["processes"]) == (0, "equal", 2)
    assert result["places"] > 40


@pytest.mark.slow
def test_jobs_of_other_numbers_of_processes_are_not_called_equal(tmp_path: Path) -> None:
    start = FORKED.replace("nprocs=2", "nprocs=int(sys.argv[2])")
    code, result, _ = compared(tmp_path, start, "--children", "--a", "none 2", "--b", "none 3")
    assert (code, result["verdict"]) == (3, "equal")
    assert "different numbers of processes" in result["partial"]
