"""Losses, alignments, optimizers, modules with state."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils import prune

from benchmarks.evidence.calls.layers import leaf

_Made = tuple[str, Callable[..., Any], tuple[Any, ...]]


def made() -> Iterator[_Made]:
    """Each call's name, function and tensors."""
    yield from _losses()
    yield from _alignments()
    yield from _optimizers()
    yield from _modules()


def _losses() -> Iterator[_Made]:
    x, i, pixels = leaf(5, 4), torch.tensor([0, 3, 1, 1, 2]), leaf(2, 3, 4, 5)
    places = torch.randint(0, 3, (2, 4, 5))
    for word, kind in (("double", torch.float64), ("half", torch.float16), ("bfloat16", torch.bfloat16)):
        yield f"scored entropy {word}", F.cross_entropy, (leaf(5, 4, dtype=kind), i)
        yield f"scored pixels {word}", F.cross_entropy, (leaf(2, 3, 4, 5, dtype=kind), places)
        yield f"scored margins {word}", F.multi_margin_loss, (leaf(5, 4, dtype=kind), i)
        yield (
            f"scored binary {word}",
            lambda x: F.binary_cross_entropy_with_logits(x, x.detach().sigmoid()),
            (leaf(5, 4, dtype=kind),),
        )
    yield "scored pixels ignoring", partial(F.cross_entropy, ignore_index=2), (pixels, places)
    yield "scored pixels sum", partial(F.cross_entropy, reduction="sum"), (pixels, places)
    yield "scored pixels weighed", lambda x, i: F.cross_entropy(x, i, x.new_tensor([1, 2, 3])), (pixels, places)
    yield (
        "scored pixels log",
        lambda x, i: F.nll_loss(F.log_softmax(x, 1), i, reduction="none").mean(),
        (pixels, places),
    )
    yield "scored pixels below", _nll_below, (pixels, places)
    yield "scored pixels gathered", lambda x, i: -x.log_softmax(1).gather(1, i[:, None]).mean(), (pixels, places)
    yield (
        "scored pixels last",
        lambda x, i: F.cross_entropy(x.contiguous(memory_format=torch.channels_last), i),
        (
            pixels,
            places,
        ),
    )
    yield (
        "scored rows of words",
        lambda x, i: F.cross_entropy(x.flatten(2).mT.flatten(0, 1), i.flatten()),
        (pixels, places),
    )
    yield "scored words", lambda x, i: F.cross_entropy(x.flatten(2), i.flatten(1)), (pixels, places)
    yield "scored smooth", partial(F.cross_entropy, label_smoothing=0.2), (x, i)
    yield "scored one row", F.nll_loss, (leaf(4), torch.tensor(2))
    yield "scored labels", F.multilabel_margin_loss, (x, torch.tensor([[0, 2, -1, 1]] * 5))
    yield "scored soft labels", lambda x: F.multilabel_soft_margin_loss(x, (x > 0).float()), (x,)
    yield "scored squares", lambda x: F.mse_loss(x, x.detach().roll(1, 0), reduction="sum"), (x,)
    yield "scored divergence", lambda x: F.kl_div(x.log_softmax(1), x.detach().softmax(1), reduction="batchmean"), (x,)
    yield "scored by logs", lambda x: F.kl_div(x.log_softmax(1), x.detach().log_softmax(1), log_target=True), (x,)
    yield "scored triplets", lambda x: F.triplet_margin_loss(x, x.roll(1, 0), x.roll(2, 0), swap=True), (x,)
    yield "scored distances", lambda x: F.pairwise_distance(x, x.roll(1, 0), p=1), (x,)
    yield "scored cosines", lambda x: F.cosine_embedding_loss(x, x.roll(1, 0), torch.ones(5, device=x.device)), (x,)
    yield "scored lists", lambda x: x.sort(1, descending=True).values.flip(1).logcumsumexp(1).sum(), (x,)
    yield "scored arcs", _arcs, (x, i)
    yield "scored centres", _centres, (x, i, leaf(4, 4))
    yield "scored barlow", lambda x: (x.t() @ x / 5 - torch.eye(4, device=x.device)).pow(2).sum(), (x,)
    yield "scored clip", lambda x: F.cross_entropy(x @ x.t(), torch.arange(5, device=x.device)), (x,)
    yield "scored tversky", lambda x, i: 1 - (x.softmax(1) * F.one_hot(i, 3).movedim(-1, 1)).sum(), (pixels, places)
    yield "scored chamfer", lambda x: torch.cdist(x[None], x[None] + 1).min(-1).values.mean(), (x,)
    yield "scored lovasz", _lovasz, (leaf(40),)
    yield "scored total variation", lambda x: x.diff(dim=-1).abs().mean() + x.diff(dim=-2).abs().mean(), (pixels,)
    yield "scored structure", _structure, (leaf(1, 1, 9, 9),)
    yield "scored quantiles", lambda x: torch.maximum(0.9 * (x - 1), -0.1 * (x - 1)).mean(), (x,)
    yield (
        "scored linear chunks",
        lambda x, i: sum(F.cross_entropy(p, t) for p, t in zip(x.chunk(2), i.chunk(2), strict=True)),
        (x, i),
    )


