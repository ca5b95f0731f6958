"""Layers of ``torch.nn``: convolutions, norms, recurrent layers, modules with state."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils import prune

from benchmarks.evidence.calls.making import ATEN, HALVES, Call, built, leaf, made, nhwc, trained
from benchmarks.evidence.made import FIRST, FOURTH, SECOND, SIXTH, THIRD


@made(FIRST)
def modules() -> Iterator[Call]:
    rows = leaf(3, 6, 5)
    yield "LSTMCell", partial(_cell, kind=nn.LSTMCell), (rows,)
    yield "GRUCell", partial(_cell, kind=nn.GRUCell), (rows,)
    yield "LayerNorm", partial(_module, made=partial(nn.LayerNorm, 5)), (rows,)
    yield "RMSNorm", partial(_module, made=partial(nn.RMSNorm, 5)), (rows,)
    yield "BatchNorm1d", partial(_module, made=partial(nn.BatchNorm1d, 6)), (rows,)
    yield "InstanceNorm1d", partial(_module, made=partial(nn.InstanceNorm1d, 6, affine=True)), (rows,)
    yield "PReLU", partial(_module, made=partial(nn.PReLU, 6)), (rows,)
    yield "weight_norm", _weight_norm, (rows,)
    yield "spectral_norm", _spectral_norm, (rows,)
    yield "MultiheadAttention", _attention, (leaf(3, 6, 8),)
    yield "EncoderLayer", _encoder, (leaf(3, 6, 8),)
    yield "checkpoint", _checkpointed, (leaf(3, 4),)
    yield "autocast", _autocast, (leaf(3, 4), leaf(4, 5))


def _module(x: torch.Tensor, made: Callable[[], nn.Module]) -> Any:
    torch.manual_seed(0)
    return made().to(x.device)(x)


def _cell(x: torch.Tensor, kind: Callable[..., nn.Module]) -> Any:
    torch.manual_seed(0)
    made = kind(5, 4).to(x.device)(x[:, 0])
    return made[0] if isinstance(made, tuple) else made


def _weight_norm(x: torch.Tensor) -> Any:
    return nn.utils.parametrizations.weight_norm(nn.Linear(5, 4)).to(x.device)(x)


def _spectral_norm(x: torch.Tensor) -> Any:
    return nn.utils.parametrizations.spectral_norm(nn.Linear(5, 4)).to(x.device)(x)


def _attention(x: torch.Tensor) -> Any:
    return nn.MultiheadAttention(8, 2, batch_first=True).to(x.device)(x, x, x, need_weights=False)[0]


def _encoder(x: torch.Tensor) -> Any:
    return nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).to(x.device)(x)


def _checkpointed(x: torch.Tensor) -> Any:
    from torch.utils.checkpoint import checkpoint

    return checkpoint(torch.cumsum, x, 0, use_reentrant=False)


def _autocast(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    with torch.autocast(x.device.type, dtype=torch.bfloat16):
        return (x @ weight).float().cumsum(0)


@made(SECOND)
def convolved() -> Iterator[Call]:
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


@made(SECOND)
def normed() -> Iterator[Call]:
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


@made(THIRD)
def convolutions() -> Iterator[Call]:
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


@made(THIRD)
def norms() -> Iterator[Call]:
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


@made(THIRD)
def recurrent() -> Iterator[Call]:
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


@made(FOURTH)
def convolutions_fourth() -> Iterator[Call]:
    row, image, volume = leaf(1, 4, 12), leaf(2, 4, 6, 6), leaf(1, 2, 4, 4, 4)
    for word, kind in (("double", torch.float64), ("half", torch.float16), ("complex", torch.complex64)):
        yield f"filtered {word}", F.conv2d, (leaf(1, 2, 5, 5, dtype=kind), leaf(2, 2, 3, 3, dtype=kind))
        yield f"filtered row {word}", F.conv1d, (leaf(1, 2, 9, dtype=kind), leaf(2, 2, 3, dtype=kind))
        yield (
            f"filtered turned {word}",
            F.conv_transpose2d,
            (leaf(1, 2, 5, 5, dtype=kind), leaf(2, 1, 3, 3, dtype=kind)),
        )
    yield "filtered last", lambda x, w: F.conv2d(nhwc(x), nhwc(w)), (image, leaf(3, 4, 3, 3))
    yield "filtered last dilated", lambda x, w: F.conv2d(nhwc(x), w, dilation=2), (image, leaf(3, 4, 2, 2))
    yield "filtered last volume", lambda x, w: F.conv3d(nhwc(x), w), (volume, leaf(3, 2, 2, 2, 2))
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
    out: torch.Tensor = ATEN.convolution(x, w, b, [1, 1], [0, 0], [1, 1], False, [0, 0], 1)
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


@made(FOURTH)
def norms_fourth() -> Iterator[Call]:
    image, rows = leaf(3, 4, 5, 5), leaf(6, 8)
    for word, kind in (("double", torch.float64), ("half", torch.float16), ("bfloat16", torch.bfloat16)):
        yield f"levelled batch {word}", _batch, (leaf(4, 3, 4, 4, dtype=kind),)
        yield f"levelled layer {word}", lambda x: F.layer_norm(x, (8,)), (leaf(6, 8, dtype=kind),)
        yield f"levelled softmax {word}", lambda x: F.log_softmax(x, 0), (leaf(6, 8, dtype=kind),)
    yield "levelled batch last", lambda x: _batch(nhwc(x)), (image,)
    yield "levelled batch volume", _batch, (leaf(2, 3, 3, 3, 3),)
    yield "levelled below", lambda x: ATEN.native_batch_norm(x, None, None, None, None, True, 0.1, 1e-5)[0], (image,)
    yield "levelled below group", lambda x: ATEN.native_group_norm(x, None, None, 3, 4, 25, 2, 1e-5)[0], (image,)
    yield "levelled group last", lambda x: F.group_norm(nhwc(x), 2), (image,)
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


@made(FOURTH)
def recurrent_fourth() -> Iterator[Call]:
    x = leaf(6, 2, 4)
    for kind in ("LSTM", "GRU", "RNN"):
        yield f"unrolled {kind} double", partial(_unrolled, kind), (leaf(4, 2, 3, dtype=torch.float64),)
        yield f"unrolled {kind} frozen", partial(_unrolled, kind), (x.detach(),)
        yield f"unrolled {kind} two layers", partial(_unrolled, kind, num_layers=2, bidirectional=True), (x,)
        yield f"unrolled {kind} single", partial(_unrolled, kind), (leaf(5, 4),)
    yield "unrolled packed lstm", _packed_sequences, (x,)
    yield "unrolled by cells", _by_cells, (x,)


def _unrolled(kind: str, x: torch.Tensor, **options: Any) -> torch.Tensor:
    torch.manual_seed(0)
    out: torch.Tensor = getattr(nn, kind)(x.shape[-1], 3, **options).to(x.device, x.dtype)(x)[0]
    return out


def _packed_sequences(x: torch.Tensor) -> torch.Tensor:
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


@made(FOURTH)
def modules_fourth() -> Iterator[Call]:
    rows, image = leaf(4, 6), leaf(2, 3, 8, 8)
    layers: dict[str, tuple[Callable[[], Any], torch.Tensor]] = {
        "glu": (lambda: nn.Sequential(nn.Linear(6, 8), nn.GLU(), nn.PReLU(4)), rows),
        "maxout": (lambda: nn.Sequential(nn.Linear(6, 8), nn.Unflatten(1, (2, 4)), nn.AdaptiveMaxPool1d(1)), rows),
        "bilinear": (lambda: _Twin(nn.Bilinear(6, 6, 2)), rows),
        "adaptive softmax": (lambda: _Twin(nn.AdaptiveLogSoftmaxWithLoss(6, 9, [3])), rows),
        "weight norm": (lambda: nn.utils.parametrizations.weight_norm(nn.Conv2d(3, 2, 3)), image),
        "spectral norm": (lambda: nn.utils.parametrizations.spectral_norm(nn.Conv2d(3, 2, 3)), image),
        "orthogonal": (lambda: nn.utils.parametrizations.orthogonal(nn.Linear(6, 6)), rows),
        "pruned": (lambda: prune.l1_unstructured(nn.Linear(6, 3), "weight", 0.4), rows),
        "squeezed": (
            lambda: nn.Sequential(nn.Conv2d(3, 4, 1), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.LazyLinear(3)),
            image,
        ),
        "shuffled": (lambda: nn.Sequential(nn.Conv2d(3, 4, 3), nn.ChannelShuffle(2), nn.PixelShuffle(2)), image),
        "upsampled": (lambda: nn.Sequential(nn.Upsample(scale_factor=2, mode="bilinear"), nn.Conv2d(3, 1, 3)), image),
        "padded": (lambda: nn.Sequential(nn.ReflectionPad2d(2), nn.Conv2d(3, 2, 3), nn.InstanceNorm2d(2)), image),
        "encoder": (lambda: nn.TransformerEncoderLayer(6, 2, 8, 0.1, batch_first=True), rows[None]),
        "pre-norm encoder": (lambda: nn.TransformerEncoderLayer(6, 3, 8, 0.0, norm_first=True), rows[:, None]),
        "frozen encoder": (lambda: nn.TransformerEncoderLayer(6, 2, 8).eval(), rows.detach()[:, None]),
        "whole": (lambda: _Twin(nn.Transformer(6, 2, 1, 1, 8, dropout=0.0)), rows[:, None]),
    }
    for name, (make, x) in layers.items():
        yield f"module {name}", partial(_built, make), (x,)


class _Twin(nn.Module):
    """Calls what takes two tensors with its input twice, or with labels."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: torch.Tensor) -> Any:
        labelled = isinstance(self.inner, nn.AdaptiveLogSoftmaxWithLoss)
        return self.inner(x, torch.arange(len(x), device=x.device) * 2 if labelled else x)


