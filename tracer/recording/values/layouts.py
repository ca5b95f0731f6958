"""How tensors of one dtype, shape and strides lie in memory: all that can be known before their bytes are read.

The *content* of a tensor is the xxh3 of its elements' bytes in logical order, whatever their dtype and shape: a view of
memory whose content is known is not read again. Its digest is the content, crossed with a number of its dtype and
shape. A view that only reorders, as ``t()`` does, can be digested by the content of the memory and its layout there.

Strided elements are made contiguous in one buffer that is reused: fresh pages cost more than the copy. Whole rows move
as one unit. For permuted axes, units of 256 bytes are gathered first, as many at a time as fit the processor's cache.
"""

from __future__ import annotations

import ctypes
import itertools
import math
import threading
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import torch
import xxhash

from tracer.recording.storage.overlaps import joined_axes

xxh3: Any = xxhash.xxh3_64_intdigest
_char = ctypes.c_char

#: Bytes that are made contiguous at a time.
PIECE = 1 << 22
#: Above so many bytes, repetitions that lie in memory once (``expand``) are read once.
MOST_REPEATED = 1 << 26
#: For permuted axes: bytes of a unit, units of the last axis, bytes that are gathered at a time.
_UNIT = 256
_ACROSS = 128
_GATHERED = 1 << 18
#: Gathering pays from so many bytes on, or where the cache cannot hold what the last axis touches: it has lines of
#: ``_LINE`` bytes, and few places for addresses whose distance is a multiple of ``_ALIASING``.
_LARGE = 1 << 19
_CACHED = 3 << 17
_LINE = 64
_ALIASING = 1 << 16
UNITS: dict[int, Any] = {np.dtype(code).itemsize: np.dtype(code) for code in ("u1", "<u2", "<u4", "<u8", "<c16")}
_MOST_SEEDS = 1 << 16
_MOST_LAYOUTS = 1 << 13
_MOST_COPIES = 1 << 10

_QUANTIZED = frozenset({torch.quint8, torch.qint8, torch.qint32, torch.quint4x2, torch.quint2x4})

_room = np.empty(0, "u1")
_gathered = np.empty(0, "u1")
_room_is_mine = threading.Lock()


@lru_cache(_MOST_SEEDS)
def seed_of(dtype: torch.dtype, shape: Any, more: str = "") -> int:
    """A number that tells tensors of the same bytes, but another dtype or shape, apart."""
    return int(xxh3(f"{dtype} {tuple(shape)} {more}".encode()))


class Layout:
    """The layout of tensors of one dtype, shape and strides. They have elements, and nothing about them is lazy."""

    def __init__(self, dtype: torch.dtype, shape: Sequence[int], strides: Sequence[int] | None) -> None:
        itemsize = dtype.itemsize
        self.seed = seed_of(dtype, shape)
        self.size = math.prod(shape) * itemsize
        self.span = self.size if strides is None else span_of(shape, strides, itemsize)
        """Bytes from the first element's to the last one's."""
        self.kind: Any = _char * self.span
        self.order: Any = self.size
        """Equal for layouts that put the same bytes into the same order: the size, where they lie in it."""
        self.parts: tuple[tuple[int, Copy], ...] = ()
        axes = [] if strides is None else joined_axes(shape, strides)
        if axes and not (len(axes) == 1 and axes[0][1] == 1):
            sizes, steps = zip(*axes, strict=True)
            self.order = (itemsize, sizes, steps)
            self.parts = tuple(_parts(itemsize, sizes, steps, 0))
        self.is_ordered = not self.parts
        self.is_turned = bool(self.parts) and self.span == self.size and _is_dense(*self.order[1:])
        """Whether its elements are those of memory without gaps, each once, in another order."""
        self.turned = seed_of(dtype, shape, f"turned {self.order}") if self.is_turned else 0
        """The number that tells it from other tensors over the same bytes; ``turn`` is 1 to 255 of it."""
        self.turn = self.turned % 255 + 1

    def content(self, address: int) -> int | None:
        """That of the tensor at ``address``; ``None`` while another thread makes one contiguous."""
        memory = self.kind.from_address(address)
        if self.is_ordered:
            return xxh3(memory)  # type: ignore[no-any-return]
        if not _room_is_mine.acquire(blocking=False):
            return None
        try:
            if len(self.parts) == 1:
                return xxh3(self.parts[0][1].of(memory, 0))  # type: ignore[no-any-return]
            state = xxhash.xxh3_64()
            for offset, copy in self.parts:
                state.update(copy.of(memory, offset))
            return state.intdigest()
        finally:
            _room_is_mine.release()


