"""``tracer.compare``: the runs that it makes until two steps are judged."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import tracer
from tracer.divergence.magnitudes import CompareVerdict
from tracer.errors import UsageError
from tracer.names import PlaceKind

Step = Callable[[], None]


def net(dtype: torch.dtype = torch.float32, depth: int = 2) -> Any:
    torch.manual_seed(0)
    layers = [torch.nn.Sequential(torch.nn.Linear(32, 32), torch.nn.GELU()) for _ in range(depth)]
    return torch.nn.Sequential(*layers, torch.nn.Linear(32, 4)).to(dtype)


def scaled(model: Any, path: str, factor: float) -> Any:
    model.get_submodule(path).register_forward_hook(lambda module, inputs, out: out * factor)
    return model


def step(model: Any, parts: int = 1) -> Step:
    numbers = torch.Generator().manual_seed(1)
    x, y = torch.randn(16, 32, generator=numbers), torch.randint(0, 4, (16,), generator=numbers)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def run() -> None:
        for part, labels in zip(x.to(next(model.parameters()).dtype).chunk(parts), y.chunk(parts), strict=True):
            (torch.nn.functional.cross_entropy(model(part).float(), labels) / parts).backward()
        optimizer.step()
        optimizer.zero_grad()

    return run


def test_steps_that_agree_are_equal_without_a_shaken_run() -> None:
    comparison = tracer.compare(step(net()), step(net()))
    assert (comparison.verdict, comparison.yardstick.runs) == (CompareVerdict.EQUAL, 0)


@pytest.mark.parametrize(
    ("parts", "of_second"),
    [pytest.param(1, 4, marks=pytest.mark.slow), pytest.param(4, 1, marks=pytest.mark.slow), (2, 4)],
)
def test_batches_that_are_split_otherwise_are_compared_as_rows(parts: int, of_second: int) -> None:
    comparison = tracer.compare(step(net(), parts), step(net(), of_second), yardstick_runs=1)
    assert comparison.verdict is CompareVerdict.ROUNDING
    assert comparison.row_steps == (0,)
    faulty = tracer.compare(step(net(), parts), step(scaled(net(), "1.1", 1.01), of_second), yardstick_runs=1)
    assert faulty.first is not None
    assert (faulty.first.module, faulty.first.kind) == ("Sequential.1.1", PlaceKind.OUTPUT)
    assert faulty.call is None


def test_what_rounding_hides_is_judged_by_runs_shaken_inside_its_module_alone() -> None:
    second = scaled(net(torch.bfloat16, depth=6), "5.1", 1.06)
    comparison = tracer.compare(step(net(torch.bfloat16, depth=6)), step(second))
    assert comparison.first is not None
    assert (comparison.first.module, comparison.first.is_alone) == ("Sequential.5.1", True)
    assert comparison.yardstick.inside == "Sequential.5.1"
    assert (comparison.yardstick.runs, comparison.yardstick.of_second) == (9, 3)


def test_a_yardstick_of_no_runs_is_refused() -> None:
    with pytest.raises(UsageError, match="without a shaken call"):
        tracer.compare(step(net()), step(net()), yardstick_runs=0)
