"""``digests.mixed_sum`` as one Triton kernel: one launch a tensor, nothing waits. Imported where Triton is there."""

from __future__ import annotations

import os
from contextlib import nullcontext
from typing import Any

import torch
import triton
import triton.language as tl

from tracer.recording.values import digests
from tracer.recording.values.digests import address_of

_BLOCK = 4096
_STRIDE = tl.constexpr(digests.STRIDE)
_FIRST = tl.constexpr(digests.FIRST)
_SECOND = tl.constexpr(digests.SECOND)
_SHIFT_0, _SHIFT_1, _SHIFT_2 = (tl.constexpr(by) for by in digests.SHIFTS)
_MASK_0, _MASK_1, _MASK_2 = (tl.constexpr((1 << (64 - by)) - 1) for by in digests.SHIFTS)
_INTERPRETS = os.environ.get("TRITON_INTERPRET") == "1"


# What Triton compiles bears no annotations: it looks each name up that stands in one.


@triton.jit
def _mixed(words, positions):  # type: ignore[no-untyped-def]
    mixed = words + (positions + 1) * _STRIDE
    mixed = (mixed ^ ((mixed >> _SHIFT_0) & _MASK_0)) * _FIRST
    mixed = (mixed ^ ((mixed >> _SHIFT_1) & _MASK_1)) * _SECOND
    return mixed ^ ((mixed >> _SHIFT_2) & _MASK_2)


@triton.jit(do_not_specialize=["place", "count", "left"])  # type: ignore[untyped-decorator]
def mixed_sum_kernel(words, data, totals, place, count, left, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    """Add the mixed ``count`` words, and the ``left`` bytes behind them as one more, to ``totals[place]``."""
    first = tl.program_id(0).to(tl.int64) * BLOCK
    positions = first + tl.arange(0, BLOCK).to(tl.int64)
    inside = positions < count
    mixed = _mixed(tl.load(words + positions, mask=inside, other=0), positions)
    added = tl.sum(tl.where(inside, mixed, 0), axis=0)
    if tl.program_id(0) == 0:
        places = tl.arange(0, 8)
        whole = count.to(tl.int64)
        tail = tl.load(data + whole * 8 + places, mask=places < left, other=0).to(tl.int64) & 255
        word = tl.sum(tail << (places * 8).to(tl.int64), axis=0)
        added += tl.where(left > 0, _mixed(word, whole), 0)
    tl.atomic_add(totals + place, added)


class _Pointer:
    """An address, as Triton takes one. A tensor's own ``data_ptr`` would be taken for memory handed out."""

    def __init__(self, address: int, dtype: torch.dtype) -> None:
        self.address = address
        self.dtype = dtype

    def data_ptr(self) -> int:
        return self.address


def add_mixed_sum(tensor: torch.Tensor, totals: torch.Tensor, place: int = 0) -> None:
    """Add the mixed words of a dense ``tensor`` to ``totals[place]``, an int64 on its device."""
    data = tensor if digests.is_plain(tensor) else digests.plain(tensor)
    count, left = divmod(data.nbytes, 8)
    tensors: Any
    if _INTERPRETS:
        whole = data.reshape(-1).view(torch.uint8)
        tensors = (whole[: count * 8].view(torch.int64) if count else totals), whole, totals
    else:
        address, words = address_of(data), torch.int64
        tensors = _Pointer(address, words), _Pointer(address, torch.uint8), _Pointer(address_of(totals), words)
    launch = mixed_sum_kernel[(max(1, -(-count // _BLOCK)),)]
    is_elsewhere = data.is_cuda and data.device.index != torch.cuda.current_device()
    with torch.cuda.device(data.device) if is_elsewhere else nullcontext():
        launch(*tensors, place, count, left, BLOCK=_BLOCK)
