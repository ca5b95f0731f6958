"""Pools, pads, resampling, sampling at points, convolutions, attention and norms, as models call them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from benchmarks.evidence.calls.layers import leaf

_Made = tuple[str, Callable[..., Any], tuple[Any, ...]]


def made() -> Iterator[_Made]:
    """Each call's name, function and tensors."""
    yield from _pooled()
    yield from _unpooled()
    yield from _padded()
    yield from _resized()
    yield from _sampled()
    yield from _convolved()
    yield from _attended()
    yield from _normed()


def _pooled() -> Iterator[_Made]:
    for dtype in (torch.float64, torch.bfloat16):
        image, volume = leaf(1, 2, 10, 12, dtype=dtype), leaf(1, 2, 6, 7, 8, dtype=dtype)
        yield "pool max2d", partial(F.max_pool2d, kernel_size=(3, 1), stride=(2, 1)), (image,)
        yield "pool max3d", partial(F.max_pool3d, kernel_size=(2, 3, 2), stride=(2, 1, 2)), (volume,)
        yield "pool avg3d", partial(F.avg_pool3d, kernel_size=(3, 2, 2), stride=2, padding=(1, 0, 1)), (volume,)
        yield "pool adaptive avg2d", partial(F.adaptive_avg_pool2d, output_size=(5, 6)), (image,)
        yield "pool adaptive avg3d", partial(F.adaptive_avg_pool3d, output_size=(None, 7, 4)), (volume,)
        yield "pool adaptive max2d", partial(F.adaptive_max_pool2d, output_size=7, return_indices=True), (image,)
        yield "pool adaptive max3d", partial(F.adaptive_max_pool3d, output_size=(6, 7, 8)), (volume,)
    row, image, volume = leaf(2, 3, 40), leaf(2, 3, 12, 12), leaf(2, 2, 8, 8, 8)
    yield "pool max1d indices", partial(F.max_pool1d, kernel_size=3, stride=1, return_indices=True), (row,)
    yield "pool max2d unbatched", partial(F.max_pool2d, kernel_size=2), (leaf(3, 8, 8),)
    yield "pool max3d unbatched", nn.MaxPool3d(2, stride=1, dilation=2), (leaf(2, 6, 6, 6),)
    yield "pool max3d module indices", nn.MaxPool3d(2, return_indices=True), (volume,)
    yield "pool avg1d", partial(F.avg_pool1d, kernel_size=4, stride=3, padding=1), (row,)
    yield "pool avg2d module", nn.AvgPool2d(3, stride=1, padding=1, count_include_pad=False), (image,)
    yield "pool avg3d whole", partial(F.avg_pool3d, kernel_size=8), (volume,)
    yield "pool lp1d", partial(F.lp_pool1d, norm_type=2.0, kernel_size=3, stride=2), (row,)
    yield "pool lp3d", partial(F.lp_pool3d, norm_type=2.0, kernel_size=2), (volume,)
    yield "pool fractional 3d", nn.FractionalMaxPool3d(2, output_size=(3, 4, 5)), (volume,)
    yield "pool fractional 2d indices", nn.FractionalMaxPool2d(2, output_ratio=0.5, return_indices=True), (image,)
    yield "pool adaptive max1d indices", nn.AdaptiveMaxPool1d(7, return_indices=True), (row,)
    yield "pool adaptive avg1d to one", nn.AdaptiveAvgPool1d(1), (row,)
    yield "pool adaptive avg2d unbatched", nn.AdaptiveAvgPool2d((4, 1)), (leaf(3, 9, 9),)
    yield "pool mean of pixels", partial(torch.mean, dim=(2, 3)), (image,)
    yield "pool max without gradient", partial(F.max_pool3d, kernel_size=3), (volume.detach(),)
    yield "pool adaptive max2d without gradient", partial(F.adaptive_max_pool2d, output_size=3), (image.detach(),)


def _unpooled() -> Iterator[_Made]:
    yield "unpool 1d", _unpool1d, (leaf(2, 3, 12),)
    yield "unpool 2d sized", _unpool2d, (leaf(2, 3, 9, 9),)
    yield "unpool 2d without gradient", _unpool2d, (torch.randn(2, 3, 9, 9),)


