"""Gradients: functions and hooks of the user's, gradients within a region, compiled autograd, optimizers."""

from __future__ import annotations

from typing import Any

import torch
import torch._dynamo.config
import torch.nn.functional as F
from torch import nn

from benchmarks.evidence.compiled.making import ROWS, SLOTS, WIDE, program, rows, slots


@program
def compiled_function_varies() -> None:
    class Gathers(torch.autograd.Function):
        @staticmethod
        def forward(context: Any, values: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
            context.save_for_backward(index)
            return values.index_select(0, index)

        @staticmethod
        def backward(context: Any, *gradients: torch.Tensor) -> Any:
            (index,) = context.saved_tensors
            total = torch.zeros(SLOTS, WIDE)
            return total.index_add(0, index, gradients[0]), None  # varies: cpu cuda

    @torch.compile
    def step(values: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        return Gathers.apply(values, index).sin()

    step(rows(SLOTS, WIDE).requires_grad_(), slots()).backward(torch.ones(ROWS, WIDE))


@program
def compiled_function_clean() -> None:
    class Scales(torch.autograd.Function):
        @staticmethod
        def forward(context: Any, values: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
            context.save_for_backward(index)
            return values.index_select(0, index)

        @staticmethod
        def backward(context: Any, *gradients: torch.Tensor) -> Any:
            return gradients[0][:SLOTS] * 2, None

    @torch.compile
    def step(values: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        return Scales.apply(values, index).sin()

    step(rows(SLOTS, WIDE).requires_grad_(), slots()).backward(torch.ones(ROWS, WIDE))


@program
def eager_function_varies() -> None:
    class Gathers(torch.autograd.Function):
        @staticmethod
        def forward(context: Any, values: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
            context.save_for_backward(index)
            return values.index_select(0, index)

        @staticmethod
        def backward(context: Any, *gradients: torch.Tensor) -> Any:
            (index,) = context.saved_tensors
            total = torch.zeros(SLOTS, WIDE)
            total.index_add_(0, index, gradients[0])  # varies: cuda
            return total, None

    @torch.compile
    def step(values: torch.Tensor) -> torch.Tensor:
        return values.sin()

    gathered = Gathers.apply(rows(SLOTS, WIDE).requires_grad_(), slots())
    step(gathered).backward(torch.ones(ROWS, WIDE))


@program
def eager_function_clean() -> None:
    class Slices(torch.autograd.Function):
        @staticmethod
        def forward(context: Any, values: torch.Tensor) -> torch.Tensor:
            return values[:SLOTS]

        @staticmethod
        def backward(context: Any, *gradients: torch.Tensor) -> Any:
            total = torch.zeros(ROWS, WIDE)
            total[:SLOTS] = gradients[0]
            return total

    @torch.compile
    def step(values: torch.Tensor) -> torch.Tensor:
        return values.sin()

    step(Slices.apply(rows().requires_grad_())).backward(torch.ones(SLOTS, WIDE))


@program
def hook_inside_varies() -> None:
    index, source = slots(), rows()

    def hook(gradient: torch.Tensor) -> torch.Tensor:
        return gradient.index_add(0, index, source)  # varies: cpu cuda

    @torch.compile
    def step(values: torch.Tensor) -> torch.Tensor:
        doubled = values * 2
        doubled.register_hook(hook)
        return doubled.sin()

    step(rows(SLOTS, WIDE).requires_grad_()).backward(torch.ones(SLOTS, WIDE))


@program
def hook_inside_clean() -> None:
    def hook(gradient: torch.Tensor) -> torch.Tensor:
        return gradient.clamp(-1, 1)

    @torch.compile
    def step(values: torch.Tensor) -> torch.Tensor:
        doubled = values * 2
        doubled.register_hook(hook)
        return doubled.sin()

    step(rows(SLOTS, WIDE).requires_grad_()).backward(torch.ones(SLOTS, WIDE))


@program
def hook_outside_varies() -> None:
    index, source = slots(), rows()
    parameter = nn.Parameter(rows(SLOTS, WIDE))

    def gathered(held: torch.Tensor) -> None:
        assert held.grad is not None
        held.grad.index_add_(0, index, source)  # varies: cuda

    parameter.register_post_accumulate_grad_hook(gathered)

    @torch.compile
    def step(values: torch.Tensor) -> torch.Tensor:
        return (values * parameter).sin()

    step(rows(SLOTS, WIDE)).backward(torch.ones(SLOTS, WIDE))


@program
def hook_outside_clean() -> None:
    parameter = nn.Parameter(rows(SLOTS, WIDE))

    def clipped(held: torch.Tensor) -> None:
        assert held.grad is not None
        held.grad.clamp_(-1, 1)

    parameter.register_post_accumulate_grad_hook(clipped)

    @torch.compile
    def step(values: torch.Tensor) -> torch.Tensor:
        return (values * parameter).sin()

    step(rows(SLOTS, WIDE)).backward(torch.ones(SLOTS, WIDE))


@program
def tensor_hook_outside_varies() -> None:
    index = slots()

    @torch.compile
    def spread(gradient: torch.Tensor) -> torch.Tensor:
        return torch.zeros(SLOTS, WIDE).index_add(0, index, gradient.sin())  # varies: cpu cuda

    def hook(gradient: torch.Tensor) -> torch.Tensor:
        return gradient + spread(gradient)[0]

    values = rows().requires_grad_()
    middle = values * 2
    middle.register_hook(hook)
    middle.sum().backward()


@program
def tensor_hook_outside_clean() -> None:
    @torch.compile
    def spread(gradient: torch.Tensor) -> torch.Tensor:
        return gradient[:SLOTS].sin()

    def hook(gradient: torch.Tensor) -> torch.Tensor:
        return gradient + spread(gradient)[0]

    values = rows().requires_grad_()
    middle = values * 2
    middle.register_hook(hook)
    middle.sum().backward()


@program
def gradient_of_function_varies() -> None:
    index = slots()

    def loss(weight: torch.Tensor) -> torch.Tensor:
        return weight[index].sin().sum()  # varies: cpu cuda

    @torch.compile
    def step(weight: torch.Tensor) -> torch.Tensor:
        gradient: torch.Tensor = torch.func.grad(loss)(weight)
        return weight - gradient

    step(rows(SLOTS, WIDE))


@program
def gradient_of_function_clean() -> None:
    def loss(weight: torch.Tensor) -> torch.Tensor:
        return weight[3:].sin().sum()

    @torch.compile
    def step(weight: torch.Tensor) -> torch.Tensor:
        gradient: torch.Tensor = torch.func.grad(loss)(weight)
        return weight - gradient

    step(rows(SLOTS, WIDE))


@program
def vmapped_varies() -> None:
    index = slots(4096)

    @torch.compile
    def step(into: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        return torch.vmap(lambda row: into[0].index_add(0, index, row))(values)  # varies: cuda

    step(rows(1, SLOTS), rows(64, 4096))


@program
def vmapped_clean() -> None:
    @torch.compile
    def step(into: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        return torch.vmap(lambda row: into[0] + row[:SLOTS])(values)

    step(rows(1, SLOTS), rows(64, 4096))


@program
def compiled_autograd_varies() -> None:
    index, weight = slots(), rows(SLOTS, WIDE).requires_grad_()

    @torch.compile
    def step(weight: torch.Tensor) -> torch.Tensor:
        return F.embedding(index, weight).sin().sum()  # varies: cpu cuda

    with torch._dynamo.config.patch(compiled_autograd=True):
        step(weight).backward()


@program  # the sum of few numbers has one configuration
def compiled_autograd_clean() -> None:
    weight = rows(SLOTS, WIDE).requires_grad_()

    @torch.compile
    def step(weight: torch.Tensor) -> torch.Tensor:
        return weight[3:].sin().sum()

    with torch._dynamo.config.patch(compiled_autograd=True):
        step(weight).backward()


@program
def optimizer_varies() -> None:
    embedding = nn.Embedding(SLOTS, WIDE)
    optimizer = torch.optim.AdamW(embedding.parameters())
    index = slots()
    update = torch.compile(optimizer.step)

    @torch.compile
    def loss(index: torch.Tensor) -> torch.Tensor:
        return embedding(index).square().sum()  # varies: cpu cuda

    loss(index).backward()
    update()


@program  # the sum of few numbers has one configuration
def optimizer_clean() -> None:
    weight = nn.Parameter(rows(SLOTS, WIDE))
    optimizer = torch.optim.AdamW([weight])
    update = torch.compile(optimizer.step)

    @torch.compile
    def loss(values: torch.Tensor) -> torch.Tensor:
        return (weight * values).square().sum()

    loss(rows(SLOTS, WIDE)).backward()
    update()
