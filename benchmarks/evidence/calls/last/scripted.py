"""Steps as training scripts have them: a small network, its loss and, here and there, its optimizer."""

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
    image, volume, words = leaf(2, 3, 16, 16), leaf(1, 1, 8, 8, 8), torch.randint(0, 11, (2, 6))
    rows, sound = leaf(6, 8), leaf(2, 1, 64)
    nets: dict[str, tuple[Callable[[], Any], torch.Tensor]] = {
        "vgg": (lambda: nn.Sequential(_block(3, 4), nn.MaxPool2d(2), nn.AdaptiveAvgPool2d(3), _head(36)), image),
        "resnet": (lambda: nn.Sequential(_block(3, 4), _Added(_block(4, 4)), nn.AdaptiveAvgPool2d(1), _head(4)), image),
        "densenet": (
            lambda: nn.Sequential(_Joined(_block(3, 2)), nn.AvgPool2d(2), nn.AdaptiveMaxPool2d(2), _head(20)),
            image,
        ),
        "inception": (lambda: nn.Sequential(_Wide(), nn.AdaptiveAvgPool2d(1), _head(9)), image),
        "segmenter": (
            lambda: nn.Sequential(_block(3, 4), nn.MaxPool2d(2), nn.Upsample(scale_factor=2), _block(4, 2)),
            image,
        ),
        "segmenter bilinear": (lambda: nn.Sequential(_block(3, 4, 2), nn.UpsamplingBilinear2d(scale_factor=2)), image),
        "segmenter turned": (lambda: nn.Sequential(_block(3, 4, 2), nn.ConvTranspose2d(4, 2, 4, 2, 1)), image),
        "deep dilated": (
            lambda: nn.Sequential(nn.Conv2d(3, 4, 3, padding=4, dilation=4), nn.SiLU(), nn.Conv2d(4, 2, 1)),
            image,
        ),
        "style": (
            lambda: nn.Sequential(nn.ReflectionPad2d(3), nn.Conv2d(3, 4, 7), nn.InstanceNorm2d(4), nn.ReLU()),
            image,
        ),
        "volume": (lambda: nn.Sequential(nn.Conv3d(1, 2, 3), nn.BatchNorm3d(2), nn.MaxPool3d(2), _head(54)), volume),
        "volume resized": (
            lambda: nn.Sequential(nn.Conv3d(1, 2, 3, 2), nn.Upsample(scale_factor=2, mode="trilinear")),
            volume,
        ),
        "sound": (
            lambda: nn.Sequential(
                nn.Conv1d(1, 4, 9, 3), nn.GroupNorm(2, 4), nn.GELU(), nn.AdaptiveAvgPool1d(4), _head(16)
            ),
            sound,
        ),
        "wave": (
            lambda: nn.Sequential(nn.Conv1d(1, 2, 3, dilation=4, padding=4), nn.Tanh(), nn.Conv1d(2, 1, 1)),
            sound,
        ),
        "perceptron": (
            lambda: nn.Sequential(nn.Linear(8, 6), nn.BatchNorm1d(6), nn.LeakyReLU(), nn.Dropout(0.2), nn.Linear(6, 3)),
            rows,
        ),
        "mixer": (lambda: nn.Sequential(nn.LayerNorm(8), _Turned(nn.Linear(6, 6)), nn.Linear(8, 4)), rows[None]),
        "bottleneck": (lambda: nn.Sequential(nn.Linear(8, 2), nn.Softplus(), nn.Linear(2, 8), nn.Sigmoid()), rows),
        "words": (lambda: nn.Sequential(nn.Embedding(11, 8, padding_idx=0), nn.Linear(8, 11)), words),
        "words averaged": (lambda: nn.Sequential(nn.EmbeddingBag(11, 8, mode="mean"), nn.Linear(8, 3)), words),
        "words attended": (
            lambda: nn.Sequential(nn.Embedding(11, 8), nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)),
            words,
        ),
        "words filtered": (
            lambda: nn.Sequential(nn.Embedding(11, 8), _Turned(nn.Conv1d(8, 4, 3)), nn.AdaptiveMaxPool1d(1)),
            words,
        ),
    }
    for name, (make, x) in nets.items():
        yield f"script {name}", partial(_stepped, make), (x,)
        if x.is_floating_point():
            yield f"script {name} frozen", partial(_stepped, make), (x.detach(),)
            yield f"script {name} cast", partial(_stepped, make, cast=True), (x.detach(),)
    yield from _losses()


def _block(inner: int, outer: int, step: int = 1) -> nn.Module:
    return nn.Sequential(nn.Conv2d(inner, outer, 3, step, 1, bias=False), nn.BatchNorm2d(outer), nn.ReLU(inplace=True))


def _head(size: int) -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(size, 5))


class _Added(nn.Module):
    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = x + self.inner(x)
        return out


class _Joined(_Added):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cat([x, self.inner(x)], 1)


class _Turned(_Added):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.inner(x.mT)
        return out if isinstance(self.inner, nn.Conv1d) else out.mT


