"""Losses in every reduction and dtype, samplers of images, and what distributions draw and score."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import distributions, nn

from benchmarks.evidence.calls.layers import leaf

_Made = tuple[str, Callable[..., Any], tuple[Any, ...]]
_REDUCTIONS = ("mean", "sum", "none")


def made() -> Iterator[_Made]:
    """Each call's name, function and tensors."""
    yield from _classes()
    yield from _values()
    yield from _alignments()
    yield from _grids()
    yield from _drawn()


def _classes() -> Iterator[_Made]:
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


def _values() -> Iterator[_Made]:
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


def _alignments() -> Iterator[_Made]:
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


def _grids() -> Iterator[_Made]:
    image, volume = leaf(2, 3, 5, 6), leaf(1, 2, 4, 4, 4)
    grid, space = leaf(2, 4, 4, 2), leaf(1, 3, 3, 3, 3)
    for mode in ("bilinear", "nearest", "bicubic"):
        for padding in ("zeros", "border", "reflection"):
            sample = partial(F.grid_sample, mode=mode, padding_mode=padding, align_corners=False)
            yield f"sampled {mode} {padding}", sample, (image, grid)
    yield "sampled corners", partial(F.grid_sample, align_corners=True), (image, grid)
    yield "sampled frozen grid", partial(F.grid_sample, align_corners=False), (image, grid.detach())
    yield "sampled frozen image", partial(F.grid_sample, align_corners=True), (image.detach(), grid)
    yield "sampled frozen", partial(F.grid_sample, align_corners=True), (image.detach(), grid.detach())
    yield "sampled space", partial(F.grid_sample, align_corners=False), (volume, space)
    yield "sampled space corners", partial(F.grid_sample, align_corners=True), (volume, space)
    yield "sampled space nearest", partial(F.grid_sample, mode="nearest", align_corners=False), (volume, space)
    for word, kind in (("half", torch.float16), ("bfloat16", torch.bfloat16), ("double", torch.float64)):
        args = (image.detach().to(kind).requires_grad_(), grid.detach().to(kind).requires_grad_())
        yield f"sampled {word}", partial(F.grid_sample, align_corners=False), args
        yield f"sampled corners {word}", partial(F.grid_sample, align_corners=True), args
    yield "sampled turned", _turned, (image, leaf(2, 2, 3))
    yield "sampled in half", _sampled_in_half, (image, grid)


def _turned(image: torch.Tensor, theta: torch.Tensor) -> torch.Tensor:
    grid = F.affine_grid(theta, [2, 3, 5, 6], align_corners=False)
    return F.grid_sample(image, grid, align_corners=False)


def _sampled_in_half(image: torch.Tensor, grid: torch.Tensor) -> torch.Tensor:
    with torch.autocast(image.device.type, torch.bfloat16):
        return F.grid_sample(image, grid, align_corners=False)


def _drawn() -> Iterator[_Made]:
    logits, positive, share = leaf(4, 5), torch.rand(4, 5).add(0.3).requires_grad_(), torch.rand(4, 5)
    scale = torch.rand(4, 5).add(0.3)
    made: dict[str, tuple[Callable[..., distributions.Distribution], torch.Tensor]] = {
        "normal": (lambda x: distributions.Normal(x, x.detach().abs() + 0.1), logits),
        "log normal": (lambda x: distributions.LogNormal(x, x.detach().abs() + 0.1), logits),
        "laplace": (lambda x: distributions.Laplace(x, x.detach().abs() + 0.1), logits),
        "gumbel": (lambda x: distributions.Gumbel(x, x.detach().abs() + 0.1), logits),
        "cauchy": (lambda x: distributions.Cauchy(x, x.detach().abs() + 0.1), logits),
        "uniform": (lambda x: distributions.Uniform(x - 1, x + 1), logits),
        "beta": (lambda x: distributions.Beta(x, x + 1), positive),
        "gamma": (lambda x: distributions.Gamma(x, x + 1), positive),
        "dirichlet": (lambda x: distributions.Dirichlet(x), positive),
        "student": (lambda x: distributions.StudentT(x + 2), positive),
        "exponential": (lambda x: distributions.Exponential(x), positive),
        "weibull": (lambda x: distributions.Weibull(x, x + 1), positive),
        "half normal": (lambda x: distributions.HalfNormal(x), positive),
        "von mises": (lambda x: distributions.VonMises(x, x.detach() + 1), positive),
        "categorical": (lambda x: distributions.Categorical(logits=x), logits),
        "bernoulli": (lambda x: distributions.Bernoulli(logits=x), logits),
        "one hot": (lambda x: distributions.OneHotCategoricalStraightThrough(logits=x), logits),
        "relaxed": (lambda x: distributions.RelaxedOneHotCategorical(x.new_tensor(0.7), logits=x), logits),
        "geometric": (lambda x: distributions.Geometric(logits=x), logits),
        "poisson": (lambda x: distributions.Poisson(x), positive),
        "negative binomial": (lambda x: distributions.NegativeBinomial(3.0, logits=x), logits),
        "mixture": (_mixture, logits),
        "diagonal": (
            lambda x: distributions.Independent(distributions.Normal(x, x.detach().abs() + 0.1), 1),
            logits,
        ),
    }
    for name, (make, x) in made.items():
        yield f"drawn {name}", _drawn_and_scored(make), (x,)
    yield "drawn many categorical", lambda x: distributions.Categorical(logits=x).sample((6,)), (logits,)
    yield "drawn rows", lambda p: torch.multinomial(p, 3), (share,)
    yield "drawn rows again", lambda p: torch.multinomial(p, 9, replacement=True), (share,)
    yield "drawn row again", lambda p: torch.multinomial(p[0], 9, replacement=True), (share,)
    yield "drawn row one", lambda p: torch.multinomial(p[0], 1), (share,)
    yield "drawn row again half", lambda p: torch.multinomial(p, 4, replacement=True), (share.half(),)
    yield "drawn gumbel softmax", partial(F.gumbel_softmax, tau=0.5, hard=True), (logits,)
    yield "drawn entropy", lambda x: distributions.Categorical(logits=x).entropy(), (logits,)
    yield "drawn apart", _apart, (logits, scale)


def _mixture(x: torch.Tensor) -> distributions.Distribution:
    parts = distributions.Normal(x, torch.ones_like(x))
    return distributions.MixtureSameFamily(distributions.Categorical(logits=x), parts)


def _drawn_and_scored(make: Callable[..., distributions.Distribution]) -> Callable[..., Any]:
    def run(x: torch.Tensor) -> Any:
        law = make(x)
        if law.has_rsample:
            return law.log_prob(law.rsample())
        return law.log_prob(law.sample())

    return run


def _apart(x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    first, second = distributions.Normal(x, scale), distributions.Normal(x.detach() * 0, scale)
    return distributions.kl_divergence(first, second).sum(-1).mean()
