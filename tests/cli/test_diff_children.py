"""``tracer diff`` of two recordings with values and child processes, and of two jobs of several ranks."""

from __future__ import annotations

import json
from multiprocessing import get_context
from pathlib import Path

import torch

from tests.support.command import Command
from tracer import DeterminismTracer


def train(seed: int) -> None:
    torch.manual_seed(seed)
    weight = torch.rand(3, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=0.1)
    for _ in range(2):
        weight.sum().backward()
        optimizer.step()


def test_diff_holds_child_processes_against_their_own(tmp_path: Path, tracer: Command) -> None:
    for seed in range(2):
        with DeterminismTracer(children=True, values=True) as recorder:
            child = get_context("fork").Process(target=train, args=(seed,))
            child.start()
            child.join()
        recorder.save(tmp_path / f"{seed}.json")
    same = tracer("diff", tmp_path / "0.json", tmp_path / "0.json", "--fail-on", "parted")
    assert same.code == 0, same.err
    other = tracer("diff", tmp_path / "0.json", tmp_path / "1.json", "--fail-on", "parted", "--format", "json")
    assert other.code == 1, other.err
    assert {root["process"] for root in json.loads(other.out)["roots"]} == {"child 1"}


def job(folder: Path, name: str, seeds: tuple[int, ...]) -> Path:
    """The name of a recorded job whose ranks had these seeds."""
    for rank, seed in enumerate(seeds):
        with DeterminismTracer(values=True) as recorder:
            train(seed)
        recorder.save(folder / f"{name}.rank{rank}.json")
    return folder / f"{name}.json"


def test_diff_holds_each_rank_of_a_job_against_its_own(tmp_path: Path, tracer: Command) -> None:
    first, same = job(tmp_path, "first", (0, 1, 2)), job(tmp_path, "same", (0, 1, 2))
    agreed = tracer("diff", first, same, "--fail-on", "parted", "--format", "json")
    assert agreed.code == 0, agreed.err
    parted = tracer("diff", first, job(tmp_path, "other", (0, 1, 7)), "--fail-on", "parted", "--format", "json")
    assert parted.code == 1, parted.err
    assert {root["process"] for root in json.loads(parted.out)["roots"]} == {"rank 2"}
    assert json.loads(parted.out)["calls_compared"] == json.loads(agreed.out)["calls_compared"]


def test_diff_of_jobs_with_other_ranks_is_not_whole(tmp_path: Path, tracer: Command) -> None:
    first, fewer = job(tmp_path, "first", (0, 1)), job(tmp_path, "fewer", (0,))
    compared = tracer("diff", first, fewer, "--format", "json")
    assert "the runs had different ranks" in json.loads(compared.out)["partial"]
    one = tracer("diff", first, tmp_path / "fewer.rank0.json")
    assert (one.code, len(one.err.strip().splitlines())) == (2, 1)
    assert "stands for several ranks" in one.err
    (tmp_path / "first.rank1.values").unlink()
    assert "first.rank1.json has no values beside it" in tracer("diff", first, first).err
