"""Whether anything asks for a gradient, and which forward call a backward call belongs to."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import pytest
import torch
from torch import nn

from tests.support.lines import groups, line_of, lines, one, record
from tracer import CallGroup, DeterminismTracer, Trace
from tracer.names import Gradients, Phase, Training
from tracer.recording.origin.attribution import CAPACITY, GENERATIONS, ForwardLinks

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


def test_old_generations_are_forgotten_and_recent_ones_found() -> None:
    links = ForwardLinks(0)
    for step in range(GENERATIONS + 3):
        links.current[step] = f"origin {step}"
        links.last = step + 1
        links.turn()
    assert links.find(0) is None
    assert links.find(GENERATIONS + 2) == f"origin {GENERATIONS + 2}"


def test_a_loop_without_an_optimizer_keeps_a_bounded_number_of_links() -> None:
    weight = torch.ones(1, requires_grad=True)
    tracer = DeterminismTracer()
    recorder = tracer._session.recorder
    recorder.start()
    try:
        links = recorder.attribution.links
        for turn in range(1, GENERATIONS + 4):
            links.turn_at = links.last + 50  # in place of CAPACITY, for speed
            for _ in range(60):
                weight * 2
            held = len(links.current) + sum(len(generation) for generation in links._older)
            assert held <= 60 * min(turn + 1, GENERATIONS + 1)
    finally:
        recorder.stop()
    assert CAPACITY == 65536


def test_backward_of_index_select_names_the_line_that_indexed() -> None:
    def step() -> None:
        x = torch.ones(4, 2, requires_grad=True)
        y = x.index_select(0, torch.tensor([0, 0, 1]))  # indexed
        z = y.exp()
        z.sum().backward()

    tracer = record(step)
    (group,) = groups(tracer, "aten.index_add")
    assert lines([group]) == {line_of(step, "# indexed")}
    assert group.node == "IndexSelectBackward0"


def test_in_place_on_a_view_links_the_nodes_that_the_base_gets() -> None:
    def step() -> None:
        x = torch.ones(4, 2, requires_grad=True)
        y = x * 3
        y[:, 0].mul_(2)  # in place
        (y * 5).sum().backward()

    tracer = record(step)
    copies = [group for group in tracer.trace.calls if "CopySlices" in group.node]
    assert lines(copies) == {line_of(step, "# in place")}


class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return x * x * x

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
        (x,) = ctx.saved_tensors
        return grad.sinh() + x * 0


class Flip(torch.autograd.Function):
    """Its forward dispatches nothing of its own."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
        return grad.neg()


class Outer(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return Cube.apply(x)  # type: ignore[no-any-return]

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
        return grad.cosh()


def called_from(group: CallGroup) -> int:
    """The line from which the call was reached."""
    return int(group.called_from.rpartition(":")[2])


def test_a_custom_functions_own_backward_is_told_at_its_line_with_the_one_that_applied_it() -> None:
    def step() -> None:
        x = torch.ones(3, requires_grad=True)
        y = Cube.apply(x)  # applied
        z = Outer.apply(y)  # outer
        z.sum().backward()

    tracer = record(step)
    for op, function, applied in (("aten.sinh", Cube, "# applied"), ("aten.cosh", Outer, "# outer")):
        group = one(tracer, op)
        assert lines([group]) == {line_of(function.backward, f"grad.{op.partition('.')[2]}()")}
        assert (group.phase, called_from(group)) == (Phase.BACKWARD, line_of(step, applied))
    assert one(tracer, "aten.sinh").node == "CubeBackward"


def test_a_hook_is_told_at_its_own_line_with_that_of_the_forward() -> None:
    def hook(grad: torch.Tensor) -> torch.Tensor:
        return grad.sinh()

    def step() -> None:
        x = torch.ones(3, requires_grad=True)
        y = x * 2  # hooked
        y.register_hook(hook)
        y.sum().backward()

    group = one(record(step), "aten.sinh")
    assert lines([group]) == {line_of(hook, "grad.sinh()")}
    assert (group.phase, called_from(group)) == (Phase.BACKWARD, line_of(step, "# hooked"))


def test_a_hook_on_a_parameters_gradient_is_told_at_its_own_line() -> None:
    def hook(parameter: torch.Tensor) -> None:
        assert parameter.grad is not None
        parameter.grad.sinh_()

    def step() -> None:
        weight = nn.Parameter(torch.ones(3))
        weight.register_post_accumulate_grad_hook(hook)
        (weight * 2).sum().backward()  # asks

    group = one(record(step), "aten.sinh_")
    assert lines([group]) == {line_of(hook, "sinh_()")}
    assert (group.phase, called_from(group)) == (Phase.BACKWARD, line_of(step, "# asks"))


def test_a_graph_that_runs_as_a_program_is_told_at_the_lines_that_it_was_made_of() -> None:
    def forward(x: torch.Tensor) -> torch.Tensor:
        doubled = x * 2
        return doubled.sinh()  # here

    class Module(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return forward(x)

    program = torch.export.export(Module(), (torch.ones(3),)).module()
    group = one(record(lambda: program(torch.ones(3))), "aten.sinh")
    assert lines([group]) == {line_of(forward, "# here")}


def test_a_custom_function_that_dispatched_nothing_is_not_given_a_wrong_line() -> None:
    def step() -> None:
        x = torch.ones(3, requires_grad=True)
        y = Flip.apply(x * 2)  # flipped
        z = y.exp()  # not this
        z.sum().backward()

    found = one(record(step), "aten.neg")
    assert lines([found]) != {line_of(step, "# not this")}


def test_double_backward_names_the_forward_line() -> None:
    def step() -> None:
        x = torch.ones(3, requires_grad=True)
        y = x.sin()  # the sine
        (gradient,) = torch.autograd.grad(y.sum(), x, create_graph=True)
        gradient.square().sum().backward()

    tracer = record(step)
    # d/dx cos(x): the backward of the backward of the sine
    found = groups(tracer, "aten.sin", node="CosBackward0")
    assert found
    assert lines(found) == {line_of(step, "# the sine")}


def test_the_graph_may_be_walked_twice_and_after_an_optimizer_step() -> None:
    net = nn.Linear(2, 2)
    other = nn.Linear(2, 2)
    optimizer = torch.optim.SGD(other.parameters(), lr=0.1)

    def step() -> None:
        loss = net(torch.ones(1, 2)).sigmoid().sum()  # the forward
        loss.backward(retain_graph=True)
        other(torch.ones(1, 2)).sum().backward()
        optimizer.step()
        loss.backward()

    found = groups(record(step), "aten.sigmoid_backward")
    assert sum(group.count for group in found) == 2
    assert lines(found) == {line_of(step, "# the forward")}


def test_a_custom_function_made_in_every_step_leaves_no_tensor_and_no_group_behind() -> None:
    held: list[weakref.ref[torch.Tensor]] = []

    def step() -> None:
        factor = torch.full((3,), 2.0)
        held.append(weakref.ref(factor))

        class Scaled(torch.autograd.Function):
            @staticmethod
            def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
                return x * factor

            @staticmethod
            def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
                return grad * factor

        Scaled.apply(torch.ones(3, requires_grad=True)).sum().backward()

    step()
    tracer = DeterminismTracer()
    with tracer:
        for _ in range(3):
            step()
    gc.collect()
    assert [ref for ref in held if ref() is not None] == []
    assert one(tracer, "aten.mul", node="ScaledBackward").count == 3
    assert sum(len(info.counters) for info in tracer._session.recorder.mode.infos.values()) == len(tracer.trace.calls)
