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
SHARED = """
import torch
import torch.multiprocessing as mp

def train(model, generator):
    torch.set_num_threads(1)
    for _ in range(STEPS):
        model.zero_grad()
        model(torch.randn(4, 5, generator=generator)).pow(2).mean().backward()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter -= 0.02 * parameter.grad

if __name__ == "__main__":
    torch.manual_seed(1)
    model = torch.nn.Linear(5, 1).share_memory()
    context = mp.get_context("fork")
    workers = [context.Process(target=train, args=(model, torch.Generator().manual_seed(k))) for k in range(2)]
    for worker in workers:
        worker.start()
        TURNS
    for worker in workers:
        worker.join()
"""
ONLY_FORWARD = """
import torch
import torch.multiprocessing as mp

def evaluate(weight):
    weight.exp().sum().item()

if __name__ == "__main__":
    worker = mp.get_context("fork").Process(target=evaluate, args=(torch.ones(4),))
    worker.start()
    worker.join()
"""
#: As others are: a niceness of 15 starves its workers on a busy machine.
RAY = {"RAY_AUTH_MODE": "disabled", "RAY_worker_niceness": "0"}
IN_TRAINING, IN_RANK, IN_LOADER = "training.py:12", "rank.py:13", "start.py:12"


def repeated(
    folder: Path, start: str, *, fault: bool, hold: bool = False, **variables: str
) -> tuple[int, dict[str, Any]]:
    for name, text in (("start.py", start), ("training.py", TRAINING), ("rank.py", RANK)):
        (folder / name).write_text(text.replace("FAULT", str(fault)))
    done = tracer_process(
        *("repeat", "--children", *([] if hold else ["--no-hold"]), "--format", "json", "start.py"),
        cwd=folder,
        **variables,
    )
    assert done.code in (0, 1, 3), done.err
    return done.code, json.loads((folder / "repeat" / "repeat.json").read_text())


PROGRAMS = [
    pytest.param(SPAWNED.replace("spawn", "fork"), IN_TRAINING, "child 2", id="forked"),
    pytest.param(SPAWNED, IN_TRAINING, "child 2", id="spawned", marks=pytest.mark.slow),
    pytest.param(RANKS, IN_RANK, "child 1.2", id="rank", marks=pytest.mark.slow),
    pytest.param(LOADER, IN_LOADER, "child 2", id="loader", marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("start", "line", "process"), PROGRAMS)
def test_the_fault_of_one_process_is_named_alone(tmp_path: Path, start: str, line: str, process: str) -> None:
    code, result = repeated(tmp_path, start, fault=True)
    assert code == 1
    assert {(root["location"], root["process"]) for root in result["roots"]} == {(line, process)}


@pytest.mark.slow
@pytest.mark.parametrize("start", [SPAWNED, SPAWNED.replace("spawn", "fork")], ids=["spawned", "forked"])
def test_the_line_of_a_child_is_named_and_proven_as_that_of_one_process_is(tmp_path: Path, start: str) -> None:
    _, told = repeated(tmp_path, start, fault=True, hold=True)
    assert [source["location"] for source in told["sources"] if source["reaches"]] == [IN_TRAINING]
    assert [(held["line"], held["agrees"]) for held in told["held"]] == [(IN_TRAINING, True)]


@pytest.mark.slow
def test_clean_twins_agree_over_all_processes(tmp_path: Path) -> None:
    code, result = repeated(tmp_path, SPAWNED, fault=False)
    assert (code, result["agrees"], result["not_followed"]) == (0, True, 0)
    assert result["calls_compared"] > 40


def test_processes_that_train_shared_weights_at_once_are_named_by_the_line_that_starts_them(tmp_path: Path) -> None:
    code, result = repeated(tmp_path, SHARED.replace("STEPS", "200").replace("TURNS", "pass"), fault=False)
    assert (code, result["not_followed"]) == (1, 0)
    assert "processes that were started at start.py:20" in result["first"]["why"]
    places = [(root["cause"], root["location"], root["op"], root["name"]) for root in result["roots"]]
    assert len(set(places)) == len(places)


def test_processes_that_take_turns_at_shared_weights_agree_without_an_optimizer(tmp_path: Path) -> None:
    code, result = repeated(tmp_path, SHARED.replace("STEPS", "3").replace("TURNS", "worker.join()"), fault=False)
    assert (code, result["agrees"], result["not_followed"]) == (0, True, 0)


@pytest.mark.slow
def test_a_process_that_only_runs_forward_is_compared_and_not_said_to_be_lost(tmp_path: Path) -> None:
    code, result = repeated(tmp_path, ONLY_FORWARD, fault=False)
    assert (code, result["agrees"], result["not_followed"]) == (0, True, 0)
    assert result["calls_compared"] > 1


@pytest.mark.slow
@pytest.mark.parametrize("start", [RANKS, LOADER], ids=["rank", "loader"])
def test_clean_twins_of_jobs_agree(tmp_path: Path, start: str) -> None:
    code, result = repeated(tmp_path, start, fault=False)
    assert (code, result["agrees"]) == (0, True)


@pytest.mark.slow
@pytest.mark.parametrize("fault", [True, False], ids=["fault", "clean"])
def test_the_fault_of_an_actor_of_ray_is_named(tmp_path: Path, fault: bool) -> None:
    pytest.importorskip("ray")
    code, result = repeated(tmp_path, ACTORS, fault=fault, **RAY)
    assert (code, result["agrees"]) == (int(fault), not fault)
    assert {root["location"] for root in result["roots"]} == ({IN_TRAINING} if fault else set())


HELD_IN_CHILD = """
import os, random, time
NUMBER = {number}
import torch

weight = torch.ones(4, requires_grad=True)
optimizer = torch.optim.SGD([weight], lr=0.1)
(weight * NUMBER).sum().backward()
optimizer.step()
"""
IN_PROGRAM = """
import subprocess, sys

sys.exit(subprocess.run([sys.executable, "child.py"]).returncode)
"""


@pytest.mark.parametrize(
    ("number", "circumstance"),
    [
        pytest.param("hash('name') % 1000", "hash-seed", id="hash", marks=pytest.mark.slow),
        pytest.param("id(object()) % 10007", "hash-seed,addresses", id="addresses", marks=pytest.mark.slow),
        pytest.param("len(os.listdir())", "folder", id="folder", marks=pytest.mark.slow),
    ],
)
def test_what_is_held_is_held_in_a_child_that_was_not_forked(tmp_path: Path, number: str, circumstance: str) -> None:
    child = HELD_IN_CHILD.format(number=number)
    if circumstance == "folder":
        child += "open(f'left-{time.time_ns()}', 'w').close()\n"
    (tmp_path / "child.py").write_text(child)
    (tmp_path / "start.py").write_text(IN_PROGRAM)
    options = ("--children", "--hold", circumstance, "-o", "../results", "--format", "json")
    done = tracer_process("repeat", *options, "start.py", cwd=tmp_path)
    result = json.loads((tmp_path.parent / "results" / "repeat.json").read_text())
    assert done.code == 1, done.err
    assert {root["process"] for root in result["roots"]} == {"child 1"}
    causes = [",".join(held["circumstances"]) for held in result["held"] if held["is_cause"]]
    assert causes == [circumstance], (result["held"], done.err)
