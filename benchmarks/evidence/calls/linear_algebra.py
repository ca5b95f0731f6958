"""Products, contractions, decompositions and spectra."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F

from benchmarks.evidence.calls.making import Call, Calls, leaf, made
from benchmarks.evidence.made import FOURTH, SECOND, SIXTH, THIRD


@made(SECOND)
def algebra() -> Iterator[Call]:
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


@made(THIRD)
def algebra_third() -> Iterator[Call]:
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


@made(THIRD)
def contracted() -> Iterator[Call]:
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


def _good(size: int = 4, kind: torch.dtype = torch.float32) -> torch.Tensor:
    x = torch.randn(size, size, dtype=kind)
    return (x @ x.mT.conj() + size * torch.eye(size, dtype=kind)).requires_grad_()


@made(FOURTH)
def algebra_fourth() -> Iterator[Call]:
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


@made(FOURTH)
def products() -> Iterator[Call]:
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


@made(FOURTH)
def spectra() -> Iterator[Call]:
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


@made(SIXTH)
def products_sixth() -> Iterator[Call]:
    for word, kind in (
        ("", torch.float32),
        ("half", torch.float16),
        ("bfloat16", torch.bfloat16),
        ("double", torch.float64),
        ("complex", torch.complex64),
    ):
        a, b, v = leaf(4, 5, dtype=kind), leaf(5, 3, dtype=kind), leaf(5, dtype=kind)
        batch, other = leaf(2, 4, 5, dtype=kind), leaf(2, 5, 3, dtype=kind)
        made: Calls = {
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


@made(SIXTH)
def decompositions() -> Iterator[Call]:
    x = leaf(4, 4)
    batch, tall = leaf(2, 3, 3), leaf(5, 3)

    def good(m: torch.Tensor) -> torch.Tensor:
        return m @ m.mT + 3 * torch.eye(m.shape[-1], device=m.device, dtype=m.dtype)

    made: Calls = {
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