def _unpool1d(x: torch.Tensor) -> torch.Tensor:
    small, places = F.max_pool1d(x, 3, return_indices=True)
    return F.max_unpool1d(small, places, (3,))


def _unpool2d(x: torch.Tensor) -> Any:
    small, places = F.max_pool2d(x, 2, return_indices=True)
    return nn.MaxUnpool2d(2)(small, places, output_size=x.shape)


def _padded() -> Iterator[_Made]:
    row, image, volume = leaf(3, 7), leaf(1, 2, 5, 6), leaf(1, 1, 4, 5, 5)
    yield "pads ReflectionPad1d", nn.ReflectionPad1d((2, 3)), (row,)
    yield "pads ReflectionPad2d", nn.ReflectionPad2d((1, 1, 0, 2)), (image,)
    yield "pads ReflectionPad3d", nn.ReflectionPad3d(2), (volume,)
    yield "pads ReplicationPad1d", nn.ReplicationPad1d((4, 0)), (row,)
    yield "pads ReplicationPad2d", nn.ReplicationPad2d(3), (image,)
    yield "pads ReplicationPad3d", nn.ReplicationPad3d((1, 0, 0, 1, 2, 0)), (volume,)
    yield "pads CircularPad2d", nn.CircularPad2d((2, 1, 1, 0)), (image,)
    yield "pads ZeroPad2d", nn.ZeroPad2d((1, -2, 0, 3)), (image,)
    yield "pads replicate double", partial(F.pad, pad=(2, 2), mode="replicate"), (leaf(2, 2, 6, dtype=torch.float64),)
    yield "pads replicate without gradient", partial(F.pad, pad=(2, 2), mode="replicate"), (torch.randn(2, 2, 6),)
    yield "pads reflect without gradient", partial(F.pad, pad=(1, 1, 1, 1), mode="reflect"), (torch.randn(2, 2, 6, 6),)
    yield "pads replicate by nothing", partial(F.pad, pad=(0, 0, 0, 0), mode="replicate"), (image,)
    yield "pads in conv", partial(_conv_padded, mode="reflect"), (image.detach(),)
    yield "pads in conv", partial(_conv_padded, mode="replicate"), (image,)


def _conv_padded(x: torch.Tensor, mode: Any) -> Any:
    torch.manual_seed(0)
    return nn.Conv2d(2, 3, 3, padding=2, padding_mode=mode).to(x.device)(x)


def _resized() -> Iterator[_Made]:
    row, image, volume = leaf(1, 2, 9), leaf(2, 2, 6, 8), leaf(1, 2, 4, 5, 6)
    yield "resized UpsamplingBilinear2d", nn.UpsamplingBilinear2d(scale_factor=2), (image,)
    yield "resized UpsamplingNearest2d", nn.UpsamplingNearest2d(size=(9, 12)), (image,)
    yield "resized Upsample linear", nn.Upsample(size=20, mode="linear"), (row,)
    yield "resized Upsample trilinear", nn.Upsample(scale_factor=(1, 2, 1.5), mode="trilinear"), (volume,)
    yield "resized Upsample bicubic", nn.Upsample(size=(3, 4), mode="bicubic", align_corners=True), (image,)
    yield "resized nearest 1d", partial(F.interpolate, size=5), (row,)
    yield "resized nearest 3d", partial(F.interpolate, scale_factor=2), (volume,)
    yield "resized nearest-exact", partial(F.interpolate, size=(7, 7), mode="nearest-exact"), (image,)
    yield "resized area", partial(F.interpolate, size=(3, 5), mode="area"), (image,)
    yield "resized area 3d", partial(F.interpolate, size=(2, 2, 2), mode="area"), (volume,)
    half = leaf(1, 2, 8, 8, dtype=torch.bfloat16)
    yield "resized half", partial(F.interpolate, scale_factor=2, mode="bilinear"), (half,)
    last = image.detach().contiguous(memory_format=torch.channels_last).requires_grad_()
    yield "resized channels last", partial(F.interpolate, scale_factor=2, mode="bilinear"), (last,)
    yield "resized antialias", partial(F.interpolate, size=(3, 3), mode="bilinear", antialias=True), (image,)
    yield (
        "resized shrunk",
        partial(F.interpolate, scale_factor=0.5, mode="bilinear", recompute_scale_factor=True),
        (image,),
    )
    yield "resized without gradient", partial(F.interpolate, scale_factor=3, mode="bicubic"), (image.detach(),)
    yield "resized linear without gradient", partial(F.interpolate, size=4, mode="linear"), (row.detach(),)
    yield "resized tiled", partial(torch.tile, dims=(1, 1, 2, 2)), (image,)


