"""What the operator database leaves out, and inputs that provoke a kernel to differ from itself.

``left_out`` has one small call for each public function that deterministic mode may refuse and OpInfo lacks or tries
with other arguments. ``provoking`` has large calls whose values meet: many duplicates of few indices, values of very
different size (so that the order of additions shows in the bits), and long reductions.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F

from tests.support.samples import Sample, seed_everything

#: From this many elements on, torch's CPU kernels use several threads.
GRAIN = 32_768
#: Elements of a provoking call.
MANY = 400_000


def left_out(device: str) -> Iterator[Sample]:
    """Small calls, a few for each function, in the dtypes on which a refusal may hang."""
    seed_everything(0)
    for dtype in (torch.float32, torch.int64, torch.bool):
        yield from _indexed(device, dtype)
    yield from _unpooled(device)
    yield from _resized()
    for name, number, function, *args in _layers(device):
        yield Sample(name, number, "float32", function, tuple(args))


def provoking(device: str) -> Iterator[Sample]:
    """Large calls made so that two runs of them differ if any two can."""
    seed_everything(0)
    values, few = _uneven(MANY, device), torch.randint(0, 7, (MANY,), device=device)
    rows, places = _uneven((MANY // 16, 16), device), torch.randint(0, 7, (MANY // 16,), device=device)
    target, wide = torch.zeros(1000, device=device), torch.zeros(1000, 16, device=device)
    square = _uneven((600, 600), device)
    made: tuple[tuple[str, Any, tuple[Any, ...], dict[str, Any]], ...] = (
        ("index_put accumulate", torch.index_put, (target, (few,), values), {"accumulate": True}),
        ("index_put last write", torch.index_put, (target, (few,), values), {"accumulate": False}),
        ("index_put rows", torch.index_put, (wide, (places,), rows), {"accumulate": False}),
        ("put accumulate", torch.put, (target, few, values), {"accumulate": True}),
        ("put last write", torch.put, (target, few, values), {"accumulate": False}),
        ("index_add", torch.index_add, (wide, 0, places, rows), {}),
        ("index_copy", torch.index_copy, (wide, 0, places, rows), {}),
        ("index_reduce", torch.index_reduce, (wide, 0, places, rows, "prod"), {}),
        ("scatter_add", torch.scatter_add, (target, 0, few, values), {}),
        ("scatter src", torch.scatter, (target, 0, few, values), {}),
        ("scatter_reduce sum", torch.scatter_reduce, (target, 0, few, values, "sum"), {}),
        ("scatter_reduce mean", torch.scatter_reduce, (target, 0, few, values, "mean"), {}),
        ("scatter_reduce prod", torch.scatter_reduce, (target, 0, few, values, "prod"), {}),
        ("bincount weights", torch.bincount, (few, values), {}),
        ("histc", torch.histc, (values,), {"bins": 7}),
        ("cumsum", torch.cumsum, (values, 0), {}),
        ("cumprod", torch.cumprod, (1 + values / 1e8, 0), {}),
        ("logcumsumexp", torch.logcumsumexp, (values / 1e4, 0), {}),
        ("sum", torch.sum, (values,), {}),
        ("mm", torch.mm, (square, square), {}),
        ("topk of ties", torch.topk, (few.float(), 100), {}),
        ("kthvalue of ties", torch.kthvalue, (few.float(), MANY // 2), {}),
        ("median of ties", torch.median, (few.float(), 0), {}),
        ("sort of ties", torch.sort, (few.float(),), {}),
        ("gather backward", torch.gather, (target.clone().requires_grad_(), 0, few), {}),
        ("index backward", _take_rows, (wide.clone().requires_grad_(), places), {}),
        ("take backward", torch.take, (target.clone().requires_grad_(), few), {}),
        ("embedding backward", F.embedding, (places, wide.clone().requires_grad_()), {}),
    )
    for name, function, args, kwargs in made:
        yield Sample(name, 0, "float32", function, args, kwargs)
    if device == "cpu":
        yield Sample("lstsq", 0, "float32", torch.linalg.lstsq, (_uneven((50, 30), "cpu"), _uneven((50, 30), "cpu")))
    for name, number, function, *given in _layers(device, scale=4):
        yield Sample(f"{name} (large)", number, "float32", function, tuple(given))


def _indexed(device: str, dtype: torch.dtype) -> Iterator[Sample]:
    """Writes through an index, below and above the size from which several threads write."""
    name = str(dtype).removeprefix("torch.")
    for number, size in enumerate((10, GRAIN - 1, GRAIN, GRAIN + 5000)):
        index = torch.randint(0, 5, (size,), device=device)
        values = torch.ones(size, device=device).to(dtype)
        target = torch.zeros(8, device=device).to(dtype)
        mask = target == 0
        for accumulate in (False, True):
            flags = {"accumulate": accumulate}
            place = number + 4 * accumulate
            yield Sample("put_", place, name, _put_, (target, index, values), flags)
            yield Sample("put", place, name, torch.put, (target, index, values), flags)
            yield Sample("index_put_", place, name, _index_put_, (target, index, values), flags)
            yield Sample("index_put", place, name, torch.index_put, (target, (index,), values), flags)
        yield Sample("index_put by mask", number, name, torch.index_put, (target, (mask,), values[:8]))
        yield Sample("index_copy", number, name, torch.index_copy, (target, 0, index, values))
        yield Sample("index_add", number, name, torch.index_add, (target, 0, index, values))
        yield Sample("scatter", number, name, torch.scatter, (target, 0, index, values))
        if dtype.is_floating_point:
            leaf = target.requires_grad_()
            yield Sample("take backward", number, name, torch.take, (leaf, index))
            yield Sample("index backward", number, name, _take_rows, (leaf, index))


def _unpooled(device: str) -> Iterator[Sample]:
    """Unpooling, which no entry of the database calls with indices of its own."""
    for number, size in enumerate((8, 64)):
        for dims, pool, unpool in (
            (1, F.max_pool1d, F.max_unpool1d),
            (2, F.max_pool2d, F.max_unpool2d),
            (3, F.max_pool3d, F.max_unpool3d),
        ):
            x = torch.randn(2, 3, *([min(size, 16 if dims == 3 else size)] * dims), device=device)
            small, where = pool(x, 2, return_indices=True)
            yield Sample(f"max_unpool{dims}d", number, "float32", unpool, (small.requires_grad_(), where, 2))


def _resized() -> Iterator[Sample]:
    """``resize_`` of plain and quantized tensors (on the CPU alone), growing and shrinking."""
    for number, size in enumerate((2, 8)):
        plain = torch.zeros(4)
        quantized = torch.quantize_per_tensor(plain, 0.1, 0, torch.quint8)
        yield Sample("resize_", number, "float32", torch.Tensor.resize_, (plain, (size,)))
        yield Sample("resize_ quantized", number, "quint8", torch.Tensor.resize_, (quantized, (size,)))
        like = torch.zeros(size)
        yield Sample("resize_as_", number, "float32", torch.Tensor.resize_as_, (plain, like))


def _layers(device: str, scale: int = 1) -> Iterator[tuple[Any, ...]]:
    """Functions whose backward deterministic mode may refuse, through their public names."""

    def image(*size: int) -> torch.Tensor:
        return torch.randn(2, 3, *(scale * n for n in size), device=device, requires_grad=True)

    for number, mode in enumerate(("linear", "bilinear", "bicubic", "trilinear", "nearest")):
        dims = {"linear": 1, "trilinear": 3}.get(mode, 2)
        yield f"interpolate {mode}", number, _interpolate, image(*([6] * dims)), mode, False
        if mode in ("bilinear", "bicubic"):
            yield f"interpolate {mode} antialias", number, _interpolate, image(6, 6), mode, True
    for dims in (1, 2, 3):
        for number, mode in enumerate(("reflect", "replicate", "circular")):
            yield f"pad {mode} {dims}d", number, _pad, image(*([6] * dims)), mode
    yield "avg_pool3d", 0, _avg_pool3d, image(6, 6, 6)
    yield "adaptive_avg_pool2d", 0, _adaptive_avg_pool2d, image(7, 7)
    yield "adaptive_avg_pool3d", 0, _adaptive_avg_pool3d, image(7, 7, 7)
    yield "adaptive_max_pool2d", 0, F.adaptive_max_pool2d, image(7, 7), (3, 3)
    yield "adaptive_max_pool3d", 0, F.adaptive_max_pool3d, image(7, 7, 7), (3, 3, 3)
    yield "fractional_max_pool2d", 0, F.fractional_max_pool2d, image(7, 7), 2, 3
    yield "fractional_max_pool3d", 0, F.fractional_max_pool3d, image(7, 7, 7), 2, 3
    yield "max_pool2d", 0, F.max_pool2d, image(7, 7), 3, 1
    yield "max_pool3d", 0, F.max_pool3d, image(7, 7, 7), 3, 1
    grid = torch.rand(2, 40, 40, 2, device=device) * 0.1
    yield "grid_sample 2d", 0, _grid_sample, image(7, 7), grid
    yield "grid_sample 3d", 0, _grid_sample, image(4, 4, 4), torch.rand(2, 9, 9, 9, 3, device=device) * 0.1
    for number, reduction in enumerate(("mean", "sum", "none")):
        labels = torch.randint(0, 3, (2, 9 * scale, 9 * scale), device=device)
        yield "nll_loss2d", number, _nll_loss, image(9, 9), labels, reduction
    yield "embedding_bag max", 0, _embedding_bag, torch.randn(10, 4, device=device, requires_grad=True)
    frames = torch.randn(20, 2, 5, device=device, requires_grad=True)
    yield "ctc_loss", 0, _ctc_loss, frames


def _put_(target: torch.Tensor, index: torch.Tensor, values: torch.Tensor, *, accumulate: bool) -> torch.Tensor:
    return target.put_(index, values, accumulate=accumulate)


def _index_put_(target: torch.Tensor, index: torch.Tensor, values: torch.Tensor, *, accumulate: bool) -> torch.Tensor:
    return target.index_put_((index,), values, accumulate=accumulate)


def _take_rows(source: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    return source[index]


def _interpolate(x: torch.Tensor, mode: str, antialias: bool) -> torch.Tensor:
    return F.interpolate(x, scale_factor=2.5, mode=mode, antialias=antialias)


def _pad(x: torch.Tensor, mode: str) -> torch.Tensor:
    return F.pad(x, [2, 2] * (x.ndim - 2), mode=mode)


def _avg_pool3d(x: torch.Tensor) -> torch.Tensor:
    return F.avg_pool3d(x, 3, 1)


def _adaptive_avg_pool2d(x: torch.Tensor) -> torch.Tensor:
    return F.adaptive_avg_pool2d(x, (3, 3))


def _adaptive_avg_pool3d(x: torch.Tensor) -> torch.Tensor:
    return F.adaptive_avg_pool3d(x, (3, 3, 3))


def _grid_sample(x: torch.Tensor, grid: torch.Tensor) -> torch.Tensor:
    return F.grid_sample(x, grid, align_corners=False)


def _nll_loss(x: torch.Tensor, labels: torch.Tensor, reduction: str) -> torch.Tensor:
    return F.nll_loss(x, labels, reduction=reduction)


def _embedding_bag(weight: torch.Tensor) -> torch.Tensor:
    index = torch.zeros(6, 3, dtype=torch.long, device=weight.device)
    return F.embedding_bag(index, weight, mode="max")


def _ctc_loss(frames: torch.Tensor) -> torch.Tensor:
    labels = torch.tensor([[1, 2, 1], [2, 2, 3]], device=frames.device)
    lengths = torch.tensor([20, 20], device=frames.device)
    return F.ctc_loss(frames.log_softmax(2), labels, lengths, torch.tensor([3, 3], device=frames.device))


def _uneven(size: int | tuple[int, ...], device: str) -> torch.Tensor:
    """Values of very different size: their sum in floating point depends on the order."""
    shape = (size,) if isinstance(size, int) else size
    return torch.randn(shape, device=device) * torch.pow(10.0, torch.randint(-4, 5, shape, device=device))
