"""Whole steps: networks with their losses and optimizers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

_Made = tuple[str, Callable[..., Any], tuple[Any, ...]]
_Loss = Callable[..., torch.Tensor]


def made() -> Iterator[_Made]:
    """Each call's name, function and tensors."""
    yield from _optimizers()
    yield from _networks()


def stepped(make: Callable[[], nn.Module], loss: _Loss, **options: Any) -> Callable[..., Any]:
    """A function that makes the network, and takes one step of an optimizer on its loss."""

    def run(x: torch.Tensor, *targets: torch.Tensor) -> Any:
        net = make().to(x.device)
        kind = options.get("optimizer", torch.optim.SGD)
        optimizer = kind(net.parameters(), **{"lr": 0.1, **options.get("settings", {})})
        for _ in range(options.get("steps", 1)):
            optimizer.zero_grad()
            loss(net(x), *targets).backward()
            if options.get("clip"):
                nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            optimizer.step()
        return [one.detach() for one in net.parameters()]

    return run


def _squares(out: Any) -> torch.Tensor:
    first: torch.Tensor = out[0] if isinstance(out, tuple) else out
    return first.float().pow(2).mean()


def _optimizers() -> Iterator[_Made]:
    x = torch.randn(5, 4)

    def net() -> nn.Module:
        return nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 2))

    kinds: dict[str, tuple[type[torch.optim.Optimizer], dict[str, Any]]] = {
        "sgd": (torch.optim.SGD, {"momentum": 0.9, "nesterov": True, "weight_decay": 0.01}),
        "adam": (torch.optim.Adam, {"amsgrad": True}),
        "adamw": (torch.optim.AdamW, {}),
        "nadam": (torch.optim.NAdam, {}),
        "radam": (torch.optim.RAdam, {}),
        "adamax": (torch.optim.Adamax, {}),
        "adagrad": (torch.optim.Adagrad, {}),
        "adadelta": (torch.optim.Adadelta, {}),
        "rmsprop": (torch.optim.RMSprop, {"centered": True, "momentum": 0.5}),
        "rprop": (torch.optim.Rprop, {}),
        "asgd": (torch.optim.ASGD, {}),
    }
    for name, (kind, settings) in kinds.items():
        for way in (False, True):
            word = "together" if way else "one by one"
            chosen = {**settings, "foreach": way}
            yield f"optimized {name} {word}", stepped(net, _squares, optimizer=kind, settings=chosen), (x,)
    for name in ("sgd", "adam", "adamw"):
        kind, settings = kinds[name]
        chosen = {**settings, "fused": True}
        yield f"optimized {name} fused", stepped(net, _squares, optimizer=kind, settings=chosen, steps=2), (x,)
    yield "optimized clipped", stepped(net, _squares, clip=True, steps=2), (x,)
    yield "optimized lbfgs", _lbfgs, (x,)
    yield "optimized scaled", _scaled, (x,)
    yield "optimized averaged", _averaged, (x,)


def _lbfgs(x: torch.Tensor) -> Any:
    layer = nn.Linear(4, 1).to(x.device)
    optimizer = torch.optim.LBFGS(layer.parameters(), max_iter=1)

    def closure() -> Any:
        optimizer.zero_grad()
        loss = layer(x).pow(2).sum()
        loss.backward()
        return loss

    optimizer.step(closure)
    return layer.weight.detach()


def _scaled(x: torch.Tensor) -> Any:
    layer = nn.Linear(4, 3).to(x.device)
    optimizer = torch.optim.SGD(layer.parameters(), 0.1)
    with torch.autocast(x.device.type, torch.bfloat16):
        loss = layer(x).pow(2).mean()
    (loss * 128).backward()
    for one in layer.parameters():
        if one.grad is not None:
            one.grad.div_(128)
    optimizer.step()
    return layer.weight.detach()


def _averaged(x: torch.Tensor) -> Any:
    layer = nn.Linear(4, 3).to(x.device)
    mean = torch.optim.swa_utils.AveragedModel(layer)
    layer(x).sum().backward()
    mean.update_parameters(layer)
    return next(mean.parameters()).detach()


