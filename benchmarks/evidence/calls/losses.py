"""Losses in every reduction and dtype, and alignments of sequences."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from benchmarks.evidence.calls.making import Call, leaf, made
from benchmarks.evidence.made import FIFTH, FIRST, FOURTH, SECOND, SIXTH, THIRD

_REDUCTIONS = ("mean", "sum", "none")


@made(FIRST)
def losses() -> Iterator[Call]:
    scores, classes = leaf(6, 5), torch.randint(0, 5, (6,))
    pixels, labels = leaf(2, 5, 4, 4), torch.randint(0, 5, (2, 4, 4))
    for reduction in ("mean", "sum", "none"):
        yield "cross_entropy", partial(F.cross_entropy, reduction=reduction, label_smoothing=0.1), (scores, classes)
        yield "cross_entropy pixels", partial(F.cross_entropy, reduction=reduction, ignore_index=2), (pixels, labels)
        yield "nll_loss pixels", partial(F.nll_loss, reduction=reduction), (F.log_softmax(pixels.detach(), 1), labels)
    yield "cross_entropy weighted", _weighted, (pixels, labels, torch.rand(5))
    yield "cross_entropy of shares", F.cross_entropy, (leaf(6, 5), torch.rand(6, 5).softmax(1))
    yield "multilabel_margin_loss", F.multilabel_margin_loss, (leaf(3, 4), torch.randint(0, 4, (3, 4)))
    yield "multi_margin_loss", partial(F.multi_margin_loss, p=2), (leaf(6, 5), classes)
    yield "smooth_l1_loss", partial(F.smooth_l1_loss, beta=0.3), (leaf(6, 5), torch.randn(6, 5))
    yield "kl_div", partial(F.kl_div, reduction="batchmean", log_target=True), (leaf(6, 5), torch.randn(6, 5))
    yield "triplet_margin_loss", partial(F.triplet_margin_loss, swap=True), (leaf(4, 6), leaf(4, 6), leaf(4, 6))
    steps, targets = leaf(12, 3, 6), torch.randint(1, 6, (3, 4))
    lengths, sizes = torch.tensor([12, 10, 9]), torch.tensor([4, 3, 2])
    for reduction in ("mean", "none"):
        ctc = partial(F.ctc_loss, reduction=reduction, zero_infinity=reduction == "none")
        yield "ctc_loss", _ctc, (steps, targets, lengths, sizes, ctc)


def _weighted(x: torch.Tensor, target: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(x, target, weight=weight)


def _ctc(
    x: torch.Tensor, target: torch.Tensor, lengths: torch.Tensor, sizes: torch.Tensor, loss: Callable[..., Any]
) -> Any:
    return loss(x.log_softmax(2), target, lengths, sizes)


@made(SECOND)
def lost() -> Iterator[Call]:
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


@made(SECOND)
def aligned() -> Iterator[Call]:
    frames, targets = leaf(10, 2, 5), torch.randint(1, 5, (2, 3))
    yield "aligned ctc tuples", lambda x, y: _plain_ctc(x.log_softmax(2), y, (10, 10), (3, 3)), (frames, targets)
    yield "aligned ctc joined", _ctc_joined, (frames, targets.flatten())
    yield (
        "aligned ctc int32",
        lambda x, y: _plain_ctc(x.log_softmax(2), y, (10, 10), (2, 3)),
        (frames, targets.int()),
    )
    yield (
        "aligned ctc blank",
        lambda x, y: _plain_ctc(x.log_softmax(2), y, (9, 10), (3, 2), blank=4),
        (
            frames,
            targets.clamp(max=3),
        ),
    )
    yield (
        "aligned ctc double",
        lambda x, y: _plain_ctc(x.log_softmax(2), y, (10, 8), (3, 3)),
        (
            leaf(10, 2, 5, dtype=torch.float64),
            targets,
        ),
    )
    yield (
        "aligned ctc unbatched",
        lambda x, y: _plain_ctc(x.log_softmax(1), y, (10,), (3,)),
        (leaf(10, 5), targets[0]),
    )
    yield (
        "aligned ctc without gradient",
        lambda x, y: _plain_ctc(x.log_softmax(2), y, (10, 10), (3, 3)),
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


def _plain_ctc(x: torch.Tensor, y: torch.Tensor, frames: Any, labels: Any, **options: Any) -> torch.Tensor:
    """``ctc_loss`` with its lengths as tuples, which its annotation does not have."""
    return F.ctc_loss(x, y, frames, labels, **options)


def _ctc_joined(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return _plain_ctc(x.log_softmax(2), y, (10, 10), (3, 3), reduction="sum")


@made(THIRD)
def losses_third() -> Iterator[Call]:
    x, y, labels = leaf(4, 5), torch.rand(4, 5), torch.tensor([0, 4, 2, 2])
    image, pixels = leaf(2, 3, 4, 4), torch.randint(0, 3, (2, 4, 4))
    yield "losing entropy", partial(F.cross_entropy, label_smoothing=0.1, reduction="sum"), (x, labels)
    yield (
        "losing entropy weighted",
        lambda x, y, w: F.cross_entropy(x, y, w, ignore_index=2),
        (x, labels, torch.rand(5)),
    )
    yield "losing entropy of shares", lambda x, y: F.cross_entropy(x, y.softmax(1)), (x, y)
    yield "losing entropy of one", F.cross_entropy, (leaf(5), torch.tensor(3))
    yield "losing entropy of pixels", F.cross_entropy, (image, pixels)
    yield "losing entropy of pixels each", partial(F.cross_entropy, reduction="none"), (image, pixels)
    yield "losing entropy of pixels smooth", partial(F.cross_entropy, label_smoothing=0.2), (image, pixels)
    yield "losing entropy of pixels frozen", F.cross_entropy, (image.detach(), pixels)
    yield "losing nll row", partial(F.nll_loss, reduction="none"), (x, labels)
    yield "losing nll of points", F.nll_loss, (leaf(2, 3, 6), torch.randint(0, 3, (2, 6)))
    yield "losing nll of pixels", lambda x, y, w: F.nll_loss(x, y, w, reduction="sum"), (image, pixels, torch.rand(3))
    yield "losing nll of voxels", F.nll_loss, (leaf(1, 3, 2, 2, 2), torch.randint(0, 3, (1, 2, 2, 2)))
    yield "losing nll of pixels by hand", lambda x, y: torch.ops.aten.nll_loss2d(x, y, None, 1, -100), (image, pixels)
    yield "losing margins", partial(F.multi_margin_loss, p=2), (x, labels)
    yield "losing many margins", F.multilabel_margin_loss, (x, torch.tensor([[1, 2, -1, 0, 0]] * 4))
    yield "losing soft margins", F.multilabel_soft_margin_loss, (x, y.round())
    yield "losing binary", lambda x, y: F.binary_cross_entropy(x.sigmoid(), y), (x, y)
    yield "losing binary logits", lambda x, y, w: F.binary_cross_entropy_with_logits(x, y, pos_weight=w), (x, y, y[0])
    yield "losing divergence", partial(F.kl_div, log_target=True, reduction="batchmean"), (x, y.log())
    yield "losing poisson", partial(F.poisson_nll_loss, full=True), (x, y)
    yield "losing gauss", lambda x, y: F.gaussian_nll_loss(x, y, torch.ones_like(y)), (x, y)
    yield "losing huber", partial(F.huber_loss, delta=0.3), (x, y)
    yield "losing smooth", partial(F.smooth_l1_loss, beta=0.5, reduction="none"), (x, y)
    yield "losing triplets", partial(F.triplet_margin_loss, swap=True, p=1.0), (x, leaf(4, 5), leaf(4, 5))
    yield "losing by cosine", F.cosine_embedding_loss, (x, leaf(4, 5), torch.ones(4))
    yield "losing by rank", F.margin_ranking_loss, (leaf(4), leaf(4), torch.ones(4))
    yield "losing focal", _focal_by_gather, (x, labels)
    yield "losing contrasts", lambda x: F.cross_entropy(x @ x.t(), torch.arange(4, device=x.device)), (x,)
    yield "losing overlap", _overlap, (image, pixels)


def _focal_by_gather(x: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    near = x.log_softmax(1).gather(1, labels[:, None]).squeeze(1)
    return (-((1 - near.exp()) ** 2) * near).mean()


def _overlap(x: torch.Tensor, pixels: torch.Tensor) -> torch.Tensor:
    wanted = F.one_hot(pixels, 3).movedim(-1, 1)
    return 1 - 2 * (x.softmax(1) * wanted).sum() / (x.softmax(1) + wanted).sum()


@made(THIRD)
def aligned_third() -> Iterator[Call]:
    frames, words = leaf(12, 3, 6), torch.randint(1, 6, (3, 4))
    long, short = torch.tensor([12, 11, 12]), torch.tensor([4, 2, 3])
    yield "ctc tensors", _softmax_ctc, (frames, words, long, short)
    yield "ctc summed", partial(_softmax_ctc, reduction="sum", blank=0), (frames, words, long, short)
    yield "ctc each", partial(_softmax_ctc, reduction="none", zero_infinity=True), (frames, words, long, short)
    yield "ctc frozen", _softmax_ctc, (frames.detach(), words, long, short)
    yield "ctc int32", _softmax_ctc, (frames, words.int(), long.int(), short.int())
    yield "ctc numbers", lambda x, y: _softmax_ctc(x, y, (12, 12, 12), (4, 4, 4)), (frames, words)
    yield "ctc numbers int32", lambda x, y: _softmax_ctc(x, y, (12,) * 3, (4, 2, 3)), (frames, words.int())
    yield "ctc joined int32", lambda x, y: _softmax_ctc(x, y.flatten(), (12,) * 3, (4,) * 3), (frames, words.int())
    yield (
        "ctc joined shorter",
        lambda x, y: _softmax_ctc(x, y.flatten()[:9], (12, 10, 12), (4, 2, 3)),
        (frames, words.int()),
    )
    yield "ctc last blank", lambda x, y: _softmax_ctc(x, y - 1, (12,) * 3, (4, 4, 4), blank=5), (frames, words.int())


def _softmax_ctc(x: torch.Tensor, words: torch.Tensor, long: Any, short: Any, **options: Any) -> torch.Tensor:
    return F.ctc_loss(x.log_softmax(-1), words, long, short, **options)


@made(FOURTH)
def losses_fourth() -> Iterator[Call]:
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


@made(FOURTH)
def alignments() -> Iterator[Call]:
    frames = leaf(9, 2, 5)
    words = torch.tensor([[1, 2, 1], [4, 1, 3]])
    long, short = torch.tensor([9, 9]), torch.tensor([3, 2])
    yield "matched mean", partial(_softmax_ctc, reduction="mean"), (frames, words, long, short)
    yield (
        "matched none infinite",
        partial(_softmax_ctc, zero_infinity=True, reduction="none"),
        (frames, words, long * 0 + 2, short),
    )
    yield "matched joined", _softmax_ctc, (frames, words.flatten()[:5], long, short)
    yield "matched joined lengths int32", _softmax_ctc, (frames, words.flatten()[:5].int(), long.int(), short.int())
    yield (
        "matched joined late blank",
        partial(_softmax_ctc, blank=4),
        (frames, words.clamp(max=3).flatten()[:5].int(), long, short),
    )
    yield (
        "matched module",
        lambda x, w, n, m: nn.CTCLoss(blank=0)(x.log_softmax(-1), w, n, m),
        (frames, words, long, short),
    )
    yield "matched double", _softmax_ctc, (leaf(9, 2, 5, dtype=torch.float64), words, long, short)
    yield (
        "matched single",
        lambda x, w: _softmax_ctc(x[:, 0], w[0], torch.tensor(9), torch.tensor(3)),
        (frames, words),
    )
    yield "matched by fields", _crf, (leaf(6, 4), leaf(4, 4))
    yield "matched by path", lambda x, w: _viterbi(x.detach(), w.detach()), (leaf(6, 4), leaf(4, 4))
    yield "matched transducer", _transducer, (leaf(5, 4),)
    yield "matched warped", _warped, (leaf(5, 2), leaf(4, 2))


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


@made(FIFTH)
def losses_fifth() -> Iterator[Call]:
    x, i = leaf(6, 5), torch.tensor([0, 4, 4, 2, 1, 0])
    image, classes = leaf(2, 4, 5, 5), torch.randint(0, 4, (2, 5, 5))
    yield "script loss", nn.CrossEntropyLoss(label_smoothing=0.1), (x, i)
    yield "script loss weighed", lambda x, i: F.cross_entropy(x, i, weight=torch.ones(5, device=x.device)), (x, i)
    yield "script loss pixels", nn.CrossEntropyLoss(ignore_index=3), (image, classes)
    yield "script loss pixels cast", lambda x, i: F.cross_entropy(x.bfloat16(), i), (image, classes)
    yield "script loss pixels frozen", nn.CrossEntropyLoss(), (image.detach(), classes)
    yield "script loss focal", _focal, (image, classes)
    yield "script loss dice", _dice_by_scatter, (image, classes)
    yield "script loss arcs", _arcs_by_index, (x, i, leaf(5, 5))
    yield "script loss supervised", _supervised, (x, i)
    yield (
        "script loss distilled",
        lambda x: F.kl_div(F.log_softmax(x / 2, 1), F.softmax(x.detach().roll(1, 0) / 2, 1)),
        (x,),
    )
    yield "script loss proxies", lambda x, i: torch.cdist(x, x[i]).square().mean(), (x, i)
    yield "script loss hard", lambda x, i: F.cross_entropy(x, i, reduction="none").topk(3).values.mean(), (x, i)
    yield "script loss joined ctc", _ctc_of_eights, (leaf(8, 2, 5), torch.tensor([1, 2, 2, 4]))
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


def _dice_by_scatter(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
    wanted = torch.zeros_like(x).scatter_(1, i[:, None], 1.0)
    return 1 - 2 * (x.softmax(1) * wanted).sum() / (x.softmax(1) + wanted).sum()


def _arcs_by_index(x: torch.Tensor, i: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    cosines = F.linear(F.normalize(x), F.normalize(w))
    rows = torch.arange(6, device=x.device)
    moved = cosines.clone()
    moved[rows, i] = cosines[rows, i] - 0.2
    return F.cross_entropy(16 * moved, i)


def _supervised(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
    alike = (i[:, None] == i).fill_diagonal_(False)
    scores = (F.normalize(x) @ F.normalize(x).t() / 0.1).masked_fill(torch.eye(6, device=x.device).bool(), -1e9)
    return -(scores.log_softmax(1) * alike).sum(1).div(alike.sum(1).clamp(min=1)).mean()


def _ctc_of_eights(x: torch.Tensor, words: torch.Tensor) -> torch.Tensor:
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


@made(SIXTH)
def classes() -> Iterator[Call]:
    rows, places = leaf(5, 4), torch.tensor([0, 3, 1, 1, 2])
    image, pixels = leaf(2, 4, 3, 5), torch.randint(0, 4, (2, 3, 5))
    words, tokens = leaf(2, 4, 6), torch.randint(0, 4, (2, 6))
    volume, voxels = leaf(1, 4, 2, 3, 2), torch.randint(0, 4, (1, 2, 3, 2))
    for reduction in _REDUCTIONS:
        plain = nn.CrossEntropyLoss(reduction=reduction)
        smooth = nn.CrossEntropyLoss(reduction=reduction, label_smoothing=0.1)
        skipping = nn.CrossEntropyLoss(reduction=reduction, ignore_index=1)
        for name, x, y in (
            ("rows", rows, places),
            ("pixels", image, pixels),
            ("words", words, tokens),
            ("voxels", volume, voxels),
        ):
            yield f"scored {name} {reduction}", plain, (x, y)
            yield f"scored {name} smooth {reduction}", smooth, (x, y)
            yield f"scored {name} skipping {reduction}", skipping, (x, y)
            yield f"scored {name} bfloat16 {reduction}", plain, (x.detach().bfloat16().requires_grad_(), y)
        likely = nn.NLLLoss(reduction=reduction)
        yield f"scored likely rows {reduction}", lambda x, y, f=likely: f(x.log_softmax(1), y), (rows, places)
        yield f"scored likely pixels {reduction}", lambda x, y, f=likely: f(x.log_softmax(1), y), (image, pixels)
        yield f"scored shares {reduction}", lambda x, f=plain: f(x, x.detach().softmax(1)), (image,)
        yield f"scored margins {reduction}", nn.MultiMarginLoss(reduction=reduction), (rows, places)
        many = torch.tensor([[0, 2, -1, 1]] * 5)
        yield f"scored many {reduction}", nn.MultiLabelMarginLoss(reduction=reduction), (rows, many)
    weights = torch.rand(4)
    yield "scored weighed rows", lambda x, y, w: F.cross_entropy(x, y, w), (rows, places, weights)
    yield "scored weighed pixels", lambda x, y, w: F.cross_entropy(x, y, w), (image, pixels, weights)
    yield (
        "scored weighed pixels each",
        lambda x, y, w: F.cross_entropy(x, y, w, reduction="none"),
        (
            image,
            pixels,
            weights,
        ),
    )
    yield "scored frozen pixels", F.cross_entropy, (image.detach(), pixels)
    yield "scored one", F.cross_entropy, (leaf(4), torch.tensor(2))
    yield "scored one pixel", F.cross_entropy, (leaf(2, 4, 1, 1), torch.randint(0, 4, (2, 1, 1)))
    yield "scored next words", _next_words, (leaf(2, 6, 9), torch.randint(0, 9, (2, 6)))
    yield "scored distilled", _distilled, (rows, leaf(5, 4))
    yield "scored double pixels", F.cross_entropy, (image.detach().double().requires_grad_(), pixels)
    yield "scored half pixels", F.cross_entropy, (image.detach().half().requires_grad_(), pixels)
    yield "scored no rows", F.cross_entropy, (leaf(0, 4), places[:0])
    yield "scored in half", _scored_in_half, (image, pixels)


def _next_words(logits: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(logits[:, :-1].reshape(-1, 9), ids[:, 1:].reshape(-1), ignore_index=-100)


def _distilled(student: torch.Tensor, teacher: torch.Tensor) -> torch.Tensor:
    return F.kl_div((student / 2).log_softmax(-1), (teacher / 2).detach().softmax(-1), reduction="batchmean") * 4


def _scored_in_half(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    with torch.autocast(x.device.type, torch.bfloat16):
        return F.cross_entropy(x * 2, y)


@made(SIXTH)
def values() -> Iterator[Call]:
    x, y, sign = leaf(4, 5), torch.rand(4, 5), torch.tensor([1.0, -1.0, 1.0, -1.0])
    for reduction in _REDUCTIONS:
        made: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
            "absolute": (nn.L1Loss(reduction=reduction), (x, y)),
            "squares": (nn.MSELoss(reduction=reduction), (x, y)),
            "smooth": (nn.SmoothL1Loss(reduction=reduction), (x, y)),
            "huber": (nn.HuberLoss(reduction=reduction), (x, y)),
            "binary": (lambda x, y, r=reduction: F.binary_cross_entropy(x.sigmoid(), y, reduction=r), (x, y)),
            "binary logits": (nn.BCEWithLogitsLoss(reduction=reduction), (x, y)),
            "divergence": (nn.KLDivLoss(reduction=reduction), (x, y)),
            "poisson": (nn.PoissonNLLLoss(reduction=reduction, full=True), (x, y)),
            "gauss": (lambda x, y, r=reduction: F.gaussian_nll_loss(x, y, y + 0.1, reduction=r), (x, y)),
            "soft margin": (nn.SoftMarginLoss(reduction=reduction), (x, y.round() * 2 - 1)),
            "hinge": (nn.HingeEmbeddingLoss(reduction=reduction), (x, y.round() * 2 - 1)),
            "labels": (nn.MultiLabelSoftMarginLoss(reduction=reduction), (x, y.round())),
            "cosine": (nn.CosineEmbeddingLoss(reduction=reduction), (x, leaf(4, 5), sign)),
            "ranks": (nn.MarginRankingLoss(reduction=reduction), (leaf(4), leaf(4), sign)),
            "triplets": (nn.TripletMarginLoss(reduction=reduction), (x, leaf(4, 5), leaf(4, 5))),
        }
        for name, (function, args) in made.items():
            yield f"value {name} {reduction}", function, args


@made(SIXTH)
def alignments_sixth() -> Iterator[Call]:
    frames, words = leaf(10, 3, 6), torch.randint(1, 6, (3, 4))
    long, short = torch.full((3,), 10), torch.tensor([4, 3, 4])
    for reduction in _REDUCTIONS:
        yield f"aligned {reduction}", partial(_aligned, reduction=reduction), (frames, words, long, short)
    yield "aligned infinite", partial(_aligned, zero_infinity=True), (frames, words, long, short)
    yield "aligned joined", _aligned, (frames, words.flatten()[:11], long, short)
    yield "aligned double", _aligned, (frames.detach().double().requires_grad_(), words, long, short)
    yield "aligned shorter", _aligned, (frames, words, long - 2, short)
    yield "aligned one", lambda x, y: _aligned(x, y, (10,), (4,)), (leaf(10, 1, 6), words[:1])


def _aligned(x: torch.Tensor, y: torch.Tensor, long: Any, short: Any, **options: Any) -> torch.Tensor:
    return F.ctc_loss(x.log_softmax(-1), y, long, short, **options)
