"""Whole algorithms, as papers, repositories and training scripts have them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

from benchmarks.evidence.calls.making import Call, leaf, made
from benchmarks.evidence.made import FOURTH, SIXTH


@made(FOURTH)
def programs() -> Iterator[Call]:
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


@made(FOURTH)
def pictures() -> Iterator[Call]:
    points, image = leaf(6, 3), leaf(1, 3, 8, 8)
    yield "made boxes", _boxes, (torch.rand(6, 4).sort(-1).values.requires_grad_(),)
    yield "made suppression", _suppression, (torch.rand(6, 4).sort(-1).values, torch.rand(6))
    yield "made anchors", _anchors, (leaf(2, 3, 4, 4), torch.randint(0, 48, (2, 5)))
    yield "made regions", _regions, (image, torch.tensor([[1.0, 1, 5, 6], [0, 2, 7, 7]]))
    yield "made pyramid", _pyramid, (image,)
    yield "made atrous", _atrous, (image, leaf(2, 3, 3, 3))
    yield "made unet", _unet, (image, leaf(4, 3, 3, 3), leaf(4, 3, 2, 2))
    yield "made keypoints", _keypoints, (leaf(1, 2, 6, 6),)
    yield "made heat map", _heat_map, (leaf(1, 2, 6, 6), torch.tensor([[[1, 4], [5, 5], [1, 4]]]))
    yield "made splats", _splats, (points, leaf(6))
    yield "made voxels", _voxels, (points, leaf(6, 2))
    yield "made hash grid", _hash_grid, (torch.rand(6, 3), leaf(16, 2))
    yield "made rays", _rays, (leaf(4, 8), leaf(4, 8, 3))
    yield "made resampled rays", _resampled_rays, (torch.rand(4, 6), torch.rand(4, 5))
    yield "made farthest points", _farthest, (points.detach(),)
    yield "made ball query", _ball, (points,)
    yield "made optical flow", _correlation, (leaf(1, 2, 5, 5), leaf(1, 2, 5, 5))
    yield "made warp", _warp, (image, leaf(1, 2, 8, 8))
    yield "made morphology", lambda x: -F.max_pool2d(-F.max_pool2d(x, 3, 1, 1), 3, 1, 1), (image,)
    yield "made blur", _blur, (image,)
    yield "made wavelets", lambda x: torch.stack([x[..., ::2] + x[..., 1::2], x[..., ::2] - x[..., 1::2]]), (image,)
    yield "made colour histogram", _colours, (image,)
    yield "made equalised", _equalised, (torch.randint(0, 255, (40,)),)
    yield "made cut and mixed", _cut, (image,)
    yield "made patches", _patches, (image, leaf(4, 48))


def _overlaps(x: torch.Tensor) -> torch.Tensor:
    low, high = torch.maximum(x[:, None, :2], x[:, :2]), torch.minimum(x[:, None, 2:], x[:, 2:])
    both = (high - low).clamp(min=0).prod(-1)
    size = (x[:, 2:] - x[:, :2]).prod(-1)
    return both / (size[:, None] + size - both + 1e-6)


def _boxes(x: torch.Tensor) -> torch.Tensor:
    return 1 - _overlaps(x).triu(1).sum()


def _suppression(x: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
    order = scores.argsort(descending=True)
    meets = _overlaps(x[order]).triu(1).max(0).values
    return order[meets < 0.5]


def _anchors(x: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
    flat = x.permute(0, 2, 3, 1).reshape(2, -1)
    return F.smooth_l1_loss(flat.gather(1, places), torch.ones_like(places, dtype=x.dtype))


def _regions(x: torch.Tensor, boxes: torch.Tensor) -> torch.Tensor:
    steps = torch.linspace(0, 1, 3, device=x.device)
    at = boxes[:, None, :2] + steps[:, None] * (boxes[:, None, 2:] - boxes[:, None, :2])
    grid = torch.stack(torch.broadcast_tensors(at[:, None, :, 0], at[:, :, None, 1]), -1) / 4 - 1
    return F.grid_sample(x.expand(2, 3, 8, 8), grid, align_corners=False)


def _pyramid(x: torch.Tensor) -> torch.Tensor:
    pools = [F.adaptive_avg_pool2d(x, size) for size in (1, 2, 3)]
    return torch.cat([F.interpolate(pool, (8, 8), mode="bilinear", align_corners=False) for pool in pools], 1)


def _atrous(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return torch.cat([F.conv2d(x, w, padding=step, dilation=step) for step in (1, 2, 3)], 1)


def _unet(x: torch.Tensor, down: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    small = F.max_pool2d(F.conv2d(x, down, padding=1).relu(), 2)
    return torch.cat([x, F.conv_transpose2d(small, up, stride=2)], 1)


def _keypoints(x: torch.Tensor) -> torch.Tensor:
    shares = x.flatten(2).softmax(-1)
    row = torch.arange(6.0, device=x.device)
    return torch.stack([shares.view_as(x).sum(2) @ row, shares.view_as(x).sum(3) @ row], -1)


def _heat_map(x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
    wanted = torch.zeros_like(x[:, 0])
    wanted[0, at[0, :, 0], at[0, :, 1]] = 1
    peaks = (F.max_pool2d(x, 3, 1, 1) == x).float()
    return F.binary_cross_entropy_with_logits(x[:, 0] * peaks[:, 0], wanted)


def _splats(points: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    at = (points.detach().sigmoid() * 4).long()
    flat = at[:, 0] * 4 + at[:, 1]
    return torch.zeros(25, device=points.device).scatter_add(0, flat, weight * points[:, 2])


def _voxels(points: torch.Tensor, values: torch.Tensor) -> Any:
    cells, slot, counts = torch.unique((points.detach() * 2).floor(), dim=0, return_inverse=True, return_counts=True)
    sums = values.new_zeros(6, 2).index_add(0, slot, values)
    return sums[: len(cells)] / counts[:, None]


def _hash_grid(points: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
    low = (points * 4).floor()
    out = torch.zeros(6, 2, device=points.device)
    for corner in range(8):
        shift = torch.tensor([corner >> bit & 1 for bit in range(3)], device=points.device)
        place = ((low + shift).long() * torch.tensor([1, 73, 191], device=points.device)).sum(-1) % 16
        out = out + F.embedding(place, table) * (points * 4 - low - shift).abs().prod(-1, keepdim=True)
    return out


def _rays(density: torch.Tensor, colour: torch.Tensor) -> torch.Tensor:
    clear = torch.cumprod(1 - F.pad(density.sigmoid()[:, :-1], (1, 0)), -1)
    return ((clear * density.sigmoid())[..., None] * colour).sum(1)


def _resampled_rays(weights: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
    share = F.pad((weights / weights.sum(-1, keepdim=True)).cumsum(-1), (1, 0))
    place = torch.searchsorted(share, at, right=True).clamp(1, 6)
    return share.gather(-1, place) - share.gather(-1, place - 1)


def _farthest(x: torch.Tensor) -> torch.Tensor:
    far, chosen = torch.full((6,), 9.0, device=x.device), [torch.zeros((), dtype=torch.long, device=x.device)]
    for _ in range(3):
        far = torch.minimum(far, (x - x[chosen[-1]]).square().sum(-1))
        chosen.append(far.argmax())
    return x[torch.stack(chosen)]


def _ball(x: torch.Tensor) -> torch.Tensor:
    near = (torch.cdist(x, x) < 2).float()
    return near @ x / near.sum(1, keepdim=True)


def _correlation(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    parts = F.unfold(F.pad(y, (1, 1, 1, 1), mode="replicate"), 3).view(1, 2, 9, 5, 5)
    return (x[:, :, None] * parts).sum(1)


def _warp(x: torch.Tensor, flow: torch.Tensor) -> torch.Tensor:
    here = F.affine_grid(torch.eye(2, 3, device=x.device)[None], [1, 3, 8, 8], align_corners=False)
    return F.grid_sample(x, here + flow.movedim(1, -1).tanh(), mode="bicubic", align_corners=False)


def _blur(x: torch.Tensor) -> torch.Tensor:
    w = torch.exp(-torch.linspace(-2, 2, 5, device=x.device).square())
    kernel = (w[:, None] * w / w.sum() ** 2).expand(3, 1, 5, 5)
    return F.conv2d(F.pad(x, (2, 2, 2, 2), mode="reflect"), kernel, groups=3)


def _colours(x: torch.Tensor) -> torch.Tensor:
    far = (x.flatten(2)[..., None] - torch.linspace(-1, 1, 5, device=x.device)).abs()
    return (1 - far).relu().sum(2)


def _equalised(x: torch.Tensor) -> torch.Tensor:
    counts = torch.bincount(x, minlength=256)
    return (counts.cumsum(0)[x].float() / 40 * 255).round()


def _cut(x: torch.Tensor) -> torch.Tensor:
    out = x.clone()
    out[..., 2:5, 1:6] = x.flip(-1)[..., 2:5, 1:6]
    return out


def _patches(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return F.linear(x.unfold(2, 4, 4).unfold(3, 4, 4).movedim(1, 3).flatten(3).flatten(1, 2), w)


@made(SIXTH)
def habits() -> Iterator[Call]:
    x, image = leaf(6, 4), leaf(2, 3, 8, 8)
    labels = torch.tensor([0, 1, 2, 1, 0, 2])
    habits: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
        "mixed up": (lambda x: 0.3 * x + 0.7 * x[torch.randperm(6, device=x.device)], (x,)),
        "cut out": (lambda x: x * (torch.rand(2, 1, 8, 8, device=x.device) > 0.2), (image,)),
        "patches": (lambda x: x.unfold(2, 4, 4).unfold(3, 4, 4).flatten(2), (image,)),
        "accuracy": (lambda x, y: (x.argmax(1)[:6] % 3 == y).float().mean(), (x.detach(), labels)),
        "top five": (lambda x, y: (x.topk(2, 1)[1] == y[:, None]).any(1).float().mean(), (x.detach(), labels)),
        "class means": (_class_means, (x, labels)),
        "class sums": (lambda x, y: F.one_hot(y, 3).float().t() @ x, (x, labels)),
        "confusion": (_confusion, (labels,)),
        "contrasted": (_contrasted, (x,)),
        "centred": (lambda x: (x - x.mean(0)) / (x.std(0) + 1e-5), (x,)),
        "momentum": (lambda x: torch.lerp(x.detach(), x.detach().roll(1, 0), 0.01), (x,)),
        "penalty": (_penalty, (image,)),
        "masked mean": (lambda x: (x * (x > 0)).sum(1) / (x > 0).sum(1).clamp(min=1), (x,)),
        "noise": (lambda x: x + torch.randn_like(x) * 0.1, (x,)),
        "packed": (_packed, (leaf(3, 5, 4),)),
        "beam": (lambda x: x.log_softmax(-1).flatten().topk(3)[0], (x,)),
        "nucleus": (_nucleus_by_share, (x.detach(),)),
        "returns": (_returns, (leaf(8),)),
        "gathered actions": (lambda x, y: x.gather(1, y[:, None]).squeeze(1), (x, labels)),
        "boxes": (_box_overlaps, (leaf(5, 4),)),
        "blurred": (lambda x: F.conv2d(x, torch.ones(3, 1, 3, 3, device=x.device) / 9, padding=1, groups=3), (image,)),
        "resized by area": (lambda x: F.interpolate(x, size=(5, 3), mode="area"), (image,)),
        "resized smoothly": (lambda x: F.interpolate(x, size=(5, 3), mode="bilinear", antialias=True), (image,)),
        "hashed": (lambda x: torch.zeros(4, device=x.device).index_add(0, labels.to(x.device), x[:, 0]), (x,)),
        "rendered": (_rendered, (leaf(4, 7), leaf(4, 7, 3))),
        "soft sorted": (lambda x: (x[:, :, None] - x[:, None]).sigmoid().sum(-1), (x,)),
        "low rank": (lambda x: x @ (x[:1].t() @ x[1:2]), (x,)),
    }
    for name, (function, args) in habits.items():
        yield f"habit {name}", function, args


def _class_means(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    sums = x.new_zeros(3, 4).index_add_(0, y, x)
    return sums / torch.bincount(y, minlength=3)[:, None]


def _confusion(y: torch.Tensor) -> torch.Tensor:
    return torch.zeros(3, 3, dtype=torch.long, device=y.device).index_put_((y, y.flip(0)), y * 0 + 1, accumulate=True)


def _contrasted(x: torch.Tensor) -> torch.Tensor:
    near = F.normalize(x) @ F.normalize(x.roll(1, 0)).t() / 0.07
    where = torch.arange(6, device=x.device)
    return (F.cross_entropy(near, where) + F.cross_entropy(near.t(), where)) / 2


def _penalty(image: torch.Tensor) -> Any:
    layer = nn.Sequential(nn.Conv2d(3, 2, 3), nn.LeakyReLU(), nn.Flatten(), nn.Linear(72, 1)).to(image.device)
    (slope,) = torch.autograd.grad(layer(image).sum(), image, create_graph=True)
    loss = (slope.flatten(1).norm(2, 1) - 1).pow(2).mean()
    return torch.autograd.grad(loss, list(layer.parameters()), allow_unused=True)


def _packed(x: torch.Tensor) -> torch.Tensor:
    packed = nn.utils.rnn.pack_sequence([x[0], x[1, :3], x[2, :2]])
    return nn.utils.rnn.pad_packed_sequence(packed)[0]


def _nucleus_by_share(x: torch.Tensor) -> torch.Tensor:
    share, order = x.softmax(-1).sort(-1, descending=True)
    keep = share.cumsum(-1) - share < 0.9
    picked = torch.multinomial((share * keep + 1e-6), 1)
    return order.gather(-1, picked)


def _returns(rewards: torch.Tensor) -> torch.Tensor:
    powers = 0.9 ** torch.arange(8, device=rewards.device)
    return (rewards * powers).flip(0).cumsum(0).flip(0) / powers


def _box_overlaps(x: torch.Tensor) -> torch.Tensor:
    low, high = x[:, :2], x[:, :2] + x[:, 2:].exp()
    both = (torch.min(high[:, None], high) - torch.max(low[:, None], low)).clamp(min=0).prod(-1)
    area = (high - low).prod(-1)
    return both / (area[:, None] + area - both)


def _rendered(density: torch.Tensor, colour: torch.Tensor) -> torch.Tensor:
    alpha = 1 - (-density.relu()).exp()
    seen = torch.cat((alpha.new_ones(4, 1), (1 - alpha + 1e-10)), -1).log().cumsum(-1).exp()[:, :-1]
    return ((alpha * seen)[..., None] * colour.sigmoid()).sum(-2)
