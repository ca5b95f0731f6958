"""Module paths."""

from __future__ import annotations

import contextlib
import gc
import weakref

import pytest
import torch
from torch import nn
from torch.nn.modules import module as hooks

from tests.support.lines import groups, one, record
from tracer import DeterminismTracer, judge
from tracer.names import Phase


class Block(nn.Module):
    def __init__(self, fails: bool = False) -> None:
        super().__init__()
        self.fc = nn.Linear(2, 2)
        self.fails = fails

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.fc(x)
        if self.fails:
            raise ValueError("planted")
        return x.tanh()


class Net(nn.Module):
    def __init__(self, fails: bool = False) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([Block(fails), Block()])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            try:
                x = block(x)
            except ValueError:
                x = x.sigmoid()
        return x.sin()


def test_paths_are_spelled_as_named_modules_spells_them() -> None:
    net = Net()
    tracer = record(lambda: net(torch.ones(1, 2)).sum().backward(), net)
    assert {group.module for group in groups(tracer, "aten.addmm")} == {"blocks.0.fc", "blocks.1.fc"}
    assert {group.module for group in groups(tracer, "aten.tanh")} == {"blocks.0", "blocks.1"}
    assert {group.module for group in tracer.trace.calls} <= set(dict(net.named_modules()))
    assert {g.module for g in groups(tracer, "aten.tanh_backward")} == {"blocks.0", "blocks.1"}


def test_without_a_model_the_outermost_class_leads() -> None:
    net = Net()
    tracer = record(lambda: net(torch.ones(1, 2)))
    assert {group.module for group in groups(tracer, "aten.addmm")} == {"Net.blocks.0.fc", "Net.blocks.1.fc"}


def test_two_living_models_of_one_class_have_two_names() -> None:
    models = [nn.Sequential(nn.Linear(2, 2)) for _ in range(3)]

    def step() -> None:
        for model in (*models, *models):
            model(torch.ones(1, 2)).sum().backward()

    tracer = record(step)
    names = ["Sequential.0", "Sequential#2.0", "Sequential#3.0"]
    assert [group.module for group in groups(tracer, "aten.addmm")] == names
    assert [group.count for group in groups(tracer, "aten.addmm")] == [2, 2, 2]
    backward = {group.module for group in groups(tracer, "aten.mm") if group.phase is Phase.BACKWARD}
    assert backward == set(names)
    accused = {finding.module for finding in judge(tracer.trace, backend="npu").findings}
    assert set(names) <= accused


def test_a_model_that_is_made_anew_in_each_step_keeps_one_name() -> None:
    def step() -> None:
        for _ in range(4):
            model = nn.Sequential(nn.Linear(2, 2))
            nn.MSELoss()(model(torch.ones(1, 2)), torch.ones(1, 2)).backward()

    tracer = record(step)
    assert one(tracer, "aten.addmm").module == "Sequential.0"
    assert one(tracer, "aten.addmm").count == 4


def test_what_has_no_parameters_bears_its_class_name_alone() -> None:
    losses = [nn.MSELoss(), nn.MSELoss()]
    tracer = record(lambda: [loss(torch.ones(2), torch.zeros(2)) for loss in losses])
    assert one(tracer, "aten.mse_loss").module == "MSELoss"


def test_the_path_is_restored_when_a_module_raises() -> None:
    net = Net(fails=True)
    tracer = record(lambda: net(torch.ones(1, 2)), net)
    assert one(tracer, "aten.sigmoid").module == ""
    assert one(tracer, "aten.tanh").module == "blocks.1"
    assert one(tracer, "aten.sin").module == ""


def test_a_module_that_raises_out_of_the_region_leaves_nothing_behind() -> None:
    block = Block(fails=True)
    tracer = record(lambda: None, block)
    with pytest.raises(ValueError, match="planted"), tracer:
        block(torch.ones(1, 2))
    with tracer:
        torch.ones(1).cos()
    assert one(tracer, "aten.cos").phase == "other"
    assert tracer.trace.partial == "ValueError"


def test_a_module_that_was_interrupted_claims_nothing_that_follows() -> None:
    class Interrupted(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x.sin()
            raise KeyboardInterrupt

    class Outer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = Interrupted()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            with contextlib.suppress(KeyboardInterrupt):
                self.inner(x)
            return x.cos()

    outer = Outer()

    def step() -> None:
        outer(torch.ones(2))
        with contextlib.suppress(KeyboardInterrupt):
            outer.inner(torch.ones(2))
        torch.ones(2).exp()

    tracer = record(step, outer)
    assert {group.module for group in groups(tracer, "aten.sin")} == {"inner"}
    assert (one(tracer, "aten.cos").module, one(tracer, "aten.cos").phase) == ("", "forward")
    assert one(tracer, "aten.exp").phase == "other"


def test_a_shared_module_bears_its_first_name_wherever_it_is_called() -> None:
    shared = nn.Linear(2, 2)
    net = nn.Sequential(shared, nn.ReLU(), shared)
    tracer = record(lambda: net(torch.ones(1, 2)), net)
    assert one(tracer, "aten.addmm").module == "0"
    assert one(tracer, "aten.addmm").count == 2


def test_a_module_that_enters_itself_again_unwinds_in_order() -> None:
    class Again(nn.Module):
        def forward(self, x: torch.Tensor, depth: int = 2) -> torch.Tensor:
            if depth:
                x = self(x, depth - 1)
            return x.sin()

    net = nn.Sequential(Again())
    tracer = record(lambda: net(torch.ones(1)).cos(), net)
    assert one(tracer, "aten.sin").count == 3
    assert one(tracer, "aten.sin").module == "0"
    assert one(tracer, "aten.cos").module == ""


def test_modules_made_in_the_forward_pass_are_named_below_their_caller() -> None:
    class Maker(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return nn.Softplus()(x)

    net = nn.Sequential(Maker())
    assert one(record(lambda: net(torch.ones(1)), net), "aten.softplus").module == "0.Softplus"


def test_ops_of_a_users_forward_hook_belong_to_the_modules_caller() -> None:
    net = Net()
    seen = []
    net.blocks[0].register_forward_hook(lambda module, inputs, output: seen.append(output.exp().shape))
    tracer = record(lambda: net(torch.ones(1, 2)), net)
    assert len(seen) == 1
    assert one(tracer, "aten.exp").module == ""
    assert one(tracer, "aten.exp").phase == "forward"


def test_every_hook_is_gone_after_recording() -> None:
    before = (len(hooks._global_forward_hooks), len(hooks._global_forward_pre_hooks))
    record(lambda: Net()(torch.ones(1, 2)))
    assert (len(hooks._global_forward_hooks), len(hooks._global_forward_pre_hooks)) == before
    assert not hooks._global_forward_hooks


def test_a_recorded_model_dies_with_its_last_owner() -> None:
    net = Net()
    tracer = DeterminismTracer(net)
    with tracer:
        net(torch.ones(1, 2)).sum().backward()
    kept: list[weakref.ref[object]] = [weakref.ref(net)]
    kept += [weakref.ref(parameter) for parameter in net.parameters()]
    del net
    gc.collect()
    assert not [ref for ref in kept if ref() is not None]
    assert tracer.trace.calls


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
