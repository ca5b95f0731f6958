"""``mix.mixed_sum`` as one Triton kernel: one launch a tensor, nothing waits. Imported where Triton is there alone."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from tracer.recording.values.digesting import mix

_BLOCK = 4096
_STRIDE = tl.constexpr(mix.STRIDE)
_FIRST = tl.constexpr(mix.FIRST)
_SECOND = tl.constexpr(mix.SECOND)
_SHIFT_0, _SHIFT_1, _SHIFT_2 = (tl.constexpr(by) for by in mix.SHIFTS)
_MASK_0, _MASK_1, _MASK_2 = (tl.constexpr((1 << (64 - by)) - 1) for by in mix.SHIFTS)


# What Triton compiles bears no annotations: it looks each name up that stands in one.


@triton.jit
def _mixed(words, positions):  # type: ignore[no-untyped-def]
    mixed = words + (positions + 1) * _STRIDE
    mixed = (mixed ^ ((mixed >> _SHIFT_0) & _MASK_0)) * _FIRST
    mixed = (mixed ^ ((mixed >> _SHIFT_1) & _MASK_1)) * _SECOND
    return mixed ^ ((mixed >> _SHIFT_2) & _MASK_2)


@triton.jit(do_not_specialize=["count", "left"])  # type: ignore[untyped-decorator]
def mixed_sum_kernel(words, tail, total, count, left, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    """Add the mixed ``count`` words, and the ``left`` bytes behind them as one more, to ``total``."""
    first = tl.program_id(0).to(tl.int64) * BLOCK
    positions = first + tl.arange(0, BLOCK).to(tl.int64)
    inside = positions < count
    mixed = _mixed(tl.load(words + positions, mask=inside, other=0), positions)
    added = tl.sum(tl.where(inside, mixed, 0), axis=0)
    if tl.program_id(0) == 0:
        places = tl.arange(0, 8)
        data = tl.load(tail + places, mask=places < left, other=0).to(tl.int64) & 255
        word = tl.sum(data << (places * 8).to(tl.int64), axis=0)
        added += tl.where(left > 0, _mixed(word, count.to(tl.int64)), 0)
    tl.atomic_add(total, added)


def add_mixed_sum(tensor: torch.Tensor, total: torch.Tensor) -> None:
    """Add the mixed words of a dense ``tensor`` to ``total``, an int64 of one element on its device."""
    data = mix.plain(tensor).reshape(-1).view(torch.uint8)
    count, left = divmod(data.numel(), 8)
    words = data[: count * 8].view(torch.int64) if count else total
    tail = data[count * 8 :] if left else data
    grid = (max(1, triton.cdiv(count, _BLOCK)),)
    mixed_sum_kernel[grid](words, tail, total, count, left, BLOCK=_BLOCK)
