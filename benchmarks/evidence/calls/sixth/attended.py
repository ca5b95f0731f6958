"""Attention: the function by dtype, mask, head and switch, and the layers that are made of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from benchmarks.evidence.calls.layers import leaf
from benchmarks.evidence.calls.sixth.layered import trained

_Made = tuple[str, Callable[..., Any], tuple[Any, ...]]


def made() -> Iterator[_Made]:
    """Each call's name, function and tensors."""
    yield from _by_kind()
    yield from _by_head()
    yield from _by_switch()
    yield from _layers()


def _heads(kind: torch.dtype, size: int = 16, long: int = 6, many: int = 2) -> tuple[torch.Tensor, ...]:
    return tuple(leaf(2, many, long, size, dtype=kind) for _ in range(3))


def _by_kind() -> Iterator[_Made]:
    causal = torch.ones(6, 6, dtype=torch.bool).tril()
    for word, kind in (
        ("", torch.float32),
        ("half", torch.float16),
        ("bfloat16", torch.bfloat16),
        ("double", torch.float64),
    ):
        q, k, v = _heads(kind)
        plain = F.scaled_dot_product_attention
        yield f"attended {word}".strip(), plain, (q, k, v)
        yield f"attended causal {word}".strip(), partial(plain, is_causal=True), (q, k, v)
        yield f"attended masked {word}".strip(), plain, (q, k, v, causal)
        yield f"attended biased {word}".strip(), plain, (q, k, v, torch.randn(6, 6).to(kind))
        yield f"attended biased learnt {word}".strip(), plain, (q, k, v, leaf(2, 2, 6, 6, dtype=kind))
        yield f"attended dropped {word}".strip(), partial(plain, dropout_p=0.2), (q, k, v)
        yield f"attended scaled {word}".strip(), partial(plain, scale=0.1), (q, k, v)
        yield f"attended frozen {word}".strip(), plain, (q.detach(), k.detach(), v.detach())
        yield f"attended across {word}".strip(), plain, (q, *_heads(kind, long=9)[1:])
        yield f"attended frozen keys {word}".strip(), plain, (q, k.detach(), v)


def _by_head() -> Iterator[_Made]:
    for size in (3, 4, 8, 10, 12, 32, 64, 80, 128, 256, 264):
        yield f"attended head {size}", F.scaled_dot_product_attention, _heads(torch.float32, size)
        yield f"attended head {size} bfloat16", F.scaled_dot_product_attention, _heads(torch.bfloat16, size)
    q, k, v = _heads(torch.float32)
    yield "attended one", F.scaled_dot_product_attention, tuple(x.detach()[0].requires_grad_() for x in (q, k, v))
    yield "attended rows", F.scaled_dot_product_attention, tuple(leaf(6, 16) for _ in range(3))
    yield "attended turned", _turned, tuple(leaf(2, 6, 2, 16) for _ in range(3))
    yield "attended joined", _joined, (leaf(2, 6, 3 * 32),)
    yield "attended wide values", F.scaled_dot_product_attention, (q, k, leaf(2, 2, 6, 32))
    yield "attended shared", partial(F.scaled_dot_product_attention, enable_gqa=True), (leaf(2, 4, 6, 16), k, v)
    yield "attended one query", F.scaled_dot_product_attention, (leaf(2, 2, 1, 16), k, v)
    yield "attended by hand", _by_hand, (q, k, v)
    yield "attended rotated", _rotated, (q, k, v)


def _turned(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return F.scaled_dot_product_attention(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), is_causal=True)


def _joined(x: torch.Tensor) -> torch.Tensor:
    q, k, v = (part.unflatten(-1, (2, 16)).transpose(1, 2) for part in x.chunk(3, -1))
    return F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)


