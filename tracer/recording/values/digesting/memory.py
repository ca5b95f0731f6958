"""The digest of a tensor in the host's memory: xxh3 over its elements in logical order, seeded by dtype and shape.

Memory is read where it lies, by its address: no op runs, no autograd, no version is counted, no generator is asked. A
tensor that is not contiguous is brought into order piece by piece, so that no large copy is made of it.
"""

from __future__ import annotations

import ctypes
import math
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
import xxhash

_Base = torch._C.TensorBase
_address_of: Any = _Base.data_ptr  # not torch.Tensor's: that one tells who watches memory that is handed out
_is_contiguous: Any = _Base.is_contiguous
_is_neg: Any = _Base.is_neg
_is_conj: Any = _Base.is_conj
_strides_of: Any = _Base.stride
_xxh3: Any = xxhash.xxh3_64_intdigest
_char = ctypes.c_char

#: Pieces of this many bytes are brought into order at a time.
_PIECE = 1 << 22
#: Above so many bytes, repetitions that lie in memory once (``expand``) are read once.
_MOST_REPEATED = 1 << 26
#: Above so many bytes, axes that changed places are copied tile by tile.
_CACHED = 1 << 19
_TILE = 128
_UNITS: dict[int, Any] = {
    1: np.dtype("u1"),
    2: np.dtype("<u2"),
    4: np.dtype("<u4"),
    8: np.dtype("<u8"),
    16: np.dtype("<c16"),
}
_MOST_SEEDS = 1 << 16

_QUANTIZED = frozenset({torch.quint8, torch.qint8, torch.qint32, torch.quint4x2, torch.quint2x4})

_seeds: dict[Any, int] = {}
_plain: dict[Any, Any] = {}
_buffers: dict[int, Any] = {}
_ordered: dict[Any, Any] = {}
_room = np.empty(0, "u1")
"""Memory to bring elements into order in: fresh pages cost more than the copy."""
_room_is_mine = threading.Lock()


def seed_of(dtype: torch.dtype, shape: Any, more: str = "") -> int:
    """What sets tensors of another dtype or shape apart, be their bytes the same."""
    key = (dtype, shape, more)
    seed = _seeds.get(key)
    if seed is None:
        if len(_seeds) >= _MOST_SEEDS:
            _seeds.clear()
        seed = _seeds[key] = int(_xxh3(f"{dtype} {tuple(shape)} {more}".encode()))
    return seed


def plain_of(dtype: torch.dtype, shape: Any) -> tuple[int, int, Any] | None:
    """Of a dense, contiguous tensor with elements and no lazy sign: seed, size, and the type of so many bytes.

    ``None``: it takes a longer way.
    """
    found: Any = _plain.get((dtype, shape), 0)
    if found == 0:
        is_plain = 0 not in shape and not dtype.is_complex and dtype not in _QUANTIZED
        size = math.prod(shape) * dtype.itemsize
        found = (seed_of(dtype, shape), size, _char * size) if is_plain else None
        if len(_plain) >= _MOST_SEEDS:
            _plain.clear()
        _plain[dtype, shape] = found
    return found  # type: ignore[no-any-return]


class Ordered:
    """How tensors of one dtype, shape and strides are brought into order: all that can be known of it beforehand."""

    __slots__ = ("copied", "kind", "memory", "seed", "span")

    def __init__(self, dtype: torch.dtype, shape: Any, strides: Any, seed: int, size: int) -> None:
        itemsize = dtype.itemsize
        self.seed = seed
        self.span = (sum((one - 1) * stride for one, stride in zip(shape, strides, strict=True)) + 1) * itemsize
        self.kind = _char * self.span
        self.memory = (tuple(shape), _UNITS[itemsize], tuple(stride * itemsize for stride in strides))
        self.copied = _room[:size].view(_UNITS[itemsize]).reshape(self.memory[0])

    def digest(self, address: int) -> int | None:
        """That of the tensor at ``address``; ``None`` while another thread brings one into order."""
        if not _room_is_mine.acquire(blocking=False):
            return None
        try:
            shape, unit, strides = self.memory
            np.copyto(self.copied, np.ndarray(shape, unit, self.kind.from_address(address), 0, strides))
            return _xxh3(self.copied, self.seed) or 1
        finally:
            _room_is_mine.release()


def ordered_of(dtype: torch.dtype, shape: Any, strides: Any, plain: tuple[int, int, Any]) -> Ordered | None:
    """For a tensor that would be ``plain`` if it lay in order; ``None`` for one that takes a longer way."""
    global _room
    found: Any = _ordered.get((dtype, shape, strides), 0)
    if found == 0:
        seed, size, _ = plain
        found = None
        if size <= _CACHED or (size <= _PIECE and (shape[-1] <= _TILE or strides[-1] <= 1)):
            if not len(_room):
                _room = np.empty(_PIECE, "u1")
            found = Ordered(dtype, shape, strides, seed, size)
        if len(_ordered) >= _MOST_SEEDS:
            _ordered.clear()
        _ordered[dtype, shape, strides] = found
    return found  # type: ignore[no-any-return]


