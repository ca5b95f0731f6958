"""Products, decompositions, sparse and nested tensors, spectra, special functions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F

from benchmarks.evidence.calls.layers import leaf

_Made = tuple[str, Callable[..., Any], tuple[Any, ...]]
_Calls = dict[str, tuple[Callable[..., Any], tuple[Any, ...]]]


def made() -> Iterator[_Made]:
    """Each call's name, function and tensors."""
    yield from _products()
    yield from _decompositions()
    yield from _sparse()
    yield from _nested()
    yield from _others()


def _products() -> Iterator[_Made]:
    for word, kind in (
        ("", torch.float32),
        ("half", torch.float16),
        ("bfloat16", torch.bfloat16),
        ("double", torch.float64),
        ("complex", torch.complex64),
    ):
        a, b, v = leaf(4, 5, dtype=kind), leaf(5, 3, dtype=kind), leaf(5, dtype=kind)
        batch, other = leaf(2, 4, 5, dtype=kind), leaf(2, 5, 3, dtype=kind)
        made: _Calls = {
            "mm": (torch.mm, (a, b)),
            "mv": (torch.mv, (a, v)),
            "dot": (torch.dot, (v, v * 2)),
            "vector matrix": (lambda v, b: v @ b, (v, b)),
            "bmm": (torch.bmm, (batch, other)),
            "batch vector": (lambda x, v: x @ v, (batch, v)),
            "broadcast": (lambda x, b: x @ b, (batch, b)),
            "left broadcast": (lambda a, x: a @ x, (a, other)),
            "addmm": (lambda c, a, b: torch.addmm(c, a, b, beta=0.5), (leaf(4, 3, dtype=kind), a, b)),
            "addmv": (torch.addmv, (leaf(4, dtype=kind), a, v)),
            "baddbmm": (torch.baddbmm, (leaf(2, 4, 3, dtype=kind), batch, other)),
            "addbmm": (torch.addbmm, (leaf(4, 3, dtype=kind), batch, other)),
            "addr": (torch.addr, (leaf(5, 4, dtype=kind), v, a[:, 0])),
            "outer": (torch.outer, (v, a[:, 0])),
            "linear": (F.linear, (a, leaf(3, 5, dtype=kind), leaf(3, dtype=kind))),
            "einsum": (partial(torch.einsum, "bij,bjk->bik"), (batch, other)),
            "einsum trace": (partial(torch.einsum, "ij,ij->"), (a, a)),
            "einsum outer": (partial(torch.einsum, "i,j->ij"), (v, v)),
            "einsum sum": (partial(torch.einsum, "bij->j"), (batch,)),
            "vecdot": (torch.linalg.vecdot, (a, a)),
            "kron": (torch.kron, (a, b)),
        }
        for name, (function, args) in made.items():
            yield f"times {name} {word}".strip(), function, args
    a, b, square = leaf(4, 5), leaf(5, 3), leaf(3, 4, 4)
    whole = torch.randint(0, 5, (4, 4))
    yield "times chain", lambda a, b: torch.linalg.multi_dot([a, b, b.t(), b]), (a, b)
    yield "times power", lambda x: torch.linalg.matrix_power(x, 3), (square,)
    yield "times tensordot", lambda a, b: torch.tensordot(a, b, ([1], [0])), (a, b)
    yield "times tensordot two", lambda x, y: torch.tensordot(x, y, 2), (leaf(2, 3, 4), leaf(3, 4, 5))
    yield "times inner", torch.inner, (a, leaf(6, 5))
    yield "times gram", lambda x: x @ x.mT, (square,)
    yield "times ints", lambda x: x @ x, (whole,)
    yield "times covariance", torch.cov, (a,)
    yield "times correlation", torch.corrcoef, (a,)
    yield "times distances", torch.cdist, (leaf(30, 4), leaf(28, 4))
    yield "times distances few", torch.cdist, (leaf(3, 4), leaf(5, 4))
    yield "times distances by one", partial(torch.cdist, p=1.0), (leaf(3, 4), leaf(5, 4))
    yield (
        "times distances exactly",
        partial(torch.cdist, compute_mode="donot_use_mm_for_euclid_dist"),
        (
            leaf(30, 4),
            leaf(28, 4),
        ),
    )
    yield "times pairs", F.pdist, (leaf(6, 3),)
    yield "times in half", _in_half, (a, b)
    yield "times attention", lambda x: (x @ x.mT).softmax(-1) @ x, (square,)
    yield "times nothing", lambda a, b: a[:0] @ b, (a, b)
    yield "times over nothing", lambda a, b: a[:, :0] @ b[:0], (a, b)
    yield "times into", lambda a, b: torch.mm(a, b, out=a.new_empty(4, 3)), (a.detach(), b.detach())
    yield "times twice", _twice, (a, b)
    yield "times vmapped", lambda x: torch.vmap(lambda m: m @ m)(x), (square,)
    yield "times vmapped vectors", lambda x, y: torch.vmap(torch.dot)(x, y), (leaf(4, 5), leaf(4, 5))
    yield "times jacobian", lambda x: torch.func.jacrev(lambda y: (y @ y.mT).sum(0))(x), (leaf(3, 3),)
    yield "times hessian", lambda x: torch.func.hessian(lambda y: (y @ y).pow(2).sum())(x), (leaf(3),)
    yield "times forward", lambda x, t: torch.func.jvp(lambda y: y @ y.mT, (x,), (t,))[1], (a.detach(), a.detach())


