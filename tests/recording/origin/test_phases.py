"""Phases: what the optimizer, the engine and a recomputation call their own, and steps of a training by hand."""

from __future__ import annotations

import functools
import gc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from tests.support.command import Command
from tests.support.lines import groups, line_of, lines, one, record
from tracer import DeterminismTracer, Trace
from tracer.names import Phase, Training
from tracer.recording.origin import optimizers


def test_the_five_phases_of_a_step() -> None:
    net = nn.Sequential(nn.Linear(2, 2), nn.Tanh())
    optimizer = torch.optim.Adam(net.parameters())

    def step() -> None:
        batch = torch.ones(3, 2).abs()
        checkpoint(net, batch, use_reentrant=False).square().mean().backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()

    tracer = record(step, net)
    phases = {op: {group.phase for group in groups(tracer, f"aten.{op}")} for op in PHASES_OF_A_STEP}
    assert phases == PHASES_OF_A_STEP
    assert tracer.trace.sources[0].optimizer_steps == 1


@pytest.mark.parametrize("foreach", [False, True])
def test_an_optimizer_of_torch_is_at_the_line_that_stepped(foreach: bool) -> None:
    weight = nn.Parameter(torch.ones(3))
    optimizer = torch.optim.SGD([weight], lr=0.1, momentum=0.9, foreach=foreach)

    def step() -> None:
        weight.grad = torch.ones(3)
        optimizer.step()  # here
        optimizer.zero_grad(set_to_none=False)

    tracer = DeterminismTracer()
    with tracer:
        step()
        step()
    found = [group for group in tracer.trace.calls if group.phase is Phase.OPTIMIZER]
    assert lines(found) == {line_of(step, "# here")}
    assert not groups(tracer, "aten.zero_", phase=Phase.OPTIMIZER)
    assert not groups(tracer, "aten._foreach_zero_", phase=Phase.OPTIMIZER)


PHASES_OF_A_STEP = {
    "abs": {Phase.OTHER},
    "tanh": {Phase.FORWARD, Phase.RECOMPUTE},
    "mean": {Phase.FORWARD},
    "tanh_backward": {Phase.BACKWARD},
    "addcmul_": {Phase.OPTIMIZER},
    "_foreach_norm": {Phase.OTHER},
}


class Own(torch.optim.Optimizer):
    def __init__(self, params: list[nn.Parameter]) -> None:
        super().__init__(params, {})

    @torch.no_grad()
    def step(self, closure: object = None) -> None:
        for group in self.param_groups:
            for parameter in group["params"]:
                parameter.add_(parameter.grad, alpha=-0.1)  # the update
        raise ArithmeticError("planted")


def test_an_optimizer_of_the_users_names_its_own_line_and_claims_nothing_after_it_raised() -> None:
    weight = nn.Parameter(torch.ones(3))

    def step() -> None:
        weight.grad = torch.ones(3)
        with pytest.raises(ArithmeticError):
            Own([weight]).step()
        torch.ones(2).sin()

    tracer = record(step)
    group = one(tracer, "aten.add_")
    assert (group.phase, lines([group])) == (Phase.OPTIMIZER, {line_of(Own.step, "# the update")})
    assert one(tracer, "aten.sin").phase is Phase.OTHER


@pytest.mark.parametrize("reentrant", [True, False])
def test_what_is_checkpointed_is_recomputed_at_its_own_line(reentrant: bool) -> None:
    net = nn.Sequential(nn.Linear(2, 2), nn.Tanh())

    def body(x: torch.Tensor) -> torch.Tensor:
        return net(x).exp().sin()  # the body

    def step() -> None:
        x = torch.ones(2, requires_grad=True)
        checkpoint(body, x, use_reentrant=reentrant).sum().backward()

    tracer = record(step, net)
    for op, module in (("tanh", "1"), ("exp", "")):
        made = groups(tracer, f"aten.{op}")
        assert [group.phase is Phase.RECOMPUTE for group in made] == [False, True]
        assert ({group.module for group in made}, lines(made)) == ({module}, {line_of(body, "# the body")})
    cosine = one(tracer, "aten.cos")
    assert (cosine.phase, cosine.node) == (Phase.BACKWARD, "SinBackward0")
    assert one(tracer, "aten.tanh_backward").module == "1"
    assert lines([cosine, one(tracer, "aten.tanh_backward")]) == {line_of(body, "# the body")}


class Closure:
    """An object that is called, as some trainers hand to ``step``."""

    def __init__(self, function: Callable[[], torch.Tensor]) -> None:
        self._function = function

    def __call__(self) -> torch.Tensor:
        return self._function()


@pytest.mark.parametrize("wrapped", [lambda it: it, functools.partial, Closure, lambda it: Closure(it).__call__])
def test_a_closure_runs_forward_and_backward_inside_the_step(wrapped: Callable[[Any], Any]) -> None:
    weight = nn.Parameter(torch.ones(3))
    optimizer = torch.optim.LBFGS([weight], max_iter=2)

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = (weight.sin() ** 2).sum()
        loss.backward()
        return loss

    tracer = record(lambda: optimizer.step(wrapped(closure)))
    assert one(tracer, "aten.sin").phase is Phase.FORWARD
    assert {group.phase for group in groups(tracer, "aten.cos")} == {Phase.BACKWARD}
    assert groups(tracer, "aten.dot", phase=Phase.OPTIMIZER)