def _built(make: Callable[[], Any], x: torch.Tensor) -> Any:
    torch.manual_seed(0)
    return make().to(x.device)(x)


@made(SIXTH)
def convolutions_sixth() -> Iterator[Call]:
    row, image, volume = leaf(2, 4, 12), leaf(2, 4, 9, 8), leaf(1, 4, 5, 6, 5)
    made: dict[str, tuple[Callable[[], nn.Module], torch.Tensor]] = {
        "row": (lambda: nn.Conv1d(4, 6, 3), row),
        "row strided": (lambda: nn.Conv1d(4, 6, 4, stride=2, padding=1, bias=False), row),
        "row same": (lambda: nn.Conv1d(4, 4, 5, padding="same", groups=2), row),
        "row dilated": (lambda: nn.Conv1d(4, 4, 3, padding=8, dilation=8), row),
        "row circular": (lambda: nn.Conv1d(4, 4, 3, padding=1, padding_mode="circular"), row),
        "row reflecting": (lambda: nn.Conv1d(4, 4, 3, padding=1, padding_mode="reflect"), row),
        "row replicating": (lambda: nn.Conv1d(4, 4, 3, padding=1, padding_mode="replicate"), row),
        "row turned": (lambda: nn.ConvTranspose1d(4, 3, 4, stride=2, padding=1), row),
        "row by depth": (lambda: nn.Conv1d(4, 4, 5, padding=2, groups=4), row),
        "image": (lambda: nn.Conv2d(4, 6, 3, padding=1), image),
        "image pointwise": (lambda: nn.Conv2d(4, 6, 1), image),
        "image grouped": (lambda: nn.Conv2d(4, 8, 3, groups=4), image),
        "image by depth": (lambda: nn.Conv2d(4, 4, 3, groups=4, padding=1), image),
        "image by depth dilated": (lambda: nn.Conv2d(4, 4, 3, groups=4, padding=2, dilation=2), image),
        "image dilated": (lambda: nn.Conv2d(4, 6, 3, dilation=2), image),
        "image dilated one way": (lambda: nn.Conv2d(4, 6, 3, dilation=(1, 2)), image),
        "image patches": (lambda: nn.Conv2d(4, 8, 4, stride=4, bias=False), image),
        "image reflecting": (lambda: nn.Conv2d(4, 4, 3, padding=1, padding_mode="reflect"), image),
        "image replicating": (lambda: nn.Conv2d(4, 4, 3, padding=1, padding_mode="replicate"), image),
        "image turned": (lambda: nn.ConvTranspose2d(4, 3, 3, stride=2, output_padding=1), image),
        "image turned dilated": (lambda: nn.ConvTranspose2d(4, 3, 3, dilation=2), image),
        "image turned grouped": (lambda: nn.ConvTranspose2d(4, 4, 2, stride=2, groups=2), image),
        "volume": (lambda: nn.Conv3d(4, 3, 3, padding=1), volume),
        "volume dilated": (lambda: nn.Conv3d(4, 3, 2, dilation=2), volume),
        "volume replicating": (lambda: nn.Conv3d(4, 4, 3, padding=1, padding_mode="replicate"), volume),
        "volume turned": (lambda: nn.ConvTranspose3d(4, 2, 2, stride=2), volume),
        "volume by depth": (lambda: nn.Conv3d(4, 4, 3, groups=4), volume),
    }
    for name, (make, x) in made.items():
        yield f"conv {name}", trained(make), (x,)
    for word, kind in (*HALVES, ("double", torch.float64)):
        for name in ("row dilated", "image", "image dilated", "image by depth", "image turned", "volume"):
            make, x = made[name]
            yield f"conv {name} {word}", trained(make), (x.detach().to(kind).requires_grad_(),)
    for name in ("image", "image dilated", "image turned dilated"):
        make, x = made[name]
        last = x.detach().contiguous(memory_format=torch.channels_last).requires_grad_()
        yield f"conv {name} channels last", trained(make), (last,)
    yield "conv one image", trained(made["image"][0]), (leaf(4, 7, 7),)
    yield "conv no image", trained(made["image"][0]), (leaf(0, 4, 7, 7),)
    yield "conv frozen", trained(lambda: nn.Conv2d(4, 6, 3).requires_grad_(False)), (image,)
    yield "conv frozen dilated", trained(lambda: nn.Conv2d(4, 6, 3, dilation=2).requires_grad_(False)), (image,)
    yield "conv complex", trained(lambda: nn.Conv2d(4, 6, 3)), (leaf(2, 4, 6, 6, dtype=torch.complex64),)
    yield "conv in half", _in_autocast(lambda: nn.Conv2d(4, 6, 3)), (image,)
    yield "conv dilated in half", _in_autocast(lambda: nn.Conv2d(4, 6, 3, dilation=2)), (image,)
    yield "conv normed by weight", trained(lambda: nn.utils.parametrizations.weight_norm(nn.Conv2d(4, 6, 3))), (image,)
    yield "conv normed by spectrum", trained(lambda: nn.utils.parametrizations.spectral_norm(nn.Linear(8, 6))), (image,)


