"""Derivatives of derivatives, and the transforms of ``torch.func``."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

from benchmarks.evidence.calls.making import Call, leaf, made
from benchmarks.evidence.made import SECOND, SIXTH, THIRD


@made(SECOND)
def differentiated() -> Iterator[Call]:
    x = leaf(5, 3)
    yield "differentiated twice", _twice, (x,)
    yield "differentiated per sample", _per_sample, (x.detach(), leaf(3))
    yield "differentiated jvp", _jvp, (x.detach(),)
    yield "differentiated hessian", _hessian, (torch.randn(3),)
    yield "differentiated index twice", _index_twice, (x, torch.tensor([0, 0, 4]))
    yield "differentiated cumsum per row", lambda x: torch.vmap(torch.cumsum, (0, None))(x, 0), (x,)
    yield "differentiated checkpoint index", _checkpointed, (x, torch.tensor([0, 0, 4]))
    yield "differentiated custom", _Doubled.apply, (x,)


def _twice(x: torch.Tensor) -> torch.Tensor:
    (first,) = torch.autograd.grad((x**3).sum(), x, create_graph=True)
    return first.square().sum()


def _per_sample(x: torch.Tensor, weight: torch.Tensor) -> Any:
    def lost(weight: torch.Tensor, row: torch.Tensor) -> torch.Tensor:
        return (row @ weight).square()

    return torch.vmap(torch.func.grad(lost), (None, 0))(weight.detach(), x)


def _jvp(x: torch.Tensor) -> Any:
    return torch.func.jvp(lambda y: y.sin().sum(0), (x,), (torch.ones_like(x),))


def _hessian(x: torch.Tensor) -> Any:
    return torch.func.hessian(lambda y: (y**3).sum())(x)


def _index_twice(x: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    (first,) = torch.autograd.grad((x[rows] ** 3).sum(), x, create_graph=True)
    return first.sum()


def _checkpointed(x: torch.Tensor, rows: torch.Tensor) -> Any:
    from torch.utils.checkpoint import checkpoint

    return checkpoint(lambda y: y.index_select(0, rows).exp(), x, use_reentrant=False)


class _Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x * 2

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        return torch.zeros_like(gradient).scatter_add_(
            0, torch.zeros(5, 3, dtype=torch.int64, device=gradient.device), gradient
        )


@made(THIRD)
def transformed() -> Iterator[Call]:
    x, i = leaf(4, 3), torch.tensor([3, 0, 3])
    yield "transformed jacobian", torch.func.jacrev(lambda x: x.cumsum(0)), (x.detach(),)
    yield "transformed jacobian of places", lambda x, i: torch.func.jacrev(lambda y: y[i])(x), (x.detach(), i)
    yield "transformed forward", lambda x: torch.func.jacfwd(lambda y: y.softmax(-1))(x), (x.detach(),)
    yield "transformed rows", lambda x, i: torch.vmap(lambda r: r.index_add(0, i % 3, r))(x), (x, i)
    yield "transformed gather twice", _gather_twice, (x, i)
    yield "transformed pads twice", _pads_twice, (leaf(1, 2, 4, 4),)
    yield "transformed again", _again, (x, i)
    yield "transformed by loops", lambda x: torch.stack([row.cumsum(0) for row in x.unbind()]), (x,)


def _gather_twice(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
    (slope,) = torch.autograd.grad(x.gather(0, i[:, None].expand(3, 3)).exp().sum(), x, create_graph=True)
    return slope.pow(2).sum()


def _pads_twice(x: torch.Tensor) -> torch.Tensor:
    (slope,) = torch.autograd.grad(F.pad(x, (2, 2, 2, 2), mode="reflect").exp().sum(), x, create_graph=True)
    return slope.pow(2).sum()


def _again(x: torch.Tensor, i: torch.Tensor) -> Any:
    from torch.utils.checkpoint import checkpoint

    return checkpoint(lambda y: y.scatter_add(0, i[:, None].expand(3, 3), y[:3]), x, use_reentrant=False)


@made(SIXTH)
def transforms() -> Iterator[Call]:
    x, i = leaf(4, 3), torch.tensor([0, 1, 1, 2])

    def scored(weight: torch.Tensor, row: torch.Tensor) -> torch.Tensor:
        return (row @ weight).tanh().sum()

    yield "transformed gradient", lambda x: torch.func.grad(lambda y: y.cumsum(0).pow(2).sum())(x), (x,)
    yield "transformed each", lambda x, w: torch.vmap(torch.func.grad(scored), (None, 0))(w, x), (x, leaf(3, 2))
    yield "transformed index", lambda x, i: torch.vmap(lambda row: row[i % 3])(x), (x, i)
    yield "transformed add", lambda x, i: torch.vmap(lambda row: row.index_add(0, i % 3, row[i % 3]))(x), (x, i)
    yield "transformed gather", lambda x: torch.vmap(lambda row: row.gather(0, row.argsort()))(x), (x,)
    yield "transformed median", lambda x: torch.vmap(lambda row: row.median(0)[0])(x), (x,)
    yield "transformed jacobian", lambda x: torch.func.jacfwd(lambda y: y.sin() * y.sum())(x[0]), (x,)
    yield "transformed call", _called, (x,)
    yield "transformed twice", _twice_through_index, (x,)
    yield "transformed convolution", _twice_convolved, (leaf(1, 2, 5, 5),)
    yield "transformed pool twice", partial(_twice_through, nn.AdaptiveAvgPool2d(2)), (leaf(1, 2, 5, 5),)
    yield (
        "transformed resize twice",
        partial(_twice_through, nn.Upsample(scale_factor=2, mode="bilinear")),
        (leaf(1, 2, 4, 4),),
    )
    yield "transformed again", lambda x: checkpoint(lambda y: y.cumsum(0).exp(), x, use_reentrant=False), (x,)


def _called(x: torch.Tensor) -> Any:
    layer = nn.Linear(3, 2).to(x.device)
    return torch.func.functional_call(layer, dict(layer.named_parameters()), (x,))


def _twice_through_index(x: torch.Tensor) -> Any:
    first = torch.autograd.grad(x[[0, 0, 1]].pow(3).sum(), x, create_graph=True)[0]
    return first.pow(2).sum()


def _twice_convolved(x: torch.Tensor) -> Any:
    return _twice_through(nn.Conv2d(2, 2, 3).to(x.device), x)


def _twice_through(layer: nn.Module, x: torch.Tensor) -> Any:
    first = torch.autograd.grad(layer(x).pow(3).sum(), x, create_graph=True)[0]
    return first.pow(2).sum()
