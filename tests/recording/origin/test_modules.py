"""Module paths."""

from __future__ import annotations

import contextlib

import pytest
import torch
from torch import nn
from torch.nn.modules import module as hooks

from tests.support.lines import groups, one, record
from tracer import judge
from tracer.names import Phase


def test_a_model_that_is_made_anew_in_each_step_keeps_one_name() -> None:
    def step() -> None:
        for _ in range(4):
            model = nn.Sequential(nn.Linear(2, 2))
            nn.MSELoss()(model(torch.ones(1, 2)), torch.ones(1, 2)).backward()

    tracer = record(step)
    assert one(tracer, "aten.addmm").module == "Sequential.0"
    assert one(tracer, "aten.addmm").count == 4


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_a_module_that_raised_claims_nothing_that_follows(error: type[BaseException]) -> None:
    class Raises(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x.sin()
            raise error

    class Outer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner, self.last = Raises(), nn.Tanh()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            with contextlib.suppress(error):
                self.inner(x)
            return self.last(x.cos())  # type: ignore[no-any-return]

    outer = Outer()

    def step() -> None:
        outer(torch.ones(2))
        with contextlib.suppress(error):
            outer.inner(torch.ones(2))
        torch.ones(2).exp()

    tracer = record(step, outer)
    assert {group.module for group in groups(tracer, "aten.sin")} == {"inner"}
    assert (one(tracer, "aten.cos").module, one(tracer, "aten.cos").phase) == ("", "forward")
    assert one(tracer, "aten.tanh").module == "last"
    assert one(tracer, "aten.exp").phase == "other"


def test_modules_shared_made_in_the_forward_or_entering_themselves_have_their_paths() -> None:
    class Again(nn.Module):
        def forward(self, x: torch.Tensor, depth: int = 2) -> torch.Tensor:
            return nn.Softplus()(self(x, depth - 1) if depth else x)

    shared = nn.Linear(2, 2)
    net = nn.Sequential(shared, Again(), shared)
    tracer = record(lambda: net(torch.ones(1, 2)).cos(), net)
    assert (one(tracer, "aten.addmm").module, one(tracer, "aten.addmm").count) == ("0", 2)
    assert (one(tracer, "aten.softplus").module, one(tracer, "aten.softplus").count) == ("1.Softplus", 3)
    assert one(tracer, "aten.cos").module == ""


def test_ops_of_a_users_forward_hook_belong_to_the_modules_caller() -> None:
    net, before = nn.Sequential(nn.Tanh()), (len(hooks._global_forward_hooks), len(hooks._global_forward_pre_hooks))
    net[0].register_forward_hook(lambda module, inputs, output: output.exp() * 0 + output)
    tracer = record(lambda: net(torch.ones(1, 2)), net)
    assert (one(tracer, "aten.exp").module, one(tracer, "aten.exp").phase) == ("", "forward")
    assert (len(hooks._global_forward_hooks), len(hooks._global_forward_pre_hooks)) == before == (0, 0)


def test_modules_that_each_step_makes_anew_are_forgotten_and_one_that_lives_keeps_its_path() -> None:
    living, x = nn.Linear(2, 2), torch.ones(1, 2)

    def steps() -> None:
        for _ in range(3):
            layers = [nn.Linear(2, 2) for _ in range(100)]
            for layer in (*layers, living):
                layer(x)

    recorder = record(steps)
    assert len(groups(recorder, "aten.addmm")) == 101
    assert one(recorder, "aten.addmm", module="Linear#101").count == 3


@pytest.mark.parametrize(
    ("layer", "facts"),
    [
        (torch.nn.GRU(3, 3), {"module.recurrent", "module.fuses_gates"}),
        (torch.nn.RNN(3, 3), {"module.recurrent"}),
        (torch.nn.GRUCell(3, 3), {"module.fuses_gates"}),
        (torch.nn.RNNCell(3, 3), set()),
    ],
)
def test_what_torchs_recurrent_layers_compute_is_noted_forward_and_backward(
    layer: torch.nn.Module, facts: set[str]
) -> None:
    def step() -> None:
        out = layer(torch.ones(2, 3))
        (out[0] if isinstance(out, tuple) else out).sum().backward()

    found = groups(record(step), "aten.addmm") + groups(record(step), "aten.mm")
    assert {group.phase for group in found} == {Phase.FORWARD, Phase.BACKWARD}
    assert all({name for name in group.facts if name.startswith("module.")} == facts for group in found)


def test_two_living_models_of_one_class_have_two_names_and_losses_none() -> None:
    models = [nn.Sequential(nn.Linear(2, 2)) for _ in range(3)]
    losses = [nn.MSELoss(), nn.MSELoss()]

    def step() -> None:
        for loss in losses:
            for model in models:
                loss(model(torch.ones(1, 2)), torch.ones(1, 2)).backward()

    tracer = record(step)
    names = ["Sequential.0", "Sequential#2.0", "Sequential#3.0"]
    assert [(group.module, group.count) for group in groups(tracer, "aten.addmm")] == [(name, 2) for name in names]
    backward = {group.module for group in groups(tracer, "aten.mm") if group.phase is Phase.BACKWARD}
    assert backward == set(names)
    assert one(tracer, "aten.mse_loss").module == "MSELoss"
    assert set(names) <= {finding.module for finding in judge(tracer.trace, backend="npu").findings}