def _in_autocast(make: Callable[[], nn.Module]) -> Callable[..., Any]:
    run = trained(make)

    def within(*args: torch.Tensor) -> Any:
        with torch.autocast(args[0].device.type, torch.bfloat16):
            return run(*args)

    return within


@made(SIXTH)
def norms_sixth() -> Iterator[Call]:
    row, image, words = leaf(6, 4), leaf(2, 4, 5, 5), leaf(2, 5, 8)
    for word, kind in (("", torch.float32), ("bfloat16", torch.bfloat16), ("double", torch.float64)):
        for name, make, x in (
            ("batch row", lambda: nn.BatchNorm1d(4), row),
            ("batch image", lambda: nn.BatchNorm2d(4), image),
            ("batch judging", lambda: nn.BatchNorm2d(4).eval(), image),
            ("batch plain", lambda: nn.BatchNorm2d(4, affine=False, track_running_stats=False), image),
            ("instance", lambda: nn.InstanceNorm2d(4, affine=True), image),
            ("group", lambda: nn.GroupNorm(2, 4), image),
            ("layer", lambda: nn.LayerNorm(8), words),
            ("layer plain", lambda: nn.LayerNorm([5, 8], elementwise_affine=False), words),
            ("rms", lambda: nn.RMSNorm(8), words),
            ("response", lambda: nn.LocalResponseNorm(3), image),
        ):
            yield f"normed {name} {word}".strip(), trained(make), (x.detach().to(kind).requires_grad_(),)


