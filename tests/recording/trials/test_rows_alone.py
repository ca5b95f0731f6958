"""Calls made again on a part of their rows: what depends on other rows is found at its line, and no bit moves."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import pytest
import torch
from torch import nn

from tests.support.lines import line_of
from tracer import DeterminismTracer
from tracer.names import Phase, RowOutcome
from tracer.trace.records import RowTrial

FACTOR = 1.0000002  # one unit in the last place of a float32


def unlike(rows: int) -> float:
    """A kernel that takes another way for many rows."""
    return FACTOR if rows > 2 else 1.0


@pytest.fixture(scope="module", autouse=True)
def planted() -> Iterator[None]:
    """Pointwise ops whose rounding depends on the number of rows, forward and backward, and one that varies anyway."""
    made = count()
    library = torch.library.Library("planted_rows", "DEF")
    library.define("scaled(Tensor x) -> Tensor", tags=torch.Tag.pointwise)
    library.define("scaled_(Tensor(a!) x) -> Tensor(a!)", tags=torch.Tag.pointwise)
    library.define("racing(Tensor x) -> Tensor", tags=torch.Tag.pointwise)
    library.impl("racing", lambda x: x * unlike(next(made) % 2 * 3), "CPU")
    library.impl("scaled", lambda x: x * unlike(len(x)), "CPU")
    library.impl("scaled_", lambda x: x.copy_(x * unlike(len(x))), "CPU")
    for name in ("scaled", "scaled_", "racing"):
        library.impl(name, torch.library.fallthrough_kernel, "Autograd")
    yield
    library._destroy()


class Backwards(torch.autograd.Function):
    @staticmethod
    def forward(ctx: object, x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: object, *grads: torch.Tensor) -> torch.Tensor:
        return torch.ops.planted_rows.scaled(grads[0])  # type: ignore[no-any-return]


class Calls(nn.Module):
    """Calls what it is given."""

    def __init__(self, function: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(x)


def trials(model: Callable[..., torch.Tensor], *inputs: torch.Tensor, rows: bool | int = True) -> list[RowTrial]:
    with DeterminismTracer(rows=rows) as tracer:
        loss = model(*inputs).square().mean()
        if loss.requires_grad:
            loss.backward()
    return list(tracer.trace.rows)


def told(found: list[RowTrial], outcome: RowOutcome) -> set[str]:
    return {trial.op.split(".")[1] for trial in found if trial.outcome is outcome}


def test_a_kernel_that_varies_from_the_same_rows_is_not_said_to_depend_on_the_others() -> None:
    found = trials(Calls(lambda x: torch.ops.planted_rows.racing(x)), torch.randn(8, 6))
    assert told(found, RowOutcome.ROUNDING) == set()
    assert told(found, RowOutcome.UNTRIED) == {"racing"}


def in_place(x: torch.Tensor) -> torch.Tensor:
    return torch.ops.planted_rows.scaled_(x * 2)  # type: ignore[no-any-return]


def out_of_place(x: torch.Tensor) -> torch.Tensor:
    return torch.ops.planted_rows.scaled(x)  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("function", "line", "phase"),
    [
        (out_of_place, line_of(out_of_place, "scaled"), Phase.FORWARD),
        (in_place, line_of(in_place, "scaled_"), Phase.FORWARD),
        (Backwards.apply, line_of(Backwards.backward, "scaled"), Phase.BACKWARD),
    ],
)
def test_a_module_that_depends_on_its_batch_is_found_at_its_line(function: Any, line: int, phase: Phase) -> None:
    around = nn.Sequential(nn.LayerNorm(6), Calls(function), nn.Tanh())
    found = [one for one in trials(around, torch.randn(8, 5, 6)) if one.op.startswith("planted_rows")]
    (dependent,) = (one for one in found if one.outcome is RowOutcome.ROUNDING)
    assert (dependent.phase, dependent.module, dependent.part, dependent.of) == (phase, "Sequential.1", 1, 8)
    assert dependent.location.endswith(f":{line}")
    assert 0 < dependent.relative < 1e-6


def test_rows_that_are_made_together_are_told_by_their_line_and_not_called_dependent() -> None:
    together = nn.Sequential(nn.BatchNorm1d(8), Calls(lambda x: torch.relu(x - x.mean(0))))
    found = trials(together, torch.randn(8, 8))
    assert not told(found, RowOutcome.ROUNDING)
    mixed = [one for one in found if one.outcome is RowOutcome.MIXED and "backward" not in one.op]
    assert {"native_batch_norm", "mean"} <= {one.op.split(".")[1] for one in mixed if one.location}
    assert "relu" in told(found, RowOutcome.EQUAL)  # the rows behind them are followed


def test_a_weights_gradient_of_the_batchs_size_is_no_batch() -> None:
    """Eight samples of eight features: by size, ``mm`` of the transposed gradient is one too."""
    found = trials(nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8)), torch.randn(8, 8))
    products = [one for one in found if one.op == "aten.mm.default"]
    tried = sum(one.count for one in products if one.outcome in (RowOutcome.EQUAL, RowOutcome.ROUNDING))
    assert (tried, sum(one.count for one in products)) == (1, 3)


def test_samples_along_the_second_dimension_are_followed_where_their_number_is_said() -> None:
    layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0)
    found = trials(nn.Sequential(layer, nn.Linear(16, 3)), torch.randn(5, 4, 16), rows=4)
    assert {"native_layer_norm", "bmm"} & told(found, RowOutcome.EQUAL) or "addmm" in told(found, RowOutcome.EQUAL)
    assert not [one for one in found if one.outcome is RowOutcome.ROUNDING and one.of % 4]
    assert sum(one.count for one in found if one.outcome is RowOutcome.EQUAL) > 20


def test_of_a_batch_of_one_or_of_no_module_nothing_is_said() -> None:
    for program in (lambda: nn.Linear(3, 2)(torch.ones(1, 3)), lambda: torch.ones(4, 3) @ torch.ones(3, 2)):
        with DeterminismTracer(rows=True) as tracer:
            program()
        assert [(one.op, one.count) for one in tracer.trace.rows] == [("", 0)]
        assert "no module was handed a batch of two samples or more" in " ".join(tracer.report().to_text().split())