def test_an_optimizer_in_a_gradient_hook_is_an_optimizer() -> None:
    weight = nn.Parameter(torch.ones(3))
    optimizer = torch.optim.SGD([weight], lr=0.1)
    weight.register_post_accumulate_grad_hook(lambda _: optimizer.step())
    tracer = record(lambda: weight.sin().sum().backward())
    assert one(tracer, "aten.add_").phase is Phase.OPTIMIZER


def test_gradient_accumulation_names_the_parameter_and_the_line_that_called_backward() -> None:
    net = nn.Sequential(nn.Linear(2, 2))

    def step() -> None:
        for _ in range(2):
            loss = net(torch.ones(1, 2)).sum()
            loss.backward()  # backward

    tracer = record(step, net)
    found = [group for group in groups(tracer, "aten.add_") if group.node.startswith("AccumulateGrad")]
    assert {group.node for group in found} == {"AccumulateGrad: 0.weight", "AccumulateGrad: 0.bias"}
    assert {group.module for group in found} == {"0"}
    assert lines(found) == {line_of(step, "# backward")}


X, Y = torch.randn(8, 4), torch.randn(8, 1)


@pytest.fixture
def no_optimizer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other tests of this process have optimizers."""
    monkeypatch.setattr(optimizers._HasOptimizer, "__call__", lambda self: False)


def through_data(model: nn.Module) -> None:
    (model(X) - Y).pow(2).mean().backward()
    for parameter in model.parameters():
        parameter.data -= 0.1 * parameter.grad  # type: ignore[operator]
        parameter.grad = None


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
        for parameter in filter(lambda one: one.grad is not None, model.parameters()):
            parameter -= 0.1 * parameter.grad  # type: ignore[operator]


def trained(step: Callable[[nn.Module], None], model: nn.Module, ended: list[int] | None = None) -> Trace:
    with DeterminismTracer(on_step=([] if ended is None else ended).append) as tracer:
        for _ in range(3):
            step(model)
    return tracer.trace


@pytest.mark.usefixtures("no_optimizer")
@pytest.mark.parametrize("step", [through_data, with_gradients_asked_for, functionally, with_a_penalty])
def test_each_backward_pass_is_a_step_where_no_optimizer_is(step: Callable[[nn.Module], None]) -> None:
    ended: list[int] = []
    trace = trained(step, nn.Linear(4, 1), ended)
    (source,) = trace.sources
    assert (source.optimizer_steps, source.steps_by_hand, source.steps) == (0, 3, 3)
    assert trace.training is Training.RECORDED
    assert ended == [1, 2, 3]


@pytest.mark.usefixtures("no_optimizer")
def test_a_gradient_of_an_evaluation_is_no_training() -> None:
    inputs = X.clone().requires_grad_()
    trace = trained(lambda model: model(inputs).sum().backward(), nn.Sequential(nn.Linear(4, 1)).eval())
    assert (trace.sources[0].steps, trace.training) == (0, Training.NONE)


def test_passes_that_an_optimizer_accumulates_are_no_steps() -> None:
    """An optimizer that has not stepped yet is one; who it belongs to is not asked."""
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    trace = trained(lambda model: (model(X) - Y).pow(2).mean().backward(), model)
    optimizer.zero_grad()
    assert (trace.sources[0].steps, trace.training) == (0, Training.NONE)


SCRIPT = """
import torch
model = torch.nn.Linear(4, 1)
for _ in range(5):
    model(torch.ones(2, 4)).pow(2).mean().backward()
    for parameter in model.parameters():
        parameter.data -= 0.1 * parameter.grad
        parameter.grad = None
"""


def test_the_steps_of_a_script_that_updates_by_hand_are_recorded_as_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], no_optimizer: None
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text(SCRIPT)
    done = Command(capsys, monkeypatch)("run", "-o", "t.json", "--steps", "1:3", "train.py")
    assert done.code == 0, done.err
    trace = Trace.load("t.json")
    (source,) = trace.sources
    assert (source.steps_by_hand, source.partial) == (2, "")
    assert {call.op: call.count for call in trace.calls}["aten.addmm.default"] == 2
    assert "2 steps;" in done.err


def test_an_optimizer_that_replaces_another_has_the_steps() -> None:
    """A phase's optimizer is gone as the next one's is made, and both are of one class."""
    model = nn.Linear(4, 1)
    with DeterminismTracer() as tracer:
        for _ in range(2):
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for _ in range(2):
                (model(X) - Y).pow(2).mean().backward()
                optimizer.step()
            del optimizer
            gc.collect()
    (source,) = tracer.trace.sources
    assert (source.optimizer_steps, source.steps_by_hand, tracer.optimizer_steps) == (4, 0, 4)
