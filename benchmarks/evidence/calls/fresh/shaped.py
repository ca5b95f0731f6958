"""Layers of rows, images, volumes and sequences: below the public API, in other dtypes, layouts and switches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from benchmarks.evidence.calls.layers import leaf

_Made = tuple[str, Callable[..., Any], tuple[Any, ...]]
_ATEN = torch.ops.aten


def made() -> Iterator[_Made]:
    """Each call's name, function and tensors."""
    yield from _pools()
    yield from _resizing()
    yield from _convolutions()
    yield from _norms()
    yield from _attention()
    yield from _recurrent()
    yield from _embeddings()


def _last(x: torch.Tensor) -> torch.Tensor:
    kind = torch.channels_last if x.dim() == 4 else torch.channels_last_3d
    return x.contiguous(memory_format=kind)


def _pools() -> Iterator[_Made]:
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
    yield "spaced adaptive avg2d last", lambda x: F.adaptive_avg_pool2d(_last(x), (3, 4)), (image,)
    yield "spaced adaptive max3d last", lambda x: F.adaptive_max_pool3d(_last(x), 3), (volume,)
    yield "spaced avg2d last", lambda x: F.avg_pool2d(_last(x), 2, 1), (image,)
    yield "spaced max3d last", lambda x: F.max_pool3d(_last(x), 3, 2, return_indices=True)[0], (volume,)
    yield "spaced max2d below", lambda x: _ATEN.max_pool2d_with_indices(x, [3, 2], [1, 1], [1, 0]), (image,)
    yield "spaced max3d below", lambda x: _ATEN.max_pool3d_with_indices(x, [2, 2, 2]), (volume,)
    yield "spaced avg3d below", lambda x: _ATEN.avg_pool3d(x, [2, 2, 2]), (volume,)
    yield "spaced adaptive below", lambda x: _ATEN._adaptive_avg_pool2d(x, [5, 4]), (image,)
    yield "spaced adaptive below 3d", lambda x: _ATEN._adaptive_avg_pool3d(x, [2, 4, 3]), (volume,)
    yield "spaced adaptive below frozen", lambda x: _ATEN._adaptive_avg_pool2d(x, [5, 4]), (image.detach(),)
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
    out: torch.Tensor = _ATEN.fractional_max_pool2d(x, [2, 2], [3, 4], starts)[0]
    return out


def _unpooled(x: torch.Tensor) -> torch.Tensor:
    small, places = F.max_pool3d(x, 3, 2, return_indices=True)
    return F.max_unpool3d(small, places, 3, 2, output_size=[6, 6, 8])  # type: ignore[arg-type]


def _unpooled_wanted(x: torch.Tensor) -> Any:
    small, places = F.max_pool2d(x, 2, return_indices=True)
    return nn.MaxUnpool2d(2)(small, places, output_size=x.shape)