class _Wide(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.one, self.three = nn.Conv2d(3, 3, 1), nn.Conv2d(3, 3, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cat([self.one(x), self.three(x), F.avg_pool2d(x, 3, 1, 1)], 1)


def _stepped(make: Callable[[], Any], x: torch.Tensor, cast: bool = False) -> Any:
    torch.manual_seed(0)
    net = make().to(x.device)
    mover = torch.optim.AdamW(net.parameters(), lr=0.01)
    with torch.autocast(x.device.type, dtype=torch.bfloat16, enabled=cast):
        out = net(x)
        loss = out.float().pow(2).mean()
    if x.requires_grad:
        return out
    loss.backward()
    nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    mover.step()
    return loss.detach()


def _losses() -> Iterator[_Made]:
    x, i = leaf(6, 5), torch.tensor([0, 4, 4, 2, 1, 0])
    image, classes = leaf(2, 4, 5, 5), torch.randint(0, 4, (2, 5, 5))
    yield "script loss", nn.CrossEntropyLoss(label_smoothing=0.1), (x, i)
    yield "script loss weighed", lambda x, i: F.cross_entropy(x, i, weight=torch.ones(5, device=x.device)), (x, i)
    yield "script loss pixels", nn.CrossEntropyLoss(ignore_index=3), (image, classes)
    yield "script loss pixels cast", lambda x, i: F.cross_entropy(x.bfloat16(), i), (image, classes)
    yield "script loss pixels frozen", nn.CrossEntropyLoss(), (image.detach(), classes)
    yield "script loss focal", _focal, (image, classes)
    yield "script loss dice", _dice, (image, classes)
    yield "script loss arcs", _arcs, (x, i, leaf(5, 5))
    yield "script loss supervised", _supervised, (x, i)
    yield (
        "script loss distilled",
        lambda x: F.kl_div(F.log_softmax(x / 2, 1), F.softmax(x.detach().roll(1, 0) / 2, 1)),
        (x,),
    )
    yield "script loss proxies", lambda x, i: torch.cdist(x, x[i]).square().mean(), (x, i)
    yield "script loss hard", lambda x, i: F.cross_entropy(x, i, reduction="none").topk(3).values.mean(), (x, i)
    yield "script loss joined ctc", _ctc, (leaf(8, 2, 5), torch.tensor([1, 2, 2, 4]))
    yield (
        "script metric matrix",
        lambda x, i: torch.bincount(i * 5 + x.argmax(1), minlength=25).view(5, 5),
        (x.detach(), i),
    )
    yield "script metric weighed", lambda x, i: torch.bincount(i, x.amax(1)), (x.detach(), i)
    yield "script metric area", _area, (x.detach(), i)
    yield "script metric top", lambda x, i: (x.topk(3).indices == i[:, None]).any(1).float().mean(), (x.detach(), i)
    yield "script metric median", lambda x: x.abs().median(), (x.detach(),)
    yield "script metric quantile", lambda x: x.flatten().quantile(0.9), (x.detach(),)
    yield "script metric histogram", lambda x: x.histc(bins=20, min=-3, max=3), (x.detach(),)
    yield "script metric calibrated", _calibrated, (x.detach(), i)
    yield "script statistics", lambda x, i: torch.zeros(5, 5, device=x.device).index_add_(0, i, x), (x.detach(), i)
    yield "script shuffled", lambda x: x[torch.randperm(6, device=x.device)], (x,)
    yield "script sampled", lambda x: torch.multinomial(x.softmax(1), 2), (x.detach(),)
    yield "script sampled again", lambda x: torch.multinomial(x.softmax(1), 4, replacement=True), (x.detach(),)
    yield (
        "script cropped",
        lambda x: F.interpolate(x[..., 1:4, 1:4], (5, 5), mode="bilinear", align_corners=False),
        (image,),
    )
    yield "script rotated", _rotated, (image,)
    yield "script blurred", lambda x: F.avg_pool2d(F.pad(x, (1, 1, 1, 1), mode="replicate"), 3, 1), (image,)
    yield "script erased", lambda x: x.masked_fill(torch.rand_like(x) > 0.9, 0), (image,)


def _focal(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
    each = F.cross_entropy(x, i, reduction="none")
    return ((1 - torch.exp(-each)) ** 2 * each).mean()


def _dice(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
    wanted = torch.zeros_like(x).scatter_(1, i[:, None], 1.0)
    return 1 - 2 * (x.softmax(1) * wanted).sum() / (x.softmax(1) + wanted).sum()


def _arcs(x: torch.Tensor, i: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    cosines = F.linear(F.normalize(x), F.normalize(w))
    rows = torch.arange(6, device=x.device)
    moved = cosines.clone()
    moved[rows, i] = cosines[rows, i] - 0.2
    return F.cross_entropy(16 * moved, i)


def _supervised(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
    alike = (i[:, None] == i).fill_diagonal_(False)
    scores = (F.normalize(x) @ F.normalize(x).t() / 0.1).masked_fill(torch.eye(6, device=x.device).bool(), -1e9)
    return -(scores.log_softmax(1) * alike).sum(1).div(alike.sum(1).clamp(min=1)).mean()


def _ctc(x: torch.Tensor, words: torch.Tensor) -> torch.Tensor:
    return F.ctc_loss(x.log_softmax(2), words, torch.tensor([8, 8]), torch.tensor([2, 2]))


def _area(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
    hits = (i == 4).float()[x[:, 4].argsort(descending=True)]
    return torch.trapezoid(hits.cumsum(0) / 2, (1 - hits).cumsum(0) / 4)


def _calibrated(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
    sure, said = x.softmax(1).max(1)
    place = torch.bucketize(sure, torch.linspace(0, 1, 6, device=x.device)) - 1
    sums = torch.zeros(6, device=x.device).scatter_add_(0, place.clamp(0, 5), sure - (said == i).float())
    return sums.abs().sum() / 6


def _rotated(x: torch.Tensor) -> torch.Tensor:
    turn = torch.tensor([[[0.9, -0.4, 0.0], [0.4, 0.9, 0.1]]], device=x.device).expand(2, 2, 3)
    return F.grid_sample(x, F.affine_grid(turn, [2, 4, 5, 5], align_corners=False), align_corners=False)
