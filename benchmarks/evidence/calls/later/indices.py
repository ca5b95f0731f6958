"""Reading and writing through indices, scatters, sorting, counting, scans, sparse tensors and linear algebra."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch

from benchmarks.evidence.calls.layers import leaf

_Made = tuple[str, Callable[..., Any], tuple[Any, ...]]


def made() -> Iterator[_Made]:
    """Each call's name, function and tensors."""
    yield from _read()
    yield from _written()
    yield from _scattered()
    yield from _ordered()
    yield from _counted()
    yield from _scanned()
    yield from _sparse()
    yield from _algebra()


def _read() -> Iterator[_Made]:
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


def _written() -> Iterator[_Made]:
    base, rows, source = torch.zeros(6, 3), torch.tensor([1, 1, 4]), torch.ones(3, 3)
    yield "written x[i] = v", _set, (base, rows, source)
    yield "written x[i] = v wanted", _set_copy, (leaf(6, 3), rows, leaf(3, 3))
    yield "written x[i] += v", _add_at, (base, rows, source)
    yield "written x[i] = 0", _set_zero, (base, rows)
    yield "written x[mask] = v", _set_mask, (leaf(6, 3),)
    yield "written x[0] = v", _set_first, (leaf(6, 3), leaf(3))
    yield "written index_put_ half", partial(_put, accumulate=True), (base.bfloat16(), rows, source.bfloat16())
    yield "written index_put_ whole", partial(_put, accumulate=True), (base.int(), rows, source.int())
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


def _put(x: torch.Tensor, index: torch.Tensor, value: torch.Tensor, accumulate: bool) -> torch.Tensor:
    return x.index_put_((index,), value, accumulate=accumulate)


