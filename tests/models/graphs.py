"""Autograd graphs of every awkward kind, each a maker of a step that ends in a backward pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
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


def custom_function() -> Step:
    inputs = leaf(4)

    def step() -> None:
        hidden = Scale.apply(inputs.sin(), 2.0)
        hidden = Cube.apply(hidden)
        Scale.apply(hidden, 0.5).sum().backward()

    return step


def custom_function_that_dispatches_nothing() -> Step:
    inputs = leaf(4)

    def step() -> None:
        hidden = inputs.sin()
        hidden = NumpyExp.apply(hidden)
        hidden = NumpyExp.apply(hidden)
        hidden = hidden.cos()
        hidden.sum().backward()

    return step


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


def nested_custom_functions() -> Step:
    inputs = leaf(4)

    def step() -> None:
        hidden = Outer.apply(inputs.sin())
        ReversedGradient.apply(hidden).sum().backward()

    return step


def custom_function_differentiated_twice() -> Step:
    inputs = leaf(4)

    def step() -> None:
        outputs = ReversedGradient.apply(Cube.apply(inputs)).sum()
        (gradient,) = torch.autograd.grad(outputs, inputs, create_graph=True)
        gradient.square().sum().backward()

    return step


def custom_function_under_checkpoint(use_reentrant: bool) -> Callable[[], Step]:
    def make() -> Step:
        inputs = leaf(4)

        def part(hidden: Tensor) -> Tensor:
            hidden = Scale.apply(hidden.sin(), 2.0)
            hidden = NumpyExp.apply(hidden)
            return Cube.apply(hidden)

        def step() -> None:
            checkpoint(part, inputs.cos(), use_reentrant=use_reentrant).sum().backward()

        return step

    return make


# --- differentiated more than once ---


def gradient_penalty() -> Step:
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
    real = torch.randn(3, 4)

    def step() -> None:
        mixed = real.clone().requires_grad_()
        scores = model(mixed).sum()
        (gradient,) = torch.autograd.grad(scores, mixed, create_graph=True)
        penalty = (gradient.norm(dim=1) - 1).square().mean()
        (scores + penalty).backward()

    return step


def hessian() -> Step:
    inputs = torch.randn(3)
    return lambda: torch.autograd.functional.hessian(lambda x: (x**3).sum() * x.prod(), inputs)


def backward_twice() -> Step:
    inputs = leaf(3)

    def step() -> None:
        loss = inputs.exp().sum()
        loss.backward(retain_graph=True)
        loss.backward()

    return step


# --- views and in-place ops ---


def in_place_on_views() -> Step:
    inputs, other = leaf(4, 4), leaf(4)

    def step() -> None:
        hidden = inputs.clone()
        hidden[0].mul_(2.0)
        hidden[:, 1] = other
        hidden[1:3].view(-1).add_(1.0)
        hidden.t()[2] += other.exp()
        view = hidden.view(2, 8)[:, 1:]
        view.mul_(other.sum())
        hidden.diagonal().copy_(other)
        hidden.sum().backward()

    return step


def views_of_several_outputs() -> Step:
    inputs = leaf(6, 2)

    def step() -> None:
        first, second, third = inputs.sin().chunk(3)
        left, right = first.unbind(1)
        pieces = second.split(1)
        values, _ = third.topk(1, dim=0)
        (left * right + pieces[0].sum() + values.sum()).sum().backward()

    return step


def masks_and_indices() -> Step:
    inputs = leaf(5, 3)
    rows = torch.tensor([0, 2, 2])

    def step() -> None:
        hidden = inputs.clone()
        hidden[hidden > 0] *= 2
        hidden[rows] = hidden[rows] + 1
        hidden.index_add_(0, rows, inputs[:3])
        hidden.masked_fill_(torch.eye(5, 3).bool(), 0.0)
        torch.where(hidden > 0, hidden, -hidden).sum().backward()

    return step


# --- hooks ---


def halve(tensor: Tensor) -> None:
    tensor.mul_(0.5)


def tensor_hooks() -> Step:
    inputs = leaf(4)
    inputs.register_post_accumulate_grad_hook(lambda tensor: halve(tensor.grad))

    def step() -> None:
        hidden = inputs.sin()
        hidden.register_hook(lambda gradient: gradient * 2)
        result = hidden.exp()
        result.grad_fn.register_hook(lambda inner, outer: (inner[0].clamp(max=1.0),))
        result.grad_fn.register_prehook(lambda outer: (outer[0] + 0.1,))
        result.sum().backward()

    return step


def module_backward_hooks() -> Step:
    model = nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 1))
    for module in model:
        module.register_full_backward_hook(lambda module, inner, outer: (inner[0] * 1.0,))
    inputs = leaf(2, 3)
    return lambda: model(inputs).sum().backward()


def saved_tensor_hooks() -> Step:
    inputs = leaf(4)

    def step() -> None:
        with torch.autograd.graph.saved_tensors_hooks(lambda tensor: tensor.double(), lambda packed: packed.float()):
            result = inputs.sin().exp()
        result.sum().backward()

    return step


# --- modules ---


def parametrized_module() -> Step:
    layer = nn.utils.parametrizations.weight_norm(nn.Linear(3, 3))
    spectral = nn.utils.parametrizations.spectral_norm(nn.Linear(3, 3))
    inputs = leaf(2, 3)
    return lambda: spectral(layer(inputs)).sum().backward()


def graph_kept_between_backward_passes() -> Step:
    weights = leaf(3)

    def step() -> None:
        state = torch.ones(3)
        for _ in range(3):
            state = (state * weights).tanh()
            state.sum().backward(retain_graph=True)

    return step


# --- checkpointing ---


def nested_checkpoints(use_reentrant: bool) -> Callable[[], Step]:
    def make() -> Step:
        inputs = leaf(3)

        def inner(hidden: Tensor) -> Tensor:
            return hidden.sin().exp()

        def outer(hidden: Tensor) -> Tensor:
            hidden = checkpoint(inner, hidden.cos(), use_reentrant=use_reentrant)
            return hidden.tanh() * 2

        def step() -> None:
            checkpoint(outer, inputs.sigmoid(), use_reentrant=use_reentrant).sum().backward()

        return step

    return make


# --- function transforms ---


def func_vmap_of_grad() -> Step:
    inputs = torch.randn(4, 3)
    return lambda: torch.func.vmap(torch.func.grad(lambda x: x.sin().exp().sum()))(inputs)


GRAPHS: dict[str, Callable[[], Step]] = {
    "custom function": custom_function,
    "custom function that dispatches nothing": custom_function_that_dispatches_nothing,
    "nested custom functions": nested_custom_functions,
    "custom function differentiated twice": custom_function_differentiated_twice,
    "custom function under checkpoint": custom_function_under_checkpoint(False),
    "custom function under checkpoint with re-entry": custom_function_under_checkpoint(True),
    "gradient penalty": gradient_penalty,
    "hessian": hessian,
    "backward twice": backward_twice,
    "in-place on views": in_place_on_views,
    "views of several outputs": views_of_several_outputs,
    "masks and indices": masks_and_indices,
    "tensor hooks": tensor_hooks,
    "module backward hooks": module_backward_hooks,
    "saved tensor hooks": saved_tensor_hooks,
    "parametrized module": parametrized_module,
    "graph kept between backward passes": graph_kept_between_backward_passes,
    "nested checkpoints": nested_checkpoints(False),
    "nested checkpoints with re-entry": nested_checkpoints(True),
    "torch.func.vmap of grad": func_vmap_of_grad,
}
