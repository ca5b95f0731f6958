"""Random draws, and what distributions draw and score."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import distributions, nn
from torch.distributions import transforms as bends

from benchmarks.evidence.calls.making import Call, leaf, made
from benchmarks.evidence.made import FIRST, FOURTH, SECOND, SIXTH, THIRD


@made(FIRST)
def drawn() -> Iterator[Call]:
    chances = torch.rand(4, 6)
    for replacement in (False, True):
        yield "multinomial", partial(torch.multinomial, num_samples=3, replacement=replacement), (chances,)
        yield (
            "multinomial of one row",
            partial(torch.multinomial, num_samples=3, replacement=replacement),
            (chances[0],),
        )
    yield "multinomial one sample", partial(torch.multinomial, num_samples=1), (chances,)
    yield "bernoulli", torch.bernoulli, (chances,)
    yield "poisson", torch.poisson, (chances,)
    yield "normal of tensors", torch.normal, (chances, chances)
    yield "exponential_", torch.Tensor.exponential_, (chances.clone(),)
    yield "randperm", _shuffled, (chances,)


def _shuffled(x: torch.Tensor) -> torch.Tensor:
    return x[torch.randperm(len(x), device=x.device)]


@made(FIRST)
def laws() -> Iterator[Call]:
    logits, scale = leaf(5, 4), torch.rand(5, 4).add(0.1).requires_grad_()
    for name, make in (
        ("Categorical", lambda x, s: torch.distributions.Categorical(logits=x)),
        ("OneHotCategorical", lambda x, s: torch.distributions.OneHotCategorical(logits=x)),
        ("Normal", torch.distributions.Normal),
        ("Laplace", torch.distributions.Laplace),
        ("Gamma", lambda x, s: torch.distributions.Gamma(s, s)),
        ("Beta", lambda x, s: torch.distributions.Beta(s, s)),
        ("Dirichlet", lambda x, s: torch.distributions.Dirichlet(s)),
        ("Bernoulli", lambda x, s: torch.distributions.Bernoulli(logits=x)),
    ):
        yield f"distribution {name}", partial(_log_prob, make=make), (logits, scale)


def _log_prob(x: torch.Tensor, scale: torch.Tensor, make: Callable[..., Any]) -> torch.Tensor:
    distribution = make(x, scale)
    lost: torch.Tensor = distribution.log_prob(distribution.sample())
    return lost


@made(SECOND)
def drawn_second() -> Iterator[Call]:
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


@made(THIRD)
def laws_third() -> Iterator[Call]:
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


@made(FOURTH)
def draws() -> Iterator[Call]:
    x = leaf(4, 6)
    shares = x.detach().softmax(-1)
    for name in ("cauchy", "log_normal", "geometric", "exponential", "normal", "random"):
        given = (0.5,) if name == "geometric" else ()
        yield f"tossed {name}", lambda x, name=name, given=given: getattr(x.clone(), name + "_")(*given), (shares,)
    yield "tossed multinomial rows", lambda p: torch.multinomial(p, 3), (shares,)
    yield "tossed multinomial again", lambda p: torch.multinomial(p[0], 9, True), (shares,)
    yield "tossed multinomial one again", lambda p: torch.multinomial(p, 1, replacement=True), (shares,)
    yield "tossed multinomial double", lambda p: torch.multinomial(p.double(), 4, replacement=True), (shares,)
    yield "tossed categorical", lambda p: torch.distributions.Categorical(p).sample((3,)), (shares,)
    yield "tossed binomial", lambda p: torch.binomial(p * 0 + 5, p), (shares,)
    yield "tossed order", lambda p: torch.randperm(17, device=p.device), (shares,)
    yield "tossed numbers", lambda p: torch.randint(0, 9, (3, 3), device=p.device), (shares,)
    yield "tossed like", lambda p: torch.rand_like(p) + torch.randn_like(p), (shares,)
    yield "tossed dropout", partial(F.dropout, p=0.3), (x,)
    yield "tossed alpha dropout", partial(F.alpha_dropout, p=0.3, training=True), (x,)
    yield "tossed feature alpha", partial(F.feature_alpha_dropout, p=0.3, training=True), (leaf(2, 3, 4),)
    yield "tossed dropout in place", lambda x: F.dropout(x * 1, 0.5, inplace=True), (x,)
    yield "tossed leaks", lambda x: F.rrelu(x, training=True), (x,)
    yield "tossed gumbel hard", partial(F.gumbel_softmax, hard=True), (x,)
    yield "tossed paths", lambda x: x * torch.bernoulli(torch.full((4, 1), 0.8, device=x.device)) / 0.8, (x,)
    yield "tossed mixup", lambda x: 0.3 * x + 0.7 * x[torch.randperm(4, device=x.device)], (x,)
    yield "tossed start", lambda x: nn.init.trunc_normal_(torch.empty_like(x)), (shares,)
    yield "tossed orthogonal start", lambda x: nn.init.orthogonal_(torch.empty_like(x)), (shares,)
    yield "tossed mapped", lambda x: torch.vmap(lambda r: r + torch.randn_like(r), randomness="different")(x), (shares,)
    yield "tossed best", lambda p: torch.multinomial(torch.where(p.cumsum(-1) < 0.9, p, p * 0 + 1e-3), 1), (shares,)


@made(FOURTH)
def laws_fourth() -> Iterator[Call]:
    x = leaf(3, 3)
    laws = torch.distributions
    unit = torch.full((3,), 0.5)
    yield "law normal", lambda x, u: laws.MultivariateNormal(u, torch.diag(u)).log_prob(x), (x, unit)
    yield "law normal drawn", lambda x, u: laws.MultivariateNormal(x, torch.diag(u)).rsample(), (x, unit)
    yield "law low rank", lambda x, u: laws.LowRankMultivariateNormal(u, x.detach(), u).log_prob(x), (x, unit)
    yield "law mixture", _mixture_of_independent, (x, unit)
    yield (
        "law mixture drawn",
        lambda x, u: laws.MixtureSameFamily(laws.Categorical(u), laws.Normal(u, u)).sample((4,)),
        (
            unit,
            unit,
        ),
    )
    yield "law categorical", lambda x, i: laws.Categorical(logits=x).log_prob(i), (x, torch.tensor([0, 2, 1]))
    yield "law categorical surprise", lambda x: laws.Categorical(logits=x).entropy(), (x,)
    yield "law one hot", lambda x: laws.OneHotCategoricalStraightThrough(logits=x).rsample(), (x,)
    yield "law multinomial", lambda x: laws.Multinomial(4, logits=x.detach()).sample(), (x,)
    yield "law dirichlet", lambda x: laws.Dirichlet(x.exp()).rsample(), (x,)
    yield "law beta", lambda x: laws.Beta(x.exp(), x.exp() + 1).rsample(), (x,)
    yield "law gamma", lambda x: laws.Gamma(x.exp(), x.exp()).rsample(), (x,)
    yield "law circle", lambda x: laws.VonMises(x.detach(), x.detach().exp()).sample(), (x,)
    yield (
        "law matrices",
        lambda x: laws.Wishart(5.0, torch.eye(3, device=x.device)).log_prob(x @ x.t() + torch.eye(3, device=x.device)),
        (x,),
    )
    yield (
        "law correlations",
        lambda x: laws.LKJCholesky(torch.tensor(3, device="cpu").item()).sample().to(x.device),  # type: ignore[arg-type]
        (x,),
    )
    yield "law halves", lambda x: laws.HalfCauchy(x.exp()).log_prob(x.exp()), (x,)
    yield "law pareto", lambda x: laws.Pareto(x.exp(), x.exp()).rsample(), (x,)
    yield "law kumaraswamy", lambda x: laws.Kumaraswamy(x.exp(), x.exp()).rsample(), (x,)
    yield "law negative", lambda x: laws.NegativeBinomial(4, logits=x).log_prob(x.detach().exp().round()), (x,)
    yield "law poisson", lambda x: laws.Poisson(x.exp()).log_prob(x.detach().exp().round()), (x,)
    yield "law bent", lambda x: laws.TransformedDistribution(laws.Normal(x, 1), [bends.TanhTransform()]).rsample(), (x,)
    yield "law sticks", lambda x: bends.StickBreakingTransform()(x), (x,)
    yield "law factor", lambda x: bends.CorrCholeskyTransform()(x), (x,)
    yield "law lower", lambda x: bends.LowerCholeskyTransform()(x), (x,)
    yield "law continuous", lambda x: laws.ContinuousBernoulli(logits=x).rsample(), (x,)
    yield "law student", lambda x: laws.StudentT(x.exp() + 2).log_prob(x), (x,)
    yield "law apart", lambda x: laws.kl_divergence(laws.Gamma(x.exp(), 1.0), laws.Gamma(1.0, x.exp())), (x,)


def _mixture_of_independent(x: torch.Tensor, unit: torch.Tensor) -> Any:
    laws = torch.distributions
    parts = laws.Independent(laws.Normal(x, 1.0), 1)
    return laws.MixtureSameFamily(laws.Categorical(unit), parts).log_prob(x.detach()[:2])


@made(SIXTH)
def drawn_sixth() -> Iterator[Call]:
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
        "mixture": (_mixture_of_logits, logits),
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


def _mixture_of_logits(x: torch.Tensor) -> distributions.Distribution:
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
