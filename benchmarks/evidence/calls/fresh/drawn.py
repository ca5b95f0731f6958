"""Random draws and distributions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn
from torch.distributions import transforms as bends

from benchmarks.evidence.calls.layers import leaf

_Made = tuple[str, Callable[..., Any], tuple[Any, ...]]


def made() -> Iterator[_Made]:
    """Each call's name, function and tensors."""
    yield from _draws()
    yield from _distributions()


def _draws() -> Iterator[_Made]:
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


def _distributions() -> Iterator[_Made]:
    x = leaf(3, 3)
    laws = torch.distributions
    unit = torch.full((3,), 0.5)
    yield "law normal", lambda x, u: laws.MultivariateNormal(u, torch.diag(u)).log_prob(x), (x, unit)
    yield "law normal drawn", lambda x, u: laws.MultivariateNormal(x, torch.diag(u)).rsample(), (x, unit)
    yield "law low rank", lambda x, u: laws.LowRankMultivariateNormal(u, x.detach(), u).log_prob(x), (x, unit)
    yield "law mixture", _mixture, (x, unit)
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


def _mixture(x: torch.Tensor, unit: torch.Tensor) -> Any:
    laws = torch.distributions
    parts = laws.Independent(laws.Normal(x, 1.0), 1)
    return laws.MixtureSameFamily(laws.Categorical(unit), parts).log_prob(x.detach()[:2])
