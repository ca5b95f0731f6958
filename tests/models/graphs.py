"""Autograd graphs of every awkward kind, each a maker of a step that ends in a backward pass."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

Step = Callable[[], Any]


def leaf(*shape: int) -> Tensor:
    return torch.randn(*shape, requires_grad=True)


# --- custom functions ---


class Scale(torch.autograd.Function):
    """The plain kind."""

    @staticmethod
    def forward(ctx: Any, inputs: Tensor, factor: float) -> Tensor:
        ctx.factor = factor
        return inputs * factor

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return gradient * ctx.factor, None


class Cube(torch.autograd.Function):
    """With ``setup_context``, and a backward pass that can be differentiated."""

    @staticmethod
    def forward(inputs: Tensor) -> Tensor:
        return inputs**3

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        (inputs,) = ctx.saved_tensors
        return 3 * inputs.square() * gradient


class NumpyExp(torch.autograd.Function):
    """Its forward pass dispatches nothing."""

    @staticmethod
    def forward(ctx: Any, inputs: Tensor) -> Tensor:
        result = torch.from_numpy(np.exp(inputs.numpy()))
        ctx.save_for_backward(result)
        return result

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        (result,) = ctx.saved_tensors
        return gradient * result


class Ready(torch.autograd.Function):
    """Dispatches nothing at all, as one that launches a kernel of its own into memory that it has."""

    answers: list[Tensor] = []

    @staticmethod
    def forward(ctx: Any, inputs: Tensor) -> Tensor:
        return Ready.answers.pop()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return gradient * 2


class Outer(torch.autograd.Function):
    """Calls another function, and torch's own backward, inside itself."""

    @staticmethod
    def forward(ctx: Any, inputs: Tensor) -> Tensor:
        with torch.enable_grad():
            ctx.inner = inputs.detach().requires_grad_()
            ctx.result = Scale.apply(ctx.inner.sin(), 3.0)
        return ctx.result.detach()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        (inner,) = torch.autograd.grad(ctx.result, ctx.inner, gradient)
        return inner


class ReversedGradient(torch.autograd.Function):
    """Its backward pass applies another custom function."""

    @staticmethod
    def forward(ctx: Any, inputs: Tensor) -> Tensor:
        return inputs.view_as(inputs)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return Scale.apply(gradient, -1.0)


GRAPHS: dict[str, Callable[[], Step]] = {}
"""What makes each step, by the step's name."""


def graph(*shapes: tuple[int, ...], options: Sequence[Any] = ()) -> Callable[[Callable[..., Any]], Callable[[], Step]]:
    """Lists a step, which is given leaves of these shapes, made before it; and one of ``options``, where there are."""

    def listed(step: Callable[..., Any]) -> Callable[[], Step]:
        def make(*option: Any) -> Step:
            leaves = [leaf(*shape) for shape in shapes]
            return lambda: step(*leaves, *option)

        name = step.__name__.replace("_", " ")
        GRAPHS.update({f"{name} {one}": partial(make, one) for one in options} if options else {name: make})
        return make

    return listed


RE_ENTRANT = (False, True)


@graph((4,))
def custom_function(inputs: Tensor) -> None:
    hidden = Scale.apply(inputs.sin(), 2.0)
    hidden = Cube.apply(hidden)
    Scale.apply(hidden, 0.5).sum().backward()


@graph((4,))
def custom_function_that_dispatches_nothing(inputs: Tensor) -> None:
    hidden = inputs.sin()
    hidden = NumpyExp.apply(hidden)
    hidden = NumpyExp.apply(hidden)
    hidden = hidden.cos()
    hidden.sum().backward()


def custom_function_without_a_trace() -> Step:
    """Three nodes of which nothing is seen being made, before one whose op is: two calls each go backward."""
    inputs = leaf(4)
    Ready.answers = [torch.zeros(4), torch.ones(4), torch.full((4,), 2.0)]

    def step() -> None:
        hidden = Ready.apply(inputs)
        hidden = Ready.apply(hidden)
        hidden = Ready.apply(hidden)
        hidden.cos().sum().backward()

    return step


def graph_made_before() -> Step:
    """The forward pass ran before recording began."""
    loss = leaf(4).sin().sum()
    return loss.backward


@graph((4,))
def nested_custom_functions(inputs: Tensor) -> None:
    hidden = Outer.apply(inputs.sin())
    ReversedGradient.apply(hidden).sum().backward()


@graph((4,))
def custom_function_differentiated_twice(inputs: Tensor) -> None:
    outputs = ReversedGradient.apply(Cube.apply(inputs)).sum()
    (gradient,) = torch.autograd.grad(outputs, inputs, create_graph=True)
    gradient.square().sum().backward()


