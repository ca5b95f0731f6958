"""Nothing refers to a parameter: torch swaps it, while a step is recorded and after, as it does without."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch import nn

from tracer import DeterminismTracer


@pytest.fixture(autouse=True)
def _swap_on_conversion() -> Iterator[None]:
    torch.__future__.set_swap_module_params_on_conversion(True)
    yield
    torch.__future__.set_swap_module_params_on_conversion(False)


def train(model: nn.Module) -> None:
    dtype = next(model.parameters()).dtype
    for _ in range(2):
        model(torch.ones(2, 3, dtype=dtype)).sum().backward()
    model.zero_grad(set_to_none=True)


class Marked(torch.Tensor):
    """A parameter's data of a class of its own."""


@pytest.mark.parametrize("kind", [torch.Tensor, Marked])
def test_parameters_are_converted_by_swapping_after_and_while_they_are_recorded(kind: type[torch.Tensor]) -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1))
    model[0].weight = nn.Parameter(torch.ones(4, 3).as_subclass(kind))
    with DeterminismTracer(model) as tracer:
        train(model)
        model.double()
        train(model)
        torch.utils.swap_tensors(model[0].bias, nn.Parameter(torch.zeros(4, dtype=torch.float64)))
        train(model)
    assert model[0].weight.dtype is torch.float64
    model.float()
    train(model)
    assert any(call.node == "AccumulateGrad: 0.bias" for call in tracer.trace.calls)
