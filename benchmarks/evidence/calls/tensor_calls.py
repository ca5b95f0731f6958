"""Methods of tensors: writing through indices, scatters, sorting, scans, sparse tensors, small and empty ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch

from benchmarks.evidence.calls.layers import leaf
from tests.support.samples import Sample

_Made = tuple[str, Callable[..., Any], tuple[Any, ...]]


def samples() -> Iterator[Sample]:
    """One sample for each call, named by what is called."""
    numbers: dict[str, int] = {}
    for name, function, args in (*_scattered(), *_indexed(), *_sorted(), *_scanned(), *_sparse(), *_small(), *_drawn()):
        number = numbers[name] = numbers.get(name, -1) + 1
        yield Sample(name, number, str(args[0].dtype).removeprefix("torch."), function, args)


def _along(function: Callable[..., Any], dim: int, **options: Any) -> Callable[..., Any]:
    """``function`` along a dimension, which these take behind the first tensor."""

    def call(x: torch.Tensor, *rest: torch.Tensor) -> Any:
        return function(x, dim, *rest, **options)

    return call


def _scattered() -> Iterator[_Made]:
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


def _indexed() -> Iterator[_Made]:
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


def _sorted() -> Iterator[_Made]:
    x, many = leaf(6, 9), torch.randint(0, 4, (300,)).float()
    yield "sort", partial(torch.sort, dim=0, descending=True), (x,)
    yield "argsort stable", partial(torch.argsort, stable=True), (many,)
    yield "topk smallest", partial(torch.topk, k=3, largest=False, sorted=False), (x,)
    yield "kthvalue", partial(torch.kthvalue, k=2, dim=0, keepdim=True), (x,)
    yield "median", torch.median, (x,)
    yield "median dim", partial(torch.median, dim=1), (x,)
    yield "nanmedian dim", partial(torch.nanmedian, dim=0), (x,)
    yield "quantile", partial(torch.quantile, q=0.3, dim=1), (x,)
    yield "mode dim", partial(torch.mode, dim=1), (x,)
    yield "unique", partial(torch.unique, return_inverse=True, return_counts=True), (many,)
    yield "unique_consecutive", partial(torch.unique_consecutive, return_counts=True), (many,)
    yield "bincount", torch.bincount, (many.long(),)
    yield "bincount minlength", partial(torch.bincount, minlength=9), (many.long(),)
    yield "bincount weighted", torch.bincount, (many.long(), torch.rand(300))
    yield "bincount whole weights", torch.bincount, (many.long(), torch.ones(300, dtype=torch.int64))
    yield "histc", partial(torch.histc, bins=5, min=0, max=3), (many,)
    yield "searchsorted", torch.searchsorted, (torch.arange(9.0), many)
    yield "max dim gradient", partial(torch.max, dim=1), (x,)
    yield "cummax gradient", partial(torch.cummax, dim=1), (x,)


def _scanned() -> Iterator[_Made]:
    row, matrix = leaf(50), leaf(4, 30)
    for name in ("cumsum", "cumprod", "logcumsumexp"):
        yield name, partial(getattr(torch, name), dim=0), (row,)
        yield name, partial(getattr(torch, name), dim=1), (matrix,)
        yield f"{name} of columns", partial(getattr(torch, name), dim=0), (matrix,)
    yield "cumsum whole", partial(torch.cumsum, dim=0), (torch.arange(60),)
    yield "cumsum half", partial(torch.cumsum, dim=0), (torch.rand(60).to(torch.bfloat16),)
    yield "trapezoid", torch.trapezoid, (row,)
    yield "cumulative_trapezoid", torch.cumulative_trapezoid, (row,)
    yield "diff", partial(torch.diff, n=2), (row,)
    yield "prod", torch.prod, (row,)
    yield "renorm", partial(torch.renorm, p=2, dim=0, maxnorm=1.0), (matrix,)
    yield "cdist", torch.cdist, (leaf(5, 3), leaf(6, 3))
    yield "logsumexp", partial(torch.logsumexp, dim=1), (matrix,)
    yield "matrix_exp", torch.linalg.matrix_exp, (leaf(3, 3),)
    yield "tensordot", partial(torch.tensordot, dims=1), (leaf(3, 4), leaf(4, 2))
    yield "einsum", _einsum, (leaf(2, 3, 4), leaf(2, 4, 5))
    yield "empty product", torch.mm, (leaf(0, 3), leaf(3, 2))
    yield "dot", torch.dot, (leaf(5), leaf(5))
    yield "outer", torch.outer, (leaf(5), leaf(4))
    yield "baddbmm", torch.baddbmm, (leaf(2, 3, 5), leaf(2, 3, 4), leaf(2, 4, 5))


def _einsum(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.einsum("bij,bjk->bik", x, y)


def _sparse() -> Iterator[_Made]:
    where, values = torch.tensor([[0, 1, 1, 3], [2, 0, 0, 1]]), torch.tensor([1.0, 2.0, 3.0, 4.0])
    yield "coo to_dense", _dense, (values, where)
    yield "coo coalesce", _coalesced, (values, where)
    yield "dense plus coo", _plus, (values, where, torch.zeros(4, 3))
    yield "coo times dense", _times, (values, where, torch.rand(3, 5))
    yield "coo sum", _summed, (values, where)
    yield "dense to coo", torch.Tensor.to_sparse, (torch.eye(4),)
    yield "dense to csr", torch.Tensor.to_sparse_csr, (torch.eye(4),)
    yield "csr times dense", _csr_times, (torch.eye(4), torch.rand(4, 2))


def _coo(values: torch.Tensor, where: torch.Tensor) -> torch.Tensor:
    return torch.sparse_coo_tensor(where, values, (4, 3))


def _dense(values: torch.Tensor, where: torch.Tensor) -> torch.Tensor:
    return _coo(values, where).to_dense()


def _coalesced(values: torch.Tensor, where: torch.Tensor) -> torch.Tensor:
    return _coo(values, where).coalesce().values()


def _plus(values: torch.Tensor, where: torch.Tensor, dense: torch.Tensor) -> torch.Tensor:
    return dense.add_(_coo(values, where))


def _times(values: torch.Tensor, where: torch.Tensor, dense: torch.Tensor) -> torch.Tensor:
    product: torch.Tensor = torch.sparse.mm(_coo(values, where), dense)
    return product


def _summed(values: torch.Tensor, where: torch.Tensor) -> torch.Tensor:
    return torch.sparse.sum(_coo(values, where))


def _csr_times(dense: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    product: torch.Tensor = dense.to_sparse_csr() @ other
    return product


def _small() -> Iterator[_Made]:
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


def _drawn() -> Iterator[_Made]:
    chances = torch.rand(4, 6)
    for replacement in (False, True):
        yield "multinomial", partial(torch.multinomial, num_samples=3, replacement=replacement), (chances,)
        yield (
            "multinomial of one row",
            partial(torch.multinomial, num_samples=3, replacement=replacement),
            (chances[0],),
        )
    yield "multinomial one sample", partial(torch.multinomial, num_samples=1), (chances,)
    yield "bernoulli", torch.bernoulli, (chances,)
    yield "poisson", torch.poisson, (chances,)
    yield "normal of tensors", torch.normal, (chances, chances)
    yield "exponential_", torch.Tensor.exponential_, (chances.clone(),)
    yield "randperm", _shuffled, (chances,)


def _shuffled(x: torch.Tensor) -> torch.Tensor:
    return x[torch.randperm(len(x), device=x.device)]