def _sampled() -> Iterator[_Made]:
    image, volume = leaf(2, 2, 6, 6), leaf(1, 1, 5, 5, 5)
    flow = torch.rand(2, 5, 5, 2) * 2 - 1
    yield "sampled bicubic", partial(F.grid_sample, mode="bicubic", align_corners=False), (image, flow)
    yield "sampled reflection", partial(F.grid_sample, padding_mode="reflection", align_corners=True), (image, flow)
    yield "sampled by a learnt transform", _transformed, (image, leaf(2, 2, 3))
    double = (image.detach().double().requires_grad_(), flow.double())
    yield "sampled double", partial(F.grid_sample, align_corners=True), double
    yield (
        "sampled 3d nearest",
        partial(F.grid_sample, mode="nearest", align_corners=True),
        (
            volume,
            torch.rand(1, 3, 3, 3, 3).requires_grad_(),
        ),
    )
    yield "sampled without gradient", partial(F.grid_sample, align_corners=False), (image.detach(), flow)
    yield (
        "sampled half",
        partial(F.grid_sample, align_corners=True),
        (
            image.detach().bfloat16().requires_grad_(),
            flow.bfloat16(),
        ),
    )


def _transformed(x: torch.Tensor, theta: torch.Tensor) -> torch.Tensor:
    return F.grid_sample(x, F.affine_grid(theta, [2, 2, 4, 4], align_corners=False), align_corners=False)


def _convolved() -> Iterator[_Made]:
    image = leaf(2, 4, 9, 9)
    yield "convolved 2d", partial(F.conv2d, padding=1, stride=2), (image, leaf(6, 4, 3, 3), leaf(6))
    yield "convolved 2d dilated", partial(F.conv2d, padding=2, dilation=2), (image, leaf(6, 4, 3, 3))
    yield "convolved 2d depthwise", partial(F.conv2d, padding=1, groups=4), (image, leaf(4, 1, 3, 3))
    yield "convolved 2d depthwise dilated", partial(F.conv2d, dilation=3, groups=4), (image, leaf(8, 1, 2, 2))
    yield "convolved 2d grouped dilated", partial(F.conv2d, dilation=2, groups=2), (image, leaf(4, 2, 3, 3))
    yield "convolved 1x1", F.conv2d, (image, leaf(3, 4, 1, 1))
    yield "convolved 1d dilated", partial(F.conv1d, dilation=4), (leaf(2, 3, 20), leaf(5, 3, 3))
    yield "convolved 1d causal", _causal, (leaf(2, 3, 20), leaf(3, 3, 4))
    yield "convolved 3d", partial(F.conv3d, stride=2), (leaf(1, 2, 5, 6, 7), leaf(3, 2, 2, 2, 2))
    yield (
        "convolved 3d same dilated",
        partial(F.conv3d, padding="same", dilation=(1, 2, 1)),
        (
            leaf(1, 2, 5, 6, 7),
            leaf(2, 2, 3, 3, 3),
        ),
    )
    yield "convolved transposed 1d", partial(F.conv_transpose1d, stride=3, padding=1), (leaf(2, 3, 8), leaf(3, 2, 5))
    yield "convolved transposed 2d dilated", partial(F.conv_transpose2d, dilation=2), (image, leaf(4, 3, 3, 3))
    yield (
        "convolved transposed 3d",
        partial(F.conv_transpose3d, stride=2, output_padding=1),
        (
            leaf(1, 2, 3, 3, 3),
            leaf(2, 2, 3, 3, 3),
        ),
    )
    yield (
        "convolved double",
        F.conv2d,
        (
            leaf(1, 2, 6, 6, dtype=torch.float64),
            leaf(3, 2, 3, 3, dtype=torch.float64),
        ),
    )
    yield (
        "convolved half dilated",
        partial(F.conv2d, dilation=2),
        (
            leaf(1, 4, 8, 8, dtype=torch.bfloat16),
            leaf(4, 4, 3, 3, dtype=torch.bfloat16),
        ),
    )
    yield "convolved complex", F.conv1d, (leaf(1, 2, 9, dtype=torch.complex64), leaf(2, 2, 3, dtype=torch.complex64))
    yield "convolved filters alone", partial(F.conv2d, dilation=2), (image.detach(), leaf(3, 4, 3, 3))
    yield "convolved unbatched", F.conv2d, (leaf(4, 9, 9), leaf(3, 4, 2, 2))
    yield "convolved frozen dilated", partial(F.conv2d, dilation=2), (image.detach(), torch.randn(3, 4, 3, 3))
    yield "convolved by unfold", _unfolded, (image, leaf(5, 36))


