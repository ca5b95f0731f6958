"""Layers and losses, with the sizes, strides and modes that decide which kernel runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F

from tests.support.samples import Sample

_Made = tuple[str, Callable[..., Any], tuple[Any, ...]]


def samples() -> Iterator[Sample]:
    """One sample for each call, named by what is called."""
    numbers: dict[str, int] = {}
    for name, function, args in (
        *_pools(),
        *_resized(),
        *_padded(),
        *_sampled(),
        *_losses(),
        *_attention(),
        *_looked_up(),
    ):
        number = numbers[name] = numbers.get(name, -1) + 1
        yield Sample(name, number, str(args[0].dtype).removeprefix("torch."), function, args)


def leaf(*size: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Random numbers that ask for a gradient."""
    return torch.randn(size).to(dtype).requires_grad_()


def _pools() -> Iterator[_Made]:
    image, volume, row = leaf(2, 4, 9, 11), leaf(1, 3, 8, 9, 10), leaf(3, 4, 17)
    yield "max_pool2d", partial(F.max_pool2d, kernel_size=3, stride=1, padding=1), (image,)
    yield "max_pool2d", partial(F.max_pool2d, kernel_size=(2, 3), stride=2, dilation=2, ceil_mode=True), (image,)
    yield "max_pool3d", partial(F.max_pool3d, kernel_size=2, stride=1), (volume,)
    yield "max_pool3d", partial(F.max_pool3d, kernel_size=(1, 2, 2)), (volume,)
    yield (
        "max_pool3d indices",
        partial(F.max_pool3d, kernel_size=3, stride=2, padding=1, return_indices=True),
        (volume,),
    )
    yield "max_pool1d", partial(F.max_pool1d, kernel_size=5, stride=2), (row,)
    yield "avg_pool2d", partial(F.avg_pool2d, kernel_size=3, stride=2, count_include_pad=False, padding=1), (image,)
    yield "avg_pool3d", partial(F.avg_pool3d, kernel_size=2, divisor_override=3), (volume,)
    yield "avg_pool3d", partial(F.avg_pool3d, kernel_size=3, stride=1, padding=1, ceil_mode=True), (volume,)
    yield "adaptive_avg_pool1d", partial(F.adaptive_avg_pool1d, output_size=5), (row,)
    yield "adaptive_avg_pool2d", partial(F.adaptive_avg_pool2d, output_size=(1, 1)), (image,)
    yield "adaptive_avg_pool2d", partial(F.adaptive_avg_pool2d, output_size=(3, None)), (image,)
    yield "adaptive_avg_pool3d", partial(F.adaptive_avg_pool3d, output_size=(2, 3, 5)), (volume,)
    yield "adaptive_avg_pool3d", partial(F.adaptive_avg_pool3d, output_size=1), (volume,)
    yield "adaptive_max_pool1d", partial(F.adaptive_max_pool1d, output_size=4), (row,)
    yield "adaptive_max_pool2d", partial(F.adaptive_max_pool2d, output_size=(4, 5)), (image,)
    yield "adaptive_max_pool3d", partial(F.adaptive_max_pool3d, output_size=(3, 4, 4)), (volume,)
    yield "lp_pool2d", partial(F.lp_pool2d, norm_type=3.0, kernel_size=2, stride=1), (image,)
    yield "fractional_max_pool2d", partial(F.fractional_max_pool2d, kernel_size=3, output_ratio=(0.6, 0.7)), (image,)
    yield "max_unpool3d", _unpool3d, (volume,)
    channels_last = image.detach().to(memory_format=torch.channels_last).requires_grad_()
    yield "adaptive_avg_pool2d", partial(F.adaptive_avg_pool2d, output_size=4), (channels_last,)
    yield "max_pool2d", partial(F.max_pool2d, kernel_size=3, stride=2), (channels_last,)


def _unpool3d(x: torch.Tensor) -> torch.Tensor:
    small, where = F.max_pool3d(x, 2, return_indices=True)
    return F.max_unpool3d(small, where, [2, 2, 2])


def _resized() -> Iterator[_Made]:
    image, volume, row = leaf(2, 3, 7, 5), leaf(1, 2, 4, 5, 6), leaf(2, 3, 12)
    for mode, x in (("linear", row), ("bilinear", image), ("bicubic", image), ("trilinear", volume)):
        for align in (False, True):
            resize = partial(F.interpolate, scale_factor=1.7, mode=mode, align_corners=align)
            yield f"interpolate {mode}", resize, (x,)
        yield f"interpolate {mode}", partial(F.interpolate, size=tuple(x.shape[2:]), mode=mode), (x,)
    for mode in ("nearest", "nearest-exact", "area"):
        yield f"interpolate {mode}", partial(F.interpolate, scale_factor=0.6, mode=mode), (image,)
        yield f"interpolate {mode}", partial(F.interpolate, size=(3, 3, 3), mode=mode), (volume,)
    yield "interpolate antialias", partial(F.interpolate, size=(4, 4), mode="bicubic", antialias=True), (image,)
    yield "pixel_shuffle", partial(F.pixel_shuffle, upscale_factor=2), (leaf(1, 8, 3, 3),)
    yield "fold", partial(F.fold, output_size=(4, 5), kernel_size=2, stride=1), (leaf(1, 8, 12),)
    yield "unfold", partial(F.unfold, kernel_size=3, padding=1, dilation=2), (image,)


