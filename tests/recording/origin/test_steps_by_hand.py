"""A training without an optimizer of torch's has as many steps as backward passes."""

from __future__ import annotations

import gc
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn

from tests.support.command import tracer_process
from tracer import DeterminismTracer, Trace
from tracer.names import Training
from tracer.recording.origin import optimizers

X, Y = torch.randn(8, 4), torch.randn(8, 1)


@pytest.fixture
def no_optimizer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other tests of this process have optimizers."""
    monkeypatch.setattr(optimizers._HasOptimizer, "__call__", lambda self: False)


def through_data(model: nn.Module) -> None:
    (model(X) - Y).pow(2).mean().backward()
    for parameter in model.parameters():
        assert parameter.grad is not None
        parameter.data -= 0.1 * parameter.grad
        parameter.grad = None


def under_no_grad(model: nn.Module) -> None:
    torch.autograd.backward((model(X) - Y).pow(2).mean())
    with torch.no_grad():
        for parameter in model.parameters():
            assert parameter.grad is not None
            parameter -= 0.1 * parameter.grad
            parameter.grad.zero_()


def with_gradients_asked_for(model: nn.Module) -> None:
    parameters = list(model.parameters())
    gradients = torch.autograd.grad((model(X) - Y).pow(2).mean(), parameters)
    with torch.no_grad():
        for parameter, gradient in zip(parameters, gradients, strict=True):
            parameter.sub_(gradient, alpha=0.1)


def functionally(model: nn.Module) -> None:
    parameters = dict(model.named_parameters())

    def loss(values: dict[str, torch.Tensor]) -> torch.Tensor:
        return (torch.func.functional_call(model, values, (X,)) - Y).pow(2).mean()

    gradients = torch.func.grad(loss)(parameters)
    with torch.no_grad():
        for name, parameter in parameters.items():
            parameter -= 0.1 * gradients[name]


def with_a_penalty(model: nn.Module) -> None:
    """The gradient of a gradient is one step."""
    inputs = X.clone().requires_grad_()
    (slope,) = torch.autograd.grad(model(inputs).sum(), inputs, create_graph=True)
    ((model(X) - Y).pow(2).mean() + slope.pow(2).mean()).backward()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.grad is not None:
                parameter -= 0.1 * parameter.grad


def trained(step: Callable[[nn.Module], None], model: nn.Module, ended: list[int] | None = None) -> Trace:
    with DeterminismTracer(on_step=(ended if ended is not None else []).append) as tracer:
        for _ in range(3):
            step(model)
    return tracer.trace


@pytest.mark.usefixtures("no_optimizer")
@pytest.mark.parametrize("step", [through_data, under_no_grad, with_gradients_asked_for, functionally, with_a_penalty])
def test_each_backward_pass_is_a_step_where_no_optimizer_is(step: Callable[[nn.Module], None]) -> None:
    ended: list[int] = []
    trace = trained(step, nn.Linear(4, 1), ended)
    (source,) = trace.sources
    assert (source.optimizer_steps, source.steps_by_hand, source.steps) == (0, 3, 3)
    assert trace.training is Training.RECORDED
    assert ended == [1, 2, 3]


@pytest.mark.usefixtures("no_optimizer")
def test_a_gradient_of_an_evaluation_is_no_training() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 1)).eval()

    def saliency(model: nn.Module) -> None:
        inputs = X.clone().requires_grad_()
        model(inputs).sum().backward()

    trace = trained(saliency, model)
    assert trace.sources[0].steps == 0
    assert trace.training is Training.NONE


def test_passes_that_an_optimizer_accumulates_are_no_steps() -> None:
    """An optimizer that has not stepped yet is one; who it belongs to is not asked."""
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)

    def accumulates(model: nn.Module) -> None:
        (model(X) - Y).pow(2).mean().backward()

    trace = trained(accumulates, model)
    optimizer.zero_grad()
    assert trace.sources[0].steps == 0
    assert trace.training is Training.NONE


def test_an_optimizer_that_is_gone_is_none() -> None:
    has_optimizer = optimizers._HasOptimizer()
    optimizer: torch.optim.Optimizer | None = torch.optim.SGD([nn.Parameter(torch.ones(1))], 0.1)
    assert has_optimizer()
    del optimizer
    gc.collect()
    if any(issubclass(type(each), torch.optim.Optimizer) for each in gc.get_objects()):
        pytest.skip("other tests of this process have optimizers")
    assert not has_optimizer()


SCRIPT = """
import torch
model = torch.nn.Linear(4, 1)
for _ in range(5):
    model(torch.ones(2, 4)).pow(2).mean().backward()
    for parameter in model.parameters():
        parameter.data -= 0.1 * parameter.grad
        parameter.grad = None
"""


def test_the_steps_of_a_script_that_updates_by_hand_are_recorded_as_asked(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    done = tracer_process("run", "-o", "t.json", "--steps", "1:3", "train.py", cwd=tmp_path)
    assert done.code == 0, done.err
    trace = Trace.load(tmp_path / "t.json")
    (source,) = trace.sources
    assert (source.steps_by_hand, source.partial) == (2, "")
    calls = {call.op: call.count for call in trace.calls}
    assert calls["aten.addmm.default"] == 2
    assert "2 steps;" in done.err


def test_an_optimizer_that_replaces_another_has_the_steps() -> None:
    """A phase's optimizer is gone as the next one's is made, and both are of one class."""
    model = nn.Linear(4, 1)
    with DeterminismTracer() as tracer:
        for _ in range(3):
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for _ in range(2):
                (model(X) - Y).pow(2).mean().backward()
                optimizer.step()
            del optimizer
            gc.collect()
    (source,) = tracer.trace.sources
    assert (source.optimizer_steps, source.steps_by_hand, tracer.optimizer_steps) == (6, 0, 6)
