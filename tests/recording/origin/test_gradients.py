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
from tracer import CallGroup, DeterminismTracer
from tracer.names import Gradients, Phase, Training
from tracer.recording.origin.attribution import GENERATIONS

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


def evaluates(model: nn.Module, guard: Callable[[], AbstractContextManager[object]] = nullcontext) -> None:
    """Evaluates twice, with a loss, which is a module in training mode without parameters."""
    criterion = nn.CrossEntropyLoss()
    with guard():
        for _ in range(2):
            criterion(model(X), Y)


def with_adapter() -> nn.Module:
    """A frozen model in evaluation mode, with one layer that is trained."""
    model = net(trains=False, requires_grad=False)
    model.append(nn.Linear(3, 3).train())  # type: ignore[operator]
    return model


def head_of_ones_own() -> None:
    with torch.no_grad():
        features = net(trains=False)(X)
    (features * WEIGHT).sum()


def merged_adapter() -> None:
    merged, model = WEIGHT[0] * WEIGHT[1], net(trains=False)
    with torch.no_grad():
        model[2].bias[:] += merged  # type: ignore[index]
        model(X)


def evaluates_before_it_trains() -> None:
    evaluates(net(trains=False), torch.no_grad)
    net(trains=True)(X)


def fails() -> None:
    with pytest.raises(RuntimeError):
        nn.Sequential(net(trains=True), nn.Linear(9, 9))(X)


def steps() -> None:
    model = net(trains=False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model(X).sum().backward()
    optimizer.step()


WEIGHT = torch.ones(3, requires_grad=True)
INFERENCE, NONE, RECORDED = Training.INFERENCE, Training.NONE, Training.RECORDED


@pytest.mark.parametrize(
    ("run", "gradients", "training"),
    [
        (lambda: evaluates(net(trains=True), torch.no_grad), Gradients.NONE, INFERENCE),
        (lambda: evaluates(net(trains=True), torch.inference_mode), Gradients.NONE, INFERENCE),
        (lambda: evaluates(net(trains=False)), Gradients.EVALUATING, INFERENCE),
        (lambda: evaluates(net(trains=True, requires_grad=False)), Gradients.NONE, INFERENCE),
        (lambda: evaluates(OwnFunction(), torch.no_grad), Gradients.EVALUATING, INFERENCE),
        (merged_adapter, Gradients.NONE, INFERENCE),
        (lambda: evaluates(net(trains=True)), Gradients.ASKED, NONE),
        (lambda: evaluates(with_adapter()), Gradients.ASKED, NONE),
        (lambda: net(trains=False)(X).sum().backward(), Gradients.EVALUATING, NONE),
        (head_of_ones_own, Gradients.ASKED, NONE),
        (lambda: (X[0, :3] * WEIGHT).sum(), Gradients.ASKED, NONE),
        (evaluates_before_it_trains, Gradients.ASKED, NONE),
        (fails, Gradients.ASKED, NONE),
        (steps, Gradients.EVALUATING, RECORDED),
    ],
)
def test_what_asks_for_no_gradient_is_an_inference(
    run: Callable[[], object], gradients: Gradients, training: Training
) -> None:
    trace = record(run).trace
    assert (trace.sources[0].gradients, trace.training) == (gradients, training)


def test_what_failed_or_went_on_may_train_and_a_program_is_asked_in_the_middle() -> None:
    tracer = DeterminismTracer()
    with pytest.raises(ZeroDivisionError), tracer, torch.no_grad():  # noqa: PT012
        net(trains=False)(X)
        assert tracer.trace.training is INFERENCE
        raise ZeroDivisionError
    assert (tracer.trace.partial, tracer.trace.training) == ("ZeroDivisionError", NONE)
    tracer = DeterminismTracer()
    with tracer:
        net(trains=True)(X)
    with tracer, torch.no_grad():
        net(trains=True)(X)
    assert tracer.trace.sources[0].gradients is Gradients.ASKED


def test_a_loop_without_an_optimizer_keeps_a_bounded_number_of_links() -> None:
    weight = torch.ones(1, requires_grad=True)
    tracer = DeterminismTracer()
    with tracer:
        links = tracer._session.recorder.attribution.links
        for turn in range(1, GENERATIONS + 4):
            links.turn_at = links.last + 50  # in place of CAPACITY, for speed
            for _ in range(60):
                made = weight * 2
            held = len(links.current) + sum(len(generation) for generation in links._older)
            assert held <= 60 * min(turn + 1, GENERATIONS + 1)
            made.backward()
    assert not [spot for spot in tracer.trace.blind_spots if spot.kind == "no-forward-link"], "recent ones are found"


def test_backward_of_index_select_names_the_line_that_indexed() -> None:
    def step() -> None:
        x = torch.ones(4, 2, requires_grad=True)
        y = x.index_select(0, torch.tensor([0, 0, 1]))  # indexed
        y[:, 0].mul_(2)  # in place
        y.exp().sum().backward()

    tracer = record(step)
    (group,) = groups(tracer, "aten.index_add")
    assert (lines([group]), group.node) == ({line_of(step, "# indexed")}, "IndexSelectBackward0")
    copies = [group for group in tracer.trace.calls if "CopySlices" in group.node]
    assert lines(copies) == {line_of(step, "# in place")}, "the nodes that the base gets"


def test_hooks_are_told_at_their_own_lines_with_that_of_the_forward() -> None:
    def hook(grad: torch.Tensor) -> torch.Tensor:
        return grad.sinh()

    def after(parameter: torch.Tensor) -> None:
        parameter.grad.cosh_()  # type: ignore[union-attr]

    def step() -> None:
        weight = nn.Parameter(torch.ones(3))
        weight.register_post_accumulate_grad_hook(after)
        y = weight * 2  # hooked
        y.register_hook(hook)
        y.sum().backward()  # asks

    tracer = record(step)
    for op, function, line in (("sinh", hook, "# hooked"), ("cosh_", after, "# asks")):
        group = one(tracer, f"aten.{op}")
        assert lines([group]) == {line_of(function, f"{op}()")}
        assert (group.phase, called_from(group)) == (Phase.BACKWARD, line_of(step, line))


class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return x * x * x

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
        (x,) = ctx.saved_tensors
        return grad.sinh() + x * 0


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


def test_a_custom_function_that_dispatched_nothing_is_not_given_a_wrong_line() -> None:
    class Flip(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            return x

        @staticmethod
        def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
            return grad.neg()

    def step() -> None:
        x = torch.ones(3, requires_grad=True)
        y = Flip.apply(x * 2)
        y.exp().sum().backward()  # not this

    found = one(record(step), "aten.neg")
    assert lines([found]) == {line_of(Flip.backward, "grad.neg()")}
    assert called_from(found) != line_of(step, "# not this")


def test_a_graph_that_is_walked_twice_with_a_step_between_names_its_forward_line() -> None:
    net, other = nn.Linear(2, 2), nn.Linear(2, 2)
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
