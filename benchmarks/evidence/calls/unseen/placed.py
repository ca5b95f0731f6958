"""Tensors read and written by place: indexing, gathers, scatters, sparse layouts and rows that are nested."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F

from benchmarks.evidence.calls.layers import leaf

_Made = tuple[str, Callable[..., Any], tuple[Any, ...]]


def made() -> Iterator[_Made]:
    """Each call's name, function and tensors."""
    yield from _taken()
    yield from _put()
    yield from _added()
    yield from _scattered()
    yield from _bags()
    yield from _sparse()
    yield from _nested()


def _taken() -> Iterator[_Made]:
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


def _put() -> Iterator[_Made]:
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


def _added() -> Iterator[_Made]:
    x, i, y = leaf(5, 3), torch.tensor([4, 0, 4]), leaf(3, 3)
    yield "added rows", partial(_index_add, alpha=-2), (x, i, y)
    yield "added columns", lambda x, i, y: x.index_add(-1, i % 3, y), (leaf(3, 3), i, y)
    yield "added in place", lambda x, i, y: x.clone().index_add_(0, i, y), (x.detach(), i, y.detach())
    yield "added half", _index_add, (leaf(5, 3, dtype=torch.bfloat16), i, leaf(3, 3, dtype=torch.bfloat16))
    yield "added whole numbers", _index_add, (torch.zeros(5, 3, dtype=torch.int32), i, torch.ones(3, 3).int())
    yield "added one row", lambda x, i, y: x.index_add(0, i[:1], y[:1]), (x, i, y)
    yield "added vector", _index_add, (leaf(5), i, leaf(3))
    yield "added 0-d", lambda x, i, y: x.index_add(0, i[1:2], y), (leaf(), i, leaf())
    yield "added complex", _index_add, (leaf(5, 3, dtype=torch.complex64), i, leaf(3, 3, dtype=torch.complex64))
    for how in ("prod", "mean", "amax", "amin"):
        yield f"reduced rows {how}", partial(_index_reduce, how=how), (x, i, y)
        yield f"reduced rows {how} alone", partial(_index_reduce, how=how, own=False), (x.detach(), i, y.detach())


def _index_add(x: torch.Tensor, i: torch.Tensor, y: torch.Tensor, alpha: float = 1) -> torch.Tensor:
    return x.index_add(0, i, y, alpha=alpha)


def _index_reduce(x: torch.Tensor, i: torch.Tensor, y: torch.Tensor, how: str, own: bool = True) -> torch.Tensor:
    return x.index_reduce(0, i, y, how, include_self=own)


def _scattered() -> Iterator[_Made]:
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
        reduce = partial(_scatter_reduce, how=how)
        yield f"scattering reduced {how}", reduce, (x, i, y)
        yield f"scattering reduced {how} alone", partial(reduce, own=False), (x, i, y)
        yield f"scattering reduced {how} vector", reduce, (leaf(4), i[0], leaf(5))
    yield "scattering reduced ints", partial(_scatter_reduce, how="amax"), (torch.zeros(4).long(), i[0], i[1])
    yield "scattering segments", partial(_segments, how="mean"), (leaf(6, 2), torch.tensor([2, 4]))
    yield "scattering segments max", partial(_segments, how="max"), (leaf(6, 2), torch.tensor([5, 1]))