def _resizing() -> Iterator[_Made]:
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
    yield "scaled trilinear last", lambda x: F.interpolate(_last(x), scale_factor=2, mode="trilinear"), (volume,)
    yield "scaled nearest last", lambda x: F.interpolate(_last(x), scale_factor=2), (image,)
    yield "scaled bicubic last", lambda x: F.interpolate(_last(x), scale_factor=0.5, mode="bicubic"), (image,)
    yield "scaled nearest below", lambda x: _ATEN.upsample_nearest2d(x, [9, 9]), (image,)
    yield "scaled bicubic below", lambda x: _ATEN.upsample_bicubic2d(x, [9, 9], False), (image,)
    yield "scaled trilinear below", lambda x: _ATEN.upsample_trilinear3d(x, [5, 5, 5], True), (volume,)
    yield "scaled linear below", lambda x: _ATEN.upsample_linear1d(x, [11], False), (row,)
    yield "scaled smooth below", lambda x: _ATEN._upsample_bilinear2d_aa(x, [3, 3], False), (image,)
    yield (
        "scaled bilinear back",
        lambda g: _ATEN.upsample_bilinear2d_backward(g, [9, 9], [1, 3, 6, 6], False),
        (leaf(1, 3, 9, 9).detach(),),
    )
    for mode in ("reflect", "replicate"):
        for word, kind in (("double", torch.float64), ("half", torch.float16), ("complex", torch.complex64)):
            yield f"edged {mode} {word}", partial(F.pad, pad=(2, 1, 1, 2), mode=mode), (leaf(1, 2, 5, 4, dtype=kind),)
        yield f"edged {mode} last", lambda x, mode=mode: F.pad(_last(x), (1, 1, 2, 2), mode=mode), (image,)
    yield "edged reflect below", lambda x: _ATEN.reflection_pad2d(x, [1, 2, 1, 2]), (image,)
    yield "edged reflect below 3d", lambda x: _ATEN.reflection_pad3d(x, [1, 1, 1, 1, 1, 1]), (volume,)
    yield "edged replicate below 1d", lambda x: _ATEN.replication_pad1d(x, [3, 1]), (row,)
    yield "edged replicate below 3d", lambda x: _ATEN.replication_pad3d(x, [1, 0, 0, 1, 1, 1]), (volume,)
    yield "edged circular volume", nn.CircularPad3d(1), (volume,)
    yield "edged circular part", partial(F.pad, pad=(0, 2), mode="circular"), (row,)
    yield "edged cut", partial(F.pad, pad=(-1, -1, -2, 0)), (image,)
    grid = leaf(1, 3, 5, 2)
    yield "sampled half", lambda x, g: F.grid_sample(x.half(), g.half(), align_corners=True), (image, grid)
    yield "sampled flow", _flow, (image, leaf(1, 2, 6, 6))
    yield "sampled below", lambda x, g: _ATEN.grid_sampler_2d(x, g, 1, 0, False), (image, grid)
    yield "sampled below bicubic", lambda x, g: _ATEN.grid_sampler_2d(x, g, 2, 1, True), (image, grid)
    yield "sampled below deep", lambda x, g: _ATEN.grid_sampler_3d(x, g, 0, 0, True), (volume, leaf(1, 2, 2, 2, 3))
    yield "sampled last", lambda x, g: F.grid_sample(_last(x), g, align_corners=False), (image, grid)
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


def _convolutions() -> Iterator[_Made]:
    row, image, volume = leaf(1, 4, 12), leaf(2, 4, 6, 6), leaf(1, 2, 4, 4, 4)
    for word, kind in (("double", torch.float64), ("half", torch.float16), ("complex", torch.complex64)):
        yield f"filtered {word}", F.conv2d, (leaf(1, 2, 5, 5, dtype=kind), leaf(2, 2, 3, 3, dtype=kind))
        yield f"filtered row {word}", F.conv1d, (leaf(1, 2, 9, dtype=kind), leaf(2, 2, 3, dtype=kind))
        yield (
            f"filtered turned {word}",
            F.conv_transpose2d,
            (leaf(1, 2, 5, 5, dtype=kind), leaf(2, 1, 3, 3, dtype=kind)),
        )
    yield "filtered last", lambda x, w: F.conv2d(_last(x), _last(w)), (image, leaf(3, 4, 3, 3))
    yield "filtered last dilated", lambda x, w: F.conv2d(_last(x), w, dilation=2), (image, leaf(3, 4, 2, 2))
    yield "filtered last volume", lambda x, w: F.conv3d(_last(x), w), (volume, leaf(3, 2, 2, 2, 2))
    yield "filtered below", _filtered_below, (image, leaf(3, 4, 3, 3), leaf(3))
    yield (
        "filtered gradient of input",
        lambda g, w: nn.grad.conv2d_input((2, 4, 6, 6), w, g),  # type: ignore[attr-defined]
        (
            leaf(2, 3, 4, 4).detach(),
            leaf(3, 4, 3, 3).detach(),
        ),
    )
    yield (
        "filtered gradient of weight",
        lambda x, g: nn.grad.conv2d_weight(x, (3, 4, 3, 3), g),  # type: ignore[attr-defined]
        (
            image.detach(),
            leaf(2, 3, 4, 4).detach(),
        ),
    )
    yield "filtered volume depthwise", partial(F.conv3d, groups=2), (volume, leaf(4, 1, 2, 2, 2))
    yield "filtered volume grouped dilated", partial(F.conv3d, groups=2, dilation=2), (volume, leaf(4, 1, 2, 2, 2))
    yield "filtered row depthwise dilated", partial(F.conv1d, groups=4, dilation=2), (row, leaf(4, 1, 3))
    yield "filtered turned depthwise", partial(F.conv_transpose1d, groups=4), (row, leaf(4, 1, 3))
    yield "filtered turned volume dilated", partial(F.conv_transpose3d, dilation=2), (volume, leaf(2, 2, 2, 2, 2))
    yield "filtered separable", _separable, (image, leaf(4, 1, 3, 3), leaf(6, 4, 1, 1))
    yield (
        "filtered gabor",
        lambda x, w: F.conv1d(x[:, :1], w.cos() * w.exp(), padding="valid", stride=3),
        (row, leaf(2, 1, 5)),
    )
    yield "filtered deform", _deformed, (leaf(1, 2, 5, 5), leaf(1, 2, 5, 5), leaf(3, 2))
    yield "filtered each its own", _own_filters, (image, leaf(2, 3, 4, 3, 3))
    yield "filtered mapped", torch.vmap(F.conv1d), (leaf(3, 2, 4, 9), leaf(3, 2, 4, 3))
    yield "filtered flat dilated", partial(F.conv2d, dilation=(1, 3)), (leaf(1, 1, 3, 12), leaf(1, 1, 1, 3))


