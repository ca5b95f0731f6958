"""Boxes, images, points and rays: whole algorithms, as papers and repositories have them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.nn.functional as F

from benchmarks.evidence.calls.layers import leaf

_Made = tuple[str, Callable[..., Any], tuple[Any, ...]]


def made() -> Iterator[_Made]:
    """Each call's name, function and tensors."""
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
