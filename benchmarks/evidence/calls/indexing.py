"""Reading and writing by index: gathers, scatters, in place, below the public API, in seldom dtypes and layouts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch.utils import deterministic

from benchmarks.evidence.calls.making import KINDS, Call, leaf, made, of_kind
from benchmarks.evidence.made import FIRST, FOURTH, SECOND, SIXTH, THIRD

_ATEN = torch.ops.aten


def _along(function: Callable[..., Any], dim: int, **options: Any) -> Callable[..., Any]:
    """``function`` along a dimension, which these take behind the first tensor."""

    def call(x: torch.Tensor, *rest: torch.Tensor) -> Any:
        return function(x, dim, *rest, **options)

    return call


@made(FIRST)
def scattered() -> Iterator[Call]:
    index = torch.randint(0, 4, (5, 6))
    for dtype in (torch.float32, torch.int32, torch.bfloat16, torch.bool):
        base, source = torch.zeros(4, 6).to(dtype), torch.ones(5, 6).to(dtype)
        yield "scatter_add_", _scatter_add, (base, index, source)
        yield "scatter", _along(torch.scatter, 0), (base, index, source)
        for reduce in ("sum", "prod", "mean", "amin"):
            if dtype is not torch.bool:
                yield f"scatter_reduce {reduce}", partial(_scatter_reduce, reduce=reduce), (base, index, source)
    base = leaf(4, 6)
    yield (
        "scatter_reduce sum gradient",
        partial(_scatter_reduce, reduce="sum", include_self=False),
        (base, index, leaf(5, 6)),
    )
    yield "scatter_reduce amax gradient", partial(_scatter_reduce, reduce="amax"), (leaf(4, 6), index, leaf(5, 6))
    yield "scatter value", _along(torch.scatter, 1, value=2.0), (leaf(5, 6), index)
    yield "scatter of rows", _along(torch.scatter_add, 1), (leaf(5, 4), torch.randint(0, 4, (5, 1)), leaf(5, 1))
    yield "gather", _along(torch.gather, 1), (leaf(5, 6), index)
    yield "gather sparse gradient", _along(torch.gather, 1, sparse_grad=True), (leaf(5, 6), index)
    yield "take_along_dim", partial(torch.take_along_dim, dim=1), (leaf(5, 6), index)


def _scatter_add(base: torch.Tensor, index: torch.Tensor, source: torch.Tensor) -> torch.Tensor:
    return base.scatter_add_(0, index, source)


def _scatter_reduce(
    base: torch.Tensor, index: torch.Tensor, source: torch.Tensor, reduce: str, include_self: bool = True
) -> torch.Tensor:
    return base.scatter_reduce(0, index, source, reduce, include_self=include_self)


@made(FIRST)
def indexed() -> Iterator[Call]:
    rows = torch.randint(0, 5, (9,))
    for dtype in (torch.float32, torch.int64, torch.float64):
        base, source = torch.zeros(5, 3).to(dtype), torch.ones(9, 3).to(dtype)
        yield "index_add_", _index_add, (base, rows, source)
        yield "index_add scaled", partial(_index_add, alpha=2), (base, rows, source)
        yield "index_copy_", _index_copy, (base, rows, source)
        yield "index_put rows", _put_rows, (base, rows, source)
        yield "index_put add", partial(_put_rows, accumulate=True), (base, rows, source)
        for reduce in ("prod", "mean", "amax"):
            yield f"index_reduce {reduce}", partial(_index_reduce, reduce=reduce), (base, rows, source)
        yield "put_", partial(_put, accumulate=False), (base, rows, source[:, 0])
        yield "put_ add", partial(_put, accumulate=True), (base, rows, source[:, 0])
    yield "index_fill", _index_fill, (leaf(5, 3), rows)
    yield "index rows gradient", _take_rows, (leaf(5, 3), rows)
    yield "index pairs gradient", _take_pairs, (leaf(5, 3), rows, rows % 3)
    yield "index_select gradient", _along(torch.index_select, 0), (leaf(5, 3), rows)
    yield "take gradient", torch.take, (leaf(5, 3), rows)
    yield "masked_select gradient", torch.masked_select, (leaf(5, 3), torch.rand(5, 3) > 0.4)
    yield "masked_scatter", torch.masked_scatter, (leaf(5, 3), torch.rand(5, 3) > 0.4, leaf(5, 3))
    yield (
        "repeat_interleave gradient",
        partial(torch.repeat_interleave, dim=0),
        (leaf(4, 3), torch.tensor([1, 2, 0, 3])),
    )
    yield "unfold gradient", _windows, (leaf(12),)
    yield "expand gradient", _expanded, (leaf(1, 3),)
    yield "as_strided gradient", partial(torch.as_strided, size=(4, 3), stride=(1, 1)), (leaf(8),)


def _index_add(base: torch.Tensor, rows: torch.Tensor, source: torch.Tensor, alpha: int = 1) -> torch.Tensor:
    return base.index_add_(0, rows, source, alpha=alpha)


def _index_copy(base: torch.Tensor, rows: torch.Tensor, source: torch.Tensor) -> torch.Tensor:
    return base.index_copy_(0, rows, source)


def _index_reduce(base: torch.Tensor, rows: torch.Tensor, source: torch.Tensor, reduce: str) -> torch.Tensor:
    return base.index_reduce_(0, rows, source, reduce)


def _index_fill(base: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    return base.index_fill(0, rows, -1.0)


def _put_rows(base: torch.Tensor, rows: torch.Tensor, source: torch.Tensor, accumulate: bool = False) -> torch.Tensor:
    return base.index_put_((rows,), source, accumulate=accumulate)


def _put(base: torch.Tensor, places: torch.Tensor, source: torch.Tensor, accumulate: bool) -> torch.Tensor:
    return base.put_(places, source, accumulate=accumulate)


def _take_rows(x: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    return x[rows]


def _take_pairs(x: torch.Tensor, rows: torch.Tensor, columns: torch.Tensor) -> torch.Tensor:
    return x[rows, columns]


def _windows(x: torch.Tensor) -> torch.Tensor:
    return x.unfold(0, 4, 1)


def _expanded(x: torch.Tensor) -> torch.Tensor:
    return x.expand(7, 3) * 2


@made(FIRST)
def small() -> Iterator[Call]:
    zero = torch.tensor(0)
    yield "0-d gather", _along(torch.gather, 0), (leaf(), zero)
    yield "0-d index_select", _along(torch.index_select, 0), (leaf(), zero)
    yield "0-d index_add", _index_add, (torch.tensor(1.0), zero, torch.tensor(2.0))
    yield "0-d index_copy", _index_copy, (torch.tensor(1.0), zero, torch.tensor(2.0))
    yield "0-d scatter_add", _along(torch.scatter_add, 0), (torch.tensor(1.0), zero, torch.tensor(2.0))
    yield "0-d max dim", partial(torch.max, dim=0), (leaf(),)
    yield "0-d median dim", partial(torch.median, dim=0), (leaf(),)
    yield "0-d cumsum", partial(torch.cumsum, dim=0), (leaf(),)
    yield "0-d sort", partial(torch.sort, dim=0), (leaf(),)
    yield "0-d take", torch.take, (leaf(3), zero)
    yield "empty index_add", _index_add, (torch.zeros(3, 2), torch.zeros(0, dtype=torch.int64), torch.zeros(0, 2))
    yield "empty cumsum", partial(torch.cumsum, dim=0), (torch.zeros(0),)
    yield "empty median", partial(torch.median, dim=1), (torch.zeros(0, 3),)
    yield "one index", _put_rows, (torch.zeros(5, 3), torch.tensor([2]), torch.ones(1, 3))
    yield "resize_", _resize, (torch.zeros(4),)


def _resize(x: torch.Tensor) -> torch.Tensor:
    return x.resize_(9).fill_(1.0)


@made(SECOND)
def read() -> Iterator[Call]:
    x, rows = leaf(6, 4), torch.tensor([0, 5, 5, 2])
    yield "read x[i]", _at, (x, rows)
    yield "read x[:, i]", lambda x, i: x[:, i % 4], (x, rows)
    yield "read x[i, :, j]", lambda x, i: x[i, :, i % 3], (leaf(6, 2, 3), rows)
    yield "read x[mask]", lambda x: x[torch.ones(6, dtype=torch.bool, device=x.device)], (x,)
    yield "read x[2]", lambda x: x[2], (x,)
    yield "read x[::2]", lambda x: x[::2, 1:], (x,)
    yield "read x[list]", lambda x: x[[0, 0, 1]], (x,)
    yield "read gather", lambda x, i: x.gather(0, i[:, None].expand(4, 4)), (x, rows)
    yield "read gather dim1", lambda x, i: torch.gather(x, 1, (i % 4)[None].expand(6, 4)), (x, rows)
    yield "read take", torch.take, (x, rows)
    yield "read index_select columns", lambda x, i: x.index_select(1, i % 4), (x, rows)
    yield "read diagonal", lambda x: x.diagonal(1), (x,)
    yield "read narrow", lambda x: x.narrow(0, 1, 3), (x,)
    yield "read flip and roll", lambda x: x.flip(0).roll(1, 1), (x,)
    yield "read repeat", lambda x: x.repeat(2, 3), (x,)
    yield "read repeat_interleave", lambda x: x.repeat_interleave(3, dim=1), (x,)
    yield "read unfold", lambda x: x.unfold(0, 3, 2), (x,)
    yield "read tril_indices", lambda x: x[tuple(torch.tril_indices(4, 4, device=x.device))], (x,)
    yield "read without gradient", _at, (x.detach(), rows)
    yield "read complex", _at, (leaf(6, 2, dtype=torch.complex64), rows)


def _at(x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    return x[index]


@made(SECOND)
def written() -> Iterator[Call]:
    base, rows, source = torch.zeros(6, 3), torch.tensor([1, 1, 4]), torch.ones(3, 3)
    yield "written x[i] = v", _set, (base, rows, source)
    yield "written x[i] = v wanted", _set_copy, (leaf(6, 3), rows, leaf(3, 3))
    yield "written x[i] += v", _add_at, (base, rows, source)
    yield "written x[i] = 0", _set_zero, (base, rows)
    yield "written x[mask] = v", _set_mask, (leaf(6, 3),)
    yield "written x[0] = v", _set_first, (leaf(6, 3), leaf(3))
    yield "written index_put_ half", partial(_index_put, accumulate=True), (base.bfloat16(), rows, source.bfloat16())
    yield "written index_put_ whole", partial(_index_put, accumulate=True), (base.int(), rows, source.int())
    yield (
        "written index_put wanted",
        lambda x, i, v: x.index_put((i,), v, accumulate=True),
        (
            leaf(6, 3),
            rows,
            leaf(3, 3),
        ),
    )
    yield "written index_put two", lambda x, i: x.index_put_((i, i % 3), x.new_ones(3)), (base, rows)
    yield "written index_add", lambda x, i, v: x.index_add(0, i, v), (leaf(6, 3), rows, leaf(3, 3))
    yield "written index_add columns", lambda x, i, v: x.index_add_(1, i % 3, v), (base, rows, torch.ones(6, 3))
    yield "written index_add whole", lambda x, i, v: x.index_add_(0, i, v), (base.long(), rows, source.long())
    yield "written index_copy", lambda x, i, v: x.index_copy(0, i, v), (leaf(6, 3), rows, leaf(3, 3))
    yield "written index_reduce amin", lambda x, i, v: x.index_reduce(0, i, v, "amin"), (leaf(6, 3), rows, leaf(3, 3))
    yield "written index_reduce prod", lambda x, i, v: x.index_reduce(0, i, v, "prod"), (leaf(6, 3), rows, leaf(3, 3))
    yield (
        "written index_reduce mean alone",
        lambda x, i, v: x.index_reduce_(0, i, v, "mean", include_self=False),
        (
            base,
            rows,
            source,
        ),
    )
    yield "written index_fill", lambda x, i: x.index_fill_(1, i % 3, 2.0), (base, rows)
    yield "written put", lambda x, i, v: x.put(i, v), (leaf(6, 3), rows, leaf(3))
    yield "written put add", lambda x, i, v: x.put(i, v, accumulate=True), (leaf(6, 3), rows, leaf(3))
    yield "written masked_scatter_", lambda x, v: x.masked_scatter_(x > -9, v), (base, torch.ones(6, 3))
    yield "written select_scatter", lambda x, v: torch.select_scatter(x, v, 0, 2), (leaf(6, 3), leaf(3))
    yield "written slice_scatter", lambda x, v: torch.slice_scatter(x, v, 0, 1, 4), (leaf(6, 3), leaf(3, 3))
    yield "written diagonal_scatter", torch.diagonal_scatter, (leaf(3, 3), leaf(3))
    yield "written fill_diagonal_", lambda x: x.fill_diagonal_(3.0), (base,)
    yield "written where", lambda x: torch.where(x > 0, x, x * 2), (leaf(6, 3),)
    yield "written put_ flat order", lambda x, i: x.put_(i, x.new_tensor([1.0, 2.0, 3.0])), (base, rows)


def _set(x: torch.Tensor, index: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    x[index] = value
    return x


def _set_copy(x: torch.Tensor, index: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    return _set(x.clone(), index, value)


def _add_at(x: torch.Tensor, index: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    x[index] += value
    return x


def _set_zero(x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    x[index] = 0.0
    return x


def _set_mask(x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    y[y > 1] = 1.0
    return y


def _set_first(x: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    y[0] = value
    return y


def _index_put(x: torch.Tensor, index: torch.Tensor, value: torch.Tensor, accumulate: bool) -> torch.Tensor:
    return x.index_put_((index,), value, accumulate=accumulate)


@made(SECOND)
def scattered_second() -> Iterator[Call]:
    base, source, index = leaf(5, 3), leaf(4, 3), torch.tensor([[0, 1, 2]] * 4)
    flat, places = torch.zeros(7), torch.tensor([0, 3, 3, 6])
    yield "scattered 1d", lambda x, i: x.scatter_(0, i, x.new_ones(4)), (flat, places)
    yield "scattered add 1d", lambda x, i: x.scatter_add_(0, i, x.new_ones(4)), (flat, places)
    yield "scattered add 1d whole", lambda x, i: x.scatter_add_(0, i, x.new_ones(4)), (flat.long(), places)
    yield "scattered add wanted", lambda x, i, v: x.scatter_add(0, i, v), (base, index, source)
    yield "scattered add dim1", lambda x, i, v: x.scatter_add(1, i[:, :1].contiguous(), v), (base, index, leaf(4, 1))
    yield "scattered value", lambda x, i: x.scatter(0, i, 3.0), (base, index)
    yield "scattered one-hot", lambda x, i: x.scatter_(1, i, 1.0), (torch.zeros(4, 5), index[:, :1])
    yield (
        "scattered multiply",
        lambda x, i: x.scatter_(0, i, x.new_ones(4, 3), reduce="multiply"),
        (
            torch.ones(5, 3),
            index,
        ),
    )
    yield "scattered add by reduce", lambda x, i: x.scatter_(0, i, 2.0, reduce="add"), (torch.ones(5, 3), index)
    for reduce in ("sum", "mean", "prod", "amax", "amin"):
        spread = partial(_scatter_reduce_by_torch, reduce=reduce)
        yield f"scattered reduce {reduce} flat", spread, (flat, places, torch.ones(4))
        yield f"scattered reduce {reduce} wanted", spread, (base, index, source)
    yield (
        "scattered reduce half",
        partial(_scatter_reduce_by_torch, reduce="sum"),
        (
            flat.bfloat16(),
            places,
            torch.ones(4).bfloat16(),
        ),
    )
    yield "scattered graph mean", _graph_mean, (leaf(6, 4), torch.tensor([[0, 1, 2, 2], [1, 1, 0, 5]]))
    yield "scattered graph max", _graph_max, (leaf(6, 4), torch.tensor([[0, 1, 2, 2], [1, 1, 0, 5]]))
    yield (
        "scattered segment",
        lambda x, i: torch.segment_reduce(x, "sum", lengths=i),
        (leaf(6, 3), torch.tensor([2, 4])),
    )


def _scatter_reduce_by_torch(x: torch.Tensor, index: torch.Tensor, source: torch.Tensor, reduce: str) -> torch.Tensor:
    return torch.scatter_reduce(x, 0, index, source, reduce)


def _graph_mean(x: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
    summed = torch.zeros_like(x).index_add_(0, edges[1], x[edges[0]])
    degree = torch.zeros(x.shape[0], device=x.device).index_add_(0, edges[1], torch.ones(4, device=x.device))
    return summed / degree.clamp(min=1)[:, None]


def _graph_max(x: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
    places = edges[1][:, None].expand(-1, 4)
    return torch.zeros_like(x).scatter_reduce(0, places, x[edges[0]], "amax", include_self=False)


@made(THIRD)
def taken() -> Iterator[Call]:
    x, i = leaf(5, 4, 3), torch.tensor([2, 0, 2, 1])
    yield "taken two", lambda x, i: x[i, i.flip(0)], (x, i)
    yield "taken last", lambda x, i: x[..., i], (x, i)
    yield "taken apart", lambda x, i: x[i, :, i], (x, i)
    yield "taken new axis", lambda x, i: x[:, None, i], (x, i)
    yield "taken table", lambda x, i: x[i.view(2, 2)], (x, i)
    yield "taken chained", lambda x, i: x[i][:, i], (x, i)
    yield "taken one", lambda x, i: x[i[:1]], (x, i)
    yield "taken by number", lambda x, i: x[i[0]], (x, i)
    yield "taken by range", lambda x, i: x[torch.arange(4, device=x.device), i], (x, i)
    yield "taken int32", lambda x, i: x[i.int()], (x, i)
    yield "taken half", lambda x, i: x[i], (leaf(5, 4, dtype=torch.float16), i)
    yield "taken whole numbers", lambda x, i: x[i], (torch.arange(12).view(6, 2), i)
    yield "taken none", lambda x, i: x[i[:0]], (x, i)
    yield "taken mapped", torch.vmap(torch.Tensor.__getitem__), (leaf(4, 3), i)
    yield "taken along", lambda x, i: torch.take_along_dim(x, i.view(1, 4, 1), 1), (x, i)
    yield "taken along flat", torch.take_along_dim, (x, i)
    yield "taken gather", lambda x, i: x.gather(2, i.view(1, 4, 1).expand(5, 4, 2)), (x, i)
    yield "taken gather part", lambda x, i: x.gather(0, i.view(2, 2, 1)), (x, i)
    yield "taken gather sparse", lambda x, i: x.gather(0, i[:, None].expand(4, 3), sparse_grad=True), (leaf(4, 3), i)
    yield "taken gather 0-d", lambda x, i: x.gather(0, i[1]), (leaf(), i)
    yield "taken gather frozen", lambda x, i: x.gather(1, i.view(1, 4, 1)), (x.detach(), i)
    yield "taken select", lambda x, i: x.index_select(-1, i), (x, i)
    yield "taken select 0-d", lambda x, i: x.index_select(0, i[1:2]), (leaf(), i)
    yield "taken select double", lambda x, i: x.index_select(1, i.int()), (leaf(5, 4, dtype=torch.float64), i)
    yield "taken take", lambda x, i: x.take(i.view(2, 2)), (x, i)
    yield "taken take frozen", torch.take, (x.detach(), i)
    yield "taken windows", lambda x: x.unfold(0, 3, 1).sum(-1), (x,)
    yield "taken strided", lambda x: x.as_strided((3, 3), (2, 1)), (x,)
    yield "taken repeated", lambda x, i: x.repeat_interleave(i, dim=1, output_size=5), (x, i)
    yield "taken expanded", lambda x: x.expand(3, 5, 4, 3).tanh(), (x,)
    yield "taken parts", lambda x: x.tensor_split((1, 3))[1], (x,)
    yield "taken rolled", lambda x: x.roll((1, -1), (0, 2)), (x,)


@made(THIRD)
def put() -> Iterator[Call]:
    x, i, y = leaf(5, 3), torch.tensor([4, 0, 4]), leaf(3, 3)
    plain = x.detach()
    yield "put rows", lambda x, i, y: x.index_put((i,), y), (x, i, y)
    yield "put rows frozen", lambda x, i, y: x.index_put((i,), y), (plain, i, y.detach())
    yield "put summed", lambda x, i, y: x.index_put((i,), y, accumulate=True), (x, i, y)
    yield "put pairs summed", lambda x, i, y: x.index_put((i, i % 3), y[0], accumulate=True), (x, i, y)
    yield "put one value", lambda x, i, y: x.index_put((i,), y.sum()), (x, i, y)
    yield "put one value summed", lambda x, i, y: x.index_put((i,), y.sum(), accumulate=True), (x, i, y)
    yield "put whole numbers summed", _counted, (torch.zeros(5, dtype=torch.int64), i)
    yield "put columns", lambda x, i, y: _assigned(x, (slice(None), i % 3), y[0]), (x, i, y)
    yield "put number", lambda x, i: _assigned(x, i, 2.5), (x, i)
    yield "put slice", lambda x, y: _assigned(x, slice(1, 4), y), (x, y)
    yield "put mask", lambda x: x.masked_fill(x > 0, -1.0), (x,)
    yield "put mask tensor", lambda x, y: x.masked_fill(x > 0, y[0, 0]), (x, y)
    yield "put masked_scatter", lambda x, y: x.masked_scatter(torch.ones_like(x).tril(-2).bool(), y), (x, y)
    yield "put take", lambda x, i, y: x.put(i, y[0]), (x, i, y)
    yield "put take summed", lambda x, i, y: x.put(i, y[0], accumulate=True), (x, i, y)
    yield "put take in place", lambda x, i, y: x.clone().put_(i, y[0], True), (plain, i, y.detach())
    yield "put copy", lambda x, i, y: x.index_copy(0, i, y), (x, i, y)
    yield "put copy columns", lambda x, i, y: x.index_copy(1, i[:2] % 3, y[:, :2].new_ones(5, 2)), (plain, i, y)
    yield "put copy 0-d", lambda x, i, y: x.index_copy(0, i[1:2], y.sum()), (leaf(), i, y)
    yield "put fill", lambda x, i: x.index_fill(1, i % 3, 0.5), (x, i)
    yield "put fill tensor", lambda x, i, y: x.index_fill(0, i, y.sum()), (x, i, y)
    yield "put diagonal", lambda x, y: x.diagonal_scatter(y[0]), (x, y)
    yield "put select_scatter", lambda x, y: x.select_scatter(y[0], 0, 2), (x, y)
    yield "put slice_scatter", lambda x, y: x.slice_scatter(y, 0, 0, 5, 2), (x, y)
    yield "put as_strided_scatter", lambda x, y: x.as_strided_scatter(y, (3, 3), (4, 1)), (x, y)
    yield "put scaled in place", _scaled_rows, (x, i)


def _assigned(x: torch.Tensor, at: Any, value: Any) -> torch.Tensor:
    out = x.clone()
    out[at] = value
    return out


def _counted(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
    return x.index_put_((i,), torch.ones_like(i), accumulate=True)


def _scaled_rows(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
    out = x.clone()
    out[i] *= 2
    return out


@made(THIRD)
def added() -> Iterator[Call]:
    x, i, y = leaf(5, 3), torch.tensor([4, 0, 4]), leaf(3, 3)
    yield "added rows", partial(_index_added, alpha=-2), (x, i, y)
    yield "added columns", lambda x, i, y: x.index_add(-1, i % 3, y), (leaf(3, 3), i, y)
    yield "added in place", lambda x, i, y: x.clone().index_add_(0, i, y), (x.detach(), i, y.detach())
    yield "added half", _index_added, (leaf(5, 3, dtype=torch.bfloat16), i, leaf(3, 3, dtype=torch.bfloat16))
    yield "added whole numbers", _index_added, (torch.zeros(5, 3, dtype=torch.int32), i, torch.ones(3, 3).int())
    yield "added one row", lambda x, i, y: x.index_add(0, i[:1], y[:1]), (x, i, y)
    yield "added vector", _index_added, (leaf(5), i, leaf(3))
    yield "added 0-d", lambda x, i, y: x.index_add(0, i[1:2], y), (leaf(), i, leaf())
    yield "added complex", _index_added, (leaf(5, 3, dtype=torch.complex64), i, leaf(3, 3, dtype=torch.complex64))
    for how in ("prod", "mean", "amax", "amin"):
        yield f"reduced rows {how}", partial(_index_reduced, how=how), (x, i, y)
        yield (
            f"reduced rows {how} alone",
            partial(_index_reduced, how=how, own=False),
            (x.detach(), i, y.detach()),
        )


def _index_added(x: torch.Tensor, i: torch.Tensor, y: torch.Tensor, alpha: float = 1) -> torch.Tensor:
    return x.index_add(0, i, y, alpha=alpha)


def _index_reduced(x: torch.Tensor, i: torch.Tensor, y: torch.Tensor, how: str, own: bool = True) -> torch.Tensor:
    return x.index_reduce(0, i, y, how, include_self=own)


@made(THIRD)
def scattered_third() -> Iterator[Call]:
    x, y = leaf(4, 5), leaf(2, 5)
    i = torch.tensor([[0, 0, 3, 1, 2], [3, 0, 3, 2, 2]])
    yield "scattering values", lambda x, i, y: x.scatter(0, i, y), (x, i, y)
    yield "scattering values frozen", lambda x, i, y: x.scatter(0, i, y), (x.detach(), i, y.detach())
    yield "scattering number", lambda x, i: x.scatter(0, i, 1.5), (x, i)
    yield "scattering row", lambda x, i, y: x.scatter(1, i[:, :2], y), (x, i, leaf(2, 2))
    yield "scattering vector", lambda x, i, y: x.scatter(0, i, y), (leaf(4), i[0], leaf(5))
    yield "scattering added", lambda x, i, y: x.scatter_add(0, i, y), (x, i, y)
    yield "scattering added vector", lambda x, i, y: x.scatter_add(0, i, y), (leaf(4), i[1], leaf(5))
    yield "scattering added dim1", lambda x, i, y: x.scatter_add(1, i, y), (x, i, y)
    yield "scattering added deep", _deep, (leaf(2, 4, 5), i)
    yield "scattering added double", _double, (x, i, y)
    yield "scattering added 0-d", lambda x, y: x.scatter_add(0, torch.zeros_like(x).long(), y), (leaf(), leaf())
    yield "scattering added ints", lambda x, i: x.scatter_add(0, i[0], i[1]), (torch.zeros(4, dtype=torch.int64), i)
    yield "scattering added value", lambda x, i: x.scatter(0, i, 2.0, reduce="add"), (x.detach(), i)
    yield "scattering added src", lambda x, i, y: x.scatter(0, i, y, reduce="add"), (x.detach(), i, y.detach())
    yield "scattering times src", lambda x, i, y: x.scatter(0, i, y, reduce="multiply"), (x.detach(), i, y.detach())
    for how in ("sum", "mean", "prod", "amax", "amin"):
        reduce = partial(_scatter_reduce, reduce=how)
        yield f"scattering reduced {how}", reduce, (x, i, y)
        yield f"scattering reduced {how} alone", partial(reduce, include_self=False), (x, i, y)
        yield f"scattering reduced {how} vector", reduce, (leaf(4), i[0], leaf(5))
    yield "scattering reduced ints", partial(_scatter_reduce, reduce="amax"), (torch.zeros(4).long(), i[0], i[1])
    yield "scattering segments", partial(_segments, how="mean"), (leaf(6, 2), torch.tensor([2, 4]))
    yield "scattering segments max", partial(_segments, how="max"), (leaf(6, 2), torch.tensor([5, 1]))


def _deep(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
    return x.new_zeros(2, 4, 5).scatter_add(1, i.expand(2, 2, 5), x[:, :2])


def _double(x: torch.Tensor, i: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return x.double().scatter_add(0, i, y.double())


def _segments(x: torch.Tensor, lengths: torch.Tensor, how: str) -> torch.Tensor:
    return torch.segment_reduce(x, how, lengths=lengths, unsafe=True)


@made(FOURTH)
def below() -> Iterator[Call]:
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


@made(FOURTH)
def in_place() -> Iterator[Call]:
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


@made(FOURTH)
def into() -> Iterator[Call]:
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


@made(FOURTH)
def dtypes() -> Iterator[Call]:
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


@made(FOURTH)
def layouts() -> Iterator[Call]:
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


@made(FOURTH)
def numbers() -> Iterator[Call]:
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


@made(FOURTH)
def lists() -> Iterator[Call]:
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


@made(FOURTH)
def twice() -> Iterator[Call]:
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


@made(SIXTH)
def read_sixth() -> Iterator[Call]:
    x, i, j = leaf(5, 4, 3), torch.tensor([0, 2, 2, 4]), torch.tensor([3, 1, 0, 0])
    grid = torch.randint(0, 5, (2, 3))
    mask = torch.tensor([True, False, True, True, False])
    yield "read rows", lambda x, i: x[i], (x, i)
    yield "read rows and columns", lambda x, i, j: x[i, j], (x, i, j)
    yield "read apart", lambda x, i, j: x[i, :, j % 3], (x, i, j)
    yield "read columns", lambda x, j: x[:, j], (x, j)
    yield "read last", lambda x, j: x[..., j % 3], (x, j)
    yield "read by grid", lambda x, i: x[i], (x, grid)
    yield "read by mask", lambda x, m: x[m], (x, mask)
    yield "read by mask and column", lambda x, m, j: x[m.nonzero()[:, 0] * 0][:, j], (x, mask, j)
    yield "read bytes", lambda x, i: x[i], (torch.randint(0, 9, (5, 4)).byte(), i)
    yield "read one", lambda x: x[2, 1], (x,)
    yield "read slices", lambda x: x[1:, ::2], (x,)
    yield "read by list", lambda x: x[[0, 1, 1]], (x,)
    yield "read select", lambda x, i: x.index_select(1, i % 4), (x, i)
    yield "read gather", lambda x, i: x.gather(0, i[:, None, None].expand(4, 4, 3)), (x, i)
    yield "read gather rows", lambda x: x.gather(-1, x.detach().argsort(-1)), (x,)
    yield "read take", lambda x, i: x.take(i), (x, i)
    yield "read take along", lambda x, i: torch.take_along_dim(x, i[:, None, None], 0), (x, i)
    yield "read diagonal", lambda x: x.diagonal(dim1=0, dim2=1), (x,)
    yield "read unfolded", lambda x: x.unfold(0, 3, 1), (x,)
    yield "read strided", lambda x: x.as_strided((3, 4), (2, 1)), (x,)
    yield "read rolled", lambda x: x.roll((1, 2), (0, 1)), (x,)
    yield "read repeated", lambda x: x.repeat_interleave(2, 0), (x,)
    yield (
        "read repeated unevenly",
        lambda x, n: x.repeat_interleave(n, 0, output_size=9),
        (
            x,
            torch.tensor([1, 2, 3, 1, 2]),
        ),
    )
    yield "read tiled", lambda x: x.repeat(2, 1, 3), (x,)
    yield "read where", lambda x: torch.where(x > 0, x, -0.1 * x), (x,)
    yield "read triangle", lambda x: x[:, torch.tril_indices(4, 3)[0], torch.tril_indices(4, 3)[1]], (x,)
    for word, kind in KINDS[1:]:
        yield f"read rows {word}", lambda x, i: x[i], (of_kind(kind, 5, 4), i)
        yield f"read gather {word}", lambda x, i: x.gather(0, i[:, None].expand(4, 4)), (of_kind(kind, 5, 4), i)
        yield f"read select {word}", lambda x, i: x.index_select(0, i), (of_kind(kind, 5, 4), i)
    yield "read masked", lambda x, m: x.masked_select(m[:, None, None]), (x, mask)
    yield "read scalar index", lambda x, i: x[i], (x, torch.tensor(2))
    yield "read nothing", lambda x, i: x[i[:0]], (x, i)


@made(SIXTH)
def written_sixth() -> Iterator[Call]:
    i, j = torch.tensor([0, 2, 2, 4]), torch.tensor([3, 1, 0, 0])
    mask = torch.tensor([True, False, True, True, False])
    calls: dict[str, Callable[..., Any]] = {
        "rows": lambda x, v, i, j: _set_in_copy(x, i, v),
        "columns": lambda x, v, i, j: _set_in_copy(x.t().contiguous(), j, v.new_ones(4, 5)),
        "points": lambda x, v, i, j: x.clone().index_put((i, j), v[:, 0]),
        "points added": lambda x, v, i, j: x.clone().index_put((i, j), v[:, 0], accumulate=True),
        "rows added": lambda x, v, i, j: x.clone().index_put_((i,), v, accumulate=True),
        "index add": lambda x, v, i, j: x.index_add(0, i, v),
        "index add columns": lambda x, v, i, j: x.index_add(1, j, v.new_ones(5, 4)),
        "index copy": lambda x, v, i, j: x.index_copy(0, i, v),
        "index fill": lambda x, v, i, j: x.index_fill(0, i, 1),
        "put": lambda x, v, i, j: x.clone().put_(i, v[:, 0]),
        "put added": lambda x, v, i, j: x.clone().put_(i, v[:, 0], accumulate=True),
        "scattered": lambda x, v, i, j: x.scatter(0, i[:, None].expand(4, 4), v),
        "scattered number": lambda x, v, i, j: x.scatter(0, i[:, None].expand(4, 4), 1),
        "scattered sums": lambda x, v, i, j: x.scatter_add(0, i[:, None].expand(4, 4), v),
        "masked fill": lambda x, v, i, j: x.masked_fill(x != 0, 1),
        "masked scatter": lambda x, v, i, j: x.masked_scatter(x == 9, v.repeat(2, 1)),
        "select": lambda x, v, i, j: x.select_scatter(v[0], 0, 1),
        "slice": lambda x, v, i, j: x.slice_scatter(v[:2], 0, 1, 3),
        "diagonal": lambda x, v, i, j: x.diagonal_scatter(v[:, 1]),
    }
    for word, kind in KINDS:
        for name, function in calls.items():
            yield f"written {name} {word}".strip(), function, (of_kind(kind, 5, 4), of_kind(kind, 4, 4), i, j)
    x, v = leaf(5, 4), leaf(4, 4)
    yield "written by mask", lambda x, m: _set_in_copy(x, m, 0.0), (x, mask)
    yield "written by number", lambda x, i: _set_in_copy(x, i, 2.0), (x, i)
    yield "written mean", lambda x, i, v: x.index_reduce(0, i, v, "mean"), (x, i, v)
    yield "written product", lambda x, i, v: x.index_reduce(0, i, v, "prod"), (x, i, v)
    yield "written largest", lambda x, i, v: x.index_reduce(0, i, v, "amax", include_self=False), (x, i, v)
    yield "written one slot", lambda x, v: x.index_add(0, torch.tensor([1], device=x.device), v[:1]), (x, v)
    yield "written frozen", lambda x, i, v: x.index_add(0, i, v), (x.detach(), i, v.detach())
    yield "written row", lambda x, i, v: x[:, 0].index_add(0, i, v[:, 0]), (x, i, v)
    yield "written long", lambda x, i, v: x.index_add(0, i, v), (leaf(5), torch.randint(0, 5, (900,)), leaf(900))
    yield "written tails", lambda x, i, v: x.index_add(0, i, v, alpha=0.5), (x, i.int(), v)
    yield "written expanded", lambda x, i: _set_in_copy(x, (i[:, None], i[None] % 4), 1.0), (x, i)


def _set_in_copy(x: torch.Tensor, place: Any, value: Any) -> torch.Tensor:
    made = x.clone()
    made[place] = value
    return made


@made(SIXTH)
def scattered_sixth() -> Iterator[Call]:
    row, place, base = leaf(9), torch.tensor([0, 1, 1, 2, 0, 3, 3, 3, 2]), leaf(4)
    table, places, target = leaf(6, 3), torch.randint(0, 4, (6, 3)), leaf(4, 3)
    for mode in ("sum", "prod", "mean", "amax", "amin"):
        for own in (True, False):
            reduce = partial(_scatter_reduce, reduce=mode, include_self=own)
            word = "with own" if own else "without own"
            yield f"reduced row {mode} {word}", reduce, (base, place, row)
            yield f"reduced table {mode} {word}", reduce, (target, places, table)
        yield f"reduced frozen {mode}", partial(_scatter_reduce, reduce=mode), (base.detach(), place, row.detach())
        yield (
            f"reduced ints {mode}",
            partial(_scatter_reduce, reduce=mode),
            (
                torch.arange(4),
                place,
                torch.arange(9),
            ),
        )
        yield (
            f"reduced bfloat16 {mode}",
            partial(_scatter_reduce, reduce=mode),
            (
                base.detach().bfloat16().requires_grad_(),
                place,
                row.detach().bfloat16().requires_grad_(),
            ),
        )
    lengths = torch.tensor([2, 3, 1])
    for mode in ("sum", "mean", "max", "min"):
        yield f"reduced segments {mode}", partial(_segments, how=mode), (table, lengths)
    yield "reduced old add", lambda x, i, v: x.scatter(0, i, v, reduce="add"), (base.detach(), place, row.detach())
    yield (
        "reduced old times",
        lambda x, i, v: x.scatter(0, i, v, reduce="multiply"),
        (
            base.detach(),
            place,
            row.detach(),
        ),
    )
    yield "reduced softmax", _scattered_softmax, (row, place)


def _scattered_softmax(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
    top = x.new_full((4,), -1e9).scatter_reduce(0, i, x.detach(), "amax")
    grown = (x - top[i]).exp()
    return grown / grown.new_zeros(4).scatter_add(0, i, grown)[i]


@made(SIXTH)
def filled() -> Iterator[Call]:
    """Deterministic mode with the fill of new memory switched off, as one does for speed."""
    x = leaf(4, 5)
    calls: dict[str, Callable[[torch.Tensor], Any]] = {
        "empty": lambda x: torch.empty_like(x).copy_(x),
        "resized": lambda x: x.detach().clone().resize_(6, 5),
        "sums": lambda x: x.cumsum(0),
        "added": lambda x: x.index_add(0, torch.tensor([0, 0], device=x.device), x[:2]),
        "reduced": lambda x: x.median(0)[0],
        "set": lambda x: torch.empty(2, 2, device=x.device).fill_(3) + x[:2, :2],
    }
    for name, function in calls.items():
        yield f"unfilled {name}", partial(_without_fill, function), (x,)
        yield f"filled {name}", function, (x,)


def _without_fill(function: Callable[[torch.Tensor], Any], x: torch.Tensor) -> Any:
    switch: Any = deterministic
    before = switch.fill_uninitialized_memory
    switch.fill_uninitialized_memory = False
    try:
        return function(x)
    finally:
        switch.fill_uninitialized_memory = before
