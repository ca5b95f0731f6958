"""``tracer.compare``: the runs that it makes until two steps are judged."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import tracer
from tests.support.configurations import Step, begins, line_in
from tracer.divergence.magnitudes import CompareVerdict
from tracer.errors import UsageError
from tracer.report.sections.configurations import headline


def net(dtype: torch.dtype = torch.float32, depth: int = 2) -> Any:
    torch.manual_seed(0)
    layers = [torch.nn.Sequential(torch.nn.Linear(32, 32), torch.nn.GELU()) for _ in range(depth)]
    return torch.nn.Sequential(*layers, torch.nn.Linear(32, 4)).to(dtype)


def scaled(model: Any, path: str, factor: float) -> Any:
    model.get_submodule(path).register_forward_hook(lambda module, inputs, out: out * factor)
    return model


def step(model: Any) -> Step:
    numbers = torch.Generator().manual_seed(1)
    x, y = torch.randn(16, 32, generator=numbers), torch.randint(0, 4, (16,), generator=numbers)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def run() -> None:
        torch.nn.functional.cross_entropy(model(x.to(next(model.parameters()).dtype)).float(), y).backward()
        optimizer.step()
        optimizer.zero_grad()

    return run


def test_steps_that_agree_are_equal_without_a_shaken_run() -> None:
    comparison = tracer.compare(step(net()), step(net()))
    assert (comparison.verdict, comparison.yardstick.runs) == (CompareVerdict.EQUAL, 0)


def test_what_rounding_hides_is_judged_by_runs_shaken_inside_its_module_alone() -> None:
    second = scaled(net(torch.bfloat16, depth=6), "5.1", 1.06)
    comparison = tracer.compare(step(net(torch.bfloat16, depth=6)), step(second))
    assert (begins(comparison).module, begins(comparison).is_alone) == ("Sequential.5.1", True)
    assert comparison.yardstick.inside == "Sequential.5.1"
    assert headline(comparison).endswith("all before it agrees bit for bit")
    assert (comparison.yardstick.runs, comparison.yardstick.of_second) == (9, 3)


def test_a_yardstick_of_no_runs_is_refused() -> None:
    with pytest.raises(UsageError, match="without a shaken call"):
        tracer.compare(step(net()), step(net()), yardstick_runs=0)


class Attention(torch.nn.Module):
    """Scales its scores; ``scale`` may be a fault."""

    def __init__(self, scale: float) -> None:
        super().__init__()
        self.qkv, self.out, self.scale = torch.nn.Linear(32, 96), torch.nn.Linear(32, 32), scale

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(x).chunk(3, -1)
        probabilities = (q @ k.transpose(-1, -2) * self.scale).softmax(-1)
        mixed: torch.Tensor = self.out(probabilities @ v)
        return mixed


class Residual(torch.nn.Module):
    def __init__(self, scale: float) -> None:
        super().__init__()
        self.attention, self.mlp = Attention(scale), torch.nn.Linear(32, 32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(x)
        out: torch.Tensor = x + self.mlp(x)
        return out


def trained(scale: float, factor: float = 1.0, *, has_loss_module: bool = False) -> Step:
    torch.manual_seed(0)
    model = torch.nn.Sequential(Residual(scale), torch.nn.Linear(32, 4))
    x, y = torch.randn(8, 32), torch.randint(0, 4, (8,))

    def run() -> None:
        loss = torch.nn.CrossEntropyLoss() if has_loss_module else torch.nn.functional.cross_entropy
        loss(model(x) * factor, y).backward()

    return run


def test_a_fault_in_a_modules_own_code_is_named_at_its_line_and_the_loss_is_no_second_beginning() -> None:
    comparison = tracer.compare(trained(0.2, has_loss_module=True), trained(0.25, has_loss_module=True))
    assert begins(comparison).module == "Sequential.0.attention"
    assert begins(comparison).location.endswith(line_in(__file__, "q @ k.transpose"))
    assert comparison.significant == (comparison.first,)
    assert comparison.call is not None
    assert comparison.call.op == "aten.mul.Tensor"


@pytest.mark.parametrize("has_loss_module", [False, True])
def test_code_between_the_model_and_the_loss_is_the_programs_own(has_loss_module: bool) -> None:
    comparison = tracer.compare(
        trained(0.2, has_loss_module=has_loss_module), trained(0.2, 1.01, has_loss_module=has_loss_module)
    )
    assert (begins(comparison).module, begins(comparison).is_own_code) == ("", True)
    assert begins(comparison).location.endswith(line_in(__file__, "loss(model(x) * factor"))
    assert not comparison.is_given