@graph((4,), options=RE_ENTRANT)
def custom_function_under_checkpoint(inputs: Tensor, use_reentrant: bool) -> None:
    def part(hidden: Tensor) -> Tensor:
        hidden = Scale.apply(hidden.sin(), 2.0)
        hidden = NumpyExp.apply(hidden)
        return Cube.apply(hidden)

    checkpoint(part, inputs.cos(), use_reentrant=use_reentrant).sum().backward()


@graph((3,), options=RE_ENTRANT)
def nested_checkpoints(inputs: Tensor, use_reentrant: bool) -> None:
    def inner(hidden: Tensor) -> Tensor:
        return hidden.sin().exp()

    def outer(hidden: Tensor) -> Tensor:
        hidden = checkpoint(inner, hidden.cos(), use_reentrant=use_reentrant)
        return hidden.tanh() * 2

    checkpoint(outer, inputs.sigmoid(), use_reentrant=use_reentrant).sum().backward()


@graph((3, 4), (8, 4), (8,), (1, 8))
def gradient_penalty(real: Tensor, wide: Tensor, bias: Tensor, narrow: Tensor) -> None:
    mixed = real.detach().clone().requires_grad_()
    scores = F.linear(F.linear(mixed, wide, bias).tanh(), narrow).sum()
    (gradient,) = torch.autograd.grad(scores, mixed, create_graph=True)
    penalty = (gradient.norm(dim=1) - 1).square().mean()
    (scores + penalty).backward()


@graph((3,))
def hessian(inputs: Tensor) -> None:
    torch.autograd.functional.hessian(lambda x: (x**3).sum() * x.prod(), inputs.detach())


@graph((3,))
def backward_twice(inputs: Tensor) -> None:
    loss = inputs.exp().sum()
    loss.backward(retain_graph=True)
    loss.backward()


@graph((3,))
def graph_kept_between_backward_passes(weights: Tensor) -> None:
    state = torch.ones(3)
    for _ in range(3):
        state = (state * weights).tanh()
        state.sum().backward(retain_graph=True)


@graph((4, 4), (4,))
def in_place_on_views(inputs: Tensor, other: Tensor) -> None:
    hidden = inputs.clone()
    hidden[0].mul_(2.0)
    hidden[:, 1] = other
    hidden[1:3].view(-1).add_(1.0)
    hidden.t()[2] += other.exp()
    view = hidden.view(2, 8)[:, 1:]
    view.mul_(other.sum())
    hidden.diagonal().copy_(other)
    hidden.sum().backward()


@graph((6, 2))
def views_of_several_outputs(inputs: Tensor) -> None:
    first, second, third = inputs.sin().chunk(3)
    left, right = first.unbind(1)
    pieces = second.split(1)
    values, _ = third.topk(1, dim=0)
    (left * right + pieces[0].sum() + values.sum()).sum().backward()


@graph((5, 3))
def masks_and_indices(inputs: Tensor) -> None:
    rows = torch.tensor([0, 2, 2])
    hidden = inputs.clone()
    hidden[hidden > 0] *= 2
    hidden[rows] = hidden[rows] + 1
    hidden.index_add_(0, rows, inputs[:3])
    hidden.masked_fill_(torch.eye(5, 3).bool(), 0.0)
    torch.where(hidden > 0, hidden, -hidden).sum().backward()


def halve(tensor: Tensor) -> None:
    tensor.mul_(0.5)


@graph((4,))
def tensor_hooks(inputs: Tensor) -> None:
    inputs.register_post_accumulate_grad_hook(lambda tensor: halve(tensor.grad))
    hidden = inputs.sin()
    hidden.register_hook(lambda gradient: gradient * 2)
    result = hidden.exp()
    result.grad_fn.register_hook(lambda inner, outer: (inner[0].clamp(max=1.0),))
    result.grad_fn.register_prehook(lambda outer: (outer[0] + 0.1,))
    result.sum().backward()


@graph((2, 3))
def module_backward_hooks(inputs: Tensor) -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 1))
    for module in model:
        module.register_full_backward_hook(lambda module, inner, outer: (inner[0] * 1.0,))
    model(inputs).sum().backward()


@graph((4,))
def saved_tensor_hooks(inputs: Tensor) -> None:
    with torch.autograd.graph.saved_tensors_hooks(lambda tensor: tensor.double(), lambda packed: packed.float()):
        result = inputs.sin().exp()
    result.sum().backward()


@graph((2, 3))
def parametrized_module(inputs: Tensor) -> None:
    layer = nn.utils.parametrizations.weight_norm(nn.Linear(3, 3))
    spectral = nn.utils.parametrizations.spectral_norm(nn.Linear(3, 3))
    spectral(layer(inputs)).sum().backward()


@graph((4, 3))
def vmap_of_grad(inputs: Tensor) -> None:
    torch.func.vmap(torch.func.grad(lambda x: x.sin().exp().sum()))(inputs.detach())
