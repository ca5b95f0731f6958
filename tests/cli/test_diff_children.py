"""``tracer diff`` of two recordings with values and child processes."""

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
