"""Calls that CUDA sends one way or another by their sizes, dtypes and switches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from benchmarks.evidence.calls.making import Call, leaf, made
from benchmarks.evidence.made import FIFTH, SIXTH


@made(FIFTH)
def by_dtype() -> Iterator[Call]:
    image, volume, row = (1, 2, 6, 7), (1, 2, 4, 5, 4), (1, 2, 9)
    calls: dict[str, tuple[Callable[..., Any], tuple[int, ...]]] = {
        "reflect row": (partial(F.pad, pad=(2, 1), mode="reflect"), row),
        "reflect volume": (partial(F.pad, pad=(1, 1, 0, 1, 1, 0), mode="reflect"), volume),
        "replicate row": (partial(F.pad, pad=(1, 3), mode="replicate"), row),
        "replicate volume": (partial(F.pad, pad=(1, 0, 1, 1, 0, 2), mode="replicate"), volume),
        "linear": (partial(F.interpolate, size=13, mode="linear", align_corners=True), row),
        "area": (partial(F.interpolate, size=(4, 4), mode="area"), image),
        "bicubic": (partial(F.interpolate, size=(5, 9), mode="bicubic", align_corners=True), image),
        "smooth": (partial(F.interpolate, size=(4, 5), mode="bilinear", antialias=True), image),
        "exact": (partial(F.interpolate, size=(3, 9), mode="nearest-exact"), image),
        "adaptive row": (partial(F.adaptive_avg_pool1d, output_size=4), row),
        "adaptive max row": (partial(F.adaptive_max_pool1d, output_size=5), row),
        "max row": (partial(F.max_pool1d, kernel_size=3, stride=1), row),
        "fractional volume": (nn.FractionalMaxPool3d(2, output_size=(2, 3, 2)), volume),
        "fold": (partial(F.fold, output_size=(4, 4), kernel_size=2), (1, 8, 9)),
        "unfold": (partial(F.unfold, kernel_size=3, stride=2), image),
        "renorm": (partial(torch.renorm, p=2, dim=1, maxnorm=0.3), (4, 5)),
        "cummax": (lambda x: torch.cummax(x, -1)[0], (4, 5)),
        "cumprod": (lambda x: x.cumprod(-1), (4, 5)),
        "logs": (lambda x: x.logcumsumexp(0), (4, 5)),
        "norm": (lambda x: torch.linalg.vector_norm(x, 3, dim=0), (4, 5)),
        "gelu": (partial(F.gelu, approximate="tanh"), (4, 5)),
        "prelu": (lambda x: F.prelu(x, x[0].detach()[:1] * 0 + 0.2), (4, 5)),
        "amin": (lambda x: x.amin((0, 1)), (4, 5)),
        "spread": (lambda x: x.std(0), (4, 5)),
    }
    for word, kind in (("double", torch.float64), ("half", torch.float16), ("bfloat16", torch.bfloat16)):
        for name, (call, size) in calls.items():
            yield f"kind {name} {word}", call, (leaf(*size, dtype=kind),)


@made(FIFTH)
def by_size() -> Iterator[Call]:
    for length in (1, 3, 33, 2050):
        i = torch.randint(0, 7, (length,))
        yield f"sized take {length}", lambda x, i: x[i], (leaf(7, 3), i)
        yield f"sized put {length}", lambda x, i: x.index_put((i,), x[i] * 2, accumulate=True), (leaf(7, 3), i)
        yield f"sized add {length}", lambda x, i: x.index_add(0, i, x[i]), (leaf(7, 3), i)
        yield f"sized embedding {length}", lambda w, i: F.embedding(i, w), (leaf(7, 3), i)
        yield f"sized bag {length}", lambda w, i: F.embedding_bag(i[None], w, mode="mean"), (leaf(7, 3), i)
        yield f"sized cumsum {length}", lambda x: x.cumsum(0), (leaf(length),)
        yield f"sized cumsum rows {length}", lambda x: x.cumsum(1), (leaf(2, length),)
        yield f"sized sort {length}", lambda x: x.sort(), (leaf(length),)
        yield f"sized kth {length}", lambda x: x.kthvalue(1), (leaf(length),)
        yield f"sized middle {length}", lambda x: x.median(-1), (leaf(2, length),)
        yield f"sized bins {length}", lambda i: torch.bincount(i), (i,)
        yield f"sized histc {length}", lambda x: torch.histc(x, 10), (leaf(length).detach(),)
        yield f"sized scatter {length}", lambda x, i: x.new_zeros(7).scatter_add(0, i, x), (leaf(length), i)
        yield f"sized reduce {length}", lambda x, i: x.new_zeros(7).scatter_reduce(0, i, x, "mean"), (leaf(length), i)
        yield f"sized product {length}", lambda x: x.t() @ x, (leaf(length, 2),)
    for wide in (8, 12, 20, 80, 128, 256):
        heads = tuple(leaf(1, 2, 4, wide) for _ in "qkv")
        yield f"sized heads {wide}", F.scaled_dot_product_attention, heads
        yield (
            f"sized heads half {wide}",
            F.scaled_dot_product_attention,
            tuple(leaf(1, 2, 4, wide, dtype=torch.bfloat16) for _ in "qkv"),
        )
    for channels in (1, 3, 64):
        yield (
            f"sized filter {channels}",
            partial(F.conv2d, padding=1),
            (leaf(1, channels, 5, 5), leaf(2, channels, 3, 3)),
        )
        yield (
            f"sized turned {channels}",
            partial(F.conv_transpose2d, stride=2),
            (
                leaf(1, channels, 4, 4),
                leaf(channels, 2, 2, 2),
            ),
        )


@made(FIFTH)
def by_switch() -> Iterator[Call]:
    q, image, x = leaf(2, 2, 6, 16), leaf(2, 4, 6, 6), leaf(5, 6)
    i = torch.tensor([0, 3, 3, 5, 1])
    for name in ("FLASH_ATTENTION", "EFFICIENT_ATTENTION", "MATH"):
        yield f"switched attention {name.lower()}", partial(_one_backend, name), (q,)
    yield "switched cudnn off", _without_cudnn, (image, leaf(3, 4, 3, 3))
    yield "switched cudnn off norm", _norm_without_cudnn, (image,)
    yield "switched cudnn off dilated", partial(_without_cudnn, dilation=2), (image, leaf(3, 4, 2, 2))
    yield "switched benchmark", _benchmarked, (image, leaf(3, 4, 3, 3))
    yield "switched precision", _coarse, (x, leaf(6, 3))
    yield "switched checks off", _unchecked, (x, i)
    yield "switched to double", lambda x: x.double().cumsum(0).float(), (x,)
    yield "switched autocast convolution", _cast, (image, leaf(3, 4, 3, 3))
    yield "switched autocast attention", _cast_attention, (q,)
    yield "switched inference", _inference, (x.detach(), i)
    yield "switched no gradient", _no_gradient, (x, i)
    yield "switched in anomaly", _anomaly, (x, i)
    yield "switched saved", _saved, (x, i)


def _one_backend(name: str, q: torch.Tensor) -> torch.Tensor:
    with nn.attention.sdpa_kernel([getattr(nn.attention.SDPBackend, name), nn.attention.SDPBackend.MATH]):
        return F.scaled_dot_product_attention(q, q, q, is_causal=True)


def _without_cudnn(x: torch.Tensor, w: torch.Tensor, **options: Any) -> torch.Tensor:
    with torch.backends.cudnn.flags(enabled=False):
        return F.conv2d(x, w, **options)


def _norm_without_cudnn(x: torch.Tensor) -> torch.Tensor:
    with torch.backends.cudnn.flags(enabled=False):
        return F.batch_norm(x, None, None, training=True)


def _benchmarked(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    with torch.backends.cudnn.flags(enabled=True, benchmark=True):
        return F.conv2d(x, w)


def _coarse(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("medium")
    try:
        return x @ w
    finally:
        torch.set_float32_matmul_precision(before)


def _unchecked(x: torch.Tensor, i: torch.Tensor) -> Any:
    return torch.distributions.Categorical(logits=x, validate_args=False).log_prob(i)


def _cast(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    with torch.autocast(x.device.type, dtype=torch.bfloat16):
        return F.conv2d(x, w).float().softmax(1)


def _cast_attention(q: torch.Tensor) -> torch.Tensor:
    with torch.autocast(q.device.type, dtype=torch.bfloat16):
        return F.scaled_dot_product_attention(q, q, q)


def _inference(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
    with torch.inference_mode():
        return x.index_add(0, i % 5, x).cumsum(0)


def _no_gradient(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        return x.scatter_add(0, (i % 5)[:, None].expand(5, 6), x)


def _anomaly(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
    with torch.autograd.set_detect_anomaly(True, check_nan=False):
        return x[:, i].exp()


def _saved(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
    with torch.autograd.graph.save_on_cpu():
        return x.index_select(1, i).tanh() * 2


@made(FIFTH)
def by_gradient() -> Iterator[Call]:
    x, i, w = leaf(5, 4), torch.tensor([4, 0, 4]), leaf(3, 4)
    wide = i[:, None].expand(3, 4)
    image, grid = leaf(1, 2, 5, 5), leaf(1, 3, 3, 2)
    for name, call in {
        "add": lambda x, i, w: x.index_add(0, i, w),
        "copy": lambda x, i, w: x.index_copy(0, i, w),
        "put": lambda x, i, w: x.index_put((i,), w),
        "amax": lambda x, i, w: x.index_reduce(0, i, w, "amax"),
    }.items():
        yield f"onto frozen {name}", call, (x.detach(), i, w)
        yield f"from frozen {name}", call, (x, i, w.detach())
    for name, turn in {
        "add": lambda x, i, w: x.scatter_add(0, i, w),
        "set": lambda x, i, w: x.scatter(0, i, w),
        "mean": lambda x, i, w: x.scatter_reduce(0, i, w, "mean"),
    }.items():
        yield f"onto frozen scatter {name}", turn, (x.detach(), wide, w)
        yield f"from frozen scatter {name}", turn, (x, wide, w.detach())
    sample = partial(F.grid_sample, mode="bilinear", padding_mode="border", align_corners=False)
    yield "from frozen image", sample, (image.detach(), grid)
    yield "onto frozen grid", sample, (image, grid.detach())
    yield "from frozen cdist", torch.cdist, (x, w.detach())
    yield "from frozen product", torch.mm, (x, leaf(4, 2).detach())
    yield "from frozen weight", F.embedding, (i, leaf(5, 4).detach())
    yield "from frozen bag", F.embedding_bag, (i[None], w.detach()[:5].repeat(2, 1))
    yield "from frozen bilinear", F.bilinear, (x, x.detach(), leaf(2, 4, 4).detach())
    yield "from frozen norm", lambda x, w: F.layer_norm(x, (4,), w[0], w[1].detach()), (x.detach(), w)
    yield "from leaves twice", lambda x, i, w: x[i] * w + x.index_select(0, i), (x, i, w)


@made(FIFTH)
def by_way() -> Iterator[Call]:
    x, image, volume = leaf(4, 6), leaf(2, 3, 6, 6), leaf(1, 2, 4, 4, 4)
    i = torch.tensor([0, 2, 2, 1])
    yield "way method sum", lambda x, i: x.new_zeros(3, 6).index_add_(0, i, x), (x, i)
    yield "way function sum", lambda x, i: torch.index_add(x.new_zeros(3, 6), 0, i, x), (x, i)
    yield "way item sum", _item_sum, (x, i)
    yield "way product sum", lambda x, i: F.one_hot(i, 3).to(x.dtype).t() @ x, (x, i)
    yield "way segment sum", lambda x, i: torch.segment_reduce(x, "sum", lengths=torch.bincount(i, minlength=3)), (x, i)
    yield "way sparse sum", lambda x, i: torch.sparse_coo_tensor(i[None], x, (3, 6)).to_dense(), (x, i)
    yield "way module pad", nn.ReplicationPad2d(1), (image,)
    yield "way module reflect", nn.ReflectionPad2d((1, 0, 2, 1)), (image,)
    yield "way module upsample", nn.Upsample(size=(9, 5), mode="bicubic"), (image,)
    yield "way module volume", nn.Upsample(scale_factor=2, mode="trilinear", align_corners=True), (volume,)
    yield "way module pool", nn.MaxPool2d(3, 1, return_indices=True), (image,)
    yield "way module pool volume", nn.MaxPool3d(2, 1, return_indices=True), (volume,)
    yield "way sparse rows", lambda w, i: F.embedding(i, w, sparse=True), (leaf(4, 3), i)
    yield "way sparse bag", lambda w, i: F.embedding_bag(i[None], w, mode="sum", sparse=True), (leaf(4, 3), i)
    yield "way bincount mean", lambda x, i: torch.bincount(i, x[:, 0].detach()), (x, i)
    yield "way cumulative by product", lambda x: torch.ones(4, 4, device=x.device).tril() @ x, (x,)
    yield "way median by sort", lambda x: x.sort(0).values[2], (x,)
    yield "way top by sort", lambda x: x.argsort(1, descending=True)[:, :2], (x.detach(),)
    yield "way loss by gather", lambda x, i: x.log_softmax(1).gather(1, i[:, None]).mean(), (x, i)
    yield "way loss by take", lambda x, i: torch.take_along_dim(x.log_softmax(1), i[:, None], 1).mean(), (x, i)
    yield "way loss by rows", lambda x, i: x.log_softmax(1)[torch.arange(4, device=x.device), i].mean(), (x, i)
    yield "way loss by hot", lambda x, i: (x.log_softmax(1) * F.one_hot(i, 6)).sum(1).mean(), (x, i)
    yield "way loss pixels each", lambda x: F.cross_entropy(x, x.detach().argmax(1), reduction="none"), (image,)
    yield (
        "way loss pixels flat",
        lambda x: F.cross_entropy(x.movedim(1, -1).flatten(0, 2), x.detach().argmax(1).flatten()),
        (image,),
    )


def _item_sum(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
    out = x.new_zeros(3, 6)
    for row, place in enumerate((0, 2, 2, 1)):
        out = out + F.pad(x[row : row + 1], (0, 0, place, 2 - place))
    return out


@made(SIXTH)
def switches() -> Iterator[Call]:
    """Deterministic mode left for a call, as one does around an op that it refuses, and other switches of a step."""
    x, image = leaf(6, 4), leaf(2, 3, 6, 6)
    yield "switch left for a sum", lambda x: _left(lambda y: y.cumsum(0), x), (x,)
    yield "switch left for a pool", lambda x: _left(nn.AdaptiveAvgPool2d(2), x), (image,)
    yield "switch without cudnn", _layer_without_cudnn, (image,)
    yield (
        "switch without gradients",
        torch.no_grad()(lambda x: F.interpolate(x, scale_factor=2, mode="bilinear")),
        (image,),
    )
    yield "switch for inference", torch.inference_mode()(lambda x: x.cumsum(0)), (x.detach(),)
    yield "switch precision", _precise, (x,)


def _left(function: Callable[[torch.Tensor], Any], x: torch.Tensor) -> Any:
    on, warns = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    torch.use_deterministic_algorithms(False)
    try:
        return function(x)
    finally:
        torch.use_deterministic_algorithms(on, warn_only=warns)


def _layer_without_cudnn(image: torch.Tensor) -> Any:
    with torch.backends.cudnn.flags(enabled=False):
        return nn.Conv2d(3, 4, 3).to(image.device)(image)


def _precise(x: torch.Tensor) -> Any:
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    try:
        return x @ x.t()
    finally:
        torch.set_float32_matmul_precision(before)
