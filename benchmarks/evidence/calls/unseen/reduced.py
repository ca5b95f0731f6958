"""Scans, orders, counts, linear algebra and contractions, by tensor methods and odd arguments."""

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
    yield from _scans()
    yield from _orders()
    yield from _counts()
    yield from _algebra()
    yield from _contracted()


def _scans() -> Iterator[_Made]:
    x, whole = leaf(3, 5), torch.arange(15).view(3, 5)
    yield "scanned cumsum", lambda x: x.cumsum(-1), (x,)
    yield "scanned cumsum frozen", lambda x: x.cumsum(0), (x.detach(),)
    yield "scanned cumsum of ints", lambda x: x.cumsum(1), (whole,)
    yield "scanned cumsum of ints as floats", lambda x: x.cumsum(1, dtype=torch.float32), (whole,)
    yield "scanned cumsum of floats as ints", lambda x: x.cumsum(1, dtype=torch.int64), (x.detach(),)
    yield "scanned cumsum of truths", lambda x: (x > 0).cumsum(0), (x.detach(),)
    yield "scanned cumsum half", lambda x: x.cumsum(1), (leaf(2, 6, dtype=torch.bfloat16),)
    yield "scanned cumsum complex", lambda x: x.cumsum(0), (leaf(4, dtype=torch.complex64),)
    yield "scanned cumsum short", lambda x: x.cumsum(0), (leaf(1, 4),)
    yield "scanned cumsum 0-d", lambda x: x.cumsum(0), (leaf(),)
    yield "scanned cumsum none", lambda x: x.cumsum(0), (leaf(0, 3),)
    yield "scanned cumsum in place", lambda x: x.clone().cumsum_(1), (x.detach(),)
    yield "scanned cumsum into", lambda x: torch.cumsum(x, 0, out=torch.empty_like(x)), (x.detach(),)
    yield "scanned backwards", lambda x: x.flip(1).cumsum(1).flip(1), (x,)
    yield "scanned cumprod frozen", lambda x: x.cumprod(1), (x.detach(),)
    yield "scanned cumprod ints", lambda x: x.cumprod(0), (whole,)
    yield "scanned logs", lambda x: x.logcumsumexp(1), (x,)
    yield "scanned logs frozen", lambda x: x.logcumsumexp(0), (x.detach(),)
    yield "scanned cummax", lambda x: x.cummax(1), (x,)
    yield "scanned cummin", lambda x: torch.cummin(x, 0)[0], (x,)
    yield "scanned cummax frozen", lambda x: x.cummax(0), (x.detach(),)
    yield "scanned trapezoids", torch.cumulative_trapezoid, (x,)
    yield "scanned trapezoid", partial(torch.trapezoid, dx=0.5), (x,)
    yield "scanned differences", partial(torch.diff, n=2), (x,)
    yield "scanned gradient", lambda x: torch.gradient(x, dim=1)[0], (x,)


def _orders() -> Iterator[_Made]:
    x, whole = leaf(4, 7), torch.randint(0, 9, (4, 7))
    yield "ordered stable", lambda x: x.sort(dim=0, stable=True, descending=True), (x,)
    yield "ordered places", lambda x: x.argsort(stable=True), (x,)
    yield "ordered ints", lambda x: x.sort(), (whole,)
    yield "ordered rows", torch.msort, (x,)
    yield "ordered top", lambda x: x.topk(3, dim=0, largest=False), (x,)
    yield "ordered top unsorted", lambda x: x.topk(2, sorted=False), (x.detach(),)
    yield "ordered top ints", lambda x: x.topk(2), (whole,)
    yield "ordered kth", lambda x: x.kthvalue(2, dim=0, keepdim=True), (x,)
    yield "ordered kth value alone", lambda x: x.kthvalue(3)[0], (x,)
    yield "ordered kth frozen", lambda x: x.kthvalue(1), (x.detach(),)
    yield "ordered kth ints", lambda x: x.kthvalue(2), (whole,)
    yield "ordered kth 0-d", lambda x: x.kthvalue(1), (leaf(),)
    yield "ordered median", torch.median, (x,)
    yield "ordered median rows", lambda x: x.median(1), (x,)
    yield "ordered median rows frozen", lambda x: x.median(0, keepdim=True), (x.detach(),)
    yield "ordered median ints", lambda x: x.median(0), (whole,)
    yield "ordered median 0-d", lambda x: x.median(0), (leaf(),)
    yield "ordered median values alone", lambda x: x.median(0).values.sum(), (x,)
    yield "ordered nanmedian", torch.nanmedian, (x,)
    yield "ordered nanmedian rows", lambda x: x.nanmedian(0), (x,)
    yield "ordered mode", lambda x: x.mode(0), (x,)
    yield "ordered mode values", lambda x: x.mode()[0], (x,)
    yield "ordered mode ints", lambda x: x.mode(), (whole,)
    yield "ordered quantile", lambda x: x.quantile(0.3), (x,)
    yield "ordered quantiles", lambda x: x.quantile(torch.tensor([0.1, 0.5], device=x.device), dim=1), (x,)
    yield "ordered quantile lower", lambda x: torch.nanquantile(x, 0.5, dim=0, interpolation="lower"), (x,)
    yield "ordered max", lambda x: x.max(0), (x,)
    yield "ordered min of all", lambda x: x.min(), (x,)
    yield "ordered max of a number", lambda x: x.sum().max(0)[0], (x,)
    yield "ordered amax", lambda x: x.amax((0, 1)), (x,)
    yield "ordered aminmax", lambda x: torch.aminmax(x, dim=1), (x,)
    yield "ordered argmax", lambda x: x.argmax(1, keepdim=True), (x.detach(),)
    yield "ordered searched", lambda x: torch.searchsorted(x, x[:, :2] + 1), (x.detach().sort().values,)
    yield "ordered bucketed", lambda x: torch.bucketize(x, torch.tensor([-1.0, 0, 1], device=x.device)), (x.detach(),)


