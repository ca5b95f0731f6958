"""What a training step does: optimizers, clipping, distributions, recurrent cells, norms, checkpoints."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from benchmarks.evidence.calls.layers import leaf
from tests.support.samples import Sample

_Made = tuple[str, Callable[..., Any], tuple[Any, ...]]


def samples() -> Iterator[Sample]:
    """One sample for each call, named by what is called."""
    numbers: dict[str, int] = {}
    for name, function, args in (*_optimized(), *_distributions(), *_modules()):
        number = numbers[name] = numbers.get(name, -1) + 1
        yield Sample(name, number, str(args[0].dtype).removeprefix("torch."), function, args)


def _optimized() -> Iterator[_Made]:
    weight, x = torch.randn(4, 3), torch.randn(5, 4)
    for name, options in (
        ("SGD", {"momentum": 0.9, "nesterov": True}),
        ("Adam", {"amsgrad": True}),
        ("AdamW", {}),
        ("Adagrad", {}),
        ("RMSprop", {"centered": True}),
        ("Adadelta", {}),
        ("NAdam", {}),
        ("Rprop", {}),
    ):
        for foreach in (False, True):
            yield f"optim {name}", partial(_step, name=name, foreach=foreach, **options), (weight, x)
    yield "optim LBFGS", _lbfgs, (weight, x)
    index, table = torch.randint(0, 6, (8,)), torch.randn(6, 3)
    for name in ("SGD", "SparseAdam", "Adagrad"):
        yield f"sparse embedding {name}", partial(_sparse_step, name=name), (table, index)
    yield "sparse and dense gradients", _mixed, (table, index)
    yield "clip_grad_norm_", _clipped, (weight, x)
    yield "clip_grad_value_", partial(_clipped, by_value=True), (weight, x)


def _step(weight: torch.Tensor, x: torch.Tensor, name: str, foreach: bool, **options: Any) -> torch.Tensor:
    held = nn.Parameter(weight.detach().clone())
    optimizer = getattr(torch.optim, name)([held], lr=0.1, foreach=foreach, **options)
    for _ in range(2):
        optimizer.zero_grad()
        (x @ held).square().sum().backward()
        optimizer.step()
    return held.detach()


def _lbfgs(weight: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    held = nn.Parameter(weight.detach().clone())
    optimizer = torch.optim.LBFGS([held], max_iter=2)

    def loss() -> torch.Tensor:
        optimizer.zero_grad()
        lost = (x @ held).square().sum()
        lost.backward()
        return lost

    optimizer.step(loss)
    return held.detach()


def _sparse_step(table: torch.Tensor, index: torch.Tensor, name: str) -> torch.Tensor:
    held = nn.Parameter(table.detach().clone())
    optimizer = getattr(torch.optim, name)([held], lr=0.1)
    F.embedding(index, held, sparse=True).square().sum().backward()
    optimizer.step()
    return held.detach()


def _mixed(table: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    held = nn.Parameter(table.detach().clone())
    (F.embedding(index, held, sparse=True).sum() + held.square().sum()).backward()
    return held.detach()


def _clipped(weight: torch.Tensor, x: torch.Tensor, by_value: bool = False) -> torch.Tensor:
    held = nn.Parameter(weight.detach().clone())
    (x @ held).square().sum().backward()
    if by_value:
        nn.utils.clip_grad_value_([held], 0.1)
    else:
        nn.utils.clip_grad_norm_([held], 0.1, norm_type=2.0)
    return held.detach()


def _distributions() -> Iterator[_Made]:
    logits, scale = leaf(5, 4), torch.rand(5, 4).add(0.1).requires_grad_()
    for name, made in (
        ("Categorical", lambda x, s: torch.distributions.Categorical(logits=x)),
        ("OneHotCategorical", lambda x, s: torch.distributions.OneHotCategorical(logits=x)),
        ("Normal", torch.distributions.Normal),
        ("Laplace", torch.distributions.Laplace),
        ("Gamma", lambda x, s: torch.distributions.Gamma(s, s)),
        ("Beta", lambda x, s: torch.distributions.Beta(s, s)),
        ("Dirichlet", lambda x, s: torch.distributions.Dirichlet(s)),
        ("Bernoulli", lambda x, s: torch.distributions.Bernoulli(logits=x)),
    ):
        yield f"distribution {name}", partial(_log_prob, made=made), (logits, scale)


def _log_prob(x: torch.Tensor, scale: torch.Tensor, made: Callable[..., Any]) -> torch.Tensor:
    distribution = made(x, scale)
    lost: torch.Tensor = distribution.log_prob(distribution.sample())
    return lost


def _modules() -> Iterator[_Made]:
    rows = leaf(3, 6, 5)
    yield "LSTMCell", partial(_cell, kind=nn.LSTMCell), (rows,)
    yield "GRUCell", partial(_cell, kind=nn.GRUCell), (rows,)
    yield "LayerNorm", partial(_module, made=partial(nn.LayerNorm, 5)), (rows,)
    yield "RMSNorm", partial(_module, made=partial(nn.RMSNorm, 5)), (rows,)
    yield "BatchNorm1d", partial(_module, made=partial(nn.BatchNorm1d, 6)), (rows,)
    yield "InstanceNorm1d", partial(_module, made=partial(nn.InstanceNorm1d, 6, affine=True)), (rows,)
    yield "PReLU", partial(_module, made=partial(nn.PReLU, 6)), (rows,)
    yield "weight_norm", _weight_norm, (rows,)
    yield "spectral_norm", _spectral_norm, (rows,)
    yield "MultiheadAttention", _attention, (leaf(3, 6, 8),)
    yield "EncoderLayer", _encoder, (leaf(3, 6, 8),)
    yield "checkpoint", _checkpointed, (leaf(3, 4),)
    yield "autocast", _autocast, (leaf(3, 4), leaf(4, 5))


def _module(x: torch.Tensor, made: Callable[[], nn.Module]) -> Any:
    torch.manual_seed(0)
    return made().to(x.device)(x)


def _cell(x: torch.Tensor, kind: Callable[..., nn.Module]) -> Any:
    torch.manual_seed(0)
    made = kind(5, 4).to(x.device)(x[:, 0])
    return made[0] if isinstance(made, tuple) else made


def _weight_norm(x: torch.Tensor) -> Any:
    return nn.utils.parametrizations.weight_norm(nn.Linear(5, 4)).to(x.device)(x)


def _spectral_norm(x: torch.Tensor) -> Any:
    return nn.utils.parametrizations.spectral_norm(nn.Linear(5, 4)).to(x.device)(x)


def _attention(x: torch.Tensor) -> Any:
    return nn.MultiheadAttention(8, 2, batch_first=True).to(x.device)(x, x, x, need_weights=False)[0]


def _encoder(x: torch.Tensor) -> Any:
    return nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).to(x.device)(x)


def _checkpointed(x: torch.Tensor) -> Any:
    from torch.utils.checkpoint import checkpoint

    return checkpoint(torch.cumsum, x, 0, use_reentrant=False)


def _autocast(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    with torch.autocast(x.device.type, dtype=torch.bfloat16):
        return (x @ weight).float().cumsum(0)
