"""Attention: the function by dtype, mask, head and switch, and the layers that are made of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from benchmarks.evidence.calls.making import Call, built, leaf, made, trained
from benchmarks.evidence.made import FIRST, FOURTH, SECOND, SIXTH, THIRD


@made(FIRST)
def attention() -> Iterator[Call]:
    attend = F.scaled_dot_product_attention
    for heads, size in ((2, 16), (2, 20), (1, 264)):
        q, k, v = (leaf(1, heads, 8, size) for _ in range(3))
        yield "attention", attend, (q, k, v)
        yield "attention causal", partial(attend, is_causal=True), (q, k, v)
    q, k, v = (leaf(1, 2, 8, 16) for _ in range(3))
    yield "attention mask", attend, (q, k, v, torch.rand(8, 8) > 0.5)
    yield "attention added mask", attend, (q, k, v, leaf(1, 2, 8, 8))
    yield "attention without gradient", attend, tuple(t.detach() for t in (q, k, v))


@made(SECOND)
def attended() -> Iterator[Call]:
    attend = F.scaled_dot_product_attention
    for dtype in (torch.float32, torch.bfloat16):
        q, k, v = leaf(2, 4, 10, 32, dtype=dtype), leaf(2, 4, 12, 32, dtype=dtype), leaf(2, 4, 12, 32, dtype=dtype)
        yield "attended across", attend, (q, k, v)
        yield "attended padded", attend, (q, k, v, torch.ones(2, 1, 1, 12, dtype=torch.bool))
        yield "attended biased", attend, (q, k, v, torch.randn(1, 4, 10, 12).to(dtype))
        yield "attended scaled", partial(attend, scale=0.1), (q, k, v)
    q, k, v = (leaf(2, 4, 16, 64, dtype=torch.bfloat16) for _ in range(3))
    yield "attended bias learnt", attend, (q, k, v, leaf(1, 4, 16, 16, dtype=torch.bfloat16))
    yield "attended causal half", partial(attend, is_causal=True), (q, k, v)
    yield "attended double", attend, tuple(leaf(1, 2, 6, 16, dtype=torch.float64) for _ in range(3))
    yield "attended odd head", attend, tuple(leaf(1, 2, 6, 13) for _ in range(3))
    yield "attended by hand", _by_hand, tuple(leaf(2, 2, 6, 8) for _ in range(3))
    yield "attended value head", attend, (leaf(1, 2, 6, 16), leaf(1, 2, 6, 16), leaf(1, 2, 6, 24))
    yield "attended without batch", attend, tuple(leaf(2, 6, 16) for _ in range(3))
    yield "attended weights wanted", _weights_wanted, (leaf(2, 5, 8),)


def _by_hand(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    scores = (q @ k.transpose(-2, -1)) / 8**0.5
    scores = scores.masked_fill(torch.ones_like(scores, dtype=torch.bool).triu(1), float("-inf"))
    return scores.softmax(-1) @ v


def _weights_wanted(x: torch.Tensor) -> Any:
    torch.manual_seed(0)
    return nn.MultiheadAttention(8, 2, batch_first=True).to(x.device)(x, x, x)


@made(THIRD)
def attention_third() -> Iterator[Call]:
    words, memory = leaf(2, 6, 16), leaf(2, 4, 16)
    heads = (leaf(2, 3, 6, 8), leaf(2, 3, 6, 8), leaf(2, 3, 6, 8))
    dot = F.scaled_dot_product_attention
    yield "attending self", built(_Self), (words,)
    yield "attending unweighted", built(partial(_Self, need_weights=False)), (words,)
    yield "attending biased", built(partial(_Self, add_bias_kv=True, add_zero_attn=True)), (words,)
    yield "attending dropped", built(partial(_Self, dropout=0.2, need_weights=False)), (words,)
    yield (
        "attending eval",
        built(lambda: nn.TransformerEncoderLayer(16, 4, 8, batch_first=True).eval()),
        (words.detach(),),
    )
    yield "attending encoder", built(lambda: nn.TransformerEncoderLayer(16, 4, 8, norm_first=True)), (words,)
    yield "attending decoder", built(lambda: nn.TransformerDecoderLayer(16, 2, 8, batch_first=True)), (words, memory)
    yield "attending causal", partial(dot, is_causal=True, scale=0.3), heads
    yield "attending half", partial(dot, is_causal=True), tuple(leaf(2, 3, 8, 16, dtype=torch.bfloat16) for _ in "qkv")
    yield "attending double", dot, tuple(leaf(1, 2, 4, 8, dtype=torch.float64) for _ in "qkv")
    yield "attending odd heads", dot, tuple(leaf(1, 2, 4, 11) for _ in "qkv")
    yield "attending flat", dot, tuple(leaf(2, 5, 8) for _ in "qkv")
    yield "attending dropping", partial(dot, dropout_p=0.4), heads
    yield "attending masked", dot, (*heads, torch.ones(6, 6).tril().bool())
    yield "attending with slopes", dot, (*heads, leaf(2, 3, 6, 6))
    yield "attending frozen", dot, tuple(x.detach() for x in heads)
    yield "attending query alone", dot, (heads[0], heads[1].detach(), heads[2].detach())
    yield "attending shared", partial(dot, enable_gqa=True), (leaf(1, 4, 5, 8), leaf(1, 2, 5, 8), leaf(1, 2, 5, 8))


class _Self(nn.Module):
    def __init__(self, need_weights: bool = True, **options: Any) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(16, 4, batch_first=True, **options)
        self.need_weights = need_weights

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.attention(x, x, x, need_weights=self.need_weights)[0]
        return out


@made(FOURTH)
def attention_fourth() -> Iterator[Call]:
    dot = F.scaled_dot_product_attention
    q, k, v = leaf(2, 4, 7, 16), leaf(2, 4, 9, 16), leaf(2, 4, 9, 16)
    half = tuple(leaf(1, 2, 8, 32, dtype=torch.float16) for _ in "qkv")
    few = (leaf(2, 6, 5, 16), leaf(2, 3, 5, 16), leaf(2, 3, 5, 16))
    yield "weighed across", dot, (q, k, v)
    yield "weighed half masked", dot, (*half, torch.ones(8, 8).tril().bool())
    yield "weighed half added", dot, (*half, torch.zeros(8, 8, dtype=torch.float16))
    yield "weighed half dropped", partial(dot, dropout_p=0.1), half
    yield "weighed half wide", dot, tuple(leaf(1, 1, 4, 288, dtype=torch.float16) for _ in "qkv")
    yield "weighed half odd", dot, tuple(leaf(1, 2, 4, 20, dtype=torch.float16) for _ in "qkv")
    yield "weighed wide", dot, tuple(leaf(1, 1, 4, 300) for _ in "qkv")
    yield "weighed many to one", partial(dot, enable_gqa=True), (leaf(1, 8, 4, 8), leaf(1, 1, 4, 8), leaf(1, 1, 4, 8))
    yield "weighed few causal", partial(dot, enable_gqa=True, is_causal=True), few
    yield "weighed few half", partial(dot, enable_gqa=True), tuple(x.half().detach().requires_grad_() for x in few)
    yield "weighed few masked", partial(dot, enable_gqa=True), (*few, torch.rand(5, 5) > 0.3)
    yield "weighed few frozen", partial(dot, enable_gqa=True), tuple(x.detach() for x in few)
    yield "weighed few dropped", partial(dot, enable_gqa=True, dropout_p=0.2), few
    yield "weighed repeated", lambda q, k, v: dot(q, k.repeat_interleave(2, 1), v.repeat_interleave(2, 1)), few
    yield "weighed three", dot, tuple(leaf(3, 5, 8) for _ in "qkv")
    yield "weighed one row", dot, (leaf(2, 2, 1, 8), leaf(2, 2, 6, 8), leaf(2, 2, 6, 8))
    yield "weighed turned", lambda x: dot(*x.view(2, 5, 3, 2, 8).permute(2, 0, 3, 1, 4)), (leaf(2, 5, 48),)
    yield "weighed by slopes", _alibi, (q, q)
    yield "weighed turning", _rotary, (q,)
    yield "weighed in windows", _windowed, (leaf(1, 8, 8, 12),)
    yield "weighed linearly", lambda q, k, v: (F.elu(q) + 1) @ ((F.elu(k) + 1).mT @ v), (q, k, v)
    yield "weighed cached", _cached, (leaf(1, 2, 1, 8), leaf(1, 2, 6, 8), leaf(1, 2, 6, 8))
    yield "weighed math alone", _math_alone, (q, k, v)


def _alibi(q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    far = torch.arange(7, device=q.device)
    slopes = torch.tensor([0.5, 0.25, 0.125, 0.0625], device=q.device)[:, None, None]
    return F.scaled_dot_product_attention(q, k, k, attn_mask=-(far[:, None] - far).abs() * slopes)


def _rotary(x: torch.Tensor) -> torch.Tensor:
    angles = torch.outer(torch.arange(7, device=x.device), 10.0 ** -torch.arange(8, device=x.device))
    pairs = torch.view_as_complex(x.unflatten(-1, (8, 2)).contiguous())
    turned = torch.view_as_real(pairs * torch.polar(torch.ones_like(angles), angles)).flatten(-2)
    return F.scaled_dot_product_attention(turned, turned, x, is_causal=True)


def _windowed(x: torch.Tensor) -> torch.Tensor:
    parts = x.roll((-2, -2), (1, 2)).unfold(1, 4, 4).unfold(2, 4, 4).flatten(1, 2).flatten(-2).mT
    bias = torch.zeros(49, 1, device=x.device)[torch.arange(256, device=x.device) % 49].view(16, 16)
    return F.scaled_dot_product_attention(parts, parts, parts, attn_mask=bias)


def _cached(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    keys, values = torch.zeros_like(k.repeat(1, 1, 2, 1)), torch.zeros_like(v.repeat(1, 1, 2, 1))
    places = torch.arange(6, device=q.device)
    return F.scaled_dot_product_attention(q, keys.index_copy(2, places, k), values.index_copy(2, places, v))


def _math_alone(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    with nn.attention.sdpa_kernel(nn.attention.SDPBackend.MATH):
        return F.scaled_dot_product_attention(q, k, v)


def _heads(kind: torch.dtype, size: int = 16, long: int = 6, many: int = 2) -> tuple[torch.Tensor, ...]:
    return tuple(leaf(2, many, long, size, dtype=kind) for _ in range(3))


@made(SIXTH)
def by_kind() -> Iterator[Call]:
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


@made(SIXTH)
def by_head() -> Iterator[Call]:
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
    yield "attended by hand", _by_hand_dropped, (q, k, v)
    yield "attended rotated", _rotated, (q, k, v)


def _turned(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return F.scaled_dot_product_attention(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), is_causal=True)


def _joined(x: torch.Tensor) -> torch.Tensor:
    q, k, v = (part.unflatten(-1, (2, 16)).transpose(1, 2) for part in x.chunk(3, -1))
    return F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)


def _by_hand_dropped(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    weights = (q @ k.mT / 4).masked_fill(torch.ones(6, 6, device=q.device).triu(1).bool(), float("-inf")).softmax(-1)
    return F.dropout(weights, 0.1) @ v


def _rotated(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    angles = torch.outer(torch.arange(6, device=q.device), 1 / 100 ** (torch.arange(8, device=q.device) / 8))
    sine, cosine = angles.sin().repeat(1, 2), angles.cos().repeat(1, 2)

    def turn(x: torch.Tensor) -> torch.Tensor:
        first, second = x.chunk(2, -1)
        return x * cosine + torch.cat((-second, first), -1) * sine

    return F.scaled_dot_product_attention(turn(q), turn(k), v, is_causal=True)


@made(SIXTH)
def by_switch() -> Iterator[Call]:
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


@made(SIXTH)
def layers() -> Iterator[Call]:
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
