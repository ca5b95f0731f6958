"""Training steps of small models, and functions of functions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from benchmarks.evidence.calls.layers import leaf

_Made = tuple[str, Callable[..., Any], tuple[Any, ...]]


def made() -> Iterator[_Made]:
    """Each call's name, function and tensors."""
    yield from _stepped()
    yield from _transformed()


def _stepped() -> Iterator[_Made]:
    image, words, row = torch.randn(2, 3, 12, 12), torch.randint(0, 9, (2, 6)), torch.randn(5, 4)
    edges = torch.tensor([[0, 1, 2, 2, 4], [1, 1, 0, 3, 3]])
    yield "stepped unet", partial(_step, make=_Unet), (image,)
    yield "stepped mobile", partial(_step, make=_mobile, optimizer="RMSprop"), (image,)
    yield "stepped pyramid", partial(_step, make=_Pyramid, optimizer="SGD"), (image,)
    yield "stepped super resolution", partial(_step, make=_larger, optimizer="NAdam"), (image,)
    yield "stepped decoder of images", partial(_step, make=_decoder, optimizer="Adagrad"), (row,)
    yield "stepped language", partial(_step, make=_Language, optimizer="Adam"), (words,)
    yield "stepped transformer", partial(_step, make=_Causal, optimizer="AdamW", foreach=False), (words,)
    yield "stepped bags", partial(_step, make=lambda: nn.EmbeddingBag(9, 3, mode="max"), optimizer="Adadelta"), (words,)
    yield "stepped sparse", partial(_step, make=lambda: nn.Embedding(9, 3, sparse=True), optimizer="SGD"), (words,)
    yield (
        "stepped SparseAdam",
        partial(_step, make=lambda: nn.Embedding(9, 3, sparse=True), optimizer="SparseAdam"),
        (words,),
    )
    yield "stepped Rprop", partial(_step, make=_rows, optimizer="Rprop"), (row,)
    yield "stepped SGD fused", partial(_step, make=_rows, optimizer="SGD", momentum=0.9, fused=True), (row,)
    yield "stepped transformed", partial(_step, make=_Spatial), (image,)
    yield "stepped points", partial(_step, make=_Points), (torch.randn(2, 9, 3),)
    yield "stepped graph", partial(_graph, how="sum"), (row, edges)
    yield "stepped graph mean", partial(_graph, how="mean"), (row, edges)
    yield "stepped graph max", partial(_graph, how="amax"), (row, edges)
    yield "stepped graph index_add", _messages, (leaf(5, 4), edges)
    yield "stepped values", _values, (leaf(4, 3), torch.tensor([2, 0, 1, 1]))
    yield "stepped rays", _rays, (leaf(3, 8), torch.rand(3, 8))
    yield "stepped factors", _factors, (leaf(5, 2), leaf(6, 2), edges)
    yield "stepped autoencoder", _autoencoder, (leaf(1, 2, 8, 8), leaf(3, 2, 3, 3))
    yield "stepped capsules", _capsules, (leaf(2, 4, 3, 5),)
    yield "stepped autocast", _mixed, (leaf(1, 3, 8, 8), leaf(4, 3, 3, 3))


def _step(x: torch.Tensor, make: Callable[[], nn.Module], optimizer: str = "Adam", **options: Any) -> torch.Tensor:
    torch.manual_seed(0)
    model = make().to(x.device)
    steps = getattr(torch.optim, optimizer)(model.parameters(), lr=0.1, **options)
    for _ in range(2):
        steps.zero_grad()
        lost: torch.Tensor = model(x).pow(2).mean()
        lost.backward()
        steps.step()
    return lost.detach()