@made(SIXTH)
def recurrent_sixth() -> Iterator[Call]:
    x, batch_first = leaf(6, 2, 4), leaf(2, 6, 4)
    made: dict[str, Callable[[], nn.Module]] = {
        "lstm": lambda: nn.LSTM(4, 5),
        "lstm deep": lambda: nn.LSTM(4, 5, num_layers=2, dropout=0.2),
        "lstm both ways": lambda: nn.LSTM(4, 5, bidirectional=True),
        "lstm projected": lambda: nn.LSTM(4, 5, proj_size=3),
        "lstm unbiased": lambda: nn.LSTM(4, 5, bias=False),
        "gru": lambda: nn.GRU(4, 5),
        "gru deep both ways": lambda: nn.GRU(4, 5, num_layers=2, bidirectional=True),
        "rnn": lambda: nn.RNN(4, 5),
        "rnn relu": lambda: nn.RNN(4, 5, nonlinearity="relu", num_layers=2),
    }
    for name, make in made.items():
        yield f"recurrent {name}", trained(make), (x,)
        yield f"recurrent {name} packed", _trained_packed(make), (x,)
        yield f"recurrent {name} double", trained(make), (x.detach().double().requires_grad_(),)
    yield "recurrent lstm bfloat16", trained(made["lstm"]), (x.detach().bfloat16().requires_grad_(),)
    yield "recurrent gru batch first", trained(lambda: nn.GRU(4, 5, batch_first=True)), (batch_first,)
    yield "recurrent lstm of one", trained(made["lstm"]), (leaf(6, 4),)
    yield "recurrent lstm frozen", trained(lambda: nn.LSTM(4, 5).requires_grad_(False)), (x,)
    yield "recurrent gru in half", _in_autocast(made["gru"]), (x,)
    yield "recurrent lstm cell", trained(lambda: nn.LSTMCell(4, 5)), (leaf(3, 4),)
    yield "recurrent gru cell", trained(lambda: nn.GRUCell(4, 5)), (leaf(3, 4),)
    yield "recurrent rnn cell", trained(lambda: nn.RNNCell(4, 5)), (leaf(3, 4),)


