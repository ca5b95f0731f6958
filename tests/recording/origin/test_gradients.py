"""Whether anything asks for a gradient, and so whether a recording without an optimizer step is an inference."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import pytest
import torch
from torch import nn

from tracer import DeterminismTracer, Trace
from tracer.names import Gradients, Training

X = torch.ones(2, 4)
Y = torch.tensor([0, 1])


def net(*, trains: bool, requires_grad: bool = True) -> nn.Module:
    """A model with dropout."""
    return nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.1), nn.Linear(8, 3)).train(trains).requires_grad_(requires_grad)


class Doubled(torch.autograd.Function):
    """A function of the user's own; autograd numbers its node under ``no_grad`` too."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x * 2

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
        return gradient * 2


class OwnFunction(nn.Module):
    """A module that calls it."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return Doubled.apply(self.linear(x))  # type: ignore[no-any-return]


def recorded(run: Callable[[], object]) -> Trace:
    with DeterminismTracer() as tracer:
        run()
    return tracer.trace


def under(guard: Callable[[], AbstractContextManager[object]], model: nn.Module) -> Callable[[], object]:
    """Evaluates ``model`` twice, with a loss, which is a module in training mode without parameters."""
    criterion = nn.CrossEntropyLoss()

    def run() -> None:
        with guard():
            for _ in range(2):
                criterion(model(X), Y)

    return run


@pytest.mark.parametrize(
    ("guard", "model", "gradients"),
    [
        (torch.no_grad, net(trains=False), Gradients.NONE),
        (torch.no_grad, net(trains=True), Gradients.NONE),
        (torch.inference_mode, net(trains=True), Gradients.NONE),
        (nullcontext, net(trains=False), Gradients.EVALUATING),
        (nullcontext, net(trains=True, requires_grad=False), Gradients.NONE),
        (torch.no_grad, OwnFunction().train(), Gradients.EVALUATING),
    ],
    ids=["no_grad", "no_grad in training mode", "inference_mode", "eval() alone", "frozen", "own function"],
)
def test_an_evaluation_is_an_inference(
    guard: Callable[[], AbstractContextManager[object]], model: nn.Module, gradients: Gradients
) -> None:
    trace = recorded(under(guard, model))
    assert trace.sources[0].gradients is gradients
    assert trace.training is Training.INFERENCE
    assert "backward" not in {call.phase.value for call in trace.calls}


def with_adapter() -> nn.Module:
    """A frozen model in evaluation mode, with one layer that is trained."""
    model = net(trains=False, requires_grad=False)
    model.append(nn.Linear(3, 3).train())  # type: ignore[operator]
    return model


@pytest.mark.parametrize("model", [net(trains=True), with_adapter()], ids=["training mode", "adapter in training mode"])
def test_the_forward_pass_of_a_training_is_none(model: nn.Module) -> None:
    trace = recorded(under(nullcontext, model))
    assert trace.sources[0].gradients is Gradients.ASKED
    assert trace.training is Training.NONE


def test_a_backward_pass_is_none_even_in_evaluation_mode() -> None:
    model = net(trains=False)
    trace = recorded(lambda: model(X).sum().backward())
    assert trace.training is Training.NONE


def test_a_head_of_ones_own_on_a_frozen_model_is_none() -> None:
    weight = torch.ones(3, requires_grad=True)
    model = net(trains=False)

    def run() -> None:
        with torch.no_grad():
            features = model(X)
        (features * weight).sum()

    assert recorded(run).training is Training.NONE


def test_a_formula_without_any_module_that_asks_for_a_gradient_is_none() -> None:
    weight = torch.ones(4, requires_grad=True)
    trace = recorded(lambda: (X * weight).sum())
    assert trace.sources[0].gradients is Gradients.ASKED
    assert trace.training is Training.NONE


def test_an_adapter_that_is_merged_before_a_generation_asks_for_nothing() -> None:
    model, weight = net(trains=False), torch.ones(4, 4, requires_grad=True)

    def run() -> None:
        merged = weight @ weight
        with torch.no_grad():
            model[0].weight[:4] += merged  # type: ignore[index]
            model(X)

    assert recorded(run).training is Training.INFERENCE


def test_an_evaluation_before_a_training_that_never_stepped_is_none() -> None:
    model = net(trains=False)

    def run() -> None:
        with torch.no_grad():
            model(X)
        model.train()(X)

    assert recorded(run).training is Training.NONE


def test_what_fails_may_have_been_about_to_train() -> None:
    tracer = DeterminismTracer()

    def fails() -> None:
        with tracer, torch.no_grad():
            net(trains=False)(X)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fails()
    assert tracer.trace.partial == "ZeroDivisionError"
    assert tracer.trace.training is Training.NONE


def test_a_model_that_fails_is_asked_all_the_same() -> None:
    model = net(trains=True)

    def run() -> None:
        with pytest.raises(RuntimeError):
            model(torch.ones(2, 5))
        with pytest.raises(RuntimeError):
            nn.Sequential(model, nn.Linear(9, 9))(X)

    assert recorded(run).sources[0].gradients is Gradients.ASKED


def test_a_step_makes_a_training_of_it() -> None:
    model = net(trains=False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def run() -> None:
        model(X).sum().backward()
        optimizer.step()

    assert recorded(run).training is Training.RECORDED


def test_a_recording_that_goes_on_remembers() -> None:
    model, tracer = net(trains=True), DeterminismTracer()
    with tracer:
        model(X)
    model(X)
    with tracer, torch.no_grad():
        model(X)
    assert tracer.trace.sources[0].gradients is Gradients.ASKED


def test_a_program_is_asked_in_the_middle() -> None:
    model, tracer = net(trains=False), DeterminismTracer()
    with tracer, torch.no_grad():
        model(X)
        assert tracer.trace.training is Training.INFERENCE
