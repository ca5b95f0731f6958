"""Reading and writing by place: below the public API, in place, into given results, in seldom dtypes and layouts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F

from benchmarks.evidence.calls.layers import leaf

_Made = tuple[str, Callable[..., Any], tuple[Any, ...]]
_ATEN = torch.ops.aten


def made() -> Iterator[_Made]:
    """Each call's name, function and tensors."""
    yield from _below()
    yield from _in_place()
    yield from _into()
    yield from _dtypes()
    yield from _layouts()
    yield from _numbers()
    yield from _lists()
    yield from _twice()


def _below() -> Iterator[_Made]:
    x, i, rows = leaf(5, 4), torch.tensor([0, 2, 2, 4]), leaf(4, 4)
    wide = i[:, None].expand(4, 4)
    yield "below index", lambda x, i: _ATEN.index.Tensor(x, [None, i % 4]), (x, i)
    yield "below index both", lambda x, i: _ATEN.index.Tensor(x, [i, i % 4]), (x, i)
    yield "below unsafe index", lambda x, i: _ATEN._unsafe_index.Tensor(x, [i, None]), (x, i)
    yield "below index put", lambda x, i, r: _ATEN.index_put.default(x, [i], r), (x, i, rows)
    yield "below index put summed", lambda x, i, r: _ATEN.index_put.default(x, [i], r, True), (x, i, rows)
    yield "below unsafe index put", lambda x, i, r: _ATEN._unsafe_index_put(x, [i], r, True), (x, i, rows)
    yield (
        "below index put impl",
        lambda x, i, r: _ATEN._index_put_impl_(x.clone(), [i], r, True, True),
        (x.detach(), i, rows.detach()),
    )
    yield "below scatter add", lambda x, i, r: _ATEN.scatter_add.default(x, 0, i, r), (x, wide, rows)
    yield "below scatter src", lambda x, i, r: _ATEN.scatter.src(x, 0, i, r), (x, wide, rows)
    yield "below scatter value reduce", lambda x, i: _ATEN.scatter.value_reduce(x, 0, i, 2.0, reduce="add"), (x, wide)
    yield "below scatter multiply", lambda x, i: x.detach().scatter(0, i, 3.0, reduce="multiply"), (x, wide)
    yield "below gather backward", lambda g, x, i: _ATEN.gather_backward(g, x, 0, i, False), (rows.detach(), x, wide)
    yield "below take", lambda x, i: _ATEN.take(x, i * 3), (x, i)
    yield "below select backward", lambda g: _ATEN.select_backward(g, [5, 4], 0, 3), (leaf(4),)
    yield "below slice backward", lambda g: _ATEN.slice_backward(g, [9, 4], 0, 1, 9, 2), (leaf(4, 4),)
    yield "below diagonal backward", lambda g: _ATEN.diagonal_backward(g, [4, 4], 0, 0, 1), (leaf(4),)
    yield "below index select backward", lambda g, i: _ATEN.index_select_backward(g, [5, 4], 0, i), (rows.detach(), i)
    yield "below embedding backward", _embedding_backward, (rows.detach(), i)
    yield "below embedding dense backward", _embedding_dense_backward, (rows.detach(), i)
    yield "below embedding by frequency", partial(_embedding_dense_backward, scale=True), (rows.detach(), i)
    yield "below masked scatter backward", _masked_scatter_backward, (rows.detach(),)
    yield "below value selecting", _value_selecting, (leaf(4).detach(), i)
    yield "below unfold backward", lambda g: _ATEN.unfold_backward(g, [9], 0, 3, 1), (leaf(7, 3).detach(),)
    yield "below as strided", lambda x: _ATEN.as_strided(x, [3, 3], [1, 2], 1), (leaf(12),)
    yield "below as strided scatter", lambda x, s: torch.as_strided_scatter(x, s, (2, 2), (1, 2)), (leaf(9), leaf(2, 2))
    yield "below slice scatter", lambda x, s: torch.slice_scatter(x, s, 0, 1, 5, 2), (x, leaf(2, 4))
    yield "below select scatter", lambda x, s: torch.select_scatter(x, s, 1, 2), (x, leaf(5))
    yield "below diagonal scatter", lambda x, s: torch.diagonal_scatter(x, s, 1), (leaf(4, 4), leaf(3))


def _embedding_backward(g: torch.Tensor, i: torch.Tensor) -> Any:
    return _ATEN.embedding_backward(g, i, 5, -1, False, False)


