"""Layers of images, rows and sequences with arguments that are seldom given."""

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
    yield from _pools()
    yield from _pads()
    yield from _resizing()
    yield from _grids()
    yield from _convolutions()
    yield from _norms()
    yield from _attention()
    yield from _recurrent()


def built(make: Callable[[], Any]) -> Callable[..., Any]:
    """A layer made where its first tensor is, then called."""

    def call(x: torch.Tensor, *others: Any) -> Any:
        torch.manual_seed(0)
        return make().to(x.device, x.dtype)(x, *others)

    return call


def _pools() -> Iterator[_Made]:
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


def _pads() -> Iterator[_Made]:
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


def _resizing() -> Iterator[_Made]:
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


def _grids() -> Iterator[_Made]:
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


def _convolutions() -> Iterator[_Made]:
    row, image, volume = leaf(2, 4, 9), leaf(2, 4, 7, 8), leaf(1, 2, 5, 5, 5)
    yield "convolved 1d grouped", partial(F.conv1d, groups=2, dilation=3), (row, leaf(6, 2, 3), leaf(6))
    yield "convolved 1d same", partial(F.conv1d, padding="same", dilation=2), (row, leaf(2, 4, 4))
    yield "convolved 2d depthwise", partial(F.conv2d, groups=4, stride=(2, 1)), (image, leaf(8, 1, 3, 3), leaf(8))
    yield "convolved 2d dilated", partial(F.conv2d, dilation=(2, 1), padding=2), (image, leaf(3, 4, 3, 2))
    yield "convolved 2d weight alone", F.conv2d, (image.detach(), leaf(2, 4, 1, 1))
    yield "convolved 2d image alone", F.conv2d, (image, leaf(2, 4, 3, 3).detach())
    yield "convolved 2d frozen", F.conv2d, (image.detach(), leaf(2, 4, 3, 3).detach())
    yield (
        "convolved 2d half",
        F.conv2d,
        (leaf(1, 2, 5, 5, dtype=torch.bfloat16), leaf(2, 2, 3, 3, dtype=torch.bfloat16)),
    )
    yield "convolved 2d empty", F.conv2d, (leaf(0, 4, 5, 5), leaf(2, 4, 3, 3))
    yield "convolved 3d", partial(F.conv3d, stride=2, padding=1), (volume, leaf(3, 2, 3, 3, 3), leaf(3))
    yield "convolved 3d dilated", partial(F.conv3d, dilation=2), (volume, leaf(3, 2, 2, 2, 2))
    for rank, x in ((1, row), (2, image)):
        transposed = getattr(F, f"conv_transpose{rank}d")
        strange = partial(transposed, stride=2, output_padding=1, groups=2)
        yield f"convolved transposed {rank}d", strange, (x, leaf(4, 3, *(3,) * rank), leaf(6))
        yield f"convolved transposed {rank}d dilated", partial(transposed, dilation=2), (x, leaf(4, 1, *(2,) * rank))
    yield "convolved transposed 3d", partial(F.conv_transpose3d, stride=2, padding=1), (volume, leaf(2, 2, 3, 3, 3))
    yield "convolved tbc", torch.conv_tbc, (leaf(6, 2, 3), leaf(3, 3, 4), leaf(4))
    yield "convolved by columns", _by_columns, (image, leaf(5, 4 * 9))
    yield "convolved unfolded", partial(F.unfold, kernel_size=(2, 3), dilation=2, padding=1, stride=(1, 2)), (image,)
    yield "convolved folded", partial(F.fold, output_size=(5, 6), kernel_size=3, padding=1), (leaf(2, 9, 30),)
    yield "convolved folded apart", nn.Fold((4, 6), 2, stride=2), (leaf(1, 8, 6),)
    yield "convolved twice", _penalised, (leaf(1, 2, 5, 5), leaf(2, 2, 3, 3))


