"""Algebra, spectra, statistics, special functions, sets, sparse and nested tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch

from benchmarks.evidence.calls.layers import leaf

_Made = tuple[str, Callable[..., Any], tuple[Any, ...]]


def made() -> Iterator[_Made]:
    """Each call's name, function and tensors."""
    yield from _algebra()
    yield from _products()
    yield from _spectra()
    yield from _statistics()
    yield from _special()
    yield from _sparse()
    yield from _compressed()
    yield from _nested()


def _good(size: int = 4, kind: torch.dtype = torch.float32) -> torch.Tensor:
    x = torch.randn(size, size, dtype=kind)
    return (x @ x.mT.conj() + size * torch.eye(size, dtype=kind)).requires_grad_()


def _algebra() -> Iterator[_Made]:
    a, b = _good(), leaf(4, 2)
    many = torch.stack([_good().detach() for _ in range(3)]).requires_grad_()
    yield "matrices solve many", torch.linalg.solve, (many, leaf(3, 4, 2))
    yield "matrices solve left", partial(torch.linalg.solve, left=False), (a, leaf(2, 4))
    yield "matrices inverse many", torch.linalg.inv, (many,)
    yield "matrices inverse double", torch.linalg.inv, (_good(4, torch.float64),)
    yield "matrices cholesky inverse", lambda x: torch.cholesky_inverse(torch.linalg.cholesky(x)), (a,)
    yield "matrices ldl", lambda x: torch.linalg.ldl_factor(x)[0], (a,)
    yield "matrices lu factor", lambda x: torch.linalg.lu_factor(x)[0], (a,)
    yield "matrices lu solve", lambda x, y: torch.linalg.lu_solve(*torch.linalg.lu_factor(x), y), (a, b)
    yield "matrices svd", lambda x: torch.linalg.svd(x, full_matrices=False)[1], (leaf(5, 3),)
    yield "matrices rank", torch.linalg.matrix_rank, (a.detach(),)
    yield "matrices condition", torch.linalg.cond, (a,)
    yield "matrices nuclear", partial(torch.linalg.matrix_norm, ord="nuc"), (leaf(4, 3),)
    yield "matrices power many", partial(torch.linalg.matrix_power, n=3), (many,)
    yield "matrices power back", partial(torch.linalg.matrix_power, n=-2), (a,)
    yield "matrices tensor inverse", lambda x: torch.linalg.tensorinv(x.view(2, 2, 4), ind=2), (a,)
    yield "matrices tensor solve", lambda x, y: torch.linalg.tensorsolve(x.view(2, 2, 4), y), (a, leaf(2, 2))
    yield "matrices vander", lambda x: torch.linalg.vecdot(x, x.flip(0)), (leaf(5),)
    yield "matrices log det", torch.logdet, (a,)
    yield "matrices root", lambda x: torch.linalg.eigh(x)[0].sqrt(), (a,)
    yield "matrices general values", lambda x: torch.linalg.eigvals(x).abs(), (leaf(3, 3),)
    yield "matrices triangle many", partial(torch.linalg.solve_triangular, upper=True), (many, leaf(3, 4, 2))
    yield "matrices low rank", lambda x: torch.svd_lowrank(x, 2)[1], (leaf(6, 5).detach(),)
    yield "matrices iterated", _iterated, (a,)
    yield "matrices orthogonal", _newton, (leaf(4, 6),)
    yield "matrices geodesic", lambda x: torch.linalg.solve(torch.eye(4, device=x.device) + x - x.t(), x), (leaf(4, 4),)
    yield "matrices covariance", lambda x: torch.cov(x, correction=0), (leaf(3, 8),)
    yield "matrices corrected", torch.corrcoef, (leaf(3, 8),)


def _iterated(x: torch.Tensor) -> torch.Tensor:
    v = torch.ones(4, device=x.device)
    for _ in range(3):
        v = torch.mv(x, v)
        v = v / v.norm()
    return torch.dot(v, x @ v)


def _newton(x: torch.Tensor) -> torch.Tensor:
    x = x / x.norm()
    for _ in range(2):
        x = 1.5 * x - 0.5 * x @ x.t() @ x
    return x


