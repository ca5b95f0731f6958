"""A small program in a file of its own, compiled and run: with the recorder, without it, and with its lines moved."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch._dynamo.utils import counters

from tracer.recording.options import RecordOptions
from tracer.session import Session
from tracer.trace import Trace
from tracer.trace.records import CallGroup

PROGRAM = """
import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.table = torch.nn.Embedding(64, 16)
        self.rest = torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.ReLU())
        for parameter in self.parameters():  # whole numbers: their sums are exact in every order
            parameter.data = torch.randint(-2, 3, parameter.shape).float()

    def forward(self, rows, targets):
        found = self.table(rows)  # looks up
        found = self.rest(found)  # multiplies
        summed = torch.zeros(8, 16).index_add(0, targets, found)  # adds
        return summed.sum()


def run(steps, size=512):
    torch.manual_seed(0)
    net = Net()
    compiled = torch.compile(net, fullgraph=True)
    rows, targets = torch.randint(0, 64, (size,)), torch.randint(0, 8, (size,))
    losses = []
    for _ in range(steps):
        loss = compiled(rows, targets)
        loss.backward()
        losses.append(loss.detach())
    return net, losses
"""


class Ran(NamedTuple):
    """One run of the program."""

    net: Any
    losses: list[torch.Tensor]
    trace: Trace | None
    hits: int
    misses: int
    lines: dict[str, int]
    """Line of each comment's text."""


def ran(
    folder: Path,
    *,
    steps: int = 3,
    record: bool,
    moved_by: int = 0,
    text: str = PROGRAM,
    values: Path | None = None,
) -> Ran:
    """Compile the program anew, as a new process would, and run it."""
    torch._dynamo.reset()
    counters.clear()
    path = folder / "program_of_test.py"
    path.write_text("#\n" * moved_by + text, encoding="utf-8")
    spec = importlib.util.spec_from_file_location("program_of_test", path)
    assert spec is not None
    assert spec.loader is not None
    program = importlib.util.module_from_spec(spec)
    sys.modules["program_of_test"] = program
    sys.dont_write_bytecode, before = True, sys.dont_write_bytecode
    try:
        spec.loader.exec_module(program)
    finally:
        sys.dont_write_bytecode = before
    options = RecordOptions(values=str(values) if values else False)
    session = Session(options=options) if record else None
    if session is None:
        net, losses = program.run(steps)
    else:
        session.enter()
        try:
            net, losses = program.run(steps)
        finally:
            session.leave()
    found = counters["inductor"]
    numbered = enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
    return Ran(
        net,
        losses,
        session.trace if session is not None else None,
        found["fxgraph_cache_hit"],
        found["fxgraph_cache_miss"],
        {line.partition("# ")[2]: number for number, line in numbered if "# " in line},
    )


def groups(run: Ran, op: str) -> list[CallGroup]:
    """The compiled groups of an op."""
    assert run.trace is not None
    return [group for group in run.trace.calls if group.region and group.op.startswith(op)]


def line_of(group: CallGroup) -> int:
    """The number in a group's location."""
    return int(group.location.rpartition(":")[2])