def _scattered() -> Iterator[_Made]:
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
        spread = partial(_scatter_reduce, reduce=reduce)
        yield f"scattered reduce {reduce} flat", spread, (flat, places, torch.ones(4))
        yield f"scattered reduce {reduce} wanted", spread, (base, index, source)
    yield (
        "scattered reduce half",
        partial(_scatter_reduce, reduce="sum"),
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


def _scatter_reduce(x: torch.Tensor, index: torch.Tensor, source: torch.Tensor, reduce: str) -> torch.Tensor:
    return torch.scatter_reduce(x, 0, index, source, reduce)


def _graph_mean(x: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
    summed = torch.zeros_like(x).index_add_(0, edges[1], x[edges[0]])
    degree = torch.zeros(x.shape[0], device=x.device).index_add_(0, edges[1], torch.ones(4, device=x.device))
    return summed / degree.clamp(min=1)[:, None]


def _graph_max(x: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
    places = edges[1][:, None].expand(-1, 4)
    return torch.zeros_like(x).scatter_reduce(0, places, x[edges[0]], "amax", include_self=False)


def _ordered() -> Iterator[_Made]:
    x, whole = leaf(5, 8), torch.randint(0, 4, (5, 8))
    yield "ordered sort", lambda x: x.sort(dim=-1)[0], (x,)
    yield "ordered sort whole stable", lambda x: torch.sort(x, stable=True), (whole,)
    yield "ordered argsort", lambda x: x.argsort(dim=0), (x,)
    yield "ordered msort", torch.msort, (x,)
    yield "ordered topk", lambda x: x.topk(3, dim=0), (x,)
    yield "ordered topk whole", lambda x: x.topk(2), (whole,)
    yield "ordered topk long", lambda x: x.topk(20), (leaf(64, 6000),)
    yield "ordered kthvalue", lambda x: x.kthvalue(3), (x,)
    yield "ordered kthvalue without gradient", lambda x: x.kthvalue(2, dim=0), (x.detach(),)
    yield "ordered median", lambda x: x.median(), (x,)
    yield "ordered median dim", lambda x: x.median(dim=0, keepdim=True), (x,)
    yield "ordered median values", lambda x: x.median(dim=1).values, (x,)
    yield "ordered median whole", lambda x: x.median(-1), (whole,)
    yield "ordered nanmedian", torch.nanmedian, (x,)
    yield "ordered mode", lambda x: x.mode(0), (x,)
    yield "ordered mode whole", lambda x: x.mode(), (whole,)
    yield "ordered quantile", lambda x: x.quantile(0.5, dim=0), (x,)
    yield "ordered nanquantile", lambda x: x.nanquantile(0.2), (x,)
    yield "ordered max", lambda x: x.max(), (x,)
    yield "ordered amax", lambda x: x.amax((0, 1)), (x,)
    yield "ordered argmax", lambda x: x.argmax(1), (x,)
    yield "ordered aminmax", lambda x: torch.aminmax(x, dim=1), (x,)
    yield "ordered cummin", lambda x: x.cummin(0), (x,)
    yield "ordered unique", lambda x: torch.unique(x, dim=0, return_inverse=True), (whole,)


def _counted() -> Iterator[_Made]:
    whole, weights = torch.randint(0, 6, (30,)), torch.rand(30)
    yield "counted bincount", lambda x: x.bincount(), (whole,)
    yield "counted bincount int32", lambda x: torch.bincount(x, minlength=20), (whole.int(),)
    yield "counted bincount weighted", lambda x, w: torch.bincount(x, weights=w), (whole, weights.double())
    yield "counted bincount float weights", lambda x, w: x.bincount(w, 8), (whole, weights)
    yield "counted histc", lambda x: torch.histc(x, bins=4), (weights,)
    yield "counted histc of bounds", lambda x: torch.histc(x, bins=4, min=0, max=6), (whole.double(),)
    yield "counted confusion", _confusion, (whole, whole.roll(1))
    yield "counted nonzero", torch.count_nonzero, (whole,)
    yield "counted bucketize", lambda x: torch.bucketize(x, torch.linspace(0, 1, 5, device=x.device)), (weights,)
    yield "counted corrcoef", torch.corrcoef, (leaf(3, 9),)


def _confusion(target: torch.Tensor, found: torch.Tensor) -> torch.Tensor:
    return torch.bincount(target * 6 + found, minlength=36).reshape(6, 6)


def _scanned() -> Iterator[_Made]:
    row, matrix, block = leaf(70), leaf(3, 40), leaf(2, 5, 6)
    yield "scanned cumsum", lambda x: x.cumsum(-1), (row,)
    yield "scanned cumsum rows", lambda x: x.cumsum(-1), (matrix,)
    yield "scanned cumsum middle", lambda x: x.cumsum(1), (block,)
    yield "scanned cumsum without gradient", lambda x: x.cumsum(1), (matrix.detach(),)
    yield "scanned cumsum_", lambda x: x.cumsum_(0), (row.detach().clone(),)
    yield "scanned cumsum of mask", lambda x: (x > 0).cumsum(1), (matrix,)
    yield "scanned cumsum to double", lambda x: x.cumsum(0, dtype=torch.float64), (whole_numbers(),)
    yield "scanned cumsum half", lambda x: x.cumsum(0), (leaf(33, dtype=torch.bfloat16),)
    yield "scanned cumsum complex", lambda x: x.cumsum(0), (leaf(33, dtype=torch.complex64),)
    yield "scanned cumprod rows", lambda x: x.detach().cumprod(1), (matrix,)
    yield "scanned logcumsumexp", lambda x: x.logcumsumexp(1), (matrix,)
    yield "scanned logcumsumexp row", lambda x: x.detach().logcumsumexp(0), (row,)
    yield "scanned positions", _positions, (torch.ones(3, 9, dtype=torch.int64),)
    yield "scanned cumulative mean", lambda x: x.cumsum(0) / torch.arange(1, 71, device=x.device), (row,)
    yield "scanned reverse", lambda x: x.flip(0).cumsum(0).flip(0), (row,)
    yield "scanned alphas", lambda x: torch.cumprod(1 - x, dim=0), (torch.rand(50),)


def whole_numbers() -> torch.Tensor:
    """A row of integers."""
    return torch.arange(40)


def _positions(mask: torch.Tensor) -> torch.Tensor:
    places = mask.long().cumsum(-1) - 1
    return places.masked_fill(mask == 0, 1)


def _sparse() -> Iterator[_Made]:
    values, where = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([[0, 0, 2], [1, 1, 0]])
    dense = torch.rand(3, 3)
    yield "sparse added", lambda v, i, d: d + _coo(v, i), (values, where, dense)
    yield "sparse added coalesced", lambda v, i, d: d + _coo(v, i).coalesce(), (values, where, dense)
    yield "sparse subtracted", lambda v, i, d: d - _coo(v, i), (values, where, dense)
    yield "sparse matmul", lambda v, i, d: _coo(v, i) @ d, (values, where, dense)
    yield "sparse addmm", lambda v, i, d: torch.sparse.addmm(d, _coo(v, i), d), (values, where, dense)
    yield "sparse bmm", lambda v, i, d: torch.bmm(_coo(v, i).unsqueeze(0), d.unsqueeze(0)), (values, where, dense)
    yield "sparse mv", lambda v, i, d: _coo(v, i) @ d[0], (values, where, dense)
    yield "sparse times dense", lambda v, i, d: (_coo(v, i).coalesce() * d).to_dense(), (values, where, dense)
    yield (
        "sparse wanted",
        lambda v, i, d: torch.sparse.mm(_coo(v, i), d),
        (values.clone().requires_grad_(), where, dense),
    )
    yield "sparse sum dim", lambda v, i: torch.sparse.sum(_coo(v, i), dim=0).to_dense(), (values, where)
    yield "sparse to_dense whole", lambda v, i: _coo(v, i).to_dense(), (values.long(), where)
    yield "sparse index_select", lambda v, i: _coo(v, i).index_select(0, i[0, :2]).to_dense(), (values, where)
    yield "sparse transposed", lambda v, i: _coo(v, i).t().to_dense(), (values, where)
    yield "sparse foreach", lambda v, i, d: torch._foreach_add([d, d], [d, _coo(v, i)]), (values, where, dense)


def _coo(values: torch.Tensor, where: torch.Tensor) -> torch.Tensor:
    return torch.sparse_coo_tensor(where, values, (3, 3), check_invariants=False)


def _algebra() -> Iterator[_Made]:
    x, y = leaf(4, 4), leaf(4, 4)
    yield "algebra solve", lambda x, y: torch.linalg.solve(x + 9 * torch.eye(4, device=x.device), y), (x, y)
    yield "algebra cholesky", lambda x: torch.linalg.cholesky(x @ x.T + torch.eye(4, device=x.device)), (x,)
    yield "algebra qr", lambda x: torch.linalg.qr(x)[1], (leaf(5, 3),)
    yield "algebra svdvals", torch.linalg.svdvals, (x,)
    yield "algebra eigvalsh", lambda x: torch.linalg.eigvalsh(x + x.T), (x,)
    yield "algebra inv", torch.linalg.inv, (x,)
    yield "algebra det", torch.linalg.det, (x,)
    yield "algebra pinv", torch.linalg.pinv, (leaf(5, 3),)
    yield "algebra norm", lambda x: torch.linalg.norm(x, 2), (x,)
    yield "algebra multi_dot", lambda x, y: torch.linalg.multi_dot([x, y, x]), (x, y)
    yield "algebra matrix_power", lambda x: torch.linalg.matrix_power(x, 3), (x,)
    yield "algebra trace", torch.trace, (x,)
    yield "algebra kron", torch.kron, (x, y)
    yield "algebra vdot", torch.vdot, (leaf(5, dtype=torch.complex64), leaf(5, dtype=torch.complex64))
    yield "algebra addmv", torch.addmv, (leaf(4), x, leaf(4))
    yield "algebra addr", torch.addr, (x, leaf(4), leaf(4))
    yield "algebra bmm half", torch.bmm, tuple(leaf(2, 4, 4, dtype=torch.bfloat16) for _ in range(2))
    yield "algebra whole product", torch.mul, (torch.ones(3, 3).long(), torch.ones(3, 3).long())
    yield "algebra einsum", lambda x, y: torch.einsum("ij,kj->ik", x, y), (x, y)
    yield "algebra einsum elements", lambda x, y: torch.einsum("ij,ij->ij", x, y), (x, y)
    yield "algebra cross", torch.linalg.cross, (leaf(4, 3), leaf(4, 3))
    yield "algebra cdist 1", lambda x, y: torch.cdist(x, y, p=1.0), (x, y)
    yield "algebra cdist 2 far", lambda x, y: torch.cdist(x, y), (leaf(30, 4), leaf(30, 4))
    yield "algebra empty", torch.matmul, (leaf(3, 0), leaf(0, 4))
    yield "algebra fft", lambda x: torch.fft.irfft(torch.fft.rfft(x)), (x,)