def _padded() -> Iterator[_Made]:
    row, image, volume = leaf(2, 3, 6), leaf(2, 3, 6, 6), leaf(1, 2, 4, 4, 4)
    for mode in ("reflect", "replicate", "circular", "constant"):
        yield f"pad {mode}", partial(F.pad, pad=(3, 3), mode=mode), (row,)
        yield f"pad {mode}", partial(F.pad, pad=(1, 0, 2, 1), mode=mode), (image,)
        yield f"pad {mode}", partial(F.pad, pad=(1, 2, 1, 2, 1, 2), mode=mode), (volume,)
    yield "pad reflect unbatched", partial(F.pad, pad=(2, 2), mode="reflect"), (leaf(3, 6),)
    yield "ReplicationPad2d negative", torch.nn.ReplicationPad2d((-1, 2, 0, -1)), (image,)


def _sampled() -> Iterator[_Made]:
    for kind, x, grid in (
        ("2d", leaf(2, 3, 5, 6), (torch.rand(2, 4, 4, 2) * 2 - 1)),
        ("3d", leaf(1, 2, 4, 4, 4), (torch.rand(1, 3, 3, 3, 3) * 2 - 1)),
    ):
        for mode in ("bilinear", "nearest"):
            for padding in ("zeros", "border"):
                sample = partial(F.grid_sample, mode=mode, padding_mode=padding, align_corners=False)
                yield f"grid_sample {kind}", sample, (x, grid.clone().requires_grad_())
        corners = partial(F.grid_sample, align_corners=True)
        yield f"grid_sample {kind} corners", corners, (x, grid)
        yield f"grid_sample {kind} corners", corners, (x.detach(), grid.clone().requires_grad_())
    wide = leaf(1, 1040, 4, 4)
    yield "grid_sample many channels", partial(F.grid_sample, align_corners=True), (wide, torch.rand(1, 3, 3, 2))
    yield "affine_grid", partial(F.affine_grid, size=[2, 3, 4, 4], align_corners=True), (leaf(2, 2, 3),)


def _losses() -> Iterator[_Made]:
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


def _attention() -> Iterator[_Made]:
    attend = F.scaled_dot_product_attention
    for heads, size in ((2, 16), (2, 20), (1, 264)):
        q, k, v = (leaf(1, heads, 8, size) for _ in range(3))
        yield "attention", attend, (q, k, v)
        yield "attention causal", partial(attend, is_causal=True), (q, k, v)
    q, k, v = (leaf(1, 2, 8, 16) for _ in range(3))
    yield "attention mask", attend, (q, k, v, torch.rand(8, 8) > 0.5)
    yield "attention added mask", attend, (q, k, v, leaf(1, 2, 8, 8))
    yield "attention without gradient", attend, tuple(t.detach() for t in (q, k, v))


def _looked_up() -> Iterator[_Made]:
    index, table = torch.randint(0, 7, (4, 6)), leaf(7, 5)
    yield "embedding", _embed, (table, index)
    yield "embedding padded", partial(_embed, padding_idx=3, scale_grad_by_freq=True), (table, index)
    yield "embedding long", _embed, (leaf(7, 5), torch.randint(0, 7, (4000,)))
    for mode in ("sum", "mean", "max"):
        yield f"embedding_bag {mode}", partial(_bag, mode=mode), (table, index)
    yield "one_hot", partial(F.one_hot, num_classes=9), (index,)
    yield "bilinear", F.bilinear, (leaf(3, 4), leaf(3, 5), leaf(2, 4, 5))
    yield "cosine_similarity", F.cosine_similarity, (leaf(3, 4), leaf(3, 4))
    yield "pdist", F.pdist, (leaf(6, 3),)
    yield "glu", F.glu, (leaf(4, 6),)
    yield "group_norm", partial(F.group_norm, num_groups=2), (leaf(2, 4, 5),)
    yield "local_response_norm", partial(F.local_response_norm, size=3), (leaf(2, 5, 4, 4),)
    yield (
        "conv_transpose2d",
        partial(F.conv_transpose2d, stride=2, output_padding=1),
        (leaf(1, 3, 4, 4), leaf(3, 2, 3, 3)),
    )
    yield "conv3d dilated", partial(F.conv3d, dilation=2), (leaf(1, 2, 6, 6, 6), leaf(3, 2, 2, 2, 2))
    yield "conv1d grouped", partial(F.conv1d, groups=3, padding="same"), (leaf(2, 6, 9), leaf(6, 2, 3))


def _embed(table: torch.Tensor, index: torch.Tensor, **options: Any) -> torch.Tensor:
    return F.embedding(index, table, **options)


def _bag(table: torch.Tensor, index: torch.Tensor, mode: str) -> torch.Tensor:
    return F.embedding_bag(index, table, mode=mode)