def _counts() -> Iterator[_Made]:
    x, whole = torch.rand(20), torch.randint(0, 6, (20,))
    yield "counting histc", partial(torch.histc, bins=7, min=0, max=1), (x,)
    yield "counting histc double", lambda x: x.double().histc(4, -1, 2), (x,)
    yield "counting histc none", partial(torch.histc, bins=6, min=0, max=6), (x[:0],)
    yield "counting bins", partial(torch.bincount, minlength=8), (whole,)
    yield "counting weights", lambda i, w: i.bincount(w), (whole, x)
    yield "counting double weights", lambda i, w: i.bincount(w.double(), minlength=9), (whole, x)
    yield "counting int weights", lambda i: i.bincount(i), (whole,)
    yield "counting truths", lambda i: (i > 2).int().bincount(), (whole,)
    yield "counting histogram", partial(torch.histogram, bins=5, range=(0.0, 1.0)), (x,)
    yield "counting histogram weighted", _histogram, (x,)
    yield "counting histogramdd", partial(torch.histogramdd, bins=[2, 3]), (torch.rand(9, 2),)
    yield "counting nonzero", lambda x: x.count_nonzero(), (whole,)
    yield "counting one hot", partial(F.one_hot, num_classes=6), (whole,)
    yield "counting covariance", lambda x: torch.cov(x.view(4, 5)), (x.clone().requires_grad_(),)
    yield "counting spread", lambda x: x.view(4, 5).std(1, correction=0), (x.clone().requires_grad_(),)
    yield "counting norm", lambda x: x.norm(p=3), (x.clone().requires_grad_(),)
    yield "counting product", lambda x: x.view(4, 5).prod(), (x.clone(),)


def _histogram(x: torch.Tensor) -> Any:
    return torch.histogram(x, torch.tensor([0.0, 0.2, 1.0], device=x.device), weight=x)


def _algebra() -> Iterator[_Made]:
    x = leaf(4, 4)
    safe = (torch.eye(4) * 4 + torch.randn(4, 4) * 0.1).requires_grad_()
    likeable = torch.eye(3).repeat(2, 1, 1).mul(3.0).requires_grad_()
    yield "algebra solve", torch.linalg.solve, (safe, leaf(4, 2))
    yield "algebra inverse", torch.linalg.inv_ex, (likeable,)
    yield "algebra det", torch.linalg.det, (likeable,)
    yield "algebra slogdet", torch.linalg.slogdet, (safe,)
    yield "algebra cholesky", torch.linalg.cholesky_ex, (likeable,)
    yield "algebra triangular", partial(torch.linalg.solve_triangular, upper=True), (safe, leaf(4, 2))
    yield "algebra qr", torch.linalg.qr, (x,)
    yield "algebra svd", lambda x: torch.linalg.svdvals(x), (x,)
    yield "algebra eigh", lambda x: torch.linalg.eigvalsh(x), (likeable,)
    yield "algebra power", lambda x: torch.linalg.matrix_power(x, 3), (x,)
    yield "algebra norm", lambda x: torch.linalg.matrix_norm(x, 1), (x,)
    yield "algebra vector norm", lambda x: torch.linalg.vector_norm(x, 0.5, dim=1), (x,)
    yield "algebra many", lambda x, y: torch.linalg.multi_dot((x, y, x)), (x, leaf(4, 4))
    yield "algebra cross", lambda x, y: torch.linalg.cross(x, y), (leaf(2, 3), leaf(2, 3))
    yield "algebra vecdot", torch.linalg.vecdot, (x, leaf(4, 4))
    yield "algebra householder", torch.linalg.householder_product, (leaf(4, 2), leaf(2))
    yield "algebra lu", lambda x: torch.linalg.lu_factor_ex(x)[0], (safe,)
    yield "algebra least squares", lambda x, y: torch.linalg.lstsq(x, y).solution, (safe, leaf(4, 1))
    yield "algebra cholesky solve", lambda x, y: torch.cholesky_solve(y, x.tril()), (safe, leaf(4, 2))
    yield "algebra outer", torch.outer, (leaf(3), leaf(5))
    yield "algebra kron", torch.kron, (leaf(2, 2), leaf(2, 3))
    yield "algebra fft", lambda x: torch.fft.rfft2(x).abs(), (x,)
    yield "algebra stft", lambda x: torch.stft(x, 8, 4, return_complex=True), (leaf(32),)
    yield "algebra istft", _istft, (leaf(32),)


