"""Pools, their inverses, padding, resizing and sampling of images, rows and volumes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from benchmarks.evidence.calls.making import ATEN, HALVES, Call, built, leaf, made, nhwc
from benchmarks.evidence.made import FIRST, FOURTH, SECOND, SIXTH, THIRD


@made(FIRST)
def pools() -> Iterator[Call]:
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


@made(FIRST)
def resized() -> Iterator[Call]:
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


@made(FIRST)
def padded() -> Iterator[Call]:
    row, image, volume = leaf(2, 3, 6), leaf(2, 3, 6, 6), leaf(1, 2, 4, 4, 4)
    for mode in ("reflect", "replicate", "circular", "constant"):
        yield f"pad {mode}", partial(F.pad, pad=(3, 3), mode=mode), (row,)
        yield f"pad {mode}", partial(F.pad, pad=(1, 0, 2, 1), mode=mode), (image,)
        yield f"pad {mode}", partial(F.pad, pad=(1, 2, 1, 2, 1, 2), mode=mode), (volume,)
    yield "pad reflect unbatched", partial(F.pad, pad=(2, 2), mode="reflect"), (leaf(3, 6),)
    yield "ReplicationPad2d negative", torch.nn.ReplicationPad2d((-1, 2, 0, -1)), (image,)


@made(FIRST)
def sampled() -> Iterator[Call]:
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


@made(SECOND)
def pooled() -> Iterator[Call]:
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


@made(SECOND)
def unpooled() -> Iterator[Call]:
    yield "unpool 1d", _unpool1d, (leaf(2, 3, 12),)
    yield "unpool 2d sized", _unpool2d, (leaf(2, 3, 9, 9),)
    yield "unpool 2d without gradient", _unpool2d, (torch.randn(2, 3, 9, 9),)


def _unpool1d(x: torch.Tensor) -> torch.Tensor:
    small, places = F.max_pool1d(x, 3, return_indices=True)
    return F.max_unpool1d(small, places, (3,))


def _unpool2d(x: torch.Tensor) -> Any:
    small, places = F.max_pool2d(x, 2, return_indices=True)
    return nn.MaxUnpool2d(2)(small, places, output_size=x.shape)


@made(SECOND)
def padded_second() -> Iterator[Call]:
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


@made(SECOND)
def resized_second() -> Iterator[Call]:
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


@made(SECOND)
def sampled_second() -> Iterator[Call]:
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


@made(THIRD)
def pools_third() -> Iterator[Call]:
    row, image, volume = leaf(2, 3, 13), leaf(2, 3, 11, 9), leaf(1, 2, 7, 6, 9)
    yield "pooling max2d ceil", nn.MaxPool2d(3, 2, ceil_mode=True, dilation=2), (image,)
    yield "pooling max2d last", lambda x: F.max_pool2d(x.contiguous(memory_format=torch.channels_last), 3, 1), (image,)
    yield "pooling max3d overlapped", nn.MaxPool3d((3, 2, 3), stride=1, padding=(1, 0, 1)), (volume,)
    yield "pooling max3d apart", nn.MaxPool3d(2, stride=3), (volume,)
    yield "pooling avg2d divided", partial(F.avg_pool2d, kernel_size=3, stride=2, divisor_override=5), (image,)
    yield "pooling avg2d apart", nn.AvgPool2d(2, ceil_mode=True), (image,)
    yield "pooling avg3d ceil", nn.AvgPool3d(3, 2, ceil_mode=True, count_include_pad=False), (volume,)
    yield "pooling avg3d apart", nn.AvgPool3d((2, 3, 3)), (volume,)
    yield "pooling avg3d frozen", nn.AvgPool3d(2, 1), (volume.detach(),)
    yield "pooling adaptive avg2d one", nn.AdaptiveAvgPool2d(1), (image,)
    yield "pooling adaptive avg2d", nn.AdaptiveAvgPool2d((3, None)), (image,)
    yield "pooling adaptive avg2d half", nn.AdaptiveAvgPool2d(4), (leaf(1, 4, 9, 9, dtype=torch.float16),)
    yield "pooling adaptive avg3d grown", nn.AdaptiveAvgPool3d((9, 8, 10)), (volume,)
    yield "pooling adaptive avg3d one", nn.AdaptiveAvgPool3d(1), (volume,)
    yield "pooling adaptive avg1d", nn.AdaptiveAvgPool1d(5), (row,)
    yield "pooling adaptive max1d", nn.AdaptiveMaxPool1d(4), (row,)
    yield "pooling adaptive max2d", nn.AdaptiveMaxPool2d((None, 2)), (image,)
    yield "pooling adaptive max3d one", nn.AdaptiveMaxPool3d(1), (volume,)
    yield "pooling fractional 2d", nn.FractionalMaxPool2d((2, 3), output_ratio=(0.6, 0.4)), (leaf(3, 11, 9),)
    yield "pooling fractional 3d", nn.FractionalMaxPool3d((2, 1, 2), output_ratio=0.5), (volume,)
    yield "pooling fractional 3d frozen", nn.FractionalMaxPool3d(2, output_size=3), (volume.detach(),)
    yield "pooling power 2d", nn.LPPool2d(3, (2, 3), ceil_mode=True), (image.detach().abs().requires_grad_(),)
    yield "pooling max1d frozen", nn.MaxPool1d(2), (row.detach(),)
    yield "pooling max2d mapped", torch.vmap(partial(F.max_pool2d, kernel_size=2)), (leaf(2, 2, 3, 6, 6),)
    yield "unpooling 3d", _unpooled3d, (leaf(1, 2, 6, 6, 6),)
    yield "unpooling 2d stride", _unpooled2d, (leaf(2, 9, 9),)


def _unpooled3d(x: torch.Tensor) -> torch.Tensor:
    small, places = F.max_pool3d(x, 2, return_indices=True)
    return F.max_unpool3d(small, places, [2, 2, 2])


def _unpooled2d(x: torch.Tensor) -> torch.Tensor:
    small, places = F.max_pool2d(x, 3, stride=3, return_indices=True)
    return F.max_unpool2d(small, places, [3, 3], stride=[3, 3])


@made(THIRD)
def pads() -> Iterator[Call]:
    row, image, volume = leaf(2, 3, 6), leaf(2, 3, 5, 7), leaf(1, 2, 4, 5, 6)
    sides = {
        "reflect": (row, image, volume),
        "replicate": (row, image, volume),
        "circular": (row, image, volume),
    }
    for mode, inputs in sides.items():
        for rank, x in enumerate(inputs, 1):
            yield f"padding {mode} {rank}d", partial(F.pad, pad=(2, 1) * rank, mode=mode), (x,)
    yield "padding reflect 1d once", nn.ReflectionPad1d((1, 0)), (row,)
    yield "padding reflect 3d once", nn.ReflectionPad3d((0, 1, 0, 0, 1, 0)), (volume,)
    yield "padding replicate 2d once", nn.ReplicationPad2d((0, 1, 0, 1)), (image,)
    yield "padding replicate 1d cut", nn.ReplicationPad1d((-1, 2)), (row,)
    yield "padding replicate 3d none", nn.ReplicationPad3d(0), (volume,)
    yield (
        "padding replicate 3d half",
        nn.ReplicationPad3d((1, 2, 3, 1, 1, 1)),
        (leaf(2, 3, 4, 4, dtype=torch.bfloat16),),
    )
    yield "padding reflect 2d complex", nn.ReflectionPad2d(2), (leaf(1, 4, 4, dtype=torch.complex64),)
    yield "padding reflect 2d frozen", nn.ReflectionPad2d(2), (image.detach(),)
    yield "padding constant", partial(F.pad, pad=(1, -1, 0, 2), value=3.5), (image,)
    yield "padding zero", nn.ZeroPad3d((1, 0, 2, 0, 0, 1)), (volume,)
    yield "padding reflect 1d aten", lambda x: torch.ops.aten.reflection_pad1d(x, [2, 3]), (row,)
    yield "padding replicate 2d aten", lambda x: torch.ops.aten.replication_pad2d(x, [2, 0, 1, 1]), (image,)
    for mode in sides:
        padded: Callable[..., Any] = nn.Conv2d
        yield f"padding conv2d {mode}", built(partial(padded, 3, 2, 3, padding=1, padding_mode=mode)), (image,)
    yield "padding conv1d replicate", built(partial(nn.Conv1d, 3, 2, 5, padding=2, padding_mode="replicate")), (row,)
    yield "padding conv3d replicate", built(partial(nn.Conv3d, 2, 2, 3, padding=1, padding_mode="replicate")), (volume,)


@made(THIRD)
def resizing() -> Iterator[Call]:
    row, image, volume = leaf(2, 3, 7), leaf(1, 3, 6, 8), leaf(1, 2, 4, 5, 3)
    for name, x in (("1d", row), ("2d", image), ("3d", volume)):
        yield f"resizing nearest {name}", partial(F.interpolate, scale_factor=2.5, mode="nearest"), (x,)
        yield f"resizing exact {name}", partial(F.interpolate, scale_factor=0.5, mode="nearest-exact"), (x,)
        yield f"resizing area {name}", partial(F.interpolate, scale_factor=0.5, mode="area"), (x,)
    for mode, x in (("linear", row), ("bilinear", image), ("bicubic", image), ("trilinear", volume)):
        yield f"resizing {mode}", partial(F.interpolate, scale_factor=2.0, mode=mode), (x,)
        yield f"resizing {mode} corners", partial(F.interpolate, size=9, mode=mode, align_corners=True), (x,)
        yield f"resizing {mode} down", partial(F.interpolate, scale_factor=0.5, mode=mode), (x,)
        yield f"resizing {mode} frozen", partial(F.interpolate, scale_factor=2.0, mode=mode), (x.detach(),)
    for mode in ("bilinear", "bicubic"):
        smooth = partial(F.interpolate, size=(3, 5), mode=mode, antialias=True)
        yield f"resizing {mode} smooth", smooth, (image,)
        yield f"resizing {mode} smooth frozen", smooth, (image.detach(),)
    yield "resizing bilinear same", partial(F.interpolate, size=(6, 8), mode="bilinear"), (image,)
    yield "resizing bilinear last", _resized_last, (image,)
    yield "resizing bilinear half", nn.UpsamplingBilinear2d(size=(9, 9)), (leaf(1, 2, 4, 4, dtype=torch.bfloat16),)
    yield "resizing nearest module", nn.UpsamplingNearest2d(scale_factor=3), (image,)
    yield "resizing recomputed", nn.Upsample(scale_factor=1.7, mode="bilinear", recompute_scale_factor=True), (image,)
    yield "resizing unshuffled", nn.PixelUnshuffle(2), (image,)


def _resized_last(x: torch.Tensor) -> torch.Tensor:
    return F.interpolate(x.to(memory_format=torch.channels_last), scale_factor=(2.0, 1.5), mode="bilinear")


@made(THIRD)
def grids() -> Iterator[Call]:
    image, grid = leaf(2, 3, 5, 6), leaf(2, 4, 4, 2)
    volume, deep = leaf(1, 2, 4, 5, 5), leaf(1, 3, 3, 3, 3)
    for mode in ("nearest", "bilinear", "bicubic"):
        for edge in ("zeros", "border", "reflection"):
            sampled = partial(F.grid_sample, mode=mode, padding_mode=edge, align_corners=edge == "border")
            yield f"grids {mode} {edge}", sampled, (image, grid)
    for mode in ("nearest", "bilinear"):
        yield f"grids deep {mode}", partial(F.grid_sample, mode=mode, align_corners=True), (volume, deep)
    whole = partial(F.grid_sample, align_corners=True)
    yield "grids by place alone", whole, (image.detach(), grid)
    yield "grids by image alone", whole, (image, grid.detach())
    yield "grids frozen", whole, (image.detach(), grid.detach())
    yield "grids wide", whole, (leaf(1, 1100, 3, 3), leaf(1, 2, 2, 2))
    yield "grids double", whole, (leaf(1, 2, 4, 4, dtype=torch.float64), leaf(1, 3, 3, 2, dtype=torch.float64))
    yield "grids affine", lambda t: F.affine_grid(t, [2, 3, 4, 5], align_corners=False), (leaf(2, 2, 3),)
    yield "grids affine deep", lambda t: F.affine_grid(t, [1, 1, 3, 3, 3], align_corners=True), (leaf(1, 3, 4),)


@made(FOURTH)
def pools_fourth() -> Iterator[Call]:
    image, volume = leaf(2, 3, 8, 10), leaf(1, 2, 6, 6, 8)
    kinds = {
        "double": torch.float64,
        "half": torch.float16,
    }
    for word, kind in kinds.items():
        small, deep = leaf(1, 2, 7, 9, dtype=kind), leaf(1, 1, 6, 7, 5, dtype=kind)
        yield f"spaced max2d {word}", partial(F.max_pool2d, kernel_size=2, stride=2), (small,)
        yield f"spaced max3d {word}", partial(F.max_pool3d, kernel_size=2, stride=1), (deep,)
        yield f"spaced avg2d {word}", partial(F.avg_pool2d, kernel_size=3, stride=1), (small,)
        yield f"spaced avg3d {word}", partial(F.avg_pool3d, kernel_size=3, stride=2), (deep,)
        yield f"spaced adaptive avg3d {word}", partial(F.adaptive_avg_pool3d, output_size=(2, 3, 2)), (deep,)
        yield f"spaced adaptive max2d {word}", partial(F.adaptive_max_pool2d, output_size=(3, 4)), (small,)
        yield f"spaced adaptive max3d {word}", partial(F.adaptive_max_pool3d, output_size=(2, 2, 4)), (deep,)
    yield "spaced adaptive avg2d last", lambda x: F.adaptive_avg_pool2d(nhwc(x), (3, 4)), (image,)
    yield "spaced adaptive max3d last", lambda x: F.adaptive_max_pool3d(nhwc(x), 3), (volume,)
    yield "spaced avg2d last", lambda x: F.avg_pool2d(nhwc(x), 2, 1), (image,)
    yield "spaced max3d last", lambda x: F.max_pool3d(nhwc(x), 3, 2, return_indices=True)[0], (volume,)
    yield "spaced max2d below", lambda x: ATEN.max_pool2d_with_indices(x, [3, 2], [1, 1], [1, 0]), (image,)
    yield "spaced max3d below", lambda x: ATEN.max_pool3d_with_indices(x, [2, 2, 2]), (volume,)
    yield "spaced avg3d below", lambda x: ATEN.avg_pool3d(x, [2, 2, 2]), (volume,)
    yield "spaced adaptive below", lambda x: ATEN._adaptive_avg_pool2d(x, [5, 4]), (image,)
    yield "spaced adaptive below 3d", lambda x: ATEN._adaptive_avg_pool3d(x, [2, 4, 3]), (volume,)
    yield "spaced adaptive below frozen", lambda x: ATEN._adaptive_avg_pool2d(x, [5, 4]), (image.detach(),)
    yield "spaced fractional below", _fractional, (image, torch.rand(2, 3, 2))
    yield "spaced lp whole", partial(F.lp_pool1d, norm_type=2, kernel_size=4), (leaf(2, 3, 12),)
    yield "spaced unpool volume", _unpooled, (volume,)
    yield "spaced unpool wanted", _unpooled_wanted, (image,)
    yield "spaced max1d wide", partial(F.max_pool1d, kernel_size=5, stride=2, padding=2, dilation=2), (leaf(2, 3, 20),)
    yield (
        "spaced avg1d counted",
        partial(F.avg_pool1d, kernel_size=4, padding=2, count_include_pad=False),
        (leaf(2, 3, 11),),
    )


def _fractional(x: torch.Tensor, starts: torch.Tensor) -> torch.Tensor:
    out: torch.Tensor = ATEN.fractional_max_pool2d(x, [2, 2], [3, 4], starts)[0]
    return out


def _unpooled(x: torch.Tensor) -> torch.Tensor:
    small, places = F.max_pool3d(x, 3, 2, return_indices=True)
    return F.max_unpool3d(small, places, 3, 2, output_size=[6, 6, 8])  # type: ignore[arg-type]


def _unpooled_wanted(x: torch.Tensor) -> Any:
    small, places = F.max_pool2d(x, 2, return_indices=True)
    return nn.MaxUnpool2d(2)(small, places, output_size=x.shape)


@made(FOURTH)
def resizing_fourth() -> Iterator[Call]:
    row, image, volume = leaf(1, 3, 6), leaf(1, 3, 6, 6), leaf(1, 2, 4, 4, 4)
    for mode, x in (
        ("bilinear", image),
        ("bicubic", image),
        ("trilinear", volume),
        ("linear", row),
        ("nearest", image),
    ):
        for word, kind in (("double", torch.float64), ("half", torch.float16)):
            yield (
                f"scaled {mode} {word}",
                partial(F.interpolate, scale_factor=1.5, mode=mode),
                (leaf(*x.shape, dtype=kind),),
            )
        yield f"scaled {mode} to one", partial(F.interpolate, size=1, mode=mode), (x,)
        yield f"scaled {mode} same", partial(F.interpolate, size=x.shape[2:], mode=mode), (x,)
    yield (
        "scaled trilinear last",
        lambda x: F.interpolate(nhwc(x), scale_factor=2, mode="trilinear"),
        (volume,),
    )
    yield "scaled nearest last", lambda x: F.interpolate(nhwc(x), scale_factor=2), (image,)
    yield (
        "scaled bicubic last",
        lambda x: F.interpolate(nhwc(x), scale_factor=0.5, mode="bicubic"),
        (image,),
    )
    yield "scaled nearest below", lambda x: ATEN.upsample_nearest2d(x, [9, 9]), (image,)
    yield "scaled bicubic below", lambda x: ATEN.upsample_bicubic2d(x, [9, 9], False), (image,)
    yield "scaled trilinear below", lambda x: ATEN.upsample_trilinear3d(x, [5, 5, 5], True), (volume,)
    yield "scaled linear below", lambda x: ATEN.upsample_linear1d(x, [11], False), (row,)
    yield "scaled smooth below", lambda x: ATEN._upsample_bilinear2d_aa(x, [3, 3], False), (image,)
    yield (
        "scaled bilinear back",
        lambda g: ATEN.upsample_bilinear2d_backward(g, [9, 9], [1, 3, 6, 6], False),
        (leaf(1, 3, 9, 9).detach(),),
    )
    for mode in ("reflect", "replicate"):
        for word, kind in (("double", torch.float64), ("half", torch.float16), ("complex", torch.complex64)):
            yield f"edged {mode} {word}", partial(F.pad, pad=(2, 1, 1, 2), mode=mode), (leaf(1, 2, 5, 4, dtype=kind),)
        yield f"edged {mode} last", lambda x, mode=mode: F.pad(nhwc(x), (1, 1, 2, 2), mode=mode), (image,)
    yield "edged reflect below", lambda x: ATEN.reflection_pad2d(x, [1, 2, 1, 2]), (image,)
    yield "edged reflect below 3d", lambda x: ATEN.reflection_pad3d(x, [1, 1, 1, 1, 1, 1]), (volume,)
    yield "edged replicate below 1d", lambda x: ATEN.replication_pad1d(x, [3, 1]), (row,)
    yield "edged replicate below 3d", lambda x: ATEN.replication_pad3d(x, [1, 0, 0, 1, 1, 1]), (volume,)
    yield "edged circular volume", nn.CircularPad3d(1), (volume,)
    yield "edged circular part", partial(F.pad, pad=(0, 2), mode="circular"), (row,)
    yield "edged cut", partial(F.pad, pad=(-1, -1, -2, 0)), (image,)
    grid = leaf(1, 3, 5, 2)
    yield "sampled half", lambda x, g: F.grid_sample(x.half(), g.half(), align_corners=True), (image, grid)
    yield "sampled flow", _flow, (image, leaf(1, 2, 6, 6))
    yield "sampled below", lambda x, g: ATEN.grid_sampler_2d(x, g, 1, 0, False), (image, grid)
    yield "sampled below bicubic", lambda x, g: ATEN.grid_sampler_2d(x, g, 2, 1, True), (image, grid)
    yield "sampled below deep", lambda x, g: ATEN.grid_sampler_3d(x, g, 0, 0, True), (volume, leaf(1, 2, 2, 2, 3))
    yield "sampled last", lambda x, g: F.grid_sample(nhwc(x), g, align_corners=False), (image, grid)
    yield "sampled rotated", _rotated, (image, leaf(1))


def _flow(x: torch.Tensor, flow: torch.Tensor) -> torch.Tensor:
    row = torch.linspace(-1, 1, 6, device=x.device)
    here = torch.stack(torch.meshgrid(row, row, indexing="xy"), -1)[None]
    return F.grid_sample(x, here + flow.permute(0, 2, 3, 1), padding_mode="border", align_corners=True)


def _rotated(x: torch.Tensor, angle: torch.Tensor) -> torch.Tensor:
    zero = torch.zeros_like(angle)
    turn = torch.stack([angle.cos(), -angle.sin(), zero, angle.sin(), angle.cos(), zero], -1).view(1, 2, 3)
    grid = F.affine_grid(turn, [1, 3, 4, 4], align_corners=True)
    return F.grid_sample(x, grid, mode="nearest", padding_mode="reflection", align_corners=True)


@made(SIXTH)
def pools_sixth() -> Iterator[Call]:
    row, image, volume = leaf(2, 3, 11), leaf(2, 3, 9, 8), leaf(1, 3, 6, 6, 6)
    made: dict[str, tuple[nn.Module, torch.Tensor]] = {
        "max row": (nn.MaxPool1d(2), row),
        "max row wide": (nn.MaxPool1d(3, 1, 1), row),
        "max image": (nn.MaxPool2d(2), image),
        "max image wide": (nn.MaxPool2d(3, 2, 1), image),
        "max image dilated": (nn.MaxPool2d(2, 1, dilation=2), image),
        "max volume": (nn.MaxPool3d(2), volume),
        "max volume wide": (nn.MaxPool3d(3, 1, 1), volume),
        "mean row": (nn.AvgPool1d(3, 2), row),
        "mean image": (nn.AvgPool2d(3, 2, 1), image),
        "mean volume": (nn.AvgPool3d(2), volume),
        "mean volume wide": (nn.AvgPool3d(3, 1), volume),
        "adaptive mean row": (nn.AdaptiveAvgPool1d(4), row),
        "adaptive mean image": (nn.AdaptiveAvgPool2d((3, 4)), image),
        "adaptive mean global": (nn.AdaptiveAvgPool2d(1), image),
        "adaptive mean volume": (nn.AdaptiveAvgPool3d((2, 3, 4)), volume),
        "adaptive mean volume even": (nn.AdaptiveAvgPool3d(3), volume),
        "adaptive max row": (nn.AdaptiveMaxPool1d(4), row),
        "adaptive max image": (nn.AdaptiveMaxPool2d(3), image),
        "adaptive max volume": (nn.AdaptiveMaxPool3d(2), volume),
        "adaptive max volume uneven": (nn.AdaptiveMaxPool3d(4), volume),
        "fractional image": (nn.FractionalMaxPool2d(2, output_ratio=0.6), image),
        "fractional volume": (nn.FractionalMaxPool3d(2, output_ratio=0.6), volume),
        "power row": (nn.LPPool1d(2, 3), row),
        "power image": (nn.LPPool2d(1.5, 2), image),
    }
    for name, (layer, x) in made.items():
        yield f"pool {name}", layer, (x,)
        if x is not row:
            yield f"pool {name} bfloat16", layer, (x.detach().bfloat16().requires_grad_(),)
    for name in ("max image", "mean image", "max volume", "adaptive mean volume", "adaptive max image"):
        layer, x = made[name]
        yield f"pool {name} frozen", layer, (x.detach(),)
        yield f"pool {name} of one", layer, (x.detach()[0].requires_grad_(),)
    yield "unpool row", lambda x: nn.MaxUnpool1d(2)(*nn.MaxPool1d(2, return_indices=True)(x)), (row,)
    yield "unpool image", lambda x: nn.MaxUnpool2d(2)(*nn.MaxPool2d(2, return_indices=True)(x)), (image,)
    yield "unpool frozen", lambda x: nn.MaxUnpool2d(2)(*nn.MaxPool2d(2, return_indices=True)(x)), (image.detach(),)
    yield "pool max indices", lambda x: nn.MaxPool2d(3, return_indices=True)(x)[0], (image,)


@made(SIXTH)
def pads_sixth() -> Iterator[Call]:
    row, image, volume = leaf(2, 3, 7), leaf(2, 3, 6, 6), leaf(1, 2, 4, 5, 4)
    for word, kind in (("", torch.float32), *HALVES, ("complex", torch.complex64)):
        for name, layer, x in (
            ("reflect row", nn.ReflectionPad1d(2), row),
            ("reflect image", nn.ReflectionPad2d((1, 2, 0, 1)), image),
            ("reflect volume", nn.ReflectionPad3d(1), volume),
            ("replicate row", nn.ReplicationPad1d((3, 1)), row),
            ("replicate image", nn.ReplicationPad2d(1), image),
            ("replicate volume", nn.ReplicationPad3d(2), volume),
        ):
            yield f"padded {name} {word}".strip(), layer, (x.detach().to(kind).requires_grad_(),)
    yield "padded circular", nn.CircularPad2d(2), (image,)
    yield "padded zeros", nn.ZeroPad3d(1), (volume,)
    yield "padded one side", nn.ReflectionPad1d((2, 0)), (row,)
    yield "padded one side replicated", nn.ReplicationPad2d((0, 0, 1, 0)), (image,)
    yield "padded by nothing", nn.ReplicationPad2d(0), (image,)
    yield "padded less", nn.ReflectionPad2d((1, -1, 1, 1)), (image,)
    yield "padded frozen", nn.ReflectionPad3d(1), (volume.detach(),)
    yield "padded one image", nn.ReplicationPad2d(1), (leaf(3, 6, 6),)


@made(SIXTH)
def resizing_sixth() -> Iterator[Call]:
    row, image, volume = leaf(2, 3, 7), leaf(2, 3, 6, 5), leaf(1, 2, 4, 5, 4)
    for word, kind in (("", torch.float32), *HALVES):
        for mode, x in (("linear", row), ("bilinear", image), ("bicubic", image), ("trilinear", volume)):
            given = x.detach().to(kind).requires_grad_()
            yield f"resized {mode} up {word}".strip(), nn.Upsample(scale_factor=2, mode=mode), (given,)
            yield (
                f"resized {mode} down {word}".strip(),
                nn.Upsample(size=(3,) * (x.dim() - 2), mode=mode, align_corners=True),
                (given,),
            )
        for name, x in (("row", row), ("image", image), ("volume", volume)):
            given = x.detach().to(kind).requires_grad_()
            yield f"resized nearest {name} {word}".strip(), nn.Upsample(scale_factor=3), (given,)
    last = image.detach().contiguous(memory_format=torch.channels_last).requires_grad_()
    yield "resized channels last", nn.Upsample(scale_factor=2, mode="bilinear"), (last,)
    yield "resized nearest channels last", nn.Upsample(scale_factor=2), (last,)
    yield "resized frozen", nn.UpsamplingBilinear2d(scale_factor=2), (image.detach(),)
    yield "resized to itself", nn.Upsample(size=(6, 5), mode="bilinear"), (image,)
    yield "shuffled pixels", nn.PixelShuffle(2), (leaf(1, 8, 3, 3),)
    yield "shuffled channels", nn.ChannelShuffle(2), (leaf(1, 8, 3, 3),)
    yield "folded", nn.Fold((5, 6), 2), (leaf(1, 8, 20),)
    yield "folded apart", nn.Fold((4, 4), 2, stride=2), (leaf(1, 8, 4, dtype=torch.bfloat16),)
    yield "unfolded", nn.Unfold(3, dilation=2, padding=2), (image,)
    yield "unfolded half", nn.Unfold((2, 3)), (leaf(1, 2, 5, 5, dtype=torch.float16),)


@made(SIXTH)
def grids_sixth() -> Iterator[Call]:
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
