"""Phases, and what the optimizer, the engine and a recomputation call their own."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from tests.support.lines import groups, line_of, lines, one, record
from tracer import DeterminismTracer
from tracer.names import Phase


def test_the_five_phases_of_a_step() -> None:
    net = nn.Sequential(nn.Linear(2, 2), nn.Tanh())
    optimizer = torch.optim.Adam(net.parameters())

    def step() -> None:
        batch = torch.ones(3, 2).abs()
        loss = net(batch).square().mean()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()

    tracer = record(step, net)
    assert one(tracer, "aten.abs").phase is Phase.OTHER
    assert one(tracer, "aten.tanh").phase is Phase.FORWARD
    assert one(tracer, "aten.mean").phase is Phase.FORWARD
    assert one(tracer, "aten.tanh_backward").phase is Phase.BACKWARD
    assert {group.phase for group in groups(tracer, "aten.addcmul_")} == {Phase.OPTIMIZER}
    assert {group.phase for group in groups(tracer, "aten._foreach_norm")} <= {Phase.OTHER}
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


class Own(torch.optim.Optimizer):
    def __init__(self, params: list[nn.Parameter], fails: bool = False) -> None:
        super().__init__(params, {})
        self.fails = fails

    @torch.no_grad()
    def step(self, closure: object = None) -> None:
        for group in self.param_groups:
            for parameter in group["params"]:
                parameter.add_(parameter.grad, alpha=-0.1)  # the update
        if self.fails:
            raise ArithmeticError("planted")


def test_an_optimizer_of_the_users_names_its_own_line() -> None:
    weight = nn.Parameter(torch.ones(3))
    weight.grad = torch.ones(3)
    tracer = record(lambda: Own([weight]).step())
    group = one(tracer, "aten.add_")
    assert group.phase is Phase.OPTIMIZER
    assert group.location.startswith("tests/recording/origin/test_phases.py:")
    assert group.function.endswith("step")


def test_a_step_that_raised_does_not_claim_what_follows() -> None:
    weight = nn.Parameter(torch.ones(3))
    weight.grad = torch.ones(3)

    def step() -> None:
        with pytest.raises(ArithmeticError):
            Own([weight], fails=True).step()
        torch.ones(2).sin()
        weight.grad = torch.ones(3)
        torch.optim.SGD([weight], lr=0.1).step()
        torch.ones(2).cos()

    tracer = record(step)
    assert one(tracer, "aten.sin").phase is Phase.OTHER
    assert one(tracer, "aten.cos").phase is Phase.OTHER
    assert len(groups(tracer, "aten.add_", phase=Phase.OPTIMIZER)) == 2


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


@pytest.mark.parametrize("reentrant", [True, False])
def test_checkpointed_modules_are_recomputed(reentrant: bool) -> None:
    net = nn.Sequential(nn.Linear(2, 2), nn.Tanh())

    def step() -> None:
        x = torch.ones(1, 2, requires_grad=True)
        checkpoint(net, x, use_reentrant=reentrant).sum().backward()  # checkpointed

    tracer = record(step, net)
    phases = {group.phase: group for group in groups(tracer, "aten.tanh")}
    assert set(phases) == {Phase.FORWARD, Phase.RECOMPUTE}
    assert phases[Phase.RECOMPUTE].module == phases[Phase.FORWARD].module == "1"
    assert one(tracer, "aten.tanh_backward").module == "1"
    assert lines(groups(tracer, "aten.tanh_backward")) == {line_of(step, "# checkpointed")}


@pytest.mark.parametrize("reentrant", [True, False])
def test_a_checkpointed_function_is_recomputed(reentrant: bool) -> None:
    def body(x: torch.Tensor) -> torch.Tensor:
        return x.sin().exp()  # the body

    def step() -> None:
        x = torch.ones(2, requires_grad=True)
        checkpoint(body, x, use_reentrant=reentrant).sum().backward()

    tracer = record(step)
    again = one(tracer, "aten.exp", phase=Phase.RECOMPUTE)
    assert lines([again]) == {line_of(body, "# the body")}
    cosine = one(tracer, "aten.cos")
    assert (cosine.phase, cosine.node) == (Phase.BACKWARD, "SinBackward0")
    assert lines([cosine]) == {line_of(body, "# the body")}


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


def test_backward_of_a_graph_made_before_recording_says_that_it_has_no_link() -> None:
    weight = nn.Parameter(torch.ones(3))
    loss = weight.sin().sum()

    def step() -> None:
        loss.backward()  # backward

    tracer = record(step)
    cosine = one(tracer, "aten.cos")
    assert cosine.phase is Phase.BACKWARD
    assert lines([cosine]) == {line_of(step, "# backward")}
    spots = [spot for spot in tracer.trace.blind_spots if spot.kind == "no-forward-link"]
    assert len(spots) == 1
    assert spots[0].count == sum(g.count for g in tracer.trace.calls if g.node in ("SinBackward0", "SumBackward0"))
