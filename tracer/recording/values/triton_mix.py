"""``mixed_sum`` as one Triton kernel: one launch a tensor, nothing waits. Imported where Triton is there."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import nullcontext, suppress
from typing import Any

import torch
import triton
import triton.language as tl

from tracer.recording.values import FIRST, SECOND, SHIFTS, STRIDE, address_of, is_plain, plain, unseen

_BLOCK = 4096
_STRIDE = tl.constexpr(STRIDE)
_FIRST = tl.constexpr(FIRST)
_SECOND = tl.constexpr(SECOND)
_SHIFT_0, _SHIFT_1, _SHIFT_2 = (tl.constexpr(by) for by in SHIFTS)
_MASK_0, _MASK_1, _MASK_2 = (tl.constexpr((1 << (64 - by)) - 1) for by in SHIFTS)
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


def _pointers(address: int, totals: int) -> tuple[_Pointer, ...]:
    return _Pointer(address, torch.int64), _Pointer(address, torch.uint8), _Pointer(totals, torch.int64)


def add_mixed_sum(tensor: torch.Tensor, totals: torch.Tensor, place: int = 0) -> None:
    """Add the mixed words of a dense ``tensor`` to ``totals[place]``, an int64 on its device."""
    data = tensor if is_plain(tensor) else plain(tensor)
    count, left = divmod(data.nbytes, 8)
    grid = (max(1, -(-count // _BLOCK)), 1, 1)
    tensors: Any
    if _INTERPRETS:
        whole = data.reshape(-1).view(torch.uint8)
        tensors = (whole[: count * 8].view(torch.int64) if count else totals), whole, totals
        mixed_sum_kernel[grid](*tensors, place, count, left, BLOCK=_BLOCK)
        return
    device, address, into = data.device.index, address_of(data), address_of(totals)
    # Triton compiles one kernel for addresses like these and counts of 32 bits.
    is_usual = (address | into) % _ALIGNED == 0 and count < 1 << 31
    launch = _launchers.get((device, grid)) if is_usual else None
    tensors = _pointers(address, into)
    is_elsewhere = torch.cuda.device_count() > 1 and device != torch.cuda.current_device()
    with torch.cuda.device(data.device) if is_elsewhere else nullcontext():
        if launch is not None:
            launch(*tensors, place, count, left, _BLOCK)
            return
        kernel = mixed_sum_kernel[grid](*tensors, place, count, left, BLOCK=_BLOCK)
        if is_usual and count:
            _remember(kernel, device, grid, data)


_ALIGNED, _MOST_LAUNCHERS = 16, 4096
_launchers: dict[tuple[int, tuple[int, int, int]], Callable[..., None]] = {}
"""By device and grid: what launches the compiled kernel as it is. To look up how to compile it for the arguments, as
Triton does at each launch, takes four times as long as the launch."""
_can_launch: dict[int, bool] = {}
"""By device: whether such a launch was seen to give what Triton's own gives."""


def _remember(kernel: Any, device: int, grid: tuple[int, int, int], data: torch.Tensor) -> None:
    """Launch a compiled kernel without Triton's search from now on, if this Triton allows it."""
    if device not in _can_launch:
        _can_launch[device] = False
        with suppress(Exception), unseen():  # another Triton wants other arguments
            both = torch.zeros(2, dtype=torch.int64, device=data.device)
            given, (count, left) = _pointers(address_of(data), address_of(both)), divmod(data.nbytes, 8)
            mixed_sum_kernel[grid](*given, 0, count, left, BLOCK=_BLOCK)
            kernel[grid](*given, 1, count, left, _BLOCK)
            first, second = both.tolist()
            _can_launch[device] = first == second != 0
    if _can_launch[device] and len(_launchers) < _MOST_LAUNCHERS:
        _launchers[device, grid] = kernel[grid]
