"""Calls of a graph that runs as a program have the module paths of eager ones, forward and backward."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from tracer import DeterminismTracer

#: What AOTAutograd adds, or gives another form.
_REARRANGED = {"detach", "view", "_unsafe_view", "t", "empty_strided", "copy_", "expand", "transpose", "permute"}


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear, self.norm = nn.Linear(8, 8), nn.LayerNorm(8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(torch.relu(self.linear(x)))


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table, self.head = nn.Embedding(10, 8), nn.Linear(8, 3)
        self.blocks = nn.ModuleList([Block(), Block()])

    def forward(self, index: torch.Tensor) -> torch.Tensor:
        x = self.table(index)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


Program = Callable[[Net, Callable[[Any], Any]], Any]
PROGRAMS: dict[str, Program] = {
    "the model": lambda net, compiled: compiled(net),
    "a function that calls it": lambda net, compiled: compiled(lambda index: net(index)),
}


def paths(program: Program, backend: str | None, *, is_known: bool) -> set[tuple[str, str, str]]:
    torch.manual_seed(0)
    torch._dynamo.reset()
    net = Net()
    run = program(net, lambda called: called if backend is None else torch.compile(called, backend=backend))
    with DeterminismTracer(net if is_known else None) as tracer:
        run(torch.tensor([[1, 2], [3, 1]])).sum().backward()
    named = ((group.phase.value, group.op.split(".")[1], group.module) for group in tracer.trace.calls)
    return {call for call in named if call[1] not in _REARRANGED}


@pytest.mark.parametrize("is_known", [True, False], ids=["a model given", "none given"])
@pytest.mark.parametrize("backend", ["aot_eager", "eager"])
@pytest.mark.parametrize("what", PROGRAMS)
def test_paths_of_a_graph_that_runs_as_a_program_are_those_of_eager_calls(
    what: str, backend: str, is_known: bool
) -> None:
    eager = paths(PROGRAMS[what], None, is_known=is_known)
    assert ("backward", "native_layer_norm_backward", f"{'' if is_known else 'Net.'}blocks.1.norm") in eager
    assert paths(PROGRAMS[what], backend, is_known=is_known) == eager


@pytest.mark.parametrize("backend", ["aot_eager", "eager"])
def test_a_submodule_that_is_compiled_alone_keeps_the_path_that_leads_to_it(backend: str) -> None:
    torch._dynamo.reset()
    net = Net()
    net.blocks[1].compile(backend=backend)
    with DeterminismTracer(net) as tracer:
        net(torch.tensor([[1, 2]])).sum().backward()
    norms = {(group.phase.value, group.module) for group in tracer.trace.calls if "native_layer_norm" in group.op}
    assert norms == {(phase, f"blocks.{n}.norm") for phase in ("forward", "backward") for n in (0, 1)}
