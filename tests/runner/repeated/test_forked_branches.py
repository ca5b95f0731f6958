"""Branches of ``torch.jit.fork``: their order alone is no divergence; what they write in that order is named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.support.command import process
from tracer import DeterminismTracer
from tracer.names import Phase
from tracer.trace.values import read_values

BRANCHES = """\
import torch

torch.set_num_threads(1)
torch.manual_seed(0)

@torch.jit.script
def branch(x, weight, shared, k: float):
    for _ in range(8):
        x = torch.tanh(x @ weight)
    SHARES
    return x

@torch.jit.script
def forward(x, a, b, c, shared):
    futures = [torch.jit.fork(branch, x, a, shared, 1.0), torch.jit.fork(branch, x, b, shared, 10.0)]
    futures.append(torch.jit.fork(branch, x, c, shared, 100.0))
    return torch.jit.wait(futures[0]) + torch.jit.wait(futures[1]) + torch.jit.wait(futures[2])

weights = [torch.randn(16, 16).div_(6).requires_grad_() for _ in range(3)]
optimizer = torch.optim.SGD(weights, lr=0.1)
x, shared = torch.randn(32, 16), torch.zeros(1)
for step in range(12):
    optimizer.zero_grad()
    out = forward(x, weights[0], weights[1], weights[2], shared)
    (out + shared).square().mean().backward()
    optimizer.step()
"""
SHARES = "shared.mul_(0.5).add_(x.detach().mean() * k)"


class Forks(torch.nn.Module):
    """A module that is scripted, whose layer runs in a branch."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    def branch(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sigmoid(self.linear(x))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = torch.jit.wait(torch.jit.fork(self.branch, x))
        return result


def test_calls_of_branches_bear_the_line_that_started_them(tmp_path: Path) -> None:
    model: Any = torch.jit.script(Forks())
    with DeterminismTracer(model, values=tmp_path / "run.values") as recorder:
        model(torch.ones(2, 4)).sum().backward()
    (call,) = (call for call in recorder.trace.calls if call.op == "aten.sigmoid.default")
    assert (call.called_from or call.location).partition(":")[0].endswith("test_forked_branches.py")
    assert call.phase is Phase.FORWARD
    forked = {group.op for group in read_values(tmp_path / "run.values").groups if group.is_forked}
    assert "aten.sigmoid.default" in forked
    assert "aten.sum.default" not in forked


@pytest.mark.slow
def test_branches_in_another_order_agree(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(BRANCHES.replace("SHARES", "pass"))
    done = process("repeat", "--no-hold", "train.py", cwd=tmp_path, module=True)
    assert done.code == 0, done.out


@pytest.mark.slow
def test_what_branches_write_in_the_order_in_which_they_come_is_told_as_such(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(BRANCHES.replace("SHARES", SHARES))
    done = process("repeat", "--no-hold", "--format", "text,json", "train.py", cwd=tmp_path, module=True)
    document = json.loads((tmp_path / "repeat" / "repeat.json").read_text())
    if document["agrees"]:
        pytest.skip("the branches came in one order in both runs")
    assert (document["first"]["cause"], document["first"]["location"]) == ("thread-order", "train.py:24"), done.out
