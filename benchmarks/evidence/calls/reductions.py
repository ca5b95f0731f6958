"""Scans, orders, counts, statistics and special functions."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F

from benchmarks.evidence.calls.making import KINDS, Call, Calls, leaf, made, of_kind
from benchmarks.evidence.made import FIRST, FOURTH, SECOND, SIXTH, THIRD


@made(FIRST)
def sorted() -> Iterator[Call]:
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


@made(FIRST)
def scanned() -> Iterator[Call]:
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


@made(SECOND)
def ordered() -> Iterator[Call]:
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


@made(SECOND)
def counted() -> Iterator[Call]:
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


@made(SECOND)
def scanned_second() -> Iterator[Call]:
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


@made(THIRD)
def scans() -> Iterator[Call]:
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


@made(THIRD)
def orders() -> Iterator[Call]:
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


@made(THIRD)
def counts() -> Iterator[Call]:
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


@made(FOURTH)
def statistics() -> Iterator[Call]:
    x = leaf(6, 5)
    plain = x.detach()
    yield "figures var mean", lambda x: torch.var_mean(x, 1), (x,)
    yield "figures logsumexp", lambda x: torch.logsumexp(x, (0, 1)), (x,)
    yield "figures nansum", lambda x: torch.nansum(x), (x,)
    yield "figures nanmean", lambda x: torch.nanmean(x, 0), (x,)
    yield "figures quantile linear", lambda x: torch.quantile(x, 0.3, dim=1), (x,)
    yield "figures nanquantile", lambda x: torch.nanquantile(x, torch.tensor([0.1, 0.9], device=x.device), dim=0), (x,)
    yield "figures nanmedian", torch.nanmedian, (x,)
    yield "figures median frozen", torch.median, (plain,)
    yield "figures median double", lambda x: torch.median(x, -1), (x.detach().double(),)
    yield "figures mode long", lambda x: torch.mode(x.long(), 0), (plain,)
    yield "figures kth last", lambda x: x.kthvalue(3, -1, keepdim=True).values, (x,)
    yield "figures kth row", lambda x: torch.kthvalue(x.flatten(), 7), (plain,)
    yield "figures top long", lambda x: x.flatten().repeat(100).topk(5), (plain,)
    yield "figures ranked", lambda x: x.argsort(0).argsort(0), (plain,)
    yield "figures sorted stably", lambda x: torch.sort(x.long(), stable=True, descending=True), (plain,)
    yield "figures lexsorted", lambda x: x[x[:, 1].argsort()][:, x[0].argsort()], (plain,)
    yield (
        "figures unique rows",
        lambda x: torch.unique(x.round(), dim=0, return_inverse=True, return_counts=True),
        (plain,),
    )
    yield "figures unique runs", lambda x: torch.unique_consecutive(x.round().flatten(), return_counts=True), (plain,)
    yield "figures member", lambda x: torch.isin(x.round(), x[0].round()), (plain,)
    yield "figures bins of words", lambda x: torch.bincount(x.abs().long().flatten(), minlength=6), (plain,)
    yield "figures bins weighed", lambda x: torch.bincount(x.abs().long().flatten(), x.flatten()), (plain,)
    yield "figures bins weighed half", lambda x: torch.bincount(x.abs().long().flatten(), x.flatten().half()), (plain,)
    yield (
        "figures bins weighed double",
        lambda x: torch.bincount(x.abs().long().flatten(), x.flatten().double()),
        (plain,),
    )
    yield "figures bins weighed ints", lambda x: torch.bincount(x.abs().long().flatten(), x.flatten().long()), (plain,)
    yield "figures bins of bytes", lambda x: torch.bincount(x.abs().to(torch.uint8).flatten()), (plain,)
    yield "figures histc ints", lambda x: torch.histc(x.long(), 5), (plain,)
    yield "figures histc half", lambda x: torch.histc(x.half(), 5), (plain,)
    yield "figures histogram", lambda x: torch.histogram(x, 5), (plain,)
    yield "figures cumulative max", lambda x: x.cummax(1).values, (x,)
    yield "figures cumulative ints", lambda x: x.long().cumsum(1), (plain,)
    yield "figures cumulative row", lambda x: x.flatten().cumsum(0), (x,)
    yield "figures cumulative row frozen", lambda x: x.flatten().cumsum(0), (plain,)
    yield "figures cumulative row double", lambda x: x.flatten().double().cumsum(0), (plain,)
    yield "figures cumulative bytes", lambda x: (x > 0).cumsum(0, dtype=torch.uint8), (plain,)
    yield "figures cumulative truth frozen", lambda x: (x > 0).cumsum(-1), (plain,)
    yield "figures cumulative product row", lambda x: x.flatten().cumprod(0), (plain,)
    yield "figures cumulative logs rows", lambda x: x.logcumsumexp(1), (plain,)
    yield "figures trapezoid", lambda x: torch.cumulative_trapezoid(x, dim=0), (x,)
    yield "figures moving", lambda x: (x.cumsum(0)[2:] - x.cumsum(0)[:-2]) / 2, (x,)
    yield "figures prod", lambda x: x.prod(1), (plain,)
    yield "figures all", lambda x: (x > 0).all(0), (plain,)
    yield "figures equal", lambda x: torch.count_nonzero(x > 0, dim=1), (plain,)
    yield "figures argmin", lambda x: x.argmin(0, keepdim=True), (plain,)
    yield "figures nearest", lambda x: torch.cdist(x, x + 1).min(1), (x,)
    yield "figures bucketed", lambda x: torch.bucketize(x, x[0].sort().values, right=True), (plain,)
    yield "figures steps", lambda x: torch.searchsorted(x.sort(1).values, x, side="left"), (plain,)
    yield (
        "figures histogram soft",
        lambda x: torch.exp(-((x.flatten()[:, None] - torch.arange(4, device=x.device)) ** 2)).sum(0),
        (x,),
    )


@made(FOURTH)
def special() -> Iterator[Call]:
    x = torch.rand(3, 4).add(0.2).requires_grad_()
    for name in ("digamma", "erfcx", "i0e", "i1", "log_ndtr", "ndtri", "entr", "sinc", "gammaln", "expit", "xlog1py"):
        call = getattr(torch.special, name)
        yield f"function {name}", (lambda x, call=call: call(x, x)) if name == "xlog1py" else call, (x,)
    for name in ("bessel_j0", "airy_ai", "modified_bessel_k0", "spherical_bessel_j0"):
        yield f"function {name}", getattr(torch.special, name), (x.detach(),)
    yield "function zeta", lambda x: torch.special.zeta(x + 2, x), (x.detach(),)
    yield "function gammainc", lambda x: torch.special.gammainc(x, x * 2), (x.detach(),)
    yield "function multigamma", lambda x: torch.special.multigammaln(x + 3, 2), (x,)
    yield "function polygamma", lambda x: torch.polygamma(2, x), (x,)
    yield "function lerp", lambda x: torch.lerp(x, x * 2, x), (x,)
    yield "function heaviside", lambda x: torch.heaviside(x - 0.5, x), (x.detach(),)
    yield "function frexp", lambda x: torch.frexp(x), (x.detach(),)
    yield "function nextafter", lambda x: torch.nextafter(x, x + 1), (x.detach(),)
    yield "function bits", lambda x: torch.bitwise_left_shift(x.mul(9).long(), 2) ^ 5, (x.detach(),)
    yield "function quantised", lambda x: torch.fake_quantize_per_tensor_affine(x, 0.1, 0, 0, 255), (x,)
    yield "function quantised rows", _quantised, (x,)
    yield "function bfloat", lambda x: x.bfloat16().float().sum(), (x,)
    yield "function eight bits", lambda x: x.detach().to(torch.float8_e4m3fn).float(), (x,)


def _quantised(x: torch.Tensor) -> torch.Tensor:
    scale, zero = torch.full((3,), 0.1, device=x.device), torch.zeros(3, dtype=torch.int32, device=x.device)
    return torch.fake_quantize_per_channel_affine(x, scale, zero, 0, 0, 255)


@made(SIXTH)
def cumulated() -> Iterator[Call]:
    for word, kind in KINDS:
        row, table = of_kind(kind, 17), of_kind(kind, 4, 5)
        yield f"cumulated row {word}".strip(), lambda x: x.cumsum(0), (row,)
        yield f"cumulated rows {word}".strip(), lambda x: x.cumsum(-1), (table,)
        yield f"cumulated columns {word}".strip(), lambda x: x.cumsum(0), (table,)
        if kind is not torch.bool and kind is not torch.complex64:
            yield f"cumulated largest {word}".strip(), lambda x: x.cummax(0)[0], (table,)
        yield f"cumulated product {word}".strip(), lambda x: x.detach().cumprod(1), (table,)
        yield f"cumulated product row {word}".strip(), lambda x: x.detach().cumprod(0), (row,)
        if kind.is_floating_point:
            yield f"cumulated logs {word}".strip(), lambda x: x.logcumsumexp(0), (row,)
            yield f"cumulated logs rows {word}".strip(), lambda x: x.logcumsumexp(-1), (table,)
    x = leaf(4, 6)
    yield "cumulated to double", lambda x: x.cumsum(1, dtype=torch.float64), (x,)
    yield "cumulated mask", lambda x: (x > 0).cumsum(1), (x,)
    yield "cumulated mask row", lambda x: (x > 0).flatten().cumsum(0), (x.detach(),)
    yield "cumulated in place", lambda x: x.clone().cumsum_(1), (x,)
    yield "cumulated into", lambda x: torch.cumsum(x, 0, out=torch.empty_like(x)), (x.detach(),)
    yield "cumulated of one", lambda x: x[:1].cumsum(0), (x,)
    yield "cumulated backwards", lambda x: x.flip(0).cumsum(0).flip(0), (x,)
    yield "cumulated area", lambda x: torch.cumulative_trapezoid(x, dim=0), (x,)
    yield "cumulated differences", lambda x: torch.gradient(x, dim=0)[0], (x,)
    yield "cumulated discount", lambda x: (x * 0.9).cumsum(-1).exp(), (leaf(30),)


@made(SIXTH)
def ordered_sixth() -> Iterator[Call]:
    for word, kind in KINDS[:7]:
        if kind is torch.complex64:
            continue
        row, table = of_kind(kind, 19), of_kind(kind, 5, 6)
        yield f"ordered {word}".strip(), lambda x: x.sort(-1)[0], (table,)
        yield f"ordered stably {word}".strip(), lambda x: x.sort(dim=0, stable=True)[0], (table,)
        yield f"ordered places {word}".strip(), lambda x: x.argsort(-1, descending=True), (table,)
        yield f"ordered top {word}".strip(), lambda x: x.topk(2, -1)[0], (table,)
        yield f"ordered smallest row {word}".strip(), lambda x: x.topk(3, largest=False)[0], (row,)
        yield f"ordered kth {word}".strip(), lambda x: x.kthvalue(2, -1)[0], (table,)
        yield f"ordered kth place {word}".strip(), lambda x: x.detach().kthvalue(2, -1)[1], (table,)
        yield f"ordered median {word}".strip(), lambda x: x.median(), (table,)
        yield f"ordered median rows {word}".strip(), lambda x: x.median(-1)[0], (table,)
        yield f"ordered median place {word}".strip(), lambda x: x.detach().median(0)[1], (table,)
        yield f"ordered mode {word}".strip(), lambda x: x.mode(-1)[0], (table,)
        yield f"ordered largest {word}".strip(), lambda x: x.max(0)[0], (table,)
        yield f"ordered largest of all {word}".strip(), lambda x: x.max(), (table,)
    x = leaf(5, 6)
    yield "ordered nan median", lambda x: x.nanmedian(1)[0], (x,)
    yield "ordered nan median of all", lambda x: x.nanmedian(), (x,)
    yield "ordered quantile", lambda x: x.quantile(torch.tensor([0.2, 0.8], device=x.device), dim=1), (x,)
    yield "ordered quantile near", lambda x: x.quantile(0.3, interpolation="nearest"), (x,)
    yield "ordered trimmed", lambda x: x.sort(0)[0][1:-1].mean(0), (x,)
    yield "ordered uniques", lambda x: x.round().unique(), (x.detach(),)
    yield (
        "ordered uniques counted",
        lambda x: x.unique(return_counts=True, return_inverse=True),
        (torch.randint(0, 4, (20,)),),
    )
    yield "ordered unique rows", lambda x: x.unique(dim=0, return_inverse=True), (torch.randint(0, 2, (9, 2)),)
    yield "ordered runs", lambda x: x.unique_consecutive(return_counts=True), (torch.randint(0, 2, (20,)),)
    yield (
        "ordered search",
        lambda x, v: torch.searchsorted(x.sort(-1)[0].contiguous(), v),
        (
            x.detach(),
            torch.randn(5, 3),
        ),
    )
    yield "ordered buckets", lambda x: torch.bucketize(x, torch.linspace(-1, 1, 5, device=x.device)), (x.detach(),)
    yield "ordered membership", lambda x: torch.isin(x, x[:3]), (torch.arange(9),)
    yield "ordered aminmax", lambda x: torch.aminmax(x, dim=0), (x,)
    yield "ordered argmax", lambda x: x.argmax(1), (x.detach(),)
    yield "ordered scalar", lambda x: x.sum().sort()[0], (x,)
    yield "ordered scalar median", lambda x: x.sum().median(), (x,)
    yield "ordered scalar top", lambda x: x.sum().topk(1)[0], (x,)


@made(SIXTH)
def counted_sixth() -> Iterator[Call]:
    labels, x, weights = torch.randint(0, 6, (30,)), torch.randn(30), torch.rand(30)
    yield "counted", lambda i: torch.bincount(i), (labels,)
    yield "counted at least", lambda i: torch.bincount(i, minlength=9), (labels,)
    yield "counted bytes", lambda i: torch.bincount(i), (labels.byte(),)
    yield "counted int32", lambda i: torch.bincount(i, minlength=4), (labels.int(),)
    yield "counted weighed", lambda i, w: torch.bincount(i, w), (labels, weights)
    yield "counted weighed double", lambda i, w: torch.bincount(i, w), (labels, weights.double())
    yield "counted weighed ints", lambda i, w: torch.bincount(i, w), (labels, labels)
    yield "counted weighed mask", lambda i, w: torch.bincount(i, w), (labels, labels > 2)
    yield "counted confusion", lambda i: torch.bincount(i * 6 + i.roll(1), minlength=36).view(6, 6), (labels,)
    yield "counted histc", lambda x: torch.histc(x, 8), (x,)
    yield "counted histc bounds", lambda x: torch.histc(x, 5, -1, 1), (x.double(),)
    yield "counted histc method", lambda x: x.histc(bins=4, min=0, max=2), (x,)
    yield "counted histogram", lambda x: torch.histogram(x, 5)[0], (x,)
    yield "counted histogram weighed", lambda x, w: torch.histogram(x, 5, weight=w)[0], (x, weights)
    yield "counted histogram of points", lambda x: torch.histogramdd(x.view(15, 2), [3, 3])[0], (x,)
    yield "counted by hot", lambda i: torch.nn.functional.one_hot(i, 6).sum(0), (labels,)
    yield "counted by compare", lambda i: (i[:, None] == torch.arange(6, device=i.device)).sum(0), (labels,)
    yield "counted by scatter", lambda i: i.new_zeros(6).scatter_add(0, i, torch.ones_like(i)), (labels,)
    yield (
        "counted by scatter floats",
        lambda i: x.new_zeros(6, device=i.device).scatter_add(0, i, torch.ones_like(i, dtype=torch.float32)),
        (labels,),
    )
    yield "counted nonzero", lambda x: torch.count_nonzero(x, dim=0), (x,)
    yield "counted where", lambda x: (x > 0).nonzero(), (x,)


@made(SIXTH)
def others() -> Iterator[Call]:
    x, signal = leaf(4, 6), leaf(2, 64)
    made: Calls = {
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