def _embedding_dense_backward(g: torch.Tensor, i: torch.Tensor, scale: bool = False) -> Any:
    return _ATEN.embedding_dense_backward(g, i, 5, 2, scale)


def _masked_scatter_backward(g: torch.Tensor) -> Any:
    return _ATEN.masked_scatter_backward(g, g > 0, [int(g.numel())])


def _value_selecting(g: torch.Tensor, i: torch.Tensor) -> Any:
    return _ATEN.value_selecting_reduction_backward(g, 1, i % 3, [4, 3], False)


def _in_place() -> Iterator[_Made]:
    x, i, rows = leaf(5, 4).detach(), torch.tensor([1, 1, 3]), leaf(3, 4).detach()
    wide = i[:, None].expand(3, 4)
    yield "in place add", lambda x, i, r: x.clone().index_add_(0, i, r, alpha=-2), (x, i, rows)
    yield "in place add learnt", lambda x, i, r: (x * 1).index_add_(0, i, r), (x, i, leaf(3, 4))
    yield "in place copy", lambda x, i, r: x.clone().index_copy_(0, i, r), (x, i, rows)
    yield "in place copy learnt", lambda x, i, r: (x * 1).index_copy_(0, i, r), (leaf(5, 4), i, leaf(3, 4))
    yield "in place fill", lambda x, i: x.clone().index_fill_(1, i, 0.5), (x, i)
    yield "in place put", lambda x, i: x.clone().put_(i, x[0, :3]), (x, i)
    yield "in place put summed", lambda x, i: x.clone().put_(i, x[0, :3], accumulate=True), (x, i)
    yield "in place index reduce", lambda x, i, r: x.clone().index_reduce_(0, i, r, "amax"), (x, i, rows)
    yield "in place scatter add", lambda x, i, r: x.clone().scatter_add_(0, i, r), (x, wide, rows)
    yield "in place scatter", lambda x, i, r: x.clone().scatter_(0, i, r), (x, wide, rows)
    yield "in place scatter number", lambda x, i: x.clone().scatter_(0, i, 1.0), (x, wide)
    yield "in place scatter prod", lambda x, i, r: x.clone().scatter_reduce_(0, i, r, "prod"), (x, wide, rows)
    yield "in place masked fill", lambda x: x.clone().masked_fill_(x > 0, -1.0), (x,)
    yield "in place masked fill learnt", lambda x: (x * 1).masked_fill_(x > 0, -1.0), (leaf(5, 4),)
    yield "in place masked scatter", lambda x, r: x.clone().masked_scatter_(x > 0, r), (x, leaf(20).detach())
    yield "in place put mask", _put_mask, (x,)
    yield "in place fill diagonal", lambda x: x.clone().fill_diagonal_(2.0, wrap=True), (x,)
    yield "in place cumsum", lambda x: x.clone().cumsum_(1), (x,)
    yield "in place cumprod", lambda x: x.clone().cumprod_(0), (x,)
    yield "in place renorm", lambda x: x.clone().renorm_(2, 0, 0.5), (x,)
    yield "in place resize", lambda x: x.clone().resize_(7, 4), (x,)
    yield "in place resize smaller", lambda x: x.clone().resize_(2, 4), (x,)
    yield "in place resize as", lambda x: torch.ones(2, device=x.device).resize_as_(x), (x,)
    yield "in place set", lambda x: x.clone().set_(x.clone()), (x,)
    yield "in place bernoulli", lambda x: x.clone().bernoulli_(0.3), (x,)
    yield "in place uniform", lambda x: x.clone().uniform_(-1, 1), (x,)
    yield "in place addcmul", lambda x: x.clone().addcmul_(x, x, value=0.5), (x,)
    yield "in place addmm", lambda x, y: x.clone().addmm_(y, y.t().mm(x)[:, :4].contiguous()), (x, leaf(5, 5).detach())
    yield "in place swap", lambda x: x.clone().swapaxes_(0, 1), (x,)
    yield "in place where", _where, (x, i)
    yield "in place augmented", _augmented, (x, i)
    yield "in place augmented twice", _augmented, (leaf(6, 4).double().detach(), torch.tensor([[0, 5], [5, 0]]))


def _put_mask(x: torch.Tensor) -> torch.Tensor:
    out = x.clone()
    out[out > 0] = out[out > 0] * 2
    return out