class Copy:
    """Makes strided elements contiguous, in the buffer that is reused."""

    def __init__(self, itemsize: int, sizes: tuple[int, ...], steps: tuple[int, ...]) -> None:
        size = math.prod(sizes) * itemsize
        self.moves: tuple[Any, ...] = ()
        self.unit: Any = UNITS[itemsize]
        self.units = sizes
        self.whole = _room[:size]
        self.strides = tuple(step * itemsize for step in steps)
        if steps[-1] == 1:
            self.unit, self.units, self.strides = np.dtype(f"V{sizes[-1] * itemsize}"), sizes[:-1], self.strides[:-1]
        else:
            touched = sizes[-1] * max(_LINE, math.gcd(self.strides[-1], _ALIASING))
            if 1 in steps and (size >= _LARGE or touched >= _CACHED):
                self._gather(itemsize, steps.index(1))
        if not self.moves:
            self.target = self.whole.view(self.unit).reshape(self.units)

    def _gather(self, itemsize: int, axis: int) -> None:
        """The elements of axis number ``axis`` lie side by side: units are parts of it."""
        sizes = self.units
        width = math.gcd(sizes[axis], _UNIT // itemsize)
        if width * itemsize < 16:
            return
        element, unit = self.unit, np.dtype(f"V{width * itemsize}")
        units = (*sizes[:axis], sizes[axis] // width, *sizes[axis + 1 :])
        split = (*sizes[:axis], sizes[axis] // width, width, *sizes[axis + 1 :])
        target = self.whole.view(element).reshape(split)
        extents = [min(_ACROSS, units[-1])]
        left = max(1, _GATHERED // (unit.itemsize * extents[0]))
        for count in units[-2::-1]:
            extents.insert(0, min(count, left))
            left = max(1, left // extents[0])
        moves: list[tuple[Any, ...]] = []
        for starts in itertools.product(*(range(0, n, extent) for n, extent in zip(units, extents, strict=True))):
            part = tuple(slice(at, min(at + n, end)) for at, n, end in zip(starts, extents, units, strict=True))
            in_target = (*part[: axis + 1], slice(None), *part[axis + 1 :])
            shape = tuple(extent.stop - extent.start for extent in part)
            gathered = _gathered[: math.prod(shape) * unit.itemsize]
            turned = np.moveaxis(gathered.view(element).reshape(*shape, width), -1, axis + 1)
            moves.append((part, gathered.view(unit).reshape(shape), turned, target[in_target]))
        self.unit, self.units, self.moves = unit, units, tuple(moves)
        self.strides = tuple(step * (width if at == axis else 1) for at, step in enumerate(self.strides))

    def of(self, memory: Any, offset: int) -> Any:
        """The elements in order, until the next copy is made."""
        source: Any = np.ndarray(self.units, self.unit, memory, offset, self.strides)
        if not self.moves:
            np.copyto(self.target, source)
            return self.whole
        for part, gathered, turned, target in self.moves:
            np.copyto(gathered, source[part])
            np.copyto(target, turned)
        return self.whole


@lru_cache(_MOST_LAYOUTS)
def layout_of(dtype: torch.dtype, shape: Any, strides: Any) -> Layout | None:
    """That of a dense tensor without lazy sign, whose strides are ``None`` if contiguous; ``None``: a longer way."""
    if 0 in shape or dtype in _QUANTIZED:
        return None
    if strides is not None and 0 in strides and math.prod(shape) * dtype.itemsize > MOST_REPEATED:
        return None
    return Layout(dtype, shape, strides)


def span_of(shape: Sequence[int], strides: Sequence[int], itemsize: int) -> int:
    """Bytes from the first element's to the last one's."""
    return (sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True)) + 1) * itemsize


def _is_dense(sizes: Sequence[int], steps: Sequence[int]) -> bool:
    """Return whether each element has a place of its own, with none between. The span must be that of all elements."""
    expected = 1
    for step, size in sorted(zip(steps, sizes, strict=True)):
        if step != expected:
            return False
        expected *= size
    return True


def _parts(itemsize: int, sizes: tuple[int, ...], steps: tuple[int, ...], offset: int) -> Any:
    """Return the starts of parts that follow in logical order, and how each is copied: none larger than a piece."""
    row = math.prod(sizes[1:]) * itemsize
    if row > PIECE and len(sizes) > 1:
        for place in range(sizes[0]):
            yield from _parts(itemsize, sizes[1:], steps[1:], offset + place * steps[0] * itemsize)
        return
    rows = max(1, PIECE // row)
    for first in range(0, sizes[0], rows):
        part = (min(rows, sizes[0] - first), *sizes[1:])
        yield offset + first * steps[0] * itemsize, _copy(itemsize, part, steps)


@lru_cache(_MOST_COPIES)
def _copy(itemsize: int, sizes: tuple[int, ...], steps: tuple[int, ...]) -> Copy:
    global _room, _gathered
    if not len(_room):
        _room, _gathered = np.empty(PIECE, "u1"), np.empty(_GATHERED, "u1")
    return Copy(itemsize, sizes, steps)