def _by_hand(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    weights = (q @ k.mT / 4).masked_fill(torch.ones(6, 6, device=q.device).triu(1).bool(), float("-inf")).softmax(-1)
    return F.dropout(weights, 0.1) @ v


def _rotated(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    angles = torch.outer(torch.arange(6, device=q.device), 1 / 100 ** (torch.arange(8, device=q.device) / 8))
    sine, cosine = angles.sin().repeat(1, 2), angles.cos().repeat(1, 2)

    def turn(x: torch.Tensor) -> torch.Tensor:
        first, second = x.chunk(2, -1)
        return x * cosine + torch.cat((-second, first), -1) * sine

    return F.scaled_dot_product_attention(turn(q), turn(k), v, is_causal=True)


def _by_switch() -> Iterator[_Made]:
    for kernel in (SDPBackend.MATH, SDPBackend.EFFICIENT_ATTENTION):
        for word, kind in (("", torch.float32), ("bfloat16", torch.bfloat16)):
            name = f"attended by {kernel.name.lower().replace('_', ' ')} {word}".strip()
            yield name, partial(_held_to, kernel), _heads(kind)
    yield "attended in half", _in_half, _heads(torch.float32)
    yield "attended again", _again, _heads(torch.float32)
    yield "attended flagged", _flagged, _heads(torch.float32)


def _held_to(kernel: SDPBackend, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    with sdpa_kernel([kernel, SDPBackend.MATH]):
        return F.scaled_dot_product_attention(q, k, v)


def _in_half(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    with torch.autocast(q.device.type, torch.bfloat16):
        return F.scaled_dot_product_attention(q, k, v)


def _again(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> Any:
    return torch.utils.checkpoint.checkpoint(F.scaled_dot_product_attention, q, k, v, use_reentrant=False)


def _flagged(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    before = torch.backends.cuda.mem_efficient_sdp_enabled()
    torch.backends.cuda.enable_mem_efficient_sdp(False)
    try:
        return F.scaled_dot_product_attention(q, k, v)
    finally:
        torch.backends.cuda.enable_mem_efficient_sdp(before)


def _layers() -> Iterator[_Made]:
    x, y = leaf(2, 5, 16), leaf(2, 7, 16)
    hidden = torch.tensor([[False] * 5, [False, False, False, True, True]])
    ahead = nn.Transformer.generate_square_subsequent_mask(5)

    def heads(**options: Any) -> Callable[[], nn.Module]:
        return lambda: nn.MultiheadAttention(16, 4, batch_first=True, **options)

    def encoder(**options: Any) -> Callable[[], nn.TransformerEncoderLayer]:
        return lambda: nn.TransformerEncoderLayer(16, 4, 24, batch_first=True, **options)

    yield "heads", trained(heads()), (x, x, x)
    yield "heads itself", lambda x: trained(heads())(x, x, x), (x,)
    yield "heads lean", lambda x: trained(lambda: _Lean(heads()()))(x), (x,)
    yield "heads across", trained(heads()), (x, y, y)
    yield "heads dropped", lambda x: trained(heads(dropout=0.1))(x, x, x), (x,)
    yield "heads odd keys", trained(heads(kdim=8, vdim=12)), (x, leaf(2, 7, 8), leaf(2, 7, 12))
    yield "heads hidden", lambda x, m: trained(heads())(x, x, x, m), (x, hidden)
    yield "heads judging", lambda x: trained(lambda: heads()().eval())(x, x, x), (x,)
    yield "heads bfloat16", lambda x: trained(heads())(x, x, x), (x.detach().bfloat16().requires_grad_(),)
    yield "heads double", lambda x: trained(lambda: _Lean(heads()()))(x), (x.detach().double().requires_grad_(),)
    yield "encoder", trained(encoder()), (x,)
    yield "encoder first", trained(encoder(norm_first=True, activation="gelu")), (x,)
    yield "encoder undropped", trained(encoder(dropout=0.0)), (x,)
    yield "encoder ahead", lambda x, m: trained(encoder())(x, m), (x, ahead)
    yield "encoder hidden", lambda x, m: trained(encoder())(x, None, m), (x, hidden)
    yield "encoder judging", trained(lambda: encoder()().eval()), (x,)
    yield "encoder judging frozen", _judged(encoder()), (x.detach(),)
    yield "encoder judging frozen relu", _judged(encoder(activation="gelu")), (x.detach(),)
    yield "encoder stack", trained(lambda: nn.TransformerEncoder(encoder()(), 2, enable_nested_tensor=False)), (x,)
    yield "encoder bfloat16", trained(encoder(dropout=0.0)), (x.detach().bfloat16().requires_grad_(),)
    yield "encoder in half", _encoder_in_half(encoder()), (x,)
    yield "decoder", trained(lambda: nn.TransformerDecoderLayer(16, 4, 24, batch_first=True)), (x, y)
    yield (
        "decoder ahead",
        lambda x, y, m: trained(lambda: nn.TransformerDecoderLayer(16, 4, 24, batch_first=True))(x, y, m),
        (x, y, ahead),
    )
    yield "both", trained(lambda: nn.Transformer(16, 4, 1, 1, 24, batch_first=True)), (x, y)


class _Lean(nn.Module):
    """Attention whose weights nobody asks for, so that the fused function may run."""

    def __init__(self, heads: nn.Module) -> None:
        super().__init__()
        self.heads = heads

    def forward(self, x: torch.Tensor) -> Any:
        return self.heads(x, x, x, need_weights=False)[0]


def _judged(make: Callable[[], nn.Module]) -> Callable[..., Any]:
    def run(x: torch.Tensor) -> Any:
        layer = make().to(x.device).eval()
        with torch.no_grad():
            return layer(x)

    return run


def _encoder_in_half(make: Callable[[], nn.Module]) -> Callable[..., Any]:
    def run(x: torch.Tensor) -> Any:
        with torch.autocast(x.device.type, torch.bfloat16):
            return trained(make)(x)

    return run