def _nll_below(x: torch.Tensor, i: torch.Tensor) -> Any:
    return torch.ops.aten.nll_loss2d_forward(x.log_softmax(1), i, None, 1, -100)[0]


def _arcs(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
    cosines = F.normalize(x)
    moved = cosines.scatter(1, i[:, None], cosines.gather(1, i[:, None]) - 0.3)
    return F.cross_entropy(moved * 8, i)


def _centres(x: torch.Tensor, i: torch.Tensor, centres: torch.Tensor) -> torch.Tensor:
    counts = torch.bincount(i, minlength=4).float()
    return ((x - centres[i]).square().sum(1) / counts[i]).sum()


def _lovasz(x: torch.Tensor) -> torch.Tensor:
    labels = (x.detach() > 0.2).float()
    errors, order = torch.sort(1 - x * (2 * labels - 1), 0, descending=True)
    sorted_labels = labels[order]
    total = sorted_labels.sum()
    jaccard = 1 - (total - sorted_labels.cumsum(0)) / (total + (1 - sorted_labels).cumsum(0))
    return torch.dot(errors.relu(), jaccard.diff(prepend=jaccard[:1] * 0))


def _structure(x: torch.Tensor) -> torch.Tensor:
    mean = F.avg_pool2d(x, 3, 1)
    return (F.avg_pool2d(x * x, 3, 1) - mean * mean).clamp(min=1e-4).log().mean()


def _alignments() -> Iterator[_Made]:
    frames = leaf(9, 2, 5)
    words = torch.tensor([[1, 2, 1], [4, 1, 3]])
    long, short = torch.tensor([9, 9]), torch.tensor([3, 2])
    yield "matched mean", partial(_ctc, reduction="mean"), (frames, words, long, short)
    yield (
        "matched none infinite",
        partial(_ctc, zero_infinity=True, reduction="none"),
        (frames, words, long * 0 + 2, short),
    )
    yield "matched joined", _ctc, (frames, words.flatten()[:5], long, short)
    yield "matched joined lengths int32", _ctc, (frames, words.flatten()[:5].int(), long.int(), short.int())
    yield (
        "matched joined late blank",
        partial(_ctc, blank=4),
        (frames, words.clamp(max=3).flatten()[:5].int(), long, short),
    )
    yield (
        "matched module",
        lambda x, w, n, m: nn.CTCLoss(blank=0)(x.log_softmax(-1), w, n, m),
        (frames, words, long, short),
    )
    yield "matched double", _ctc, (leaf(9, 2, 5, dtype=torch.float64), words, long, short)
    yield "matched single", lambda x, w: _ctc(x[:, 0], w[0], torch.tensor(9), torch.tensor(3)), (frames, words)
    yield "matched by fields", _crf, (leaf(6, 4), leaf(4, 4))
    yield "matched by path", lambda x, w: _viterbi(x.detach(), w.detach()), (leaf(6, 4), leaf(4, 4))
    yield "matched transducer", _transducer, (leaf(5, 4),)
    yield "matched warped", _warped, (leaf(5, 2), leaf(4, 2))


def _ctc(x: torch.Tensor, words: torch.Tensor, long: Any, short: Any, **options: Any) -> torch.Tensor:
    return F.ctc_loss(x.log_softmax(-1), words, long, short, **options)


def _crf(emissions: torch.Tensor, moves: torch.Tensor) -> torch.Tensor:
    state = emissions[0]
    for step in emissions[1:]:
        state = torch.logsumexp(state[:, None] + moves, 0) + step
    return state.logsumexp(0) - emissions[:, 0].sum() - moves[0, 0] * 5


def _viterbi(emissions: torch.Tensor, moves: torch.Tensor) -> torch.Tensor:
    state, back = emissions[0], []
    for step in emissions[1:]:
        best = (state[:, None] + moves).max(0)
        state = best.values + step
        back.append(best.indices)
    path = [state.argmax()]
    for places in reversed(back):
        path.append(places[path[-1]])
    return torch.stack(path)


def _transducer(x: torch.Tensor) -> torch.Tensor:
    rows = [x[0].cumsum(0)]
    for row in x[1:]:
        rows.append((row + rows[-1]).logcumsumexp(0))
    return rows[-1][-1]


def _warped(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    far = torch.cdist(x, y)
    table = far.cumsum(1)
    return -torch.logcumsumexp(-table, 0)[-1].sum()


def _optimizers() -> Iterator[_Made]:
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
    yield "moved scaled", _scaled, (x, w)
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


def _scaled(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
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


def _modules() -> Iterator[_Made]:
    rows, image = leaf(4, 6), leaf(2, 3, 8, 8)
    layers: dict[str, tuple[Callable[[], Any], torch.Tensor]] = {
        "glu": (lambda: nn.Sequential(nn.Linear(6, 8), nn.GLU(), nn.PReLU(4)), rows),
        "maxout": (lambda: nn.Sequential(nn.Linear(6, 8), nn.Unflatten(1, (2, 4)), nn.AdaptiveMaxPool1d(1)), rows),
        "bilinear": (lambda: _Twin(nn.Bilinear(6, 6, 2)), rows),
        "adaptive softmax": (lambda: _Twin(nn.AdaptiveLogSoftmaxWithLoss(6, 9, [3])), rows),
        "weight norm": (lambda: nn.utils.parametrizations.weight_norm(nn.Conv2d(3, 2, 3)), image),
        "spectral norm": (lambda: nn.utils.parametrizations.spectral_norm(nn.Conv2d(3, 2, 3)), image),
        "orthogonal": (lambda: nn.utils.parametrizations.orthogonal(nn.Linear(6, 6)), rows),
        "pruned": (lambda: prune.l1_unstructured(nn.Linear(6, 3), "weight", 0.4), rows),
        "squeezed": (
            lambda: nn.Sequential(nn.Conv2d(3, 4, 1), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.LazyLinear(3)),
            image,
        ),
        "shuffled": (lambda: nn.Sequential(nn.Conv2d(3, 4, 3), nn.ChannelShuffle(2), nn.PixelShuffle(2)), image),
        "upsampled": (lambda: nn.Sequential(nn.Upsample(scale_factor=2, mode="bilinear"), nn.Conv2d(3, 1, 3)), image),
        "padded": (lambda: nn.Sequential(nn.ReflectionPad2d(2), nn.Conv2d(3, 2, 3), nn.InstanceNorm2d(2)), image),
        "encoder": (lambda: nn.TransformerEncoderLayer(6, 2, 8, 0.1, batch_first=True), rows[None]),
        "pre-norm encoder": (lambda: nn.TransformerEncoderLayer(6, 3, 8, 0.0, norm_first=True), rows[:, None]),
        "frozen encoder": (lambda: nn.TransformerEncoderLayer(6, 2, 8).eval(), rows.detach()[:, None]),
        "whole": (lambda: _Twin(nn.Transformer(6, 2, 1, 1, 8, dropout=0.0)), rows[:, None]),
    }
    for name, (make, x) in layers.items():
        yield f"module {name}", partial(_built, make), (x,)


class _Twin(nn.Module):
    """Calls what takes two tensors with its input twice, or with labels."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: torch.Tensor) -> Any:
        labelled = isinstance(self.inner, nn.AdaptiveLogSoftmaxWithLoss)
        return self.inner(x, torch.arange(len(x), device=x.device) * 2 if labelled else x)


def _built(make: Callable[[], Any], x: torch.Tensor) -> Any:
    torch.manual_seed(0)
    return make().to(x.device)(x)