def _products() -> Iterator[_Made]:
    for word, kind in (
        ("double", torch.float64),
        ("half", torch.float16),
        ("complex128", torch.complex128),
        ("int", torch.int32),
        ("bytes", torch.uint8),
    ):
        x, y = (torch.randn(3, 3).mul(3).to(kind) for _ in "xy")
        if kind.is_floating_point or kind.is_complex:
            x, y = x.requires_grad_(), y.requires_grad_()
        yield f"multiplied {word}", torch.mm, (x, y)
        yield f"multiplied batch {word}", lambda x, y: torch.bmm(x[None], y[None]), (x, y)
        yield f"multiplied vector {word}", lambda x, y: x @ y[0], (x, y)
        yield f"multiplied dots {word}", lambda x, y: torch.dot(x[0], y[0]), (x, y)
        yield f"multiplied sum {word}", lambda x, y: torch.einsum("ij,ij->i", x, y), (x, y)
    x, y = leaf(3, 4), leaf(4, 5)
    yield "multiplied below addmm", lambda x, y: torch.ops.aten.addmm(torch.zeros_like(x[:, :1]), x, y), (x, y)
    yield "multiplied activated", lambda x, y: torch._addmm_activation(y[0].detach() * 0, x, y, use_gelu=True), (x, y)
    yield "multiplied expanded", lambda x, y: torch.matmul(x.expand(2, 3, 4), y), (x, y)
    yield "multiplied broadcast", lambda x, y: torch.matmul(x[:, None], y.expand(3, 4, 5)), (x, y)
    yield "multiplied turned", lambda x, y: y.t() @ x.t(), (x, y)
    yield "multiplied long", lambda x: x @ x.flip(0), (leaf(1000),)
    yield "multiplied scaled", lambda x, y: torch.addmm(x.new_ones(3, 5), x, y, beta=0, alpha=2), (x, y)
    yield "multiplied scaled batch", lambda x, y: torch.baddbmm(x.new_ones(1, 3, 5), x[None], y[None], beta=0.5), (x, y)
    yield (
        "multiplied summed batch",
        lambda x, y: torch.addbmm(x.new_ones(3, 5), x.expand(2, 3, 4), y.expand(2, 4, 5)),
        (x, y),
    )
    yield "multiplied chain", lambda x, y: torch.chain_matmul(x, y, y.t()), (x, y)
    yield "multiplied ellipsis", lambda x, y: torch.einsum("...ij,...jk->...k", x, y), (x, y)
    yield "multiplied diagonal", lambda x: torch.einsum("ii->i", x), (leaf(4, 4),)
    yield "multiplied many", lambda x, y: torch.einsum("ab,bc,dc,de->ae", x, y, y, x.new_ones(4, 2)), (x, y)
    yield (
        "multiplied attention by hand",
        lambda x: torch.einsum("nhqk,nhkd->nqhd", (x @ x.mT).softmax(-1), x),
        (leaf(2, 2, 3, 4),),
    )
    yield (
        "multiplied bilinear",
        lambda x, y: torch.einsum("bi,oij,bj->bo", x, y.expand(2, 4, 5), x.new_ones(3, 5)),
        (x, y),
    )
    yield "multiplied outer batch", lambda x: x[:, :, None] * x[:, None], (x,)
    yield "multiplied cumulative", lambda x: torch.stack([x[:i].t() @ x[:i] for i in range(1, 4)]), (x,)
    yield "multiplied in autocast", _autocast, (x, y)
    yield "multiplied ger", torch.ger, (leaf(3), leaf(2))
    yield "multiplied inner rows", torch.inner, (leaf(2, 4), leaf(3, 4))
    yield "multiplied tensors", lambda x, y: torch.tensordot(x, y, dims=([1], [0])), (x, y)