def digest_bytes(data: Any, seed: int = 0) -> int:
    """The digest of bytes; never 0, which stands for none."""
    return _xxh3(data, seed) or 1


def buffer_at(address: int, size: int) -> Any:
    """``size`` bytes at ``address``, where they lie."""
    kind = _buffers.get(size)
    if kind is None:
        if len(_buffers) >= _MOST_SEEDS:
            _buffers.clear()
        kind = _buffers[size] = _char * size
    return kind.from_address(address)


def digest_strided(tensor: torch.Tensor) -> int | None:
    """The digest of a strided tensor of the host; ``None`` where its memory is gone."""
    shape, dtype = tensor.shape, tensor.dtype
    seed = _seeds.get((dtype, shape, "")) or seed_of(dtype, shape)
    size = tensor.nbytes
    if not size:
        return seed or 1
    address = _address_of(tensor)
    if not address:  # zeros that have no memory, or memory that is gone
        return digest_bytes(bytes(size), seed) if tensor._is_zerotensor() else None
    flips = _is_neg(tensor) or (dtype.is_complex and _is_conj(tensor))
    if flips and not (dtype.is_complex or dtype.is_floating_point):
        return None  # of an integer, a sign is more than a bit
    if _is_contiguous(tensor) and not flips:
        return _xxh3(buffer_at(address, size), seed) or 1
    return _digest_in_order(tensor, address, seed)


def _digest_in_order(tensor: torch.Tensor, address: int, seed: int) -> int:
    itemsize = tensor.itemsize
    shape, strides = list(tensor.shape), list(_strides_of(tensor))
    if tensor.nbytes > _MOST_REPEATED and 0 in strides:
        kept = [axis for axis, stride in enumerate(strides) if stride]
        repeated = [axis for axis in range(len(shape)) if axis not in kept]
        seed = seed_of(tensor.dtype, tensor.shape, f"repeated {repeated}")
        shape, strides = [shape[axis] for axis in kept], [strides[axis] for axis in kept]
    span = (sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True)) + 1) * itemsize
    memory = np.ndarray(
        shape, _UNITS[itemsize], buffer=buffer_at(address, span), strides=[stride * itemsize for stride in strides]
    )
    signs = _signs_to_flip(tensor)
    if memory.nbytes <= _PIECE:
        return _xxh3(_flipped(_in_order(memory), signs), seed) or 1
    state = xxhash.xxh3_64(seed=seed)
    for piece in _pieces(memory):
        state.update(_flipped(_in_order(piece), signs))
    return state.intdigest() or 1


def _pieces(memory: Any) -> Iterator[Any]:
    """Parts of ``memory`` that follow each other in logical order, none much larger than a piece."""
    if memory.nbytes <= _PIECE or not memory.ndim:
        yield memory
        return
    rows = max(1, _PIECE // max(1, memory.nbytes // memory.shape[0]))
    for first in range(0, memory.shape[0], rows):
        part = memory[first : first + rows]
        if part.nbytes > 2 * _PIECE and part.ndim > 1:
            yield from _pieces(part[0])  # a row by itself is too large: ``rows`` is 1
        else:
            yield part


def _in_order(memory: Any) -> Any:
    """A contiguous copy. Two axes that changed places are copied tile by tile, which caches like better."""
    if memory.ndim < 2 or memory.shape[-1] <= _TILE or memory.strides[-1] <= memory.itemsize:
        return np.ascontiguousarray(memory)
    copied = np.empty(memory.shape, memory.dtype)
    for index in np.ndindex(*memory.shape[:-2]):
        source, target = memory[index], copied[index]
        for row in range(0, source.shape[0], _TILE):
            for column in range(0, source.shape[1], _TILE):
                tile = slice(row, row + _TILE), slice(column, column + _TILE)
                target[tile] = source[tile]
    return copied


def _signs_to_flip(tensor: torch.Tensor) -> tuple[int, bool, bool]:
    """Width of a part of an element; is its sign to be flipped, and that of an imaginary part?"""
    is_complex = tensor.dtype.is_complex
    negative, conjugate = bool(_is_neg(tensor)), is_complex and bool(_is_conj(tensor))
    return (tensor.itemsize // 2 if is_complex else tensor.itemsize), negative, negative != conjugate


def _flipped(copied: Any, signs: tuple[int, bool, bool]) -> Any:
    """The values that a lazy negation or conjugation stands for."""
    width, real, imaginary = signs
    if not real and not imaginary:
        return copied
    parts = copied.reshape(-1).copy().view(_UNITS[width])
    bit = _UNITS[width].type(1 << (8 * width - 1))
    if real:
        parts[0::2] ^= bit
    if imaginary:
        parts[1::2] ^= bit
    return parts
