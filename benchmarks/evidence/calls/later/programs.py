"""Losses, look-ups, draws, optimizers, small models and other ways to differentiate, as scripts call them."""

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
    yield from _lost()
    yield from _aligned()
    yield from _looked_up()
    yield from _drawn()
    yield from _trained()
    yield from _differentiated()


def _lost() -> Iterator[_Made]:
    scores, classes = leaf(8, 5), torch.randint(0, 5, (8,))
    maps, labels = leaf(2, 4, 6, 6), torch.randint(0, 4, (2, 6, 6))
    yield "lost nll", lambda x, y: F.nll_loss(x.log_softmax(1), y), (scores, classes)
    yield "lost nll of one", lambda x, y: F.nll_loss(x.log_softmax(0), y), (leaf(5), torch.tensor(3))
    yield "lost nll 1d sequence", lambda x, y: F.nll_loss(x, y), (leaf(2, 5, 7), torch.randint(0, 5, (2, 7)))
    yield "lost nll volume", lambda x, y: F.nll_loss(x, y), (leaf(1, 3, 2, 4, 4), torch.randint(0, 3, (1, 2, 4, 4)))
    yield "lost nll pixels half", lambda x, y: F.nll_loss(x, y), (maps.detach().bfloat16().requires_grad_(), labels)
    yield "lost cross_entropy ignored", partial(F.cross_entropy, ignore_index=0), (scores, classes)
    yield "lost cross_entropy pixels", nn.CrossEntropyLoss(), (maps, labels)
    yield "lost cross_entropy pixels apart", nn.CrossEntropyLoss(reduction="none"), (maps, labels)
    yield "lost cross_entropy pixels smooth", nn.CrossEntropyLoss(label_smoothing=0.2), (maps, labels)
    yield "lost cross_entropy without gradient", F.cross_entropy, (maps.detach(), labels)
    yield "lost cross_entropy shares of pixels", lambda x, y: F.cross_entropy(x, y.softmax(1)), (maps, maps.detach())
    yield "lost focal", _focal, (maps, labels)
    yield "lost dice", _dice, (maps, labels)
    yield "lost bce", F.binary_cross_entropy_with_logits, (scores, torch.rand(8, 5))
    yield "lost bce weighted", _weighted_bce, (scores, torch.rand(8, 5))
    yield "lost huber", F.huber_loss, (scores, torch.rand(8, 5))
    yield "lost l1 sum", partial(F.l1_loss, reduction="sum"), (scores, torch.rand(8, 5))
    yield "lost poisson", F.poisson_nll_loss, (scores, torch.rand(8, 5))
    yield "lost gaussian", lambda x, y, v: F.gaussian_nll_loss(x, y, v.exp()), (scores, torch.rand(8, 5), leaf(8, 5))
    yield "lost hinge embedding", F.hinge_embedding_loss, (scores, torch.ones(8, 5))
    yield "lost multilabel soft", F.multilabel_soft_margin_loss, (scores, torch.ones(8, 5))
    yield "lost multilabel margin", F.multilabel_margin_loss, (leaf(6), torch.tensor([1, 3, -1, 0, 0, 0]))
    yield "lost multi_margin weighted", _multi_margin, (scores, classes, torch.rand(5))
    yield "lost cosine embedding", lambda x, y: F.cosine_embedding_loss(x, y, x.new_ones(8)), (scores, leaf(8, 5))
    yield "lost margin ranking", lambda x, y: F.margin_ranking_loss(x, y, x.new_ones(8, 5)), (scores, leaf(8, 5))
    yield "lost contrastive", _contrastive, (leaf(6, 4), leaf(6, 4))
    yield "lost mse half", F.mse_loss, (leaf(5, dtype=torch.bfloat16), torch.rand(5).bfloat16())