def _causal(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return F.conv1d(F.pad(x, (3, 0)), weight)


def _unfolded(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    columns = F.unfold(x, 3, stride=2)
    return F.fold((weight @ columns)[:, :4], (4, 4), 1)


def _attended() -> Iterator[_Made]:
    attend = F.scaled_dot_product_attention
    for dtype in (torch.float32, torch.bfloat16):
        q, k, v = leaf(2, 4, 10, 32, dtype=dtype), leaf(2, 4, 12, 32, dtype=dtype), leaf(2, 4, 12, 32, dtype=dtype)
        yield "attended across", attend, (q, k, v)
        yield "attended padded", attend, (q, k, v, torch.ones(2, 1, 1, 12, dtype=torch.bool))
        yield "attended biased", attend, (q, k, v, torch.randn(1, 4, 10, 12).to(dtype))
        yield "attended scaled", partial(attend, scale=0.1), (q, k, v)
    q, k, v = (leaf(2, 4, 16, 64, dtype=torch.bfloat16) for _ in range(3))
    yield "attended bias learnt", attend, (q, k, v, leaf(1, 4, 16, 16, dtype=torch.bfloat16))
    yield "attended causal half", partial(attend, is_causal=True), (q, k, v)
    yield "attended double", attend, tuple(leaf(1, 2, 6, 16, dtype=torch.float64) for _ in range(3))
    yield "attended odd head", attend, tuple(leaf(1, 2, 6, 13) for _ in range(3))
    yield "attended by hand", _by_hand, tuple(leaf(2, 2, 6, 8) for _ in range(3))
    yield "attended value head", attend, (leaf(1, 2, 6, 16), leaf(1, 2, 6, 16), leaf(1, 2, 6, 24))
    yield "attended without batch", attend, tuple(leaf(2, 6, 16) for _ in range(3))
    yield "attended weights wanted", _weights_wanted, (leaf(2, 5, 8),)


def _by_hand(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    scores = (q @ k.transpose(-2, -1)) / 8**0.5
    scores = scores.masked_fill(torch.ones_like(scores, dtype=torch.bool).triu(1), float("-inf"))
    return scores.softmax(-1) @ v


def _weights_wanted(x: torch.Tensor) -> Any:
    torch.manual_seed(0)
    return nn.MultiheadAttention(8, 2, batch_first=True).to(x.device)(x, x, x)


def _normed() -> Iterator[_Made]:
    image = leaf(3, 4, 5, 5)
    yield "normed batch", partial(_layer, make=lambda: nn.BatchNorm2d(4)), (image,)
    yield "normed batch evaluated", partial(_layer, make=lambda: nn.BatchNorm2d(4).eval()), (image,)
    yield "normed group", partial(_layer, make=lambda: nn.GroupNorm(4, 4)), (image,)
    yield "normed instance", partial(_layer, make=lambda: nn.InstanceNorm2d(4, track_running_stats=True)), (image,)
    yield "normed layer", partial(_layer, make=lambda: nn.LayerNorm([4, 5, 5], elementwise_affine=False)), (image,)
    yield "normed rows", partial(F.normalize, p=2.0, dim=1), (image,)
    yield "normed local", nn.LocalResponseNorm(2), (image,)
    yield "normed softmax", partial(torch.softmax, dim=1), (image,)


def _layer(x: torch.Tensor, make: Callable[[], nn.Module]) -> Any:
    torch.manual_seed(0)
    return make().to(x.device)(x)