def _in_half(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    with torch.autocast(a.device.type, torch.bfloat16):
        return F.linear(a @ b, b)


def _twice(a: torch.Tensor, b: torch.Tensor) -> Any:
    (first,) = torch.autograd.grad((a @ b).pow(2).sum(), a, create_graph=True)
    return first.pow(2).sum()


def _decompositions() -> Iterator[_Made]:
    x = leaf(4, 4)
    batch, tall = leaf(2, 3, 3), leaf(5, 3)

    def good(m: torch.Tensor) -> torch.Tensor:
        return m @ m.mT + 3 * torch.eye(m.shape[-1], device=m.device, dtype=m.dtype)

    made: _Calls = {
        "cholesky": (lambda x: torch.linalg.cholesky(good(x)), (x,)),
        "cholesky many": (lambda x: torch.linalg.cholesky(good(x)), (batch,)),
        "cholesky solve": (lambda x: torch.cholesky_solve(x, torch.linalg.cholesky(good(x))), (x,)),
        "inverse": (lambda x: torch.linalg.inv(good(x)), (x,)),
        "pinv": (torch.linalg.pinv, (tall,)),
        "solve": (lambda x: torch.linalg.solve(good(x), x), (x,)),
        "solve vector": (lambda x: torch.linalg.solve(good(x), x[..., 0]), (x,)),
        "triangular": (lambda x: torch.linalg.solve_triangular(good(x).tril(), x, upper=False), (x,)),
        "determinant": (torch.linalg.det, (x,)),
        "log determinant": (lambda x: torch.linalg.slogdet(good(x))[1], (batch,)),
        "qr": (lambda x: torch.linalg.qr(x)[0], (tall,)),
        "svd": (lambda x: torch.linalg.svd(x, full_matrices=False)[1], (tall,)),
        "svd values": (torch.linalg.svdvals, (tall,)),
        "eigh": (lambda x: torch.linalg.eigh(good(x))[0], (x,)),
        "eigh vectors": (lambda x: torch.linalg.eigh(good(x))[1].abs(), (x,)),
        "eigvals": (lambda x: torch.linalg.eigvals(x).abs(), (x,)),
        "lstsq": (lambda x: torch.linalg.lstsq(x, x[:, :1])[0], (tall,)),
        "lu": (lambda x: torch.linalg.lu(x)[2], (x,)),
        "norm nuclear": (lambda x: torch.linalg.matrix_norm(x, "nuc"), (x,)),
        "norm spectral": (lambda x: torch.linalg.matrix_norm(x, 2), (x,)),
        "norm frobenius": (torch.linalg.matrix_norm, (batch,)),
        "norm of rows": (lambda x: torch.linalg.vector_norm(x, 1, dim=-1), (x,)),
        "householder": (lambda x: torch.linalg.householder_product(x, x[0].detach()), (tall,)),
        "low rank": (lambda x: torch.svd_lowrank(x, 2)[1], (tall,)),
        "principal": (lambda x: torch.pca_lowrank(x, 2)[1], (tall,)),
        "cross": (torch.linalg.cross, (tall, leaf(5, 3))),
        "trace": (torch.trace, (x,)),
    }
    for name, (function, args) in made.items():
        yield f"solved {name}", function, args


def _sparse() -> Iterator[_Made]:
    dense, rows = leaf(5, 4), leaf(4, 3)
    places = torch.tensor([[0, 1, 1, 4], [2, 0, 0, 3]])
    values = leaf(4)

    def coo(v: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        return torch.sparse_coo_tensor(i, v, (5, 4))

    made: _Calls = {
        "made dense": (lambda v, i: coo(v, i).to_dense(), (values, places)),
        "made dense together": (lambda v, i: coo(v, i).coalesce().to_dense(), (values, places)),
        "brought together": (lambda v, i: coo(v, i).coalesce().values(), (values, places)),
        "product": (lambda v, i, b: torch.sparse.mm(coo(v, i), b), (values, places, rows)),
        "product at": (lambda v, i, b: coo(v, i) @ b, (values, places, rows)),
        "product frozen": (lambda v, i, b: torch.sparse.mm(coo(v, i), b), (values.detach(), places, rows.detach())),
        "product vector": (lambda v, i, b: coo(v, i) @ b[:, 0], (values.detach(), places, rows.detach())),
        "product onto": (
            lambda v, i, b, c: torch.sparse.addmm(c, coo(v, i), b),
            (values, places, rows, leaf(5, 3)),
        ),
        "onto dense": (lambda v, i, d: d + coo(v, i), (values, places, dense)),
        "onto dense in place": (lambda v, i, d: d.clone().add_(coo(v, i)), (values.detach(), places, dense.detach())),
        "onto sparse": (lambda v, i: (coo(v, i) + coo(v * 2, i)).to_dense(), (values, places)),
        "times number": (lambda v, i: (coo(v, i) * 2).to_dense(), (values, places)),
        "times dense": (lambda v, i, d: (coo(v, i).coalesce() * d).to_dense(), (values, places, dense)),
        "summed": (lambda v, i: torch.sparse.sum(coo(v, i)), (values, places)),
        "summed rows": (lambda v, i: torch.sparse.sum(coo(v, i), 1).to_dense(), (values, places)),
        "softmax": (lambda v, i: torch.sparse.softmax(coo(v, i), 1).to_dense(), (values, places)),
        "from dense": (lambda d: d.relu().to_sparse().to_dense(), (dense,)),
        "masked": (lambda v, i, d: d.sparse_mask(coo(v, i).coalesce()).to_dense(), (values.detach(), places, dense)),
        "turned": (lambda v, i: coo(v, i).t().to_dense(), (values, places)),
        "selected": (lambda v, i, d: coo(v, i).index_select(0, i[0]).to_dense(), (values.detach(), places, dense)),
    }
    for name, (function, args) in made.items():
        yield f"thinly {name}", function, args
        if name in {"made dense", "product", "onto dense in place"}:
            yield (
                f"thinly {name} double",
                function,
                tuple(
                    one.detach().double().requires_grad_(one.requires_grad) if one.is_floating_point() else one
                    for one in args
                ),
            )
    yield "thinly rows made dense", lambda d: d.to_sparse_csr().to_dense(), (dense.detach(),)
    yield "thinly rows product", lambda d, b: d.to_sparse_csr() @ b, (dense.detach(), rows.detach())
    yield "thinly rows product trained", lambda d, b: d.to_sparse_csr() @ b, (dense.detach(), rows)
    yield "thinly rows vector", lambda d, b: d.to_sparse_csr() @ b[:, 0], (dense.detach(), rows.detach())
    yield "thinly adam", _sparse_adam, (torch.randint(0, 6, (8,)),)
    yield "thinly sgd", _sparse_sgd, (torch.randint(0, 6, (8,)),)


def _sparse_adam(i: torch.Tensor) -> torch.Tensor:
    layer = torch.nn.Embedding(6, 3, sparse=True).to(i.device)
    optimizer = torch.optim.SparseAdam(list(layer.parameters()))
    layer(i).pow(2).sum().backward()
    optimizer.step()
    return layer.weight.detach()


def _sparse_sgd(i: torch.Tensor) -> torch.Tensor:
    layer = torch.nn.Embedding(6, 3, sparse=True).to(i.device)
    optimizer = torch.optim.SGD(layer.parameters(), 0.1)
    layer(i).pow(2).sum().backward()
    optimizer.step()
    return layer.weight.detach()


def _nested() -> Iterator[_Made]:
    a, b, weight = leaf(2, 4), leaf(3, 4), leaf(4, 4)

    def ragged(*parts: torch.Tensor) -> torch.Tensor:
        return torch.nested.as_nested_tensor(list(parts))

    def jagged(*parts: torch.Tensor) -> torch.Tensor:
        return torch.nested.as_nested_tensor(list(parts), layout=torch.jagged)

    for name, make in (("ragged", ragged), ("jagged", jagged)):
        yield f"{name} linear", lambda a, b, w, m=make: F.linear(m(a, b), w).values().sum(0), (a, b, weight)
        yield f"{name} activated", lambda a, b, m=make: m(a, b).relu().values(), (a, b)
        yield f"{name} softmax", lambda a, b, m=make: m(a, b).softmax(-1).values(), (a, b)
        yield (
            f"{name} normed",
            lambda a, b, m=make: F.layer_norm(m(a, b), (4,), a[0].detach(), a[1].detach()).values(),
            (a, b),
        )
        yield f"{name} padded", lambda a, b, m=make: torch.nested.to_padded_tensor(m(a, b), 0.0), (a, b)


def _others() -> Iterator[_Made]:
    x, signal = leaf(4, 6), leaf(2, 64)
    made: _Calls = {
        "fft": (lambda x: torch.fft.fft(x).abs(), (x,)),
        "rfft": (lambda x: torch.fft.rfft(x).abs(), (x,)),
        "irfft": (lambda x: torch.fft.irfft(torch.fft.rfft(x)), (x,)),
        "fft plane": (lambda x: torch.fft.fft2(x).abs(), (x,)),
        "stft": (
            lambda x: torch.stft(
                x, 16, hop_length=4, window=torch.hann_window(16, device=x.device), return_complex=True
            ).abs(),
            (signal,),
        ),
        "stft and back": (_there_and_back, (signal,)),
        "convolved": (lambda x: F.conv1d(x[:, None], x[:1, None, :5].detach()), (signal,)),
        "bessel": (lambda x: torch.special.i0e(x), (x,)),
        "erf": (torch.special.erfcx, (x,)),
        "gamma": (lambda x: torch.lgamma(x.abs() + 1), (x,)),
        "digamma": (lambda x: torch.digamma(x.abs() + 1), (x,)),
        "entropy": (lambda x: torch.special.entr(x.sigmoid()), (x,)),
        "logs": (lambda x: torch.xlogy(x, x.exp()), (x,)),
        "logsumexp": (lambda x: x.logsumexp((0, 1)), (x,)),
        "softmax": (lambda x: F.softmax(x, 0, dtype=torch.float64), (x,)),
        "softmin": (lambda x: F.softmin(x, 1), (x,)),
        "normalised": (lambda x: F.normalize(x, p=1, dim=0), (x,)),
        "renormed": (lambda x: x.renorm(2, 0, 0.5), (x,)),
        "product": (lambda x: x.prod(1), (x,)),
        "product of all": (torch.prod, (x,)),
        "variance": (lambda x: x.var(0, correction=0), (x,)),
        "nan mean": (lambda x: x.nanmean(1), (x,)),
        "clamped": (lambda x: x.clamp(-0.5, 0.5), (x,)),
        "interpolated": (lambda x: torch.lerp(x, x.flip(0), 0.3), (x,)),
        "polar": (lambda x: torch.polar(x.abs() + 1, x).real, (x,)),
        "complex squares": (lambda x: torch.view_as_complex(x.view(4, 3, 2)).abs().square(), (x,)),
        "fake quantised": (lambda x: torch.fake_quantize_per_tensor_affine(x, 0.1, 0, -128, 127), (x,)),
        "meshed": (lambda x: torch.meshgrid(x[0], x[1], indexing="ij")[0] * x[1], (x,)),
        "combined": (lambda x: torch.combinations(x[0]).prod(1), (x,)),
        "cartesian": (lambda x: torch.cartesian_prod(x[0], x[1]).sum(1), (x,)),
        "block diagonal": (lambda x: torch.block_diag(x, x), (x,)),
        "vandermonde": (lambda x: x.detach()[0][:, None] ** torch.arange(3, device=x.device), (x,)),
        "split": (lambda x: torch.cat([part.mean(1) for part in x.tensor_split(4, 1)]), (x,)),
        "trapezoid": (lambda x: torch.trapezoid(x, dx=0.5), (x,)),
        "rounded": (lambda x: x.round(decimals=1), (x,)),
        "half sums": (lambda x: x.half().sum(), (x,)),
        "bfloat mean": (lambda x: x.bfloat16().mean(0), (x,)),
        "int mean": (lambda x: x.long().sum(0), (x.detach(),)),
    }
    for name, (function, args) in made.items():
        yield f"figured {name}", function, args


def _there_and_back(x: torch.Tensor) -> torch.Tensor:
    window = torch.hann_window(16, device=x.device)
    seen = torch.stft(x, 16, hop_length=4, window=window, return_complex=True)
    return torch.istft(seen, 16, hop_length=4, window=window)