def _trained_packed(make: Callable[[], nn.Module]) -> Callable[..., Any]:
    def run(x: torch.Tensor) -> Any:
        layer = make().to(x.device)
        packed = nn.utils.rnn.pack_padded_sequence(x, torch.tensor([4, 6]), enforce_sorted=False)
        out, _ = layer(packed)
        padded, _ = nn.utils.rnn.pad_packed_sequence(out)
        torch.autograd.grad(padded.sum(), list(layer.parameters()), retain_graph=True)
        return padded

    return run


@made(SIXTH)
def pointwise() -> Iterator[Call]:
    rows = leaf(4, 6)
    for word, kind in (("", torch.float32), ("bfloat16", torch.bfloat16)):
        given = rows.detach().to(kind).requires_grad_()
        yield f"layer linear {word}".strip(), trained(lambda: nn.Linear(6, 3)), (given,)
        yield f"layer linear of words {word}".strip(), trained(lambda: nn.Linear(6, 3)), (leaf(2, 3, 6, dtype=kind),)
        yield f"layer linear of one {word}".strip(), trained(lambda: nn.Linear(6, 3)), (leaf(6, dtype=kind),)
        yield f"layer linear unbiased {word}".strip(), trained(lambda: nn.Linear(6, 3, bias=False)), (given,)
        yield f"layer bilinear {word}".strip(), trained(lambda: nn.Bilinear(6, 2, 3)), (given, leaf(4, 2, dtype=kind))
        yield f"layer prelu {word}".strip(), trained(lambda: nn.PReLU(6)), (given,)
    yield "layer rrelu", nn.RReLU(), (rows,)
    yield "layer glu", nn.GLU(), (rows,)
    yield "layer distances", nn.PairwiseDistance(), (rows, leaf(4, 6))
    yield "layer likeness", nn.CosineSimilarity(), (rows, leaf(4, 6))
    yield "layer dropped", nn.AlphaDropout(0.3), (rows,)
    yield "layer dropped channels", nn.Dropout2d(0.3), (leaf(2, 3, 4, 4),)
    yield "layer softmax 2d", nn.Softmax2d(), (leaf(2, 3, 4, 4),)
    yield "layer adaptive softmax", _adaptive, (rows, torch.tensor([0, 3, 9, 4]))


def _adaptive(x: torch.Tensor, y: torch.Tensor) -> Any:
    layer = nn.AdaptiveLogSoftmaxWithLoss(6, 10, [2, 5]).to(x.device)
    return layer.log_prob(x).gather(1, y[:, None])
