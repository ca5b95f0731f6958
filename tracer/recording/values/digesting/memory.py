"""The digest of a tensor in the host's memory: xxh3 over its elements in logical order, crossed with dtype and shape.

Memory is read where it lies, by its address: no op runs, no autograd, no version is counted, no generator is asked. A
tensor that is not contiguous is brought into order piece by piece, so that no large copy is made of it.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
import xxhash

from tracer.recording.values.digesting.layouts import MOST_REPEATED, PIECE, UNITS, layout_of, seed_of, span_of

_Base = torch._C.TensorBase
_address_of: Any = _Base.data_ptr  # not torch.Tensor's: that one tells who watches memory that is handed out
_is_contiguous: Any = _Base.is_contiguous
_is_neg: Any = _Base.is_neg
_is_conj: Any = _Base.is_conj
_strides_of: Any = _Base.stride
_xxh3: Any = xxhash.xxh3_64_intdigest


def digest_bytes(data: Any, seed: int = 0) -> int:
    """The digest of bytes; never 0, which stands for none."""
    return _xxh3(data, seed) or 1


def digest_strided(tensor: torch.Tensor) -> int | None:
    """The digest of a strided tensor of the host; ``None`` where its memory is gone."""
    shape, dtype = tensor.shape, tensor.dtype
    size = tensor.nbytes
    if not size:
        return seed_of(dtype, shape) or 1
    address = _address_of(tensor)
    if not address:  # zeros that have no memory, or memory that is gone
        return (_xxh3(bytes(size)) ^ seed_of(dtype, shape)) or 1 if tensor._is_zerotensor() else None
    flips = _is_neg(tensor) or (dtype.is_complex and _is_conj(tensor))
    if not flips:
        layout = layout_of(dtype, shape, None if _is_contiguous(tensor) else _strides_of(tensor))
        content = None if layout is None else layout.content(address)
        if layout is not None and content is not None:
            return content ^ layout.seed or 1
    elif not (dtype.is_complex or dtype.is_floating_point):
        return None  # of an integer, a sign is more than a bit
    return _digest_in_order(tensor, address)


def _digest_in_order(tensor: torch.Tensor, address: int) -> int:
    itemsize = tensor.itemsize
    shape, strides = list(tensor.shape), list(_strides_of(tensor))
    more = ""
    if tensor.nbytes > MOST_REPEATED and 0 in strides:
        strided = [axis for axis, stride in enumerate(strides) if stride]
        more = f"repeated {[axis for axis in range(len(shape)) if axis not in strided]}"
        shape, strides = [shape[axis] for axis in strided], [strides[axis] for axis in strided]
    buffer: Any = (ctypes.c_char * span_of(shape, strides, itemsize)).from_address(address)
    memory: Any = np.ndarray(shape, UNITS[itemsize], buffer, 0, [stride * itemsize for stride in strides])
    signs = _signs_to_flip(tensor)
    state = xxhash.xxh3_64()
    for piece in _pieces(memory):
        state.update(_flipped(np.ascontiguousarray(piece), signs))
    return (state.intdigest() ^ seed_of(tensor.dtype, tensor.shape, more)) or 1


def _pieces(memory: Any) -> Iterator[Any]:
    """Parts of ``memory`` that follow each other in logical order, none much larger than a piece."""
    if memory.nbytes <= PIECE or not memory.ndim:
        yield memory
        return
    rows = max(1, PIECE // max(1, memory.nbytes // memory.shape[0]))
    for first in range(0, memory.shape[0], rows):
        part = memory[first : first + rows]
        if part.nbytes > 2 * PIECE and part.ndim > 1:
            yield from _pieces(part[0])  # a row by itself is too large: ``rows`` is 1
        else:
            yield part


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
    parts = copied.reshape(-1).copy().view(UNITS[width])
    bit = UNITS[width].type(1 << (8 * width - 1))
    if real:
        parts[0::2] ^= bit
    if imaginary:
        parts[1::2] ^= bit
    return parts
