"""Whole algorithms, as papers and repositories have them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from benchmarks.evidence.calls.layers import leaf

_Made = tuple[str, Callable[..., Any], tuple[Any, ...]]


def made() -> Iterator[_Made]:
    """Each call's name, function and tensors."""
    points, image, rows = leaf(6, 3), leaf(1, 3, 8, 8), leaf(8, 4)
    edges = torch.tensor([[0, 1, 2, 2, 5, 7], [1, 1, 0, 4, 5, 6]])
    yield "made graph attention", _graph_attention, (rows, edges)
    yield "made graph normal", _graph_normal, (rows, edges)
    yield "made graph pooled", _graph_pooled, (rows, edges[0].sort().values)
    yield "made graph edges", _edge_convolution, (points,)
    yield "made messages max", _messages_max, (rows, edges)
    yield "made random walk", _random_walk, (rows, edges)
    yield "made experts", _experts, (rows, leaf(4, 3), leaf(3, 4, 4))
    yield "made experts sorted", _experts_sorted, (rows, leaf(4, 3), leaf(3, 4, 4))
    yield "made routed", _routed, (rows, leaf(4))
    yield "made state space", _state_space, (leaf(2, 6, 3), leaf(3))
    yield "made linear recurrence", _recurrence, (leaf(2, 6, 3), leaf(2, 6, 3))
    yield "made retention", _retention, (leaf(1, 5, 4),)
    yield "made codebook", _codebook, (rows, leaf(5, 4).detach())
    yield "made codebook moved", _codebook_moved, (rows.detach(), leaf(5, 4).detach())
    yield "made finite scalars", lambda x: x + ((x * 4).round() / 4 - x).detach(), (rows,)
    yield "made k-means", _k_means, (rows.detach(), leaf(3, 4).detach())
    yield "made mixture", _expectation, (rows.detach(), leaf(3, 4).detach())
    yield "made sinkhorn", _sinkhorn, (leaf(5, 5),)
    yield "made memory", _memory, (rows, leaf(9, 4).detach())
    yield "made contrast queue", _queue, (rows, leaf(16, 4).detach())
    yield "made masked patches", _masked_patches, (leaf(1, 9, 4), torch.rand(1, 9))
    yield "made interpolated places", _places, (leaf(1, 16, 4),)
    yield "made advantage", _advantage, (leaf(7), leaf(7))
    yield "made policy", _policy, (leaf(5, 3), torch.tensor([0, 2, 1, 1, 0]))
    yield "made double q", _double_q, (leaf(5, 3), torch.tensor([0, 2, 1, 1, 0]))
    yield "made distributional", _distributional, (leaf(4, 5), torch.rand(4, 5))
    yield "made priorities", _priorities, (torch.rand(12),)
    yield "made beam", _beam, (leaf(3, 7).detach(),)
    yield "made nucleus", _nucleus, (leaf(2, 9).detach(),)
    yield "made penalised", _penalised, (leaf(2, 9).detach(), torch.tensor([[1, 1, 4], [0, 8, 8]]))
    yield "made speculative", _speculative, (torch.rand(4, 6).softmax(-1), torch.rand(4, 6).softmax(-1))
    yield "made copied words", _copied, (leaf(2, 5), leaf(2, 4), torch.tensor([[1, 1, 3, 0], [4, 4, 4, 2]]))
    yield "made packed words", _packed_words, (leaf(3, 4, 2), torch.tensor([4, 2, 3]))
    yield "made averaged words", _averaged_words, (leaf(3, 4, 2), torch.tensor([4, 2, 3]))
    yield "made segments", _segments, (rows, torch.tensor([0, 0, 1, 3, 3, 3, 4, 4]))
    yield "made factors", _factors, (leaf(5, 3), leaf(6, 3), torch.tensor([[0, 4, 4], [5, 5, 1]]))
    yield "made ranked pairs", _ranked, (leaf(5, 3), torch.tensor([[0, 1], [1, 4], [4, 4]]))
    yield "made equation", _equation, (rows, leaf(4, 4))
    yield "made hamiltonian", _hamiltonian, (rows,)
    yield "made noise steps", _noise_steps, (image, torch.tensor([3]))
    yield "made flow", _flow, (rows, leaf(2, 4))
    yield "made spline", _spline, (torch.rand(5), leaf(5, 4))
    yield "made ensembles", _ensembles, (rows, leaf(3, 4, 2))
    yield "made adversary", _adversary, (rows, leaf(3, 4))
    yield "made gradient reversal", lambda x: (x * 1 + (x - 2 * x).detach()).sum(), (rows,)
    yield "made fisher", _fisher, (rows, leaf(3, 4))
    yield "made hessian", lambda x: torch.func.hessian(lambda y: y[:2].cumsum(0).pow(3).sum())(x.detach()), (leaf(4),)
    yield "made each gradient", _each_gradient, (rows.detach(), leaf(4).detach())
    yield "made recomputed", _recomputed, (rows, edges)
    yield "made low rank", lambda x, a, b: x + (x @ a) @ b * 0.5, (rows, leaf(4, 2), leaf(2, 4))
    yield "made quantised", _quantised, (rows, leaf(3, 4))
    yield "made kalman", _kalman, (leaf(4, 2),)
    yield "made fields", _fields, (leaf(1, 3, 5, 5),)
    yield "made scattered slots", _slots, (leaf(1, 6, 4), leaf(3, 4))