def _networks() -> Iterator[_Made]:
    image, row, words = torch.randn(2, 3, 16, 16), torch.randn(2, 3, 32), torch.randint(0, 11, (2, 7))
    labels, pixels = torch.tensor([1, 3]), torch.randint(0, 4, (2, 16, 16))
    entropy = F.cross_entropy

    def convolved(*more: nn.Module) -> Callable[[], nn.Module]:
        return lambda: nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), *more)

    heads: dict[str, tuple[Callable[[], nn.Module], _Loss, tuple[torch.Tensor, ...]]] = {
        "classifier": (
            convolved(nn.MaxPool2d(2), nn.Flatten(), nn.Linear(256, 4)),
            entropy,
            (image, labels),
        ),
        "classifier averaged": (
            convolved(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 4)),
            entropy,
            (image, labels),
        ),
        "classifier averaged to two": (
            convolved(nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(16, 4)),
            entropy,
            (image, labels),
        ),
        "classifier largest": (
            convolved(nn.AdaptiveMaxPool2d(1), nn.Flatten(), nn.Linear(4, 4)),
            entropy,
            (image, labels),
        ),
        "segmenter": (convolved(nn.Conv2d(4, 4, 1)), entropy, (image, pixels)),
        "segmenter each": (
            convolved(nn.Conv2d(4, 4, 1)),
            lambda out, y: F.cross_entropy(out, y, reduction="none").mean(),
            (image, pixels),
        ),
        "segmenter resized": (
            convolved(nn.Conv2d(4, 4, 3, 2, 1), nn.Upsample(scale_factor=2, mode="bilinear", align_corners=False)),
            entropy,
            (image, pixels),
        ),
        "segmenter nearest": (
            convolved(nn.Conv2d(4, 4, 3, 2, 1), nn.Upsample(scale_factor=2)),
            entropy,
            (image, pixels),
        ),
        "segmenter focal": (convolved(nn.Conv2d(4, 4, 1)), _focal, (image, pixels)),
        "segmenter dice": (convolved(nn.Conv2d(4, 4, 1)), _dice, (image, pixels)),
        "atrous": (convolved(nn.Conv2d(4, 4, 3, padding=6, dilation=6)), _squares, (image,)),
        "restorer": (
            lambda: nn.Sequential(nn.Conv2d(3, 12, 3, padding=1, padding_mode="reflect"), nn.PixelShuffle(2)),
            _squares,
            (image,),
        ),
        "wave": (
            lambda: nn.Sequential(nn.Conv1d(3, 4, 3, dilation=2, padding=2), nn.GLU(1), nn.Conv1d(2, 1, 1)),
            _squares,
            (row,),
        ),
        "wave resized": (
            lambda: nn.Sequential(nn.Conv1d(3, 4, 4, 2, 1), nn.Upsample(scale_factor=2, mode="linear")),
            _squares,
            (row,),
        ),
        "language": (
            lambda: _Language(),
            lambda out, y: F.cross_entropy(out.flatten(0, 1), y.flatten()),
            (words, words),
        ),
        "language by rows": (lambda: _Language(), lambda out, y: F.cross_entropy(out.mT, y), (words, words)),
        "bags": (
            lambda: nn.Sequential(nn.EmbeddingBag(11, 5), nn.Linear(5, 4)),
            entropy,
            (words, labels),
        ),
        "tied": (lambda: _Tied(), lambda out, y: F.cross_entropy(out.flatten(0, 1), y.flatten()), (words, words)),
        "recurrent": (
            lambda: _Recurrent(),
            entropy,
            (words, labels),
        ),
        "coder": (
            lambda: nn.Sequential(nn.Conv2d(3, 2, 4, 2, 1), nn.SiLU(), nn.ConvTranspose2d(2, 3, 4, 2, 1)),
            _squares,
            (image,),
        ),
        "warped": (lambda: _Warped(), _squares, (image,)),
        "pooled by graph": (lambda: _Graph(), _squares, (torch.randn(6, 4),)),
        "experts": (lambda: _Experts(), _squares, (torch.randn(6, 4),)),
        "points": (lambda: _Points(), _squares, (torch.randn(2, 9, 3),)),
        "quantised": (lambda: _Codes(), _squares, (torch.randn(6, 4),)),
    }
    for name, (make, loss, args) in heads.items():
        yield f"network {name}", stepped(make, loss), args
        yield f"network {name} adam", stepped(make, loss, optimizer=torch.optim.AdamW, clip=True), args


def _focal(out: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    near = out.log_softmax(1).gather(1, y[:, None])
    return (-((1 - near.exp()) ** 2) * near).mean()


def _dice(out: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    wanted = F.one_hot(y, 4).movedim(-1, 1).float()
    share = out.softmax(1)
    return 1 - 2 * (share * wanted).sum() / (share + wanted).sum()


class _Language(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words, self.places, self.out = nn.Embedding(11, 16), nn.Embedding(7, 16), nn.Linear(16, 11)
        self.block = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, norm_first=True)

    def forward(self, ids: torch.Tensor) -> Any:
        x = self.words(ids) + self.places(torch.arange(ids.shape[1], device=ids.device))
        return self.out(self.block(x, nn.Transformer.generate_square_subsequent_mask(7, ids.device), is_causal=True))


class _Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(11, 8, padding_idx=0)

    def forward(self, ids: torch.Tensor) -> Any:
        return self.words(ids).tanh() @ self.words.weight.t()


class _Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words, self.layer, self.out = nn.Embedding(11, 6), nn.GRU(6, 5, batch_first=True), nn.Linear(5, 4)

    def forward(self, ids: torch.Tensor) -> Any:
        return self.out(self.layer(self.words(ids))[0].max(1)[0])


class _Warped(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.place = nn.Linear(3, 6)

    def forward(self, x: torch.Tensor) -> Any:
        theta = self.place(x.mean((2, 3))).view(-1, 2, 3)
        return F.grid_sample(x, F.affine_grid(theta, list(x.shape), align_corners=False), align_corners=False)


class _Graph(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.near = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> Any:
        source = torch.tensor([0, 1, 2, 3, 4, 5, 0], device=x.device)
        target = torch.tensor([1, 1, 0, 2, 2, 2, 3], device=x.device)
        return torch.zeros_like(x).index_add(0, target, self.near(x)[source])


class _Experts(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gate, self.experts = nn.Linear(4, 3), nn.ModuleList(nn.Linear(4, 4) for _ in range(3))

    def forward(self, x: torch.Tensor) -> Any:
        weight, chosen = self.gate(x).softmax(-1).topk(2)
        parts = torch.stack([expert(x) for expert in self.experts], 1)
        return (parts.gather(1, chosen[..., None].expand(-1, -1, 4)) * weight[..., None]).sum(1)


class _Points(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.each = nn.Linear(6, 5)

    def forward(self, x: torch.Tensor) -> Any:
        near = torch.cdist(x, x).topk(3, largest=False)[1]
        beside = x[torch.arange(2, device=x.device)[:, None, None], near]
        return self.each(torch.cat((beside - x[:, :, None], x[:, :, None].expand_as(beside)), -1)).max(2)[0]


class _Codes(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.codes = nn.Embedding(5, 4)

    def forward(self, x: torch.Tensor) -> Any:
        return self.codes(torch.cdist(x, self.codes.weight).argmin(-1))