def _filtered_below(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    out: torch.Tensor = _ATEN.convolution(x, w, b, [1, 1], [0, 0], [1, 1], False, [0, 0], 1)
    return out


def _separable(x: torch.Tensor, deep: torch.Tensor, flat: torch.Tensor) -> torch.Tensor:
    return F.conv2d(F.hardswish(F.conv2d(x, deep, groups=4, padding=1, dilation=1)), flat)


def _deformed(x: torch.Tensor, moved: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    row = torch.arange(5.0, device=x.device)
    y, z = torch.meshgrid(row, row, indexing="ij")
    places = torch.stack([z + moved[:, 0], y + moved[:, 1]], -1) / 2 - 1
    return torch.einsum("oc,nchw->nohw", w, F.grid_sample(x, places, align_corners=True))


def _own_filters(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return F.conv2d(x.reshape(1, 8, 6, 6), w.reshape(6, 4, 3, 3), groups=2).view(2, 3, 4, 4)


def _norms() -> Iterator[_Made]:
    image, rows = leaf(3, 4, 5, 5), leaf(6, 8)
    for word, kind in (("double", torch.float64), ("half", torch.float16), ("bfloat16", torch.bfloat16)):
        yield f"levelled batch {word}", _batch, (leaf(4, 3, 4, 4, dtype=kind),)
        yield f"levelled layer {word}", lambda x: F.layer_norm(x, (8,)), (leaf(6, 8, dtype=kind),)
        yield f"levelled softmax {word}", lambda x: F.log_softmax(x, 0), (leaf(6, 8, dtype=kind),)
    yield "levelled batch last", lambda x: _batch(_last(x)), (image,)
    yield "levelled batch volume", _batch, (leaf(2, 3, 3, 3, 3),)
    yield "levelled below", lambda x: _ATEN.native_batch_norm(x, None, None, None, None, True, 0.1, 1e-5)[0], (image,)
    yield "levelled below group", lambda x: _ATEN.native_group_norm(x, None, None, 3, 4, 25, 2, 1e-5)[0], (image,)
    yield "levelled group last", lambda x: F.group_norm(_last(x), 2), (image,)
    yield "levelled instance volume", lambda x: F.instance_norm(x), (leaf(1, 2, 3, 3, 3),)
    yield "levelled by hand", lambda x: (x - x.mean(0)) / x.std(0, correction=0), (rows,)
    yield "levelled by root", lambda x: F.rms_norm(x, (8,)), (rows,)
    yield "levelled unit", lambda x: F.normalize(x, p=1, dim=0), (rows,)
    yield "levelled local", lambda x: F.local_response_norm(x, 2), (leaf(2, 6, 7),)
    yield "levelled softmin", lambda x: F.softmin(x, 1), (rows,)
    yield "levelled half softmax", lambda x: x.softmax(-1, dtype=torch.float64), (rows,)
    yield (
        "levelled standard",
        lambda x: x.sub(x.mean()).div(x.std()),
        (rows,),
    )


def _batch(x: torch.Tensor) -> torch.Tensor:
    return F.batch_norm(x, None, None, training=True)


def _attention() -> Iterator[_Made]:
    dot = F.scaled_dot_product_attention
    q, k, v = leaf(2, 4, 7, 16), leaf(2, 4, 9, 16), leaf(2, 4, 9, 16)
    half = tuple(leaf(1, 2, 8, 32, dtype=torch.float16) for _ in "qkv")
    few = (leaf(2, 6, 5, 16), leaf(2, 3, 5, 16), leaf(2, 3, 5, 16))
    yield "weighed across", dot, (q, k, v)
    yield "weighed half masked", dot, (*half, torch.ones(8, 8).tril().bool())
    yield "weighed half added", dot, (*half, torch.zeros(8, 8, dtype=torch.float16))
    yield "weighed half dropped", partial(dot, dropout_p=0.1), half
    yield "weighed half wide", dot, tuple(leaf(1, 1, 4, 288, dtype=torch.float16) for _ in "qkv")
    yield "weighed half odd", dot, tuple(leaf(1, 2, 4, 20, dtype=torch.float16) for _ in "qkv")
    yield "weighed wide", dot, tuple(leaf(1, 1, 4, 300) for _ in "qkv")
    yield "weighed many to one", partial(dot, enable_gqa=True), (leaf(1, 8, 4, 8), leaf(1, 1, 4, 8), leaf(1, 1, 4, 8))
    yield "weighed few causal", partial(dot, enable_gqa=True, is_causal=True), few
    yield "weighed few half", partial(dot, enable_gqa=True), tuple(x.half().detach().requires_grad_() for x in few)
    yield "weighed few masked", partial(dot, enable_gqa=True), (*few, torch.rand(5, 5) > 0.3)
    yield "weighed few frozen", partial(dot, enable_gqa=True), tuple(x.detach() for x in few)
    yield "weighed few dropped", partial(dot, enable_gqa=True, dropout_p=0.2), few
    yield "weighed repeated", lambda q, k, v: dot(q, k.repeat_interleave(2, 1), v.repeat_interleave(2, 1)), few
    yield "weighed three", dot, tuple(leaf(3, 5, 8) for _ in "qkv")
    yield "weighed one row", dot, (leaf(2, 2, 1, 8), leaf(2, 2, 6, 8), leaf(2, 2, 6, 8))
    yield "weighed turned", lambda x: dot(*x.view(2, 5, 3, 2, 8).permute(2, 0, 3, 1, 4)), (leaf(2, 5, 48),)
    yield "weighed by slopes", _alibi, (q, q)
    yield "weighed turning", _rotary, (q,)
    yield "weighed in windows", _windowed, (leaf(1, 8, 8, 12),)
    yield "weighed linearly", lambda q, k, v: (F.elu(q) + 1) @ ((F.elu(k) + 1).mT @ v), (q, k, v)
    yield "weighed cached", _cached, (leaf(1, 2, 1, 8), leaf(1, 2, 6, 8), leaf(1, 2, 6, 8))
    yield "weighed math alone", _math_alone, (q, k, v)


def _alibi(q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    far = torch.arange(7, device=q.device)
    slopes = torch.tensor([0.5, 0.25, 0.125, 0.0625], device=q.device)[:, None, None]
    return F.scaled_dot_product_attention(q, k, k, attn_mask=-(far[:, None] - far).abs() * slopes)


def _rotary(x: torch.Tensor) -> torch.Tensor:
    angles = torch.outer(torch.arange(7, device=x.device), 10.0 ** -torch.arange(8, device=x.device))
    pairs = torch.view_as_complex(x.unflatten(-1, (8, 2)).contiguous())
    turned = torch.view_as_real(pairs * torch.polar(torch.ones_like(angles), angles)).flatten(-2)
    return F.scaled_dot_product_attention(turned, turned, x, is_causal=True)


def _windowed(x: torch.Tensor) -> torch.Tensor:
    parts = x.roll((-2, -2), (1, 2)).unfold(1, 4, 4).unfold(2, 4, 4).flatten(1, 2).flatten(-2).mT
    bias = torch.zeros(49, 1, device=x.device)[torch.arange(256, device=x.device) % 49].view(16, 16)
    return F.scaled_dot_product_attention(parts, parts, parts, attn_mask=bias)


def _cached(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    keys, values = torch.zeros_like(k.repeat(1, 1, 2, 1)), torch.zeros_like(v.repeat(1, 1, 2, 1))
    places = torch.arange(6, device=q.device)
    return F.scaled_dot_product_attention(q, keys.index_copy(2, places, k), values.index_copy(2, places, v))


def _math_alone(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    with nn.attention.sdpa_kernel(nn.attention.SDPBackend.MATH):
        return F.scaled_dot_product_attention(q, k, v)


def _recurrent() -> Iterator[_Made]:
    x = leaf(6, 2, 4)
    for kind in ("LSTM", "GRU", "RNN"):
        yield f"unrolled {kind} double", partial(_unrolled, kind), (leaf(4, 2, 3, dtype=torch.float64),)
        yield f"unrolled {kind} frozen", partial(_unrolled, kind), (x.detach(),)
        yield f"unrolled {kind} two layers", partial(_unrolled, kind, num_layers=2, bidirectional=True), (x,)
        yield f"unrolled {kind} single", partial(_unrolled, kind), (leaf(5, 4),)
    yield "unrolled packed lstm", _packed, (x,)
    yield "unrolled by cells", _by_cells, (x,)


def _unrolled(kind: str, x: torch.Tensor, **options: Any) -> torch.Tensor:
    torch.manual_seed(0)
    out: torch.Tensor = getattr(nn, kind)(x.shape[-1], 3, **options).to(x.device, x.dtype)(x)[0]
    return out


def _packed(x: torch.Tensor) -> torch.Tensor:
    torch.manual_seed(0)
    packed = nn.utils.rnn.pack_sequence([x[:6, 0], x[:3, 1]])
    out, _ = nn.LSTM(4, 3, bidirectional=True).to(x.device)(packed)
    return nn.utils.rnn.unpad_sequence(*nn.utils.rnn.pad_packed_sequence(out, batch_first=True), batch_first=True)[0]


def _by_cells(x: torch.Tensor) -> torch.Tensor:
    torch.manual_seed(0)
    cell = nn.GRUCell(4, 4).to(x.device)
    state = torch.zeros_like(x[0])
    for step in x:
        state = cell(step, state)
    return state


def _embeddings() -> Iterator[_Made]:
    words, table = torch.tensor([[1, 4, 4], [0, 2, 1]]), leaf(6, 4)
    for word, kind in (("double", torch.float64), ("half", torch.float16), ("bfloat16", torch.bfloat16)):
        yield f"worded {word}", lambda i, w: F.embedding(i, w), (words, leaf(6, 4, dtype=kind))
        yield f"worded bag {word}", lambda i, w: F.embedding_bag(i, w, mode="sum"), (words, leaf(6, 4, dtype=kind))
    yield "worded many", lambda i, w: F.embedding(i.repeat(300, 2), w), (words, table)
    yield "worded into place", _positions, (words, table)
    yield (
        "worded and tied",
        lambda i, w: F.cross_entropy((F.embedding(i, w) @ w.t()).flatten(0, 1), i.flatten()),
        (words, table),
    )
    yield "worded renormed bag", lambda i, w: F.embedding_bag(i, w, max_norm=1.0), (words, table)
    yield "worded max bag padded", lambda i, w: F.embedding_bag(i, w, mode="max", padding_idx=4), (words, table)
    yield (
        "worded short bag",
        lambda i, w: F.embedding_bag(i.flatten().int(), w, torch.tensor([0, 0, 5], device=i.device).int()),
        (
            words,
            table,
        ),
    )
    yield "worded one by one", lambda i, w: torch.stack([w[j] for j in i]).mean(1), (words, table)
    yield "worded hashed", lambda i, w: w[(i * 2654435761) % 6].prod(1), (words, table)


def _positions(i: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
    return F.embedding(i, table) + table[: i.shape[1]]