def _focal(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    lost = F.cross_entropy(x, y, reduction="none")
    return ((1 - (-lost).exp()) ** 2 * lost).mean()


def _dice(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    hot = F.one_hot(y, 4).movedim(-1, 1).to(x.dtype)
    return 1 - 2 * (x.softmax(1) * hot).sum() / (x.softmax(1) + hot).sum()


def _weighted_bce(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return F.binary_cross_entropy_with_logits(x, y, pos_weight=torch.ones(5, device=x.device) * 2)


def _multi_margin(x: torch.Tensor, y: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return F.multi_margin_loss(x, y, weight=weight)


def _contrastive(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    near = F.normalize(x) @ F.normalize(y).T / 0.1
    return F.cross_entropy(near, torch.arange(6, device=x.device))


def _aligned() -> Iterator[_Made]:
    frames, targets = leaf(10, 2, 5), torch.randint(1, 5, (2, 3))
    yield "aligned ctc tuples", lambda x, y: _ctc(x.log_softmax(2), y, (10, 10), (3, 3)), (frames, targets)
    yield "aligned ctc joined", _ctc_joined, (frames, targets.flatten())
    yield "aligned ctc int32", lambda x, y: _ctc(x.log_softmax(2), y, (10, 10), (2, 3)), (frames, targets.int())
    yield (
        "aligned ctc blank",
        lambda x, y: _ctc(x.log_softmax(2), y, (9, 10), (3, 2), blank=4),
        (
            frames,
            targets.clamp(max=3),
        ),
    )
    yield (
        "aligned ctc double",
        lambda x, y: _ctc(x.log_softmax(2), y, (10, 8), (3, 3)),
        (
            leaf(10, 2, 5, dtype=torch.float64),
            targets,
        ),
    )
    yield "aligned ctc unbatched", lambda x, y: _ctc(x.log_softmax(1), y, (10,), (3,)), (leaf(10, 5), targets[0])
    yield (
        "aligned ctc without gradient",
        lambda x, y: _ctc(x.log_softmax(2), y, (10, 10), (3, 3)),
        (
            frames.detach(),
            targets,
        ),
    )
    yield (
        "aligned ctc zero infinity",
        nn.CTCLoss(zero_infinity=True),
        (
            frames.detach().log_softmax(2).requires_grad_(),
            targets,
            torch.tensor([10, 10]),
            torch.tensor([3, 3]),
        ),
    )


def _ctc(x: torch.Tensor, y: torch.Tensor, frames: Any, labels: Any, **options: Any) -> torch.Tensor:
    """``ctc_loss`` with its lengths as tuples, which its annotation does not have."""
    return F.ctc_loss(x, y, frames, labels, **options)


def _ctc_joined(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return _ctc(x.log_softmax(2), y, (10, 10), (3, 3), reduction="sum")


def _looked_up() -> Iterator[_Made]:
    table, words = leaf(9, 4), torch.randint(0, 9, (3, 5))
    offsets = torch.tensor([0, 4, 9])
    yield "looked up", lambda t, i: F.embedding(i, t), (table, words)
    yield "looked up int32", lambda t, i: F.embedding(i, t), (table, words.int())
    yield (
        "looked up half many",
        lambda t, i: F.embedding(i, t),
        (
            leaf(9, 4, dtype=torch.bfloat16),
            torch.randint(0, 9, (5000,)),
        ),
    )
    yield "looked up renormed", lambda t, i: F.embedding(i, t.clone(), max_norm=1.0), (table, words)
    yield "looked up by frequency", lambda t, i: F.embedding(i, t, scale_grad_by_freq=True), (table, words)
    yield "looked up without gradient", lambda t, i: F.embedding(i, t), (table.detach(), words)
    for mode in ("sum", "mean", "max"):
        bag = partial(_bag, mode=mode)
        yield f"bags {mode} offsets", bag, (table, words.flatten(), offsets)
        yield f"bags {mode} last offset", partial(bag, include_last_offset=True), (table, words.flatten(), offsets)
    yield "bags sum weighted", _weighted_bag, (table, words, leaf(3, 5))
    yield "bags sum without gradient", lambda t, i: F.embedding_bag(i, t, mode="sum"), (table.detach(), words)
    yield "bags mean by frequency", lambda t, i: F.embedding_bag(i, t, scale_grad_by_freq=True), (table, words)
    yield "bags mean padded", lambda t, i: F.embedding_bag(i, t, padding_idx=0), (table, words)
    yield "looked up one_hot product", lambda t, i: F.one_hot(i, 9).to(t.dtype) @ t, (table, words)


def _bag(table: torch.Tensor, words: torch.Tensor, offsets: torch.Tensor, **options: Any) -> torch.Tensor:
    return F.embedding_bag(words, table, offsets, **options)


def _weighted_bag(table: torch.Tensor, words: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    return F.embedding_bag(words, table, mode="sum", per_sample_weights=weights)


def _drawn() -> Iterator[_Made]:
    x = torch.rand(4, 6)
    yield "drawn dropout", partial(F.dropout, p=0.3), (leaf(4, 6),)
    yield "drawn dropout2d", partial(F.dropout2d, p=0.3), (leaf(2, 3, 4, 4),)
    yield "drawn alpha_dropout", partial(F.alpha_dropout, p=0.3, training=True), (leaf(4, 6),)
    yield "drawn rrelu", partial(F.rrelu, training=True), (leaf(4, 6),)
    yield "drawn gumbel", partial(F.gumbel_softmax, hard=True), (leaf(4, 6),)
    yield "drawn multinomial", lambda x: x.multinomial(4), (x,)
    yield "drawn multinomial again", lambda x: x.multinomial(9, replacement=True), (x,)
    yield "drawn multinomial double", lambda x: x.multinomial(2, replacement=True), (x.double(),)
    yield "drawn tokens", lambda x: x.softmax(-1).multinomial(1), (x,)
    yield "drawn nucleus", _nucleus, (torch.randn(2, 12),)
    yield "drawn randint_like", lambda x: torch.randint_like(x, 0, 5), (x,)
    yield "drawn uniform_", lambda x: x.uniform_(-1, 1), (x.clone(),)
    yield "drawn Multinomial", lambda x: torch.distributions.Multinomial(5, probs=x).sample(), (x,)
    yield "drawn MixtureSameFamily", _mixture, (leaf(3), leaf(3))
    yield "drawn reparametrised", lambda x: torch.distributions.Normal(x, 1.0).rsample(), (leaf(4),)


def _nucleus(x: torch.Tensor) -> torch.Tensor:
    ordered, places = x.sort(descending=True)
    kept = ordered.softmax(-1).cumsum(-1) <= 0.9
    masked = torch.zeros_like(kept).scatter(1, places, kept)
    return x.masked_fill(~masked, -1e9).softmax(-1).multinomial(1)


def _mixture(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    from torch import distributions as d

    mixed = d.MixtureSameFamily(d.Categorical(logits=x), d.Normal(y, torch.ones_like(y)))
    lost: torch.Tensor = mixed.log_prob(torch.zeros(5, 1, device=x.device).squeeze(1))
    return lost


def _trained() -> Iterator[_Made]:
    image, words = torch.randn(2, 3, 16, 16), torch.randint(0, 11, (2, 7))
    yield "trained residual", partial(_step, make=_residual), (image,)
    yield "trained segmenter", partial(_step, make=_segmenter), (image,)
    yield "trained encoder", partial(_step, make=_encoder), (words,)
    yield "trained upsampler", partial(_step, make=_upsampler), (image,)
    yield "trained gated", _gated, (leaf(4, 5), leaf(5, 3))
    yield "trained fused Adam", partial(_step, make=_linear, fused=True), (torch.randn(4, 3),)
    yield "trained ASGD", partial(_step, make=_linear, optimizer="ASGD"), (torch.randn(4, 3),)
    yield "trained Adamax", partial(_step, make=_linear, optimizer="Adamax"), (torch.randn(4, 3),)
    yield "trained RAdam", partial(_step, make=_linear, optimizer="RAdam"), (torch.randn(4, 3),)
    yield "trained bag", _bag_step, (torch.randn(6, 3), torch.tensor([[0, 1], [1, 1]]))
    yield "trained scaled", _scaled, (torch.randn(4, 3),)
    yield "trained experts", _experts, (leaf(6, 4), leaf(4, 3))


def _step(x: torch.Tensor, make: Callable[[], nn.Module], optimizer: str = "AdamW", **options: Any) -> Any:
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


def _differentiated() -> Iterator[_Made]:
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
