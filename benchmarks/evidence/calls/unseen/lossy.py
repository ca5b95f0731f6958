"""Losses, and what distributions draw and score."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import distributions

from benchmarks.evidence.calls.layers import leaf

_Made = tuple[str, Callable[..., Any], tuple[Any, ...]]


def made() -> Iterator[_Made]:
    """Each call's name, function and tensors."""
    yield from _losses()
    yield from _aligned()
    yield from _distributions()


def _losses() -> Iterator[_Made]:
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
    yield "losing focal", _focal, (x, labels)
    yield "losing contrasts", lambda x: F.cross_entropy(x @ x.t(), torch.arange(4, device=x.device)), (x,)
    yield "losing overlap", _overlap, (image, pixels)


def _focal(x: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    near = x.log_softmax(1).gather(1, labels[:, None]).squeeze(1)
    return (-((1 - near.exp()) ** 2) * near).mean()


def _overlap(x: torch.Tensor, pixels: torch.Tensor) -> torch.Tensor:
    wanted = F.one_hot(pixels, 3).movedim(-1, 1)
    return 1 - 2 * (x.softmax(1) * wanted).sum() / (x.softmax(1) + wanted).sum()


def _aligned() -> Iterator[_Made]:
    frames, words = leaf(12, 3, 6), torch.randint(1, 6, (3, 4))
    long, short = torch.tensor([12, 11, 12]), torch.tensor([4, 2, 3])
    yield "ctc tensors", _ctc, (frames, words, long, short)
    yield "ctc summed", partial(_ctc, reduction="sum", blank=0), (frames, words, long, short)
    yield "ctc each", partial(_ctc, reduction="none", zero_infinity=True), (frames, words, long, short)
    yield "ctc frozen", _ctc, (frames.detach(), words, long, short)
    yield "ctc int32", _ctc, (frames, words.int(), long.int(), short.int())
    yield "ctc numbers", lambda x, y: _ctc(x, y, (12, 12, 12), (4, 4, 4)), (frames, words)
    yield "ctc numbers int32", lambda x, y: _ctc(x, y, (12,) * 3, (4, 2, 3)), (frames, words.int())
    yield "ctc joined int32", lambda x, y: _ctc(x, y.flatten(), (12,) * 3, (4,) * 3), (frames, words.int())
    yield "ctc joined shorter", lambda x, y: _ctc(x, y.flatten()[:9], (12, 10, 12), (4, 2, 3)), (frames, words.int())
    yield "ctc last blank", lambda x, y: _ctc(x, y - 1, (12,) * 3, (4, 4, 4), blank=5), (frames, words.int())


def _ctc(x: torch.Tensor, words: torch.Tensor, long: Any, short: Any, **options: Any) -> torch.Tensor:
    return F.ctc_loss(x.log_softmax(-1), words, long, short, **options)


def _distributions() -> Iterator[_Made]:
    x, positive, at = leaf(4, 5), torch.rand(4, 5).add(0.5).requires_grad_(), torch.tensor([0, 3, 1, 1])
    plain = positive.detach()
    yield "drawing categorical", _scored("Categorical", "logits", at), (x,)
    yield "drawing bernoulli", _scored("Bernoulli", "logits", torch.ones(5)), (x,)
    yield "drawing one hot", _scored("OneHotCategorical", "logits", F.one_hot(at, 5).float()), (x,)
    yield "drawing geometric", _scored("Geometric", "logits", torch.ones(5)), (x,)
    yield "drawing multinomial", _scored("Multinomial", "logits", F.one_hot(at, 5).float()), (x,)
    yield "drawing dirichlet", _scored("Dirichlet", "concentration", torch.full((5,), 0.2)), (positive,)
    yield "drawing poisson", _scored("Poisson", "rate", torch.ones(5)), (positive,)
    yield "drawing exponential", _scored("Exponential", "rate", torch.ones(5)), (positive,)
    yield "drawing student", _scored("StudentT", "df", torch.ones(5)), (positive,)
    for name, function in _samplers():
        yield f"drawing {name}", function, (positive,)
    yield "drawing normal lows", _low_rank, (leaf(4), leaf(4, 2), plain[0, :4])
    yield "drawing normal", _many_normals, (leaf(3), torch.eye(3).requires_grad_())
    yield "drawing rows", lambda p: p.multinomial(3), (plain,)
    yield "drawing rows again", lambda p: torch.multinomial(p, 7, True), (plain,)
    yield "drawing row again", lambda p: torch.multinomial(p[0], 2, replacement=True), (plain,)
    yield "drawing one again", lambda p: torch.multinomial(p, 1, replacement=True), (plain,)
    yield "drawing half again", lambda p: p.half().multinomial(2, replacement=True), (plain,)
    yield "drawing permuted", lambda p: p[torch.randperm(4, device=p.device)], (positive,)
    yield "drawing truths", lambda p: torch.bernoulli(p - 0.5), (plain,)
    yield "drawing counts", lambda p: torch.poisson(p), (plain,)
    yield "drawing normals", lambda p: torch.normal(0.0, p), (plain,)
    yield "drawing exponentials", lambda p: torch.empty_like(p).exponential_(2.0), (plain,)
    yield "drawing cauchy", lambda p: torch.empty_like(p).cauchy_(), (plain,)
    yield "drawing dropped features", partial(F.feature_alpha_dropout, p=0.5, training=True), (leaf(2, 3, 4),)
    yield "drawing dropped volumes", partial(F.dropout3d, p=0.5), (leaf(1, 2, 3, 3, 3),)


def _scored(name: str, parameter: str, value: torch.Tensor) -> Callable[[torch.Tensor], torch.Tensor]:
    def call(x: torch.Tensor) -> torch.Tensor:
        drawn = getattr(distributions, name)(**{parameter: x}, validate_args=False)
        scored: torch.Tensor = drawn.log_prob(value.to(x.device))
        return scored

    return call


def _samplers() -> Iterator[tuple[str, Callable[[torch.Tensor], Any]]]:
    d = distributions
    yield "gamma", lambda p: d.Gamma(p, p, validate_args=False).rsample()
    yield "beta", lambda p: d.Beta(p, p, validate_args=False).rsample()
    yield "gumbel", lambda p: d.Gumbel(p, p, validate_args=False).rsample()
    yield "laplace", lambda p: d.Laplace(p, p, validate_args=False).rsample()
    yield "weibull", lambda p: d.Weibull(p, p, validate_args=False).rsample()
    yield "relaxed", lambda p: d.RelaxedOneHotCategorical(p.new_tensor(0.5), p, validate_args=False).rsample()
    yield "binomial", lambda p: d.Binomial(4, logits=p, validate_args=False).sample()
    yield "categories", lambda p: d.Categorical(p, validate_args=False).sample((2,))
    yield "negatives", lambda p: d.NegativeBinomial(3.0, logits=p, validate_args=False).sample()
    yield "divergence", lambda p: d.kl_divergence(d.Normal(p, p, validate_args=False), d.Normal(p * 2, p, False)).sum()
    yield "entropy", lambda p: d.Categorical(p, validate_args=False).entropy()


def _low_rank(x: torch.Tensor, factor: torch.Tensor, diagonal: torch.Tensor) -> torch.Tensor:
    drawn: torch.Tensor = distributions.LowRankMultivariateNormal(x, factor, diagonal, validate_args=False).rsample()
    return drawn


def _many_normals(x: torch.Tensor, factor: torch.Tensor) -> torch.Tensor:
    drawn: torch.Tensor = distributions.MultivariateNormal(x, scale_tril=factor, validate_args=False).rsample()
    return drawn