def _deep(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
    return x.new_zeros(2, 4, 5).scatter_add(1, i.expand(2, 2, 5), x[:, :2])


def _double(x: torch.Tensor, i: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return x.double().scatter_add(0, i, y.double())


def _scatter_reduce(x: torch.Tensor, i: torch.Tensor, y: torch.Tensor, how: str, own: bool = True) -> torch.Tensor:
    return x.scatter_reduce(0, i, y, how, include_self=own)


def _segments(x: torch.Tensor, lengths: torch.Tensor, how: str) -> torch.Tensor:
    return torch.segment_reduce(x, how, lengths=lengths, unsafe=True)


def _bags() -> Iterator[_Made]:
    table, words = leaf(7, 3), torch.tensor([[1, 2, 2], [0, 6, 1]])
    flat, starts = words.flatten(), torch.tensor([0, 1, 1])
    yield "bagging padded word", lambda t, i: F.embedding(i, t, padding_idx=-1), (table, words)
    yield "bagging sparse words", lambda t, i: F.embedding(i, t, sparse=True), (table, words)
    yield "bagging double words", lambda t, i: F.embedding(i, t), (leaf(7, 3, dtype=torch.float64), words)
    yield "bagging one word", lambda t, i: F.embedding(i[0, 0], t), (table, words)
    yield "bagging tied", lambda t, i: F.embedding(i, t) @ t.t(), (table, words)
    for mode in ("sum", "mean", "max"):
        bag = partial(_bagged, mode=mode)
        yield f"bagging {mode}", bag, (table, flat, starts)
        yield f"bagging {mode} padded", partial(bag, padding_idx=2), (table, flat, starts)
        yield f"bagging {mode} frozen", bag, (table.detach(), flat, starts)
        yield f"bagging {mode} int32", bag, (table, flat.int(), starts.int())
    yield "bagging sum sparse", partial(_bagged, mode="sum", sparse=True), (table, flat, starts)
    yield "bagging sum by frequency", partial(_bagged, mode="sum", scale_grad_by_freq=True), (table, flat, starts)
    yield "bagging weighted", _weighted, (table, flat, starts, leaf(6))
    yield "bagging weighted still", _weighted, (table, flat, starts, torch.rand(6))
    yield "bagging weights alone", _weighted, (table.detach(), flat, starts, leaf(6))


def _bagged(table: torch.Tensor, words: torch.Tensor, starts: torch.Tensor, **options: Any) -> torch.Tensor:
    return F.embedding_bag(words, table, starts, **options)


def _weighted(table: torch.Tensor, words: torch.Tensor, starts: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    return F.embedding_bag(words, table, starts, mode="sum", per_sample_weights=weights)


def _sparse() -> Iterator[_Made]:
    at, values, dense = torch.tensor([[0, 2, 2], [1, 0, 0]]), leaf(3), leaf(3, 2)
    yield "sparse to dense", lambda v, at: _coo(v, at).to_dense(), (values, at)
    yield "sparse to dense frozen", lambda v, at: _coo(v, at).to_dense(), (values.detach(), at)
    yield "sparse summed", lambda v, at: _coo(v, at).coalesce().values(), (values, at)
    yield "sparse plus dense", lambda v, at, y: y + _coo(v, at), (values.detach(), at, torch.ones(3, 3))
    yield "sparse plus sparse", lambda v, at: (_coo(v, at) + _coo(v * 2, at)).to_dense(), (values, at)
    yield "sparse times dense", lambda v, at, y: torch.sparse.mm(_coo(v, at), y), (values, at, dense)
    yield "sparse times dense frozen", lambda v, at, y: _coo(v, at) @ y, (values.detach(), at, dense.detach())
    yield "sparse addmm", lambda v, at, y: torch.sparse.addmm(y, _coo(v, at), y), (values, at, dense)
    yield "sparse times vector", lambda v, at, y: _coo(v, at) @ y[:, 0], (values.detach(), at, dense.detach())
    yield "sparse total", lambda v, at: torch.sparse.sum(_coo(v, at)), (values, at)
    yield "sparse total of rows", lambda v, at: torch.sparse.sum(_coo(v, at), 1).to_dense(), (values, at)
    yield "sparse scaled", lambda v, at: (_coo(v, at) * 3).to_dense(), (values, at)
    yield "sparse rows of numbers", _hybrid, (leaf(3, 2), at)
    yield "sparse rows", lambda v, y: _csr(v) @ y, (values.detach(), dense.detach())
    yield "sparse rows of slopes", lambda v, y: torch.mm(_csr(v), y), (values.detach(), dense)
    yield "sparse rows to dense", lambda v: _csr(v).to_dense(), (values,)
    yield "sparse rows times vector", lambda v, y: torch.mv(_csr(v), y[:, 0]), (values.detach(), dense.detach())
    yield (
        "sparse in place",
        lambda v, at, y: y.clone().add_(_coo(v, at), alpha=0.5),
        (values.detach(), at, torch.ones(3, 3)),
    )


def _coo(values: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
    return torch.sparse_coo_tensor(at, values, (3, 3), check_invariants=False)


def _hybrid(values: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
    return torch.sparse_coo_tensor(at[:1], values, (4, 2), check_invariants=False).to_dense()


def _csr(values: torch.Tensor) -> torch.Tensor:
    rows, columns = torch.tensor([0, 1, 1, 3]), torch.tensor([1, 0, 2])
    here = values.device
    return torch.sparse_csr_tensor(rows.to(here), columns.to(here), values, (3, 3), check_invariants=False)


def _nested() -> Iterator[_Made]:
    x, y = leaf(2, 3), leaf(4, 3)
    yield "nested padded", lambda *rows: torch.nested.as_nested_tensor(list(rows)).to_padded_tensor(0.0), (x, y)
    yield "nested total", lambda *rows: torch.nested.as_nested_tensor(list(rows)).values().sum(), (x, y)
    yield "nested linear", _nested_linear, (x, y, leaf(5, 3))
    yield "nested jagged", _jagged, (x, y)


def _nested_linear(x: torch.Tensor, y: torch.Tensor, weight: torch.Tensor) -> Any:
    return F.linear(torch.nested.as_nested_tensor([x, y]), weight).to_padded_tensor(0.0)


def _jagged(x: torch.Tensor, y: torch.Tensor) -> Any:
    return (torch.nested.as_nested_tensor([x, y], layout=torch.jagged) * 2).values()
