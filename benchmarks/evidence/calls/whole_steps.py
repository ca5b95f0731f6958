"""Whole steps: networks with their losses and optimizers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from benchmarks.evidence.calls.making import Call, leaf, made
from benchmarks.evidence.made import FIFTH, FIRST, FOURTH, SECOND, SIXTH, THIRD

_Loss = Callable[..., torch.Tensor]


@made(FIRST)
def optimized() -> Iterator[Call]:
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


@made(SECOND)
def trained() -> Iterator[Call]:
    image, words = torch.randn(2, 3, 16, 16), torch.randint(0, 11, (2, 7))
    yield "trained residual", partial(_clipped_step, make=_residual), (image,)
    yield "trained segmenter", partial(_clipped_step, make=_segmenter), (image,)
    yield "trained encoder", partial(_clipped_step, make=_encoder), (words,)
    yield "trained upsampler", partial(_clipped_step, make=_upsampler), (image,)
    yield "trained gated", _gated, (leaf(4, 5), leaf(5, 3))
    yield "trained fused Adam", partial(_clipped_step, make=_linear, fused=True), (torch.randn(4, 3),)
    yield "trained ASGD", partial(_clipped_step, make=_linear, optimizer="ASGD"), (torch.randn(4, 3),)
    yield "trained Adamax", partial(_clipped_step, make=_linear, optimizer="Adamax"), (torch.randn(4, 3),)
    yield "trained RAdam", partial(_clipped_step, make=_linear, optimizer="RAdam"), (torch.randn(4, 3),)
    yield "trained bag", _bag_step, (torch.randn(6, 3), torch.tensor([[0, 1], [1, 1]]))
    yield "trained scaled", _scaled, (torch.randn(4, 3),)
    yield "trained experts", _experts, (leaf(6, 4), leaf(4, 3))


def _clipped_step(x: torch.Tensor, make: Callable[[], nn.Module], optimizer: str = "AdamW", **options: Any) -> Any:
    torch.manual_seed(0)
    model = make().to(x.device)
    steps = getattr(torch.optim, optimizer)(model.parameters(), lr=0.01, **options)
    lost = model(x).float().square().mean()
    lost.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    steps.step()
    return lost.detach()


def _linear() -> nn.Module:
    return nn.Sequential(nn.Linear(3, 4), nn.GELU(), nn.Linear(4, 2))


def _residual() -> nn.Module:
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())


def _segmenter() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 4, 3, dilation=2, padding=2), nn.MaxPool2d(2), nn.Upsample(scale_factor=2, mode="bilinear")
    )


def _upsampler() -> nn.Module:
    return nn.Sequential(nn.ReflectionPad2d(1), nn.Conv2d(3, 4, 3), nn.PixelShuffle(2), nn.AdaptiveMaxPool2d(5))


def _encoder() -> nn.Module:
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    return nn.Sequential(nn.Embedding(11, 8), nn.TransformerEncoder(layer, 1, enable_nested_tensor=False))


def _gated(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    with torch.autocast(x.device.type, dtype=torch.bfloat16):
        return F.silu(x @ weight).cumsum(0)


def _bag_step(table: torch.Tensor, words: torch.Tensor) -> torch.Tensor:
    held = nn.Parameter(table.detach().clone())
    optimizer = torch.optim.SGD([held], lr=0.1)
    F.embedding_bag(words, held, mode="sum", sparse=True).sum().backward()
    optimizer.step()
    return held.detach()


def _scaled(x: torch.Tensor) -> torch.Tensor:
    torch.manual_seed(0)
    model = nn.Linear(3, 2).to(x.device)
    scaler = torch.amp.GradScaler(x.device.type, enabled=False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    scaler.scale(model(x).sum()).backward()
    scaler.step(optimizer)
    return model.weight.detach()


def _experts(x: torch.Tensor, gate: torch.Tensor) -> torch.Tensor:
    shares, chosen = (x @ gate).softmax(-1).topk(2, dim=-1)
    out = torch.zeros_like(x)
    for expert in range(3):
        rows, place = torch.where(chosen == expert)
        out = out.index_add(0, rows, x[rows] * shares[rows, place, None])
    return out


@made(THIRD)
def stepped() -> Iterator[Call]:
    image, words, row = torch.randn(2, 3, 12, 12), torch.randint(0, 9, (2, 6)), torch.randn(5, 4)
    edges = torch.tensor([[0, 1, 2, 2, 4], [1, 1, 0, 3, 3]])
    yield "stepped unet", partial(_twice, make=_Unet), (image,)
    yield "stepped mobile", partial(_twice, make=_mobile, optimizer="RMSprop"), (image,)
    yield "stepped pyramid", partial(_twice, make=_Pyramid, optimizer="SGD"), (image,)
    yield "stepped super resolution", partial(_twice, make=_larger, optimizer="NAdam"), (image,)
    yield "stepped decoder of images", partial(_twice, make=_decoder, optimizer="Adagrad"), (row,)
    yield "stepped language", partial(_twice, make=_Language, optimizer="Adam"), (words,)
    yield "stepped transformer", partial(_twice, make=_Causal, optimizer="AdamW", foreach=False), (words,)
    yield (
        "stepped bags",
        partial(_twice, make=lambda: nn.EmbeddingBag(9, 3, mode="max"), optimizer="Adadelta"),
        (words,),
    )
    yield "stepped sparse", partial(_twice, make=lambda: nn.Embedding(9, 3, sparse=True), optimizer="SGD"), (words,)
    yield (
        "stepped SparseAdam",
        partial(_twice, make=lambda: nn.Embedding(9, 3, sparse=True), optimizer="SparseAdam"),
        (words,),
    )
    yield "stepped Rprop", partial(_twice, make=_rows, optimizer="Rprop"), (row,)
    yield "stepped SGD fused", partial(_twice, make=_rows, optimizer="SGD", momentum=0.9, fused=True), (row,)
    yield "stepped transformed", partial(_twice, make=_Spatial), (image,)
    yield "stepped points", partial(_twice, make=_Points), (torch.randn(2, 9, 3),)
    yield "stepped graph", partial(_graph, how="sum"), (row, edges)
    yield "stepped graph mean", partial(_graph, how="mean"), (row, edges)
    yield "stepped graph max", partial(_graph, how="amax"), (row, edges)
    yield "stepped graph index_add", _messages, (leaf(5, 4), edges)
    yield "stepped values", _values, (leaf(4, 3), torch.tensor([2, 0, 1, 1]))
    yield "stepped rays", _rays, (leaf(3, 8), torch.rand(3, 8))
    yield "stepped factors", _factors, (leaf(5, 2), leaf(6, 2), edges)
    yield "stepped autoencoder", _autoencoder, (leaf(1, 2, 8, 8), leaf(3, 2, 3, 3))
    yield "stepped capsules", _capsules, (leaf(2, 4, 3, 5),)
    yield "stepped autocast", _in_autocast, (leaf(1, 3, 8, 8), leaf(4, 3, 3, 3))


def _twice(x: torch.Tensor, make: Callable[[], nn.Module], optimizer: str = "Adam", **options: Any) -> torch.Tensor:
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


def _in_autocast(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    with torch.autocast(x.device.type, dtype=torch.bfloat16):
        made = F.interpolate(F.conv2d(x, weight), scale_factor=2, mode="bilinear")
        return F.adaptive_avg_pool2d(made, 3).float().logsumexp((1, 2, 3))


@made(FOURTH)
def optimizers() -> Iterator[Call]:
    x, w = leaf(5, 4).detach(), leaf(3, 4).detach()
    choices: dict[str, dict[str, Any]] = {
        "SGD": {"momentum": 0.9, "nesterov": True, "lr": 0.1},
        "Adam": {"amsgrad": True, "fused": False},
        "AdamW": {"foreach": True, "maximize": True},
        "NAdam": {"decoupled_weight_decay": True},
        "RAdam": {"foreach": False},
        "Adagrad": {"lr_decay": 0.1},
        "Adadelta": {"rho": 0.8},
        "Adamax": {"weight_decay": 0.1},
        "ASGD": {"lambd": 0.1},
        "Rprop": {"etas": (0.4, 1.1)},
        "RMSprop": {"centered": True, "momentum": 0.5},
        "LBFGS": {"max_iter": 3, "line_search_fn": "strong_wolfe"},
        "Adafactor": {"lr": 0.1},
    }
    for name, options in choices.items():
        yield f"moved by {name}", partial(_moved, name, options), (x, w)
    yield "moved fused", partial(_moved, "AdamW", {"fused": True}), (x, w)
    yield "moved captured", partial(_moved, "Adam", {"capturable": True}), (x, w)
    yield "moved table by SGD", partial(_table, "SGD", {"lr": 0.1}, True), (w,)
    yield "moved table by SGD slowly", partial(_table, "SGD", {"lr": 0.1, "momentum": 0.9}, False), (w,)
    yield "moved table by Adagrad", partial(_table, "Adagrad", {}, True), (w,)
    yield "moved table by SparseAdam", partial(_table, "SparseAdam", {}, True), (w,)
    yield "moved averaged", _averaged, (x, w)
    yield "moved scaled", _scaled_and_clipped, (x, w)
    yield "moved in groups", _groups, (x, w)
    yield "moved meta", _meta, (x, w)


def _moved(name: str, options: dict[str, Any], x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    held = nn.Parameter(w.clone())
    mover = getattr(torch.optim, name)([held], **options)

    def close() -> torch.Tensor:
        mover.zero_grad()
        loss = (x @ held.t()).tanh().pow(2).mean()
        loss.backward()
        return loss

    for _ in range(2):
        mover.step(close)
    return held.detach()


def _table(name: str, options: dict[str, Any], sparse: bool, w: torch.Tensor) -> torch.Tensor:
    held = nn.Parameter(w.clone())
    mover = getattr(torch.optim, name)([held], **options)
    places = torch.tensor([0, 2, 2, 0], device=w.device)
    for _ in range(2):
        mover.zero_grad()
        F.embedding(places, held, sparse=sparse).pow(2).sum().backward()
        mover.step()
    return held.detach()


def _averaged(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    layer = nn.Linear(4, 3).to(x.device)
    with torch.no_grad():
        layer.weight.copy_(w)
    mean = torch.optim.swa_utils.AveragedModel(layer, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.9))
    layer(x).sum().backward()
    torch.optim.SGD(layer.parameters(), lr=0.1).step()
    mean.update_parameters(layer)
    out: torch.Tensor = mean(x)
    return out


def _scaled_and_clipped(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    held = nn.Parameter(w.clone())
    mover = torch.optim.SGD([held], lr=0.1)
    scaler = torch.amp.GradScaler(x.device.type)
    scaler.scale((x @ held.t()).sum()).backward()
    scaler.unscale_(mover)
    nn.utils.clip_grad_value_([held], 0.1)
    scaler.step(mover)
    scaler.update()
    return held.detach()


def _groups(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 8), nn.PReLU(), nn.Linear(8, 3)).to(x.device)
    mover = torch.optim.AdamW([{"params": net[0].parameters(), "lr": 0.1}, {"params": net[2].parameters()}])  # type: ignore[arg-type]
    plan = torch.optim.lr_scheduler.CosineAnnealingLR(mover, 4)
    for rows in x.split(2):
        net(rows).logsumexp(1).sum().backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        mover.step()
        plan.step()
    return net[0].weight.detach()  # type: ignore[operator]


def _meta(x: torch.Tensor, w: torch.Tensor) -> Any:
    held = w.clone().requires_grad_()
    (slope,) = torch.autograd.grad((x @ held.t()).sin().mean(), held, create_graph=True)
    moved = held - 0.1 * slope
    return torch.autograd.grad((x @ moved.t()).pow(2).mean(), held)


@made(FIFTH)
def scripts() -> Iterator[Call]:
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


def _one_step(make: Callable[[], nn.Module], loss: _Loss, **options: Any) -> Callable[..., Any]:
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


@made(SIXTH)
def optimizers_sixth() -> Iterator[Call]:
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
            yield f"optimized {name} {word}", _one_step(net, _squares, optimizer=kind, settings=chosen), (x,)
    for name in ("sgd", "adam", "adamw"):
        kind, settings = kinds[name]
        chosen = {**settings, "fused": True}
        yield f"optimized {name} fused", _one_step(net, _squares, optimizer=kind, settings=chosen, steps=2), (x,)
    yield "optimized clipped", _one_step(net, _squares, clip=True, steps=2), (x,)
    yield "optimized lbfgs", _lbfgs_of_layer, (x,)
    yield "optimized scaled", _scaled_by_hand, (x,)
    yield "optimized averaged", _averaged_equally, (x,)


def _lbfgs_of_layer(x: torch.Tensor) -> Any:
    layer = nn.Linear(4, 1).to(x.device)
    optimizer = torch.optim.LBFGS(layer.parameters(), max_iter=1)

    def closure() -> Any:
        optimizer.zero_grad()
        loss = layer(x).pow(2).sum()
        loss.backward()
        return loss

    optimizer.step(closure)
    return layer.weight.detach()


def _scaled_by_hand(x: torch.Tensor) -> Any:
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


def _averaged_equally(x: torch.Tensor) -> Any:
    layer = nn.Linear(4, 3).to(x.device)
    mean = torch.optim.swa_utils.AveragedModel(layer)
    layer(x).sum().backward()
    mean.update_parameters(layer)
    return next(mean.parameters()).detach()


@made(SIXTH)
def networks() -> Iterator[Call]:
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
            lambda: _TransformerLanguage(),
            lambda out, y: F.cross_entropy(out.flatten(0, 1), y.flatten()),
            (words, words),
        ),
        "language by rows": (lambda: _TransformerLanguage(), lambda out, y: F.cross_entropy(out.mT, y), (words, words)),
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
        "points": (lambda: _PointRows(), _squares, (torch.randn(2, 9, 3),)),
        "quantised": (lambda: _Codes(), _squares, (torch.randn(6, 4),)),
    }
    for name, (make, loss, args) in heads.items():
        yield f"network {name}", _one_step(make, loss), args
        yield f"network {name} adam", _one_step(make, loss, optimizer=torch.optim.AdamW, clip=True), args


def _focal(out: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    near = out.log_softmax(1).gather(1, y[:, None])
    return (-((1 - near.exp()) ** 2) * near).mean()


def _dice(out: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    wanted = F.one_hot(y, 4).movedim(-1, 1).float()
    share = out.softmax(1)
    return 1 - 2 * (share * wanted).sum() / (share + wanted).sum()


class _TransformerLanguage(nn.Module):
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


class _PointRows(nn.Module):
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