def _autocast(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    with torch.autocast(x.device.type, dtype=torch.bfloat16):
        return (x @ y).float().sum()


def _spectra() -> Iterator[_Made]:
    x, image = leaf(2, 16), leaf(2, 8, 6)
    yield "spectrum real", lambda x: torch.fft.rfft(x).abs(), (x,)
    yield "spectrum back", lambda x: torch.fft.irfft(torch.fft.rfft(x) * 2), (x,)
    yield "spectrum plane", lambda x: torch.fft.fft2(x).abs(), (image,)
    yield "spectrum hermitian", lambda x: torch.fft.hfft(torch.fft.ihfft(x)), (x,)
    yield "spectrum shifted", lambda x: torch.fft.fftshift(torch.fft.rfftn(x)).real, (image,)
    yield "spectrum filtered", lambda x: torch.fft.irfft2(torch.fft.rfft2(x) * torch.fft.rfft2(x).conj()), (image,)
    yield "spectrum centred", partial(_stft, center=True, pad_mode="reflect"), (leaf(2, 40),)
    yield "spectrum constant", partial(_stft, center=True, pad_mode="constant"), (leaf(2, 40),)
    yield "spectrum frozen", partial(_stft, center=True, pad_mode="reflect"), (leaf(2, 40).detach(),)
    yield "spectrum mel", _mel, (leaf(1, 64), leaf(9, 4).detach().abs())
    yield (
        "spectrum round",
        lambda x: torch.istft(_stft(x, center=True), 16, window=torch.ones(16, device=x.device)),
        (leaf(2, 64),),
    )
    yield "spectrum cosine", _cosine, (x,)
    yield "spectrum long filter", _long_filter, (leaf(1, 1, 32), leaf(1, 1, 32))


def _stft(x: torch.Tensor, **options: Any) -> torch.Tensor:
    window = torch.ones(16, device=x.device)
    return torch.stft(x, 16, hop_length=4, window=window, return_complex=True, **options)


def _mel(x: torch.Tensor, bank: torch.Tensor) -> torch.Tensor:
    power = _stft(x, center=True).abs().square()
    return torch.einsum("nft,fm->nmt", power, bank).clamp(min=1e-5).log10()


def _cosine(x: torch.Tensor) -> Any:
    both = torch.cat([x, x.flip(-1)], -1)
    turn = torch.exp(-1j * torch.pi * torch.arange(16, device=x.device) / 32)
    return (torch.fft.fft(both)[..., :16] * turn).real


def _long_filter(x: torch.Tensor, w: torch.Tensor) -> Any:
    return torch.fft.irfft(torch.fft.rfft(x, 64) * torch.fft.rfft(w, 64))[..., :32]


def _statistics() -> Iterator[_Made]:
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


def _special() -> Iterator[_Made]:
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


def _coo(values: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
    return torch.sparse_coo_tensor(i, values, (4, 4))


def _sparse() -> Iterator[_Made]:
    values, i, dense = leaf(4), torch.tensor([[0, 3, 3, 1], [1, 2, 2, 0]]), leaf(4, 4)
    given = (values, i, dense)
    yield "thin brought together", lambda v, i, d: _coo(v, i).coalesce().values(), given
    yield "thin plus dense", lambda v, i, d: d + _coo(v, i), given
    yield "thin plus dense together", lambda v, i, d: d + _coo(v, i).coalesce(), given
    yield "thin in place", lambda v, i, d: d.detach().clone().add_(_coo(v.detach(), i), alpha=0.5), given
    yield "thin dense", lambda v, i, d: _coo(v, i).to_dense(), given
    yield "thin dense together", lambda v, i, d: _coo(v, i).coalesce().to_dense(), given
    yield "thin dense complex", lambda v, i, d: _coo(v.detach() * 1j, i).to_dense(), given
    yield "thin dense ints", lambda v, i, d: _coo(v.detach().long(), i).to_dense(), given
    yield "thin times", lambda v, i, d: torch.sparse.mm(_coo(v, i), d), given
    yield "thin times frozen", lambda v, i, d: torch.sparse.mm(_coo(v.detach(), i), d.detach()), given
    yield "thin times double", lambda v, i, d: _coo(v.double(), i) @ d.double(), given
    yield "thin times thin", lambda v, i, d: torch.sparse.mm(_coo(v, i), _coo(v, i)).to_dense(), given
    yield "thin masked", lambda v, i, d: d.sparse_mask(_coo(v.detach(), i).coalesce()).to_dense(), given
    yield "thin sampled", lambda v, i, d: torch.sparse.sum(d * _coo(v, i).coalesce()), given
    yield "thin softmax", lambda v, i, d: torch.sparse.softmax(_coo(v, i), 1).to_dense(), given
    yield "thin log softmax", lambda v, i, d: torch.sparse.log_softmax(_coo(v, i).coalesce(), 1).to_dense(), given
    yield "thin turned", lambda v, i, d: _coo(v, i).t() @ d, given
    yield "thin joined", lambda v, i, d: torch.cat([_coo(v, i), _coo(v, i)]).to_dense(), given
    yield "thin stacked", lambda v, i, d: torch.stack([_coo(v, i), _coo(v, i)]).to_dense(), given
    yield "thin taken", lambda v, i, d: _coo(v, i).index_select(0, i[0]).to_dense(), given
    yield "thin narrowed", lambda v, i, d: _coo(v.detach(), i).narrow(0, 1, 2).to_dense(), given
    yield "thin from dense", lambda v, i, d: d.relu().to_sparse().to_dense(), given
    yield "thin hybrid", lambda v, i, d: torch.sparse_coo_tensor(i[:1], d, (4, 4)).to_dense(), given
    yield "thin hybrid summed", lambda v, i, d: torch.sparse_coo_tensor(i[:1], d, (4, 4)).coalesce().values(), given
    yield "thin square", lambda v, i, d: _coo(v.detach(), i).pow(2).to_dense(), given
    yield "thin addmm", lambda v, i, d: torch.addmm(d, _coo(v.detach(), i).coalesce(), d), given
    yield "thin rows summed", lambda v, i, d: torch.sparse.sum(_coo(v, i), 0).to_dense(), given
    yield "thin norm", lambda v, i, d: _coo(v, i).coalesce().norm(), given
    yield "thin batch", lambda v, i, d: torch.bmm(torch.stack([_coo(v.detach(), i)] * 2), d.expand(2, 4, 4)), given


def _compressed() -> Iterator[_Made]:
    dense = (leaf(4, 4).detach() * (torch.rand(4, 4) > 0.4)).requires_grad_()
    other = leaf(4, 3)
    for name, make in (
        ("rows", lambda x: x.to_sparse_csr()),
        ("columns", lambda x: x.to_sparse_csc()),
        ("blocks", lambda x: x.to_sparse_bsr((2, 2))),
    ):
        yield f"pressed {name} times", lambda x, y, make=make: make(x.detach()) @ y, (dense, other)
        yield f"pressed {name} dense", lambda x, make=make: make(x).to_dense(), (dense,)
        yield f"pressed {name} vector", lambda x, y, make=make: make(x.detach()) @ y[:, 0], (dense, other)
        yield f"pressed {name} to coo", lambda x, make=make: make(x.detach()).to_sparse_coo().to_dense(), (dense,)
    yield "pressed plus", lambda x: (x.detach().to_sparse_csr() + x.detach().to_sparse_csr()).to_dense(), (dense,)
    yield "pressed plus dense", lambda x: x + x.detach().to_sparse_csr(), (dense,)
    yield (
        "pressed summed",
        lambda x: torch.sparse.sum(x.detach().to_sparse_csr(), 1, dtype=torch.float32).to_dense(),
        (dense,),
    )
    yield (
        "pressed sampled",
        lambda x, y: torch.sparse.sampled_addmm(x.detach().to_sparse_csr(), y, y.t()).to_dense(),
        (
            dense,
            other.detach(),
        ),
    )
    yield "pressed reduced", lambda x, y: torch.sparse.mm(x.detach().to_sparse_csr(), y, "mean"), (dense, other)


def _nested() -> Iterator[_Made]:
    one, two = leaf(2, 4), leaf(3, 4)

    def jagged(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.nested.as_nested_tensor([a, b], layout=torch.jagged)

    yield "ragged product", lambda a, b: (jagged(a, b) @ a.detach().t()).values(), (one, two)
    yield "ragged padded", lambda a, b: jagged(a, b).to_padded_tensor(0.0), (one, two)
    yield "ragged summed", lambda a, b: jagged(a, b).sum(1), (one, two)
    yield "ragged softmax", lambda a, b: torch.softmax(jagged(a, b), -1).values(), (one, two)
    yield "ragged normed", lambda a, b: torch.nn.functional.layer_norm(jagged(a, b), (4,)).values(), (one, two)
    yield (
        "ragged strided",
        lambda a, b: torch.nested.nested_tensor([a.detach(), b.detach()]).to_padded_tensor(1.0),
        (one, two),
    )
