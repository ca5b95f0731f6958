"""Transforms of ``torch.func``, the habits of training scripts, and switches that are set for one call."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

from benchmarks.evidence.calls.layers import leaf

_Made = tuple[str, Callable[..., Any], tuple[Any, ...]]


def made() -> Iterator[_Made]:
    """Each call's name, function and tensors."""
    yield from _transforms()
    yield from _habits()
    yield from _switches()


def _transforms() -> Iterator[_Made]:
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
    yield "transformed twice", _twice, (x,)
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


def _twice(x: torch.Tensor) -> Any:
    first = torch.autograd.grad(x[[0, 0, 1]].pow(3).sum(), x, create_graph=True)[0]
    return first.pow(2).sum()


def _twice_convolved(x: torch.Tensor) -> Any:
    return _twice_through(nn.Conv2d(2, 2, 3).to(x.device), x)


def _twice_through(layer: nn.Module, x: torch.Tensor) -> Any:
    first = torch.autograd.grad(layer(x).pow(3).sum(), x, create_graph=True)[0]
    return first.pow(2).sum()


def _habits() -> Iterator[_Made]:
    x, image = leaf(6, 4), leaf(2, 3, 8, 8)
    labels = torch.tensor([0, 1, 2, 1, 0, 2])
    habits: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
        "mixed up": (lambda x: 0.3 * x + 0.7 * x[torch.randperm(6, device=x.device)], (x,)),
        "cut out": (lambda x: x * (torch.rand(2, 1, 8, 8, device=x.device) > 0.2), (image,)),
        "patches": (lambda x: x.unfold(2, 4, 4).unfold(3, 4, 4).flatten(2), (image,)),
        "accuracy": (lambda x, y: (x.argmax(1)[:6] % 3 == y).float().mean(), (x.detach(), labels)),
        "top five": (lambda x, y: (x.topk(2, 1)[1] == y[:, None]).any(1).float().mean(), (x.detach(), labels)),
        "class means": (_class_means, (x, labels)),
        "class sums": (lambda x, y: F.one_hot(y, 3).float().t() @ x, (x, labels)),
        "confusion": (_confusion, (labels,)),
        "contrasted": (_contrasted, (x,)),
        "centred": (lambda x: (x - x.mean(0)) / (x.std(0) + 1e-5), (x,)),
        "momentum": (lambda x: torch.lerp(x.detach(), x.detach().roll(1, 0), 0.01), (x,)),
        "penalty": (_penalty, (image,)),
        "masked mean": (lambda x: (x * (x > 0)).sum(1) / (x > 0).sum(1).clamp(min=1), (x,)),
        "noise": (lambda x: x + torch.randn_like(x) * 0.1, (x,)),
        "packed": (_packed, (leaf(3, 5, 4),)),
        "beam": (lambda x: x.log_softmax(-1).flatten().topk(3)[0], (x,)),
        "nucleus": (_nucleus, (x.detach(),)),
        "returns": (_returns, (leaf(8),)),
        "gathered actions": (lambda x, y: x.gather(1, y[:, None]).squeeze(1), (x, labels)),
        "boxes": (_boxes, (leaf(5, 4),)),
        "blurred": (lambda x: F.conv2d(x, torch.ones(3, 1, 3, 3, device=x.device) / 9, padding=1, groups=3), (image,)),
        "resized by area": (lambda x: F.interpolate(x, size=(5, 3), mode="area"), (image,)),
        "resized smoothly": (lambda x: F.interpolate(x, size=(5, 3), mode="bilinear", antialias=True), (image,)),
        "hashed": (lambda x: torch.zeros(4, device=x.device).index_add(0, labels.to(x.device), x[:, 0]), (x,)),
        "rendered": (_rendered, (leaf(4, 7), leaf(4, 7, 3))),
        "soft sorted": (lambda x: (x[:, :, None] - x[:, None]).sigmoid().sum(-1), (x,)),
        "low rank": (lambda x: x @ (x[:1].t() @ x[1:2]), (x,)),
    }
    for name, (function, args) in habits.items():
        yield f"habit {name}", function, args


