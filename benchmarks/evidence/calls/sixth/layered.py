"""Layers of ``torch.nn`` trained for one step: the gradients of their parameters, and of what they were given."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn

from benchmarks.evidence.calls.layers import leaf

_Made = tuple[str, Callable[..., Any], tuple[Any, ...]]
_HALVES = (("half", torch.float16), ("bfloat16", torch.bfloat16))


def trained(make: Callable[[], nn.Module]) -> Callable[..., Any]:
    """A function that makes the layer, runs it and asks for the gradients of its parameters."""

    def run(x: torch.Tensor, *others: Any) -> Any:
        layer = make().to(x.device)
        if x.is_floating_point() or x.is_complex():
            layer = layer.to(x.dtype)
        out = layer(x, *others)
        first = out[0] if isinstance(out, tuple) else out
        of_parameters = [one for one in layer.parameters() if one.requires_grad]
        if of_parameters:
            torch.autograd.grad(first.abs().sum(), of_parameters, retain_graph=True, allow_unused=True)
        return first

    return run


def made() -> Iterator[_Made]:
    """Each call's name, function and tensors."""
    yield from _convolutions()
    yield from _pools()
    yield from _pads()
    yield from _resizing()
    yield from _norms()
    yield from _lookups()
    yield from _recurrent()
    yield from _pointwise()


def _convolutions() -> Iterator[_Made]:
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
    for word, kind in (*_HALVES, ("double", torch.float64)):
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


def _pools() -> Iterator[_Made]:
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


def _pads() -> Iterator[_Made]:
    row, image, volume = leaf(2, 3, 7), leaf(2, 3, 6, 6), leaf(1, 2, 4, 5, 4)
    for word, kind in (("", torch.float32), *_HALVES, ("complex", torch.complex64)):
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


def _resizing() -> Iterator[_Made]:
    row, image, volume = leaf(2, 3, 7), leaf(2, 3, 6, 5), leaf(1, 2, 4, 5, 4)
    for word, kind in (("", torch.float32), *_HALVES):
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


def _norms() -> Iterator[_Made]:
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


def _lookups() -> Iterator[_Made]:
    few, many = torch.randint(0, 7, (4, 3)), torch.randint(0, 7, (40,))
    starts = torch.tensor([0, 4, 9, 9, 30])
    weights = torch.rand(4, 3)
    for word, kind in (("", torch.float32), *_HALVES):
        made: dict[str, Callable[[], nn.Module]] = {
            "plain": lambda kind=kind: nn.Embedding(7, 5, dtype=kind),  # type: ignore[misc]
            "padded": lambda kind=kind: nn.Embedding(7, 5, padding_idx=2, dtype=kind),  # type: ignore[misc]
            "by how often": lambda kind=kind: nn.Embedding(7, 5, scale_grad_by_freq=True, dtype=kind),  # type: ignore[misc]
            "sparse": lambda kind=kind: nn.Embedding(7, 5, sparse=True, dtype=kind),  # type: ignore[misc]
            "bag sum": lambda kind=kind: nn.EmbeddingBag(7, 5, mode="sum", dtype=kind),  # type: ignore[misc]
            "bag mean": lambda kind=kind: nn.EmbeddingBag(7, 5, mode="mean", dtype=kind),  # type: ignore[misc]
            "bag max": lambda kind=kind: nn.EmbeddingBag(7, 5, mode="max", dtype=kind),  # type: ignore[misc]
        }
        for name, make in made.items():
            yield f"looked up {name} {word}".strip(), trained(make), (few,)
    for mode in ("sum", "mean", "max"):
        yield f"looked up starts {mode}", trained(lambda mode=mode: nn.EmbeddingBag(7, 5, mode=mode)), (many, starts)  # type: ignore[misc]
    yield "looked up rescaled", trained(lambda: nn.Embedding(7, 5, max_norm=1.0)), (few,)
    yield "looked up bag sparse", trained(lambda: nn.EmbeddingBag(7, 5, sparse=True)), (few,)
    yield (
        "looked up weighed",
        lambda i, table, w: nn.functional.embedding_bag(i, table, mode="sum", per_sample_weights=w),
        (few, leaf(7, 5), weights.requires_grad_()),
    )
    yield "looked up int32", trained(lambda: nn.Embedding(7, 5)), (few.int(),)
    yield "looked up bag frozen", trained(lambda: nn.EmbeddingBag(7, 5, mode="max").requires_grad_(False)), (few,)


def _recurrent() -> Iterator[_Made]:
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
        yield f"recurrent {name} packed", _packed(make), (x,)
        yield f"recurrent {name} double", trained(make), (x.detach().double().requires_grad_(),)
    yield "recurrent lstm bfloat16", trained(made["lstm"]), (x.detach().bfloat16().requires_grad_(),)
    yield "recurrent gru batch first", trained(lambda: nn.GRU(4, 5, batch_first=True)), (batch_first,)
    yield "recurrent lstm of one", trained(made["lstm"]), (leaf(6, 4),)
    yield "recurrent lstm frozen", trained(lambda: nn.LSTM(4, 5).requires_grad_(False)), (x,)
    yield "recurrent gru in half", _in_autocast(made["gru"]), (x,)
    yield "recurrent lstm cell", trained(lambda: nn.LSTMCell(4, 5)), (leaf(3, 4),)
    yield "recurrent gru cell", trained(lambda: nn.GRUCell(4, 5)), (leaf(3, 4),)
    yield "recurrent rnn cell", trained(lambda: nn.RNNCell(4, 5)), (leaf(3, 4),)


def _packed(make: Callable[[], nn.Module]) -> Callable[..., Any]:
    def run(x: torch.Tensor) -> Any:
        layer = make().to(x.device)
        packed = nn.utils.rnn.pack_padded_sequence(x, torch.tensor([4, 6]), enforce_sorted=False)
        out, _ = layer(packed)
        padded, _ = nn.utils.rnn.pad_packed_sequence(out)
        torch.autograd.grad(padded.sum(), list(layer.parameters()), retain_graph=True)
        return padded

    return run


def _pointwise() -> Iterator[_Made]:
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