def _soft(scores: torch.Tensor, to: torch.Tensor, count: int) -> torch.Tensor:
    top = scores.new_full((count,), -1e9).scatter_reduce(0, to, scores, "amax")
    shares = (scores - top[to]).exp()
    return shares / scores.new_zeros(count).index_add(0, to, shares)[to]


def _graph_attention(x: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
    here, to = edges
    shares = _soft((x[here] * x[to]).sum(-1), to, len(x))
    return torch.zeros_like(x).index_add(0, to, shares[:, None] * x[here])


def _graph_normal(x: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
    here, to = edges
    degree = torch.zeros(len(x), device=x.device).scatter_add_(0, to, torch.ones(len(to), device=x.device)).clamp(min=1)
    scale = degree.rsqrt()
    return torch.zeros_like(x).index_put((to,), x[here] * (scale[here] * scale[to])[:, None], accumulate=True)


def _graph_pooled(x: torch.Tensor, groups: torch.Tensor) -> torch.Tensor:
    spread = groups[:, None].expand(-1, 4)
    many = x[: len(groups)]
    low = torch.full((8, 4), 9.0, device=x.device).scatter_reduce(0, spread, many, "amin", include_self=False)
    return torch.cat([low, x.new_zeros(8, 4).scatter_reduce(0, spread, many, "mean", include_self=False)], 1)


def _edge_convolution(x: torch.Tensor) -> torch.Tensor:
    near = torch.cdist(x, x).topk(3, largest=False).indices
    return (x[near] - x[:, None]).relu().max(1).values


def _messages_max(x: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
    return x.new_zeros(8, 4).index_reduce(0, edges[1], x.index_select(0, edges[0]), "amax", include_self=False)


def _random_walk(x: torch.Tensor, edges: torch.Tensor) -> Any:
    moves = torch.sparse_coo_tensor(edges, torch.ones(6, device=x.device), (8, 8)).coalesce()
    return torch.sparse.mm(moves, torch.sparse.mm(moves, x))


def _experts(x: torch.Tensor, gate: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    best = (x @ gate).softmax(-1).topk(2)
    out = torch.zeros_like(x)
    for number in range(3):
        rows, slot = torch.where(best.indices == number)
        out = out.index_add(0, rows, (x[rows] @ w[number]) * best.values[rows, slot, None])
    return out


def _experts_sorted(x: torch.Tensor, gate: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    order = (x @ gate).argmax(-1).argsort(stable=True)
    mixed = torch.einsum("nd,nde->ne", x[order], w[order % 3])
    return torch.zeros_like(x).scatter(0, order[:, None].expand(-1, 4), mixed)


def _routed(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    kept = (x @ w).topk(3, sorted=False)
    rows = kept.indices.sort().values
    return x.index_copy(0, rows, x[rows] * kept.values.sigmoid()[:, None])


def _state_space(x: torch.Tensor, decay: torch.Tensor) -> torch.Tensor:
    logs = F.logsigmoid(decay).expand(6, 3).cumsum(0)
    weights = (logs[:, None] - logs[None]).tril(0).exp() if logs.dim() == 2 else logs
    kernel = (logs[:, None] - logs[None]).exp() * torch.ones(6, 6, device=x.device).tril()[..., None]
    return torch.einsum("tsd,nsd->ntd", kernel, x) + weights.sum() * 0


def _recurrence(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    grown = F.pad(a.sigmoid().log().cumsum(1), (0, 0, 1, 0))
    return (grown[:, 1:] + torch.logcumsumexp(b - grown[:, 1:], 1)).exp()


def _retention(x: torch.Tensor) -> torch.Tensor:
    far = torch.arange(5, device=x.device)
    return (x @ x.mT * (0.9 ** (far[:, None] - far).clamp(min=0)).tril()) @ x


def _codebook(x: torch.Tensor, book: torch.Tensor) -> torch.Tensor:
    near = torch.cdist(x, book).argmin(1)
    chosen = F.embedding(near, book)
    return x + (chosen - x).detach() + F.mse_loss(x, chosen)


def _codebook_moved(x: torch.Tensor, book: torch.Tensor) -> torch.Tensor:
    chosen = F.one_hot((x @ book.t()).argmax(1), 5).float()
    return torch.lerp(book, chosen.t() @ x / chosen.sum(0)[:, None].clamp(min=1), 0.1)


def _k_means(x: torch.Tensor, centres: torch.Tensor) -> torch.Tensor:
    for _ in range(2):
        near = (x[:, None] - centres).square().sum(-1).argmin(1)
        sums = torch.zeros_like(centres).index_add_(0, near, x)
        centres = sums / torch.bincount(near, minlength=3).clamp(min=1)[:, None]
    return centres


def _expectation(x: torch.Tensor, means: torch.Tensor) -> torch.Tensor:
    shares = (-(x[:, None] - means).square().sum(-1)).softmax(1)
    return (shares.t() @ x) / shares.sum(0)[:, None]


def _sinkhorn(x: torch.Tensor) -> torch.Tensor:
    for _ in range(3):
        x = x - x.logsumexp(0, keepdim=True)
        x = x - x.logsumexp(1, keepdim=True)
    return x.exp()


def _memory(x: torch.Tensor, held: torch.Tensor) -> torch.Tensor:
    place = torch.arange(8, device=x.device) % 9
    held = held.clone()
    held[place] = x.detach()
    return torch.softmax(x @ held.t(), -1) @ held


def _queue(x: torch.Tensor, queue: torch.Tensor) -> torch.Tensor:
    keys = F.normalize(x.detach().roll(1, 0))
    scores = torch.cat([(F.normalize(x) * keys).sum(1, keepdim=True), x @ queue.t()], 1)
    return F.cross_entropy(scores / 0.1, torch.zeros(8, dtype=torch.long, device=x.device))


def _masked_patches(x: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:
    order = noise.argsort(1)
    kept = x.gather(1, order[:, :4, None].expand(-1, -1, 4))
    filled = torch.cat([kept, torch.zeros_like(x[:, 4:])], 1)
    return filled.gather(1, order.argsort(1)[..., None].expand(-1, -1, 4))


def _places(x: torch.Tensor) -> torch.Tensor:
    grid = x.view(1, 4, 4, 4).permute(0, 3, 1, 2)
    return F.interpolate(grid, (6, 5), mode="bicubic", align_corners=False).flatten(2).mT


def _advantage(rewards: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    total, out = torch.zeros((), device=rewards.device), []
    for step in reversed(range(6)):
        total = rewards[step] + 0.9 * values[step + 1] - values[step] + 0.8 * total
        out.append(total)
    return torch.stack(out[::-1])


def _policy(x: torch.Tensor, done: torch.Tensor) -> Any:
    law = torch.distributions.Categorical(logits=x)
    ratio = (law.log_prob(done) - law.log_prob(done).detach()).exp()
    return -torch.minimum(ratio, ratio.clamp(0.8, 1.2)).mean() - 0.01 * law.entropy().mean()


def _double_q(x: torch.Tensor, done: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        wanted = x.roll(1, 0).gather(1, x.argmax(1, keepdim=True))
    return F.huber_loss(x.gather(1, done[:, None]), wanted)


def _distributional(x: torch.Tensor, shares: torch.Tensor) -> torch.Tensor:
    place = torch.linspace(-1.5, 1.5, 5, device=x.device).clamp(-1, 1).mul(2).add(2)
    low = place.floor().long().expand(4, 5)
    wanted = torch.zeros_like(shares).scatter_add_(1, low, shares * (low + 1 - place))
    return -(wanted * x.log_softmax(1)).sum(1).mean()


def _priorities(x: torch.Tensor) -> torch.Tensor:
    chosen = torch.searchsorted(x.cumsum(0), torch.rand(4, device=x.device) * x.sum()).clamp(max=11)
    return x.index_fill(0, chosen, 0.5)


def _beam(x: torch.Tensor) -> torch.Tensor:
    best = (x.log_softmax(-1) + x[:, :1]).flatten().topk(3)
    return x[best.indices // 7].scatter(1, (best.indices % 7)[:, None], -9.0)


def _nucleus(x: torch.Tensor) -> torch.Tensor:
    order = x.sort(-1, descending=True)
    drop = order.values.softmax(-1).cumsum(-1) > 0.8
    kept = x.masked_fill(drop.scatter(-1, order.indices, drop), float("-inf"))
    return torch.multinomial(kept.nan_to_num(neginf=-50).softmax(-1), 1)


def _penalised(x: torch.Tensor, said: torch.Tensor) -> torch.Tensor:
    score = x.gather(1, said)
    return x.scatter(1, said, torch.where(score < 0, score * 1.2, score / 1.2))


def _speculative(drafted: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
    left = (wanted - drafted).relu()
    return torch.multinomial(left + 1e-6, 1, replacement=True)


def _copied(words: torch.Tensor, copies: torch.Tensor, source: torch.Tensor) -> torch.Tensor:
    return words.softmax(-1).scatter_add(1, source, copies.softmax(-1)).log()


def _packed_words(x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    kept = torch.arange(4, device=x.device) < lengths[:, None]
    flat = x[kept]
    return torch.zeros_like(x).masked_scatter(kept[..., None], flat)


def _averaged_words(x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    last = x[torch.arange(3, device=x.device), lengths - 1]
    return last + x.cumsum(1).gather(1, (lengths - 1)[:, None, None].expand(3, 1, 2))[:, 0] / lengths[:, None]


def _segments(x: torch.Tensor, groups: torch.Tensor) -> torch.Tensor:
    bounds = torch.searchsorted(groups, torch.arange(6, device=x.device))
    sums = F.pad(x.cumsum(0), (0, 0, 1, 0))
    return sums[bounds[1:]] - sums[bounds[:-1]]


def _factors(users: torch.Tensor, things: torch.Tensor, pairs: torch.Tensor) -> torch.Tensor:
    return F.mse_loss(torch.linalg.vecdot(users[pairs[0]], things[pairs[1]]), torch.ones(3, device=users.device))


def _ranked(x: torch.Tensor, pairs: torch.Tensor) -> torch.Tensor:
    scores = x.index_select(0, pairs.flatten()).view(3, 2, 3).sum(-1)
    return -F.logsigmoid(scores[:, 0] - scores[:, 1]).mean()


def _equation(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    for _ in range(2):
        one = torch.tanh(x @ w)
        two = torch.tanh((x + 0.05 * one) @ w)
        x = x + 0.1 * two
    return x


def _hamiltonian(x: torch.Tensor) -> torch.Tensor:
    (force,) = torch.autograd.grad(x.square().cumsum(0).sum(), x, create_graph=True)
    return x - 0.1 * force


def _noise_steps(x: torch.Tensor, step: torch.Tensor) -> torch.Tensor:
    kept = torch.cumprod(1 - torch.linspace(0.01, 0.2, 6, device=x.device), 0)
    here = kept.gather(0, step).view(1, 1, 1, 1)
    return here.sqrt() * x + (1 - here).sqrt() * torch.randn_like(x)


def _flow(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    scale, shift = (x[:, :2] @ w).chunk(2, 1)
    moved = torch.cat([x[:, :2], x[:, 2:] * scale.exp() + shift], 1)
    return moved[:, torch.randperm(4, device=x.device)]


def _spline(x: torch.Tensor, knots: torch.Tensor) -> torch.Tensor:
    edges = F.pad(knots.softmax(-1).cumsum(-1), (1, 0))
    place = torch.searchsorted(edges.detach(), x[:, None]).clamp(1, 4)
    return edges.gather(1, place) - edges.gather(1, place - 1)


def _ensembles(x: torch.Tensor, w: torch.Tensor) -> Any:
    return torch.vmap(lambda one: (x @ one).logcumsumexp(0))(w)


def _adversary(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    held = x.detach().requires_grad_()
    (slope,) = torch.autograd.grad((held @ w.t()).logsumexp(1).sum(), held)
    return ((x + 0.1 * slope.sign()) @ w.t()).logsumexp(1)


def _fisher(x: torch.Tensor, w: torch.Tensor) -> Any:
    shares = (x @ w.t()).softmax(1)
    (slope,) = torch.autograd.grad(shares[:, 0].log().sum(), w, create_graph=True)
    return torch.autograd.grad((slope * w.detach()).sum(), w)


def _each_gradient(x: torch.Tensor, w: torch.Tensor) -> Any:
    return torch.vmap(torch.func.grad(lambda w, row: (row * w).cumsum(0).pow(2).sum()), (None, 0))(w, x)


def _recomputed(x: torch.Tensor, edges: torch.Tensor) -> Any:
    from torch.utils.checkpoint import checkpoint

    return checkpoint(lambda y: torch.zeros_like(y).index_add(0, edges[1], y[edges[0]]), x, use_reentrant=False)


def _quantised(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    scale = w.detach().abs().amax(1, keepdim=True) / 127
    held = w + ((w / scale).round() * scale - w).detach()
    return F.linear(x, held)


def _kalman(seen: torch.Tensor) -> torch.Tensor:
    mean, spread = torch.zeros(2, device=seen.device), torch.eye(2, device=seen.device)
    for row in seen:
        gain = torch.linalg.solve(spread + torch.eye(2, device=seen.device), spread)
        mean = mean + gain @ (row - mean)
        spread = spread - gain @ spread
    return mean


def _fields(x: torch.Tensor) -> Any:
    parts = nn.Unfold(3, padding=1)(x.softmax(1)).view(1, 3, 9, 25)
    return (x.log_softmax(1).flatten(2) * parts.mean(2)).sum()


def _slots(x: torch.Tensor, slots: torch.Tensor) -> torch.Tensor:
    for _ in range(2):
        shares = (slots @ x.mT).softmax(1)
        slots = (shares / shares.sum(-1, keepdim=True)) @ x
    return slots