def _where(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
    out = x.clone()
    out[torch.where(out < 0)] = 0
    return out


def _augmented(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
    out = x.clone()
    out[i] += 1
    out[:, 1:3] *= 2
    return out


def _into() -> Iterator[_Made]:
    x, i, rows = leaf(5, 4).detach(), torch.tensor([4, 0, 4]), leaf(3, 4).detach()

    def result(name: str) -> Callable[..., Any]:
        return lambda x, *others: getattr(torch, name)(x, *others, out=torch.empty(0, device=x.device, dtype=x.dtype))

    yield "into cumsum", result("cumsum"), (x, 0)
    yield "into cumprod", result("cumprod"), (x, 1)
    yield "into logcumsumexp", result("logcumsumexp"), (x, 1)
    yield "into gather", lambda x, i: torch.gather(x, 0, i[:, None], out=x.new_empty(0)), (x, i)
    yield "into index select", lambda x, i: torch.index_select(x, 0, i, out=x.new_empty(0)), (x, i)
    yield "into index add", lambda x, i, r: torch.index_add(x, 0, i, r, out=x.new_empty(0)), (x, i, rows)
    yield "into scatter add", _into_scatter, (x, i, rows)
    yield "into take", lambda x, i: torch.take(x, i, out=x.new_empty(0)), (x, i)
    yield "into mm", result("mm"), (x, leaf(4, 3).detach())
    yield "into bmm", result("bmm"), (leaf(2, 3, 4).detach(), leaf(2, 4, 3).detach())
    yield "into dot", result("dot"), (leaf(5).detach(), leaf(5).detach())
    yield "into histc", lambda x: torch.histc(x, 7, -1, 1, out=x.new_empty(0)), (x,)
    yield "into sort", lambda x: torch.sort(x, 0, out=(x.new_empty(0), i.new_empty(0).to(x.device))), (x,)
    yield "into kthvalue", lambda x: torch.kthvalue(x, 2, 0, out=(x.new_empty(0), i.new_empty(0).to(x.device))), (x,)
    yield "into median", lambda x: torch.median(x, 0, out=(x.new_empty(0), i.new_empty(0).to(x.device))), (x,)
    yield "into nonzero", lambda x: torch.nonzero(x > 0, out=torch.empty(0, dtype=torch.int64, device=x.device)), (x,)


def _into_scatter(x: torch.Tensor, i: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    return torch.scatter_add(x, 0, i[:, None].expand(3, 4), rows, out=torch.empty_like(x))


def _dtypes() -> Iterator[_Made]:
    i = torch.tensor([0, 3, 3, 1])
    wide = i[:, None].expand(4, 3)
    kinds = (torch.float64, torch.float16, torch.complex128, torch.int8, torch.uint8, torch.int16, torch.bool)
    for kind in kinds:
        word = str(kind).removeprefix("torch.")
        x, rows = torch.randn(4, 3).mul(3).to(kind), torch.randn(4, 3).mul(3).to(kind)
        if kind.is_floating_point or kind.is_complex:
            x, rows = x.requires_grad_(), rows.requires_grad_()
        yield f"typed take {word}", lambda x, i: x[i], (x, i)
        yield f"typed put {word}", lambda x, i, r: x.index_put((i,), r), (x, i, rows)
        yield f"typed put summed {word}", lambda x, i, r: x.index_put((i,), r, accumulate=True), (x, i, rows)
        yield f"typed scatter {word}", lambda x, i, r: x.scatter(0, i, r), (x, wide, rows)
        yield f"typed gather {word}", lambda x, i: x.gather(0, i), (x, wide)
        yield f"typed repeat {word}", lambda x: x.repeat_interleave(2, 1), (x,)
        yield f"typed unique {word}", lambda x: torch.unique(x.real if x.is_complex() else x), (x.detach(),)
        if kind is not torch.bool:
            yield f"typed add {word}", lambda x, i, r: x.index_add(0, i, r), (x, i, rows)
            yield f"typed scatter add {word}", lambda x, i, r: x.scatter_add(0, i, r), (x, wide, rows)
            yield f"typed cumsum {word}", lambda x: x.cumsum(0), (x,)
            yield f"typed diff {word}", lambda x: x.diff(dim=0), (x,)
        if not (kind.is_complex or kind is torch.bool):
            yield f"typed reduce {word}", lambda x, i, r: x.scatter_reduce(0, i, r, "amin"), (x, wide, rows)
            yield f"typed top {word}", lambda x: x.topk(2, 0), (x,)
            yield f"typed middle {word}", lambda x: x.median(0), (x,)


def _layouts() -> Iterator[_Made]:
    i = torch.tensor([2, 0, 2])
    turned, image = leaf(4, 5), leaf(2, 3, 4, 4)
    yield "laid turned take", lambda x, i: x.t()[i], (turned, i)
    yield "laid turned add", lambda x, i, r: x.t().index_add(0, i, r.t()), (turned, i, leaf(4, 3))
    yield (
        "laid turned scatter",
        lambda x, i, r: x.t().scatter_add(0, i[:, None].expand(3, 4), r),
        (turned, i, leaf(3, 4)),
    )
    yield "laid turned cumsum", lambda x: x.t().cumsum(0), (turned,)
    yield "laid last take", lambda x, i: x.contiguous(memory_format=torch.channels_last)[:, i], (image, i)
    yield "laid last put", _last_put, (image, i)
    yield "laid stepped", lambda x, i: x[::2, 1::2][:, i % 2], (turned, i)
    yield "laid expanded put", lambda x, i, r: x.index_put((i,), r.expand(3, 5), accumulate=True), (turned, i, leaf(1))
    yield "laid conjugate take", lambda x, i: x.conj()[i], (leaf(4, 2, dtype=torch.complex64), i)
    yield "laid imaginary", lambda x, i: x.imag[i], (leaf(4, dtype=torch.complex64), i)
    yield "laid windows", lambda x, i: x.unfold(1, 3, 1)[:, i], (turned, i)
    yield "laid flipped", lambda x, i: x.flip(0)[i], (turned, i)
    yield "laid in blocks", lambda x: torch.block_diag(x, x[:2]), (turned,)
    yield "laid side by side", lambda x: torch.cat([x, x.detach(), x[:, :2]], 1).split([3, 4, 5], 1), (turned,)
    yield "laid tiled", lambda x: x.tile(2, 3)[:, ::4], (turned,)
    yield "laid combinations", lambda x: torch.combinations(x[0], 2), (turned,)
    yield "laid product of sets", lambda x: torch.cartesian_prod(x[0], x[1]), (turned,)
    yield "laid triangle", lambda x: x[torch.tril_indices(4, 4).unbind()], (turned,)
    yield "laid triangle written", _triangle, (leaf(10),)


def _last_put(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
    return x.contiguous(memory_format=torch.channels_last).index_add(1, i, x[:, :3])


def _triangle(x: torch.Tensor) -> torch.Tensor:
    rows, columns = torch.tril_indices(4, 4, device=x.device)
    out = x.new_zeros(4, 4)
    out[rows, columns] = x
    return out


def _numbers() -> Iterator[_Made]:
    """Tensors without a dimension, with one element, without any."""
    x, i = leaf(), torch.tensor(0)
    empty, none = leaf(0, 3), torch.tensor([], dtype=torch.int64)
    yield "lone take", lambda x, i: x.reshape(1)[i], (x, i)
    yield "lone index select", lambda x, i: x.index_select(0, i.reshape(1)), (x, i)
    yield "lone gather", lambda x, i: x.gather(0, i), (x, i)
    yield "lone scatter", lambda x, i: x.scatter(0, i, 2.0), (x, i)
    yield "lone cumsum", lambda x: x.cumsum(0), (x,)
    yield "lone sort", lambda x: x.sort(0), (x,)
    yield "lone topk", lambda x: x.topk(1, 0), (x,)
    yield "lone kth", lambda x: x.kthvalue(1, 0), (x,)
    yield "lone median", lambda x: x.median(), (x,)
    yield "lone masked", lambda x: x[x < 99], (x,)
    yield "lone put", lambda x, i: x.reshape(1).index_put((i,), x, accumulate=True), (x, i)
    yield "void take", lambda x, i: x[i], (empty, none)
    yield "void add", lambda x, i, r: x.index_add(0, i, r), (leaf(4, 3), none, empty)
    yield "void scatter", lambda x, r: x.scatter_add(0, r.detach().long(), r), (leaf(4, 3), empty)
    yield "void put", lambda x, i, r: x.index_put((i,), r, accumulate=True), (leaf(4, 3), none, empty)
    yield "void embedding", lambda w, i: F.embedding(i, w), (leaf(4, 3), none)
    yield "void cumsum", lambda x: x.cumsum(0), (empty,)
    yield "void bins", lambda i: torch.bincount(i, minlength=3), (none,)
    yield "void masked", lambda x: x[x > 99].sum(), (leaf(4, 3),)
    yield "void reduced", lambda x, i, r: x.index_reduce(0, i, r, "mean"), (leaf(4, 3), none, empty)


def _lists() -> Iterator[_Made]:
    pair = (leaf(3, 2).detach(), leaf(4).detach())
    for name in ("sqrt", "exp", "neg", "sign", "reciprocal", "lgamma", "frac"):
        yield f"listed {name}", lambda *xs, name=name: getattr(torch, f"_foreach_{name}")([x.abs() for x in xs]), pair
    yield "listed add", lambda *xs: torch._foreach_add(list(xs), list(xs), alpha=2), pair
    yield "listed lerp", lambda *xs: torch._foreach_lerp(list(xs), list(xs), 0.3), pair
    yield "listed norm", lambda *xs: torch._foreach_norm(list(xs), 1), pair
    yield "listed max", lambda *xs: torch._foreach_max(list(xs)), pair
    yield "listed addcdiv", lambda *xs: torch._foreach_addcdiv(list(xs), list(xs), list(xs), 2.0), pair
    yield "listed zero", lambda *xs: torch._foreach_zero_([x.clone() for x in xs]), pair
    yield "listed copy", lambda *xs: torch._foreach_copy_([x.clone() for x in xs], list(xs)), pair
    yield "listed clip", _clipped, pair
    yield "listed unscale", _unscaled, pair


def _clipped(*xs: torch.Tensor) -> Any:
    held = [torch.nn.Parameter(x.clone()) for x in xs]
    for one in held:
        one.grad = one.detach() * 5
    return torch.nn.utils.clip_grad_norm_(held, 1.0, norm_type=3.0), torch.nn.utils.parameters_to_vector(held)


def _unscaled(*xs: torch.Tensor) -> Any:
    found, scale = torch.zeros(1, device=xs[0].device), torch.full((1,), 0.5, device=xs[0].device)
    torch._amp_foreach_non_finite_check_and_unscale_([x.clone() for x in xs], found, scale)
    return found


def _twice() -> Iterator[_Made]:
    """Gradients of gradients."""

    def penalty(inner: Callable[..., Any]) -> Callable[..., Any]:
        def call(x: torch.Tensor, *others: Any) -> torch.Tensor:
            (slope,) = torch.autograd.grad(inner(x, *others).pow(2).sum(), x, create_graph=True)
            return slope.square().sum()

        return call

    x, i = leaf(4, 3), torch.tensor([3, 1, 3])
    wide = i[:, None].expand(3, 3)
    yield "twice take", penalty(lambda x, i: x[i]), (x, i)
    yield "twice select", penalty(lambda x, i: x.index_select(0, i)), (x, i)
    yield "twice scatter", penalty(lambda x, i: x.scatter(0, i, x[:3] * 2)), (x, wide)
    yield "twice scatter add", penalty(lambda x, i: x.scatter_add(0, i, x[:3])), (x, wide)
    yield "twice embedding", penalty(lambda w, i: F.embedding(i, w)), (x, i)
    yield "twice cumprod", penalty(lambda x: x.cumprod(0)), (x,)
    yield "twice logs", penalty(lambda x: x.logcumsumexp(0)), (x,)
    yield "twice max", penalty(lambda x: x.max(0).values), (x,)
    yield "twice sort", penalty(lambda x: x.sort(0).values), (x,)
    yield "twice median", penalty(lambda x: x.median(1).values), (x,)
    yield "twice masked", penalty(lambda x: x[x > 0]), (x,)
    yield "twice max pool", penalty(lambda x: F.max_pool2d(x, 2, 1)), (leaf(1, 2, 4, 4),)
    yield "twice avg pool", penalty(lambda x: F.avg_pool3d(x, 2, 1)), (leaf(1, 1, 3, 3, 3),)
    yield "twice adaptive pool", penalty(lambda x: F.adaptive_avg_pool2d(x, 3)), (leaf(1, 2, 5, 5),)
    yield "twice resized", penalty(lambda x: F.interpolate(x, scale_factor=2, mode="bicubic")), (leaf(1, 1, 4, 4),)
    yield "twice padded", penalty(lambda x: F.pad(x, (1, 2), mode="replicate")), (leaf(2, 2, 5),)
    yield "twice normed", penalty(lambda x: F.layer_norm(x, (3,))), (x,)
    yield "twice cdist", penalty(lambda x: torch.cdist(x, x[:2] + 1, p=2)), (x,)
    yield "twice nll", penalty(lambda x, i: F.cross_entropy(x[:3], i % 3)), (x, i)