def _by_columns(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return F.fold(weight @ F.unfold(x, 3, padding=1), x.shape[-2:], 1)


def _penalised(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    (slope,) = torch.autograd.grad(F.conv2d(x, weight).tanh().sum(), x, create_graph=True)
    lost: torch.Tensor = (slope.norm() - 1).square()
    return lost


def _norms() -> Iterator[_Made]:
    row, image = leaf(5, 6), leaf(2, 4, 3, 5)
    yield "normed batch 1d", built(partial(nn.BatchNorm1d, 6, momentum=None)), (row,)
    yield "normed batch 2d last", built(partial(nn.BatchNorm2d, 4)), (_last(image),)
    yield "normed batch still", built(lambda: nn.BatchNorm2d(4, track_running_stats=False).eval()), (image,)
    yield "normed batch eval", built(lambda: nn.BatchNorm2d(4).eval()), (image,)
    yield "normed instance", built(partial(nn.InstanceNorm2d, 4, affine=True, track_running_stats=True)), (image,)
    yield "normed group", partial(F.group_norm, num_groups=2), (image,)
    yield "normed layer", lambda x, w, b: F.layer_norm(x, [3, 5], w, b), (image, leaf(3, 5), leaf(3, 5))
    yield "normed root", lambda x, w: F.rms_norm(x, [6], w, eps=1e-3), (row, leaf(6))
    yield "normed local", nn.LocalResponseNorm(3, k=2), (image,)
    yield "normed weight", built(lambda: nn.utils.parametrizations.weight_norm(nn.Linear(6, 2), dim=1)), (row,)
    yield "normed spectral", built(lambda: nn.utils.parametrizations.spectral_norm(nn.Linear(6, 2))), (row,)
    yield "normed renorm", lambda x: x.renorm(1, 0, 0.5), (row,)
    for p in (0.0, 1.0, 2.0, 3.0, float("inf")):
        yield f"normed cdist {p:g}", partial(torch.cdist, p=p), (row, leaf(4, 6))
    far = partial(torch.cdist, compute_mode="donot_use_mm_for_euclid_dist")
    yield "normed cdist plain", far, (leaf(30, 3), leaf(28, 3))
    yield "normed cdist many", torch.cdist, (leaf(30, 3), leaf(28, 3))
    yield "normed pdist", partial(F.pdist, p=1.5), (row,)
    yield "normed cosine", partial(F.cosine_similarity, dim=0), (row, leaf(5, 6))


def _last(x: torch.Tensor) -> torch.Tensor:
    return x.detach().to(memory_format=torch.channels_last).requires_grad_()


def _attention() -> Iterator[_Made]:
    words, memory = leaf(2, 6, 16), leaf(2, 4, 16)
    heads = (leaf(2, 3, 6, 8), leaf(2, 3, 6, 8), leaf(2, 3, 6, 8))
    dot = F.scaled_dot_product_attention
    yield "attending self", built(_Self), (words,)
    yield "attending unweighted", built(partial(_Self, need_weights=False)), (words,)
    yield "attending biased", built(partial(_Self, add_bias_kv=True, add_zero_attn=True)), (words,)
    yield "attending dropped", built(partial(_Self, dropout=0.2, need_weights=False)), (words,)
    yield (
        "attending eval",
        built(lambda: nn.TransformerEncoderLayer(16, 4, 8, batch_first=True).eval()),
        (words.detach(),),
    )
    yield "attending encoder", built(lambda: nn.TransformerEncoderLayer(16, 4, 8, norm_first=True)), (words,)
    yield "attending decoder", built(lambda: nn.TransformerDecoderLayer(16, 2, 8, batch_first=True)), (words, memory)
    yield "attending causal", partial(dot, is_causal=True, scale=0.3), heads
    yield "attending half", partial(dot, is_causal=True), tuple(leaf(2, 3, 8, 16, dtype=torch.bfloat16) for _ in "qkv")
    yield "attending double", dot, tuple(leaf(1, 2, 4, 8, dtype=torch.float64) for _ in "qkv")
    yield "attending odd heads", dot, tuple(leaf(1, 2, 4, 11) for _ in "qkv")
    yield "attending flat", dot, tuple(leaf(2, 5, 8) for _ in "qkv")
    yield "attending dropping", partial(dot, dropout_p=0.4), heads
    yield "attending masked", dot, (*heads, torch.ones(6, 6).tril().bool())
    yield "attending with slopes", dot, (*heads, leaf(2, 3, 6, 6))
    yield "attending frozen", dot, tuple(x.detach() for x in heads)
    yield "attending query alone", dot, (heads[0], heads[1].detach(), heads[2].detach())
    yield "attending shared", partial(dot, enable_gqa=True), (leaf(1, 4, 5, 8), leaf(1, 2, 5, 8), leaf(1, 2, 5, 8))


class _Self(nn.Module):
    def __init__(self, need_weights: bool = True, **options: Any) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(16, 4, batch_first=True, **options)
        self.need_weights = need_weights

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.attention(x, x, x, need_weights=self.need_weights)[0]
        return out


def _recurrent() -> Iterator[_Made]:
    x = leaf(5, 2, 4)
    yield "recurrent lstm both ways", built(partial(nn.LSTM, 4, 3, bidirectional=True)), (x,)
    yield "recurrent lstm projected", built(partial(nn.LSTM, 4, 6, proj_size=2)), (x,)
    yield "recurrent lstm dropped", built(partial(nn.LSTM, 4, 3, num_layers=2, dropout=0.5)), (x,)
    yield "recurrent gru batched", built(partial(nn.GRU, 4, 3, batch_first=True, bias=False)), (x,)
    yield "recurrent relu", built(partial(nn.RNN, 4, 3, nonlinearity="relu")), (x,)
    yield "recurrent lstm cell", built(partial(nn.LSTMCell, 4, 3)), (leaf(2, 4),)
    yield "recurrent gru cell", built(partial(nn.GRUCell, 4, 3)), (leaf(2, 4),)
    yield "recurrent rnn cell", built(partial(nn.RNNCell, 4, 3)), (leaf(2, 4),)
    yield "recurrent packed", _packed, (x,)


def _packed(x: torch.Tensor) -> Any:
    torch.manual_seed(0)
    packed = nn.utils.rnn.pack_padded_sequence(x, torch.tensor([3, 5], device="cpu"), enforce_sorted=False)
    out, _ = nn.GRU(4, 3).to(x.device)(packed)
    return nn.utils.rnn.pad_packed_sequence(out)[0]