def _class_means(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    sums = x.new_zeros(3, 4).index_add_(0, y, x)
    return sums / torch.bincount(y, minlength=3)[:, None]


def _confusion(y: torch.Tensor) -> torch.Tensor:
    return torch.zeros(3, 3, dtype=torch.long, device=y.device).index_put_((y, y.flip(0)), y * 0 + 1, accumulate=True)


def _contrasted(x: torch.Tensor) -> torch.Tensor:
    near = F.normalize(x) @ F.normalize(x.roll(1, 0)).t() / 0.07
    where = torch.arange(6, device=x.device)
    return (F.cross_entropy(near, where) + F.cross_entropy(near.t(), where)) / 2


def _penalty(image: torch.Tensor) -> Any:
    layer = nn.Sequential(nn.Conv2d(3, 2, 3), nn.LeakyReLU(), nn.Flatten(), nn.Linear(72, 1)).to(image.device)
    (slope,) = torch.autograd.grad(layer(image).sum(), image, create_graph=True)
    loss = (slope.flatten(1).norm(2, 1) - 1).pow(2).mean()
    return torch.autograd.grad(loss, list(layer.parameters()), allow_unused=True)


def _packed(x: torch.Tensor) -> torch.Tensor:
    packed = nn.utils.rnn.pack_sequence([x[0], x[1, :3], x[2, :2]])
    return nn.utils.rnn.pad_packed_sequence(packed)[0]


def _nucleus(x: torch.Tensor) -> torch.Tensor:
    share, order = x.softmax(-1).sort(-1, descending=True)
    keep = share.cumsum(-1) - share < 0.9
    picked = torch.multinomial((share * keep + 1e-6), 1)
    return order.gather(-1, picked)


def _returns(rewards: torch.Tensor) -> torch.Tensor:
    powers = 0.9 ** torch.arange(8, device=rewards.device)
    return (rewards * powers).flip(0).cumsum(0).flip(0) / powers


def _boxes(x: torch.Tensor) -> torch.Tensor:
    low, high = x[:, :2], x[:, :2] + x[:, 2:].exp()
    both = (torch.min(high[:, None], high) - torch.max(low[:, None], low)).clamp(min=0).prod(-1)
    area = (high - low).prod(-1)
    return both / (area[:, None] + area - both)


def _rendered(density: torch.Tensor, colour: torch.Tensor) -> torch.Tensor:
    alpha = 1 - (-density.relu()).exp()
    seen = torch.cat((alpha.new_ones(4, 1), (1 - alpha + 1e-10)), -1).log().cumsum(-1).exp()[:, :-1]
    return ((alpha * seen)[..., None] * colour.sigmoid()).sum(-2)


def _switches() -> Iterator[_Made]:
    """Deterministic mode left for a call, as one does around an op that it refuses, and other switches of a step."""
    x, image = leaf(6, 4), leaf(2, 3, 6, 6)
    yield "switch left for a sum", lambda x: _left(lambda y: y.cumsum(0), x), (x,)
    yield "switch left for a pool", lambda x: _left(nn.AdaptiveAvgPool2d(2), x), (image,)
    yield "switch without cudnn", _without_cudnn, (image,)
    yield (
        "switch without gradients",
        torch.no_grad()(lambda x: F.interpolate(x, scale_factor=2, mode="bilinear")),
        (image,),
    )
    yield "switch for inference", torch.inference_mode()(lambda x: x.cumsum(0)), (x.detach(),)
    yield "switch precision", _precise, (x,)


def _left(function: Callable[[torch.Tensor], Any], x: torch.Tensor) -> Any:
    on, warns = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    torch.use_deterministic_algorithms(False)
    try:
        return function(x)
    finally:
        torch.use_deterministic_algorithms(on, warn_only=warns)


def _without_cudnn(image: torch.Tensor) -> Any:
    with torch.backends.cudnn.flags(enabled=False):
        return nn.Conv2d(3, 4, 3).to(image.device)(image)


def _precise(x: torch.Tensor) -> Any:
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    try:
        return x @ x.t()
    finally:
        torch.set_float32_matmul_precision(before)
