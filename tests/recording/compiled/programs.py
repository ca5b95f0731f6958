"""A small program in a file of its own, compiled and run: with the recorder, without it, and with its lines moved."""

from __future__ import annotations

import importlib
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from torch._dynamo.utils import counters

from tracer import DeterminismTracer
from tracer.trace import Trace
from tracer.trace.records import CallGroup

#: Of whole numbers, sums are exact in every order; there is work enough for two threads to meet.
PROGRAM = """
import torch

WHOLE = True


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.table = torch.nn.Embedding(64, 16)
        self.rest = torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.ReLU())
        for parameter in self.parameters() if WHOLE else ():
            parameter.data = torch.randint(-1, 2, parameter.shape).float()

    def forward(self, rows, targets, weights):
        found = self.table(rows)  # looks up
        found = self.rest(found)  # multiplies
        summed = torch.zeros(8, 16).index_add(0, targets, found * weights)  # adds
        return summed.sum()


def given(size=125_000):
    weights = torch.randint(1, 3, (size, 1)).float() if WHOLE else torch.randn(size, 1)
    return torch.randint(0, 64, (size,)), torch.randint(0, 8, (size,)), weights


def run(steps):
    torch.manual_seed(0)
    net = Net()
    compiled = torch.compile(net, fullgraph=True)
    inputs = given()
    losses = []
    for _ in range(steps):
        loss = compiled(*inputs)
        loss.backward()
        losses.append(loss.detach())
    return net, losses
"""


class Ran(NamedTuple):
    """One run of the program."""

    module: Any
    net: Any
    losses: list[torch.Tensor]
    trace: Trace
    """Of a run without the recorder, an empty one."""
    hits: int
    misses: int
    lines: dict[str, int]
    """Line of each comment's text."""


def ran(
    folder: Path, *, record: bool = True, steps: int = 3, moved_by: int = 0, text: str = PROGRAM, **options: Any
) -> Ran:
    """Compile the program anew for two threads, as a new process would, and run it; ``options`` are the recorder's."""
    torch._dynamo.reset()
    counters.clear()
    path = folder / "program_of_test.py"
    path.write_text("#\n" * moved_by + text, encoding="utf-8")
    tracer = DeterminismTracer(**options)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        patch.setattr(sys, "dont_write_bytecode", True)
        patch.delitem(sys.modules, "program_of_test", raising=False)
        program = importlib.import_module("program_of_test")
        before = torch.get_num_threads()
        torch.set_num_threads(2)
        with tracer if record else nullcontext():
            net, losses = program.run(steps)
        torch.set_num_threads(before)
    found = counters["inductor"]
    numbered = enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
    lines = {line.partition("# ")[2]: number for number, line in numbered if "# " in line}
    hits, misses = found["fxgraph_cache_hit"], found["fxgraph_cache_miss"]
    return Ran(program, net, losses, tracer.trace, hits, misses, lines)


def groups(run: Ran, op: str) -> list[CallGroup]:
    """The compiled groups of an op."""
    return [group for group in run.trace.calls if group.region and group.op.startswith(op)]


def line_of(group: CallGroup) -> int:
    """The number in a group's location."""
    return int(group.location.rpartition(":")[2])