class _Unet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.down = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.GroupNorm(2, 4), nn.SiLU())
        self.deep = nn.Conv2d(4, 4, 3, padding=1)
        self.up = nn.ConvTranspose2d(4, 4, 2, stride=2)
        self.out = nn.Conv2d(8, 1, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        high = self.down(x)
        low = self.up(self.deep(F.max_pool2d(high, 2)))
        return F.logsigmoid(self.out(torch.cat((high, low), 1)))


class _Pyramid(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 4, 3, 2, 1), nn.Conv2d(4, 4, 3, 2, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        high: torch.Tensor = self.first(x).relu()
        low = self.second(high)
        return high + F.interpolate(low, size=high.shape[-2:], mode="nearest")


class _Language(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words, self.reader, self.out = nn.Embedding(9, 4), nn.LSTM(4, 5, batch_first=True), nn.Linear(5, 9)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        read = self.out(self.reader(self.words(words[:, :-1]))[0])
        return F.cross_entropy(read.flatten(0, 1), words[:, 1:].flatten())


class _Causal(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(9, 8, padding_idx=0)
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.1, batch_first=True, activation="gelu")

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        mask = nn.Transformer.generate_square_subsequent_mask(words.shape[1], device=words.device)
        out: torch.Tensor = self.layer(self.words(words), src_mask=mask, is_causal=True) @ self.words.weight.t()
        return out


class _Spatial(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.where = nn.Linear(3 * 12 * 12, 6)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        grid = F.affine_grid(self.where(x.flatten(1)).view(-1, 2, 3), list(x.shape), align_corners=False)
        return F.grid_sample(x, grid, align_corners=False)


class _Points(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.each, self.all = nn.Conv1d(3, 6, 1), nn.Linear(6, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.all(self.each(x.mT).relu().max(-1)[0])
        return out


def _mobile() -> nn.Module:
    deep = nn.Conv2d(6, 6, 3, padding=1, groups=6, bias=False)
    head = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.2), nn.Linear(6, 3))
    return nn.Sequential(nn.Conv2d(3, 6, 1), nn.BatchNorm2d(6), nn.Hardswish(), deep, nn.ReLU6(), head)


def _larger() -> nn.Module:
    return nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.PReLU(), nn.PixelShuffle(2), nn.ReplicationPad2d(1))


def _decoder() -> nn.Module:
    grow = nn.Upsample(scale_factor=2, mode="bicubic")
    return nn.Sequential(nn.Linear(4, 8), nn.Unflatten(1, (2, 2, 2)), grow, nn.ConvTranspose2d(2, 1, 3, dilation=2))


def _rows() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3), nn.Softplus(), nn.Linear(3, 1, bias=False))


def _graph(x: torch.Tensor, edges: torch.Tensor, how: str) -> torch.Tensor:
    weight = nn.Parameter(torch.ones(4, 3, device=x.device))
    sent = (x @ weight)[edges[0]]
    seen = x.new_zeros(5, 3).scatter_reduce(0, edges[1][:, None].expand(-1, 3), sent, how)
    seen.tanh().sum().backward()
    assert weight.grad is not None
    return weight.grad


def _messages(x: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
    seen = torch.zeros_like(x).index_add(0, edges[1], x.index_select(0, edges[0]))
    degrees = edges[1].bincount(minlength=5).clamp(min=1)
    return seen / degrees[:, None]


def _values(x: torch.Tensor, acts: torch.Tensor) -> torch.Tensor:
    held = x.gather(1, acts[:, None]).squeeze(1)
    with torch.no_grad():
        wanted = x.max(1).values * 0.9
    return F.smooth_l1_loss(held, wanted)


def _rays(density: torch.Tensor, far: torch.Tensor) -> torch.Tensor:
    thick = density.relu() * far.sort(-1)[0].diff(dim=-1, append=far[:, -1:] + 1)
    clear = torch.exp(-F.pad(thick.cumsum(-1)[:, :-1], (1, 0)))
    return (clear * (1 - torch.exp(-thick)) * far).sum(-1)


def _factors(users: torch.Tensor, things: torch.Tensor, pairs: torch.Tensor) -> torch.Tensor:
    return (F.embedding(pairs[0], users) * F.embedding(pairs[1], things)).sum(-1)


def _autoencoder(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    small, places = F.max_pool2d(F.conv2d(x, weight, padding=1), 2, return_indices=True)
    return F.conv_transpose2d(F.max_unpool2d(small, places, [2, 2]), weight, padding=1) - x


def _capsules(votes: torch.Tensor) -> torch.Tensor:
    shares = torch.zeros_like(votes[..., :1])
    for _ in range(2):
        out = F.normalize((shares.softmax(2) * votes).sum(1, keepdim=True), dim=-1)
        shares = shares + (votes * out).sum(-1, keepdim=True)
    return out


def _mixed(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    with torch.autocast(x.device.type, dtype=torch.bfloat16):
        made = F.interpolate(F.conv2d(x, weight), scale_factor=2, mode="bilinear")
        return F.adaptive_avg_pool2d(made, 3).float().logsumexp((1, 2, 3))


def _transformed() -> Iterator[_Made]:
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
