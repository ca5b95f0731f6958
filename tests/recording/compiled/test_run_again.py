"""A compiled training whose regions run again: every bit of it is what it was."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.support.bits import bits, random_state
from tracer import DeterminismTracer, Trials


def bits_of(*tensors: torch.Tensor | None) -> list[Any]:
    return [None if one is None else bits(one) for one in tensors]


@pytest.mark.slow
def test_a_compiled_training_does_not_feel_that_its_regions_run_again(inductor: None) -> None:
    """Dropout, running statistics that the region writes, a buffer written in place, shared memory, an optimizer."""
    from torch import nn

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.norm, self.last = nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Linear(8, 3)
            self.register_buffer("seen", torch.zeros(3))

        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            hidden = nn.functional.dropout(self.norm(self.first(x)).relu(), 0.3)
            rows = hidden.index_select(0, torch.tensor([0, 0, 1, 2])) + y
            found = self.last(rows)
            self.seen.add_(found.detach().sum(0))
            return found.pow(2).mean()

    def training() -> list[Any]:
        torch._dynamo.reset()
        torch.manual_seed(0)
        net = Net()
        optimizer = torch.optim.AdamW(net.parameters(), lr=0.1)
        compiled = torch.compile(net)
        data = torch.randn(5, 8)
        found: list[Any] = []
        for _ in range(3):
            optimizer.zero_grad()
            loss = compiled(data[:4], data[1:])
            loss.backward()
            optimizer.step()
            found += [loss.item(), *bits_of(*(one.grad for one in net.parameters()))]
        return [*found, *bits_of(*net.state_dict().values()), random_state()]

    plain = training()
    with DeterminismTracer(trials=Trials(3, all=True)) as tracer:
        recorded = training()
    assert recorded == plain
    regions = [region for region in tracer.trace.regions if region.executions]
    assert {region.direction for region in regions} == {"forward", "backward"}
    for region in regions:
        assert region.tried is not None
        assert (region.tried.trials, region.tried.varied) == (9, 0), region.id
