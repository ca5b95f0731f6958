"""``tracer repeat`` over a program and the processes that it starts: the process, line and cause of the divergence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.command import tracer_process

TRAINING = """
import sys, time
import torch

def train(rank):
    torch.manual_seed(rank)
    model = torch.nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        batch = torch.rand(8, 4)
        if FAULT and rank == 1 and step == 1:
            batch = batch * (time.time() % 1)
        optimizer.zero_grad()
        model(batch).sum().backward()
        optimizer.step()
"""
SPAWNED = """
import torch.multiprocessing
from training import train

if __name__ == "__main__":
    torch.multiprocessing.start_processes(train, nprocs=2, start_method="spawn")
"""
RANKS = """
import subprocess, sys

command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "rank.py"]
sys.exit(subprocess.run(command).returncode)
"""
RANK = """
import time
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
torch.manual_seed(dist.get_rank())
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    batch = torch.rand(8, 4)
    if FAULT and dist.get_rank() == 1 and step == 1:
        batch = batch * (time.time() % 1)
    optimizer.zero_grad()
    model(batch).sum().backward()
    optimizer.step()
dist.destroy_process_group()
"""
LOADER = """
import time
import torch

class Data(torch.utils.data.Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, index):
        sample = torch.ones(4) * index
        if FAULT and index == 5:
            sample = sample * (time.time() % 1)
        return sample

if __name__ == "__main__":
    torch.manual_seed(0)
    model = torch.nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for batch in torch.utils.data.DataLoader(Data(), 4, num_workers=2):
        optimizer.zero_grad()
        model(batch).sum().backward()
        optimizer.step()
"""
ACTORS = """
import ray

@ray.remote
class Trainer:
    def train(self, rank):
        from training import train
        train(rank)

ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
actors = [Trainer.remote() for _ in range(2)]
ray.get([actor.train.remote(rank) for rank, actor in enumerate(actors)])
ray.shutdown()
"""
IN_TRAINING, IN_RANK, IN_LOADER = "training.py:12", "rank.py:13", "start.py:12"


def repeated(folder: Path, start: str, *, fault: bool, **variables: str) -> tuple[int, dict[str, Any]]:
    for name, text in (("start.py", start), ("training.py", TRAINING), ("rank.py", RANK)):
        (folder / name).write_text(text.replace("FAULT", str(fault)))
    done = tracer_process(
        *("repeat", "--children", "--no-hold", "--format", "json", "start.py"), cwd=folder, **variables
    )
    assert done.code in (0, 1, 3), done.err
    return done.code, json.loads((folder / "repeat" / "repeat.json").read_text())


PROGRAMS = [
    pytest.param(SPAWNED, IN_TRAINING, "child 2", id="spawned"),
    pytest.param(RANKS, IN_RANK, "child 1.2", id="rank", marks=pytest.mark.slow),
    pytest.param(LOADER, IN_LOADER, "child 2", id="loader", marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("start", "line", "process"), PROGRAMS)
def test_the_fault_of_one_process_is_named_and_no_other(tmp_path: Path, start: str, line: str, process: str) -> None:
    code, result = repeated(tmp_path, start, fault=True)
    assert code == 1
    assert {(root["location"], root["process"]) for root in result["roots"]} == {(line, process)}


def test_clean_twins_agree_over_all_processes(tmp_path: Path) -> None:
    code, result = repeated(tmp_path, SPAWNED, fault=False)
    assert (code, result["agrees"], result["not_followed"]) == (0, True, 0)
    assert result["calls_compared"] > 40


@pytest.mark.slow
@pytest.mark.parametrize("start", [RANKS, LOADER], ids=["rank", "loader"])
def test_clean_twins_of_jobs_agree(tmp_path: Path, start: str) -> None:
    code, result = repeated(tmp_path, start, fault=False)
    assert (code, result["agrees"]) == (0, True)


@pytest.mark.slow
@pytest.mark.parametrize("fault", [True, False], ids=["fault", "clean"])
def test_the_fault_of_an_actor_of_ray_is_named(tmp_path: Path, fault: bool) -> None:
    pytest.importorskip("ray")
    _, result = repeated(tmp_path, ACTORS, fault=fault, RAY_AUTH_MODE="disabled")
    assert result["agrees"] is not fault
    assert {root["location"] for root in result["roots"]} == ({IN_TRAINING} if fault else set())