def _istft(x: torch.Tensor) -> torch.Tensor:
    window = torch.hann_window(8, device=x.device)
    return torch.istft(torch.stft(x, 8, 4, window=window, return_complex=True), 8, 4, window=window)


def _contracted() -> Iterator[_Made]:
    x, y, batch = leaf(3, 4), leaf(4, 5), leaf(2, 3, 4)
    yield "contracted mm", torch.mm, (x, y)
    yield "contracted mm half", torch.mm, (leaf(3, 4, dtype=torch.float16), leaf(4, 5, dtype=torch.float16))
    yield "contracted mm complex", torch.mm, (leaf(3, 4, dtype=torch.complex64), leaf(4, 2, dtype=torch.complex64))
    yield "contracted mm empty", torch.mm, (leaf(0, 4), y)
    yield "contracted mm nothing", torch.mm, (leaf(3, 0), leaf(0, 5))
    yield "contracted mv", torch.mv, (x, leaf(4))
    yield "contracted dot", torch.dot, (leaf(6), leaf(6))
    yield "contracted vdot", torch.vdot, (leaf(6, dtype=torch.complex64), leaf(6, dtype=torch.complex64))
    yield "contracted matmul", torch.matmul, (batch, y)
    yield "contracted matmul row", torch.matmul, (leaf(4), batch.detach().mT)
    yield "contracted bmm", torch.bmm, (batch, leaf(2, 4, 3))
    yield "contracted baddbmm", partial(torch.baddbmm, beta=0, alpha=2), (leaf(2, 3, 3), batch, leaf(2, 4, 3))
    yield "contracted addbmm", torch.addbmm, (leaf(3, 3), batch, leaf(2, 4, 3))
    yield "contracted addmm", partial(torch.addmm, beta=0.5), (leaf(5), x, y)
    yield "contracted addmm of none", torch.addmm, (leaf(3, 5), leaf(3, 0), leaf(0, 5))
    yield "contracted addmv", torch.addmv, (leaf(3), x, leaf(4))
    yield "contracted addr", torch.addr, (x, leaf(3), leaf(4))
    yield "contracted linear", F.linear, (batch, leaf(6, 4), leaf(6))
    yield "contracted linear vector", F.linear, (leaf(4), leaf(6, 4))
    yield "contracted bilinear", F.bilinear, (leaf(3, 2), leaf(3, 4), leaf(5, 2, 4), leaf(5))
    yield "contracted einsum trace", partial(torch.einsum, "ii->"), (leaf(4, 4),)
    yield "contracted einsum product", lambda x, y: torch.einsum("bij,jk->bik", x, y), (batch, y)
    yield "contracted einsum elementwise", lambda x, y: torch.einsum("ij,ij->ij", x, y), (x, leaf(3, 4))
    yield "contracted einsum three", lambda x, y, z: torch.einsum("ij,jk,kl->il", x, y, z), (x, y, leaf(5, 2))
    yield "contracted einsum outer", lambda x, y: torch.einsum("i,j->ij", x, y), (leaf(3), leaf(2))
    yield "contracted einsum dots", lambda x, y: torch.einsum("bij,bij->b", x, y), (batch, leaf(2, 3, 4))
    yield "contracted tensordot", partial(torch.tensordot, dims=([1, 2], [0, 1])), (batch, leaf(3, 4, 2))
    yield "contracted inner", torch.inner, (x, leaf(2, 4))
    yield "contracted mapped", lambda x, y: torch.vmap(torch.mv)(x, y), (batch, leaf(2, 4))
