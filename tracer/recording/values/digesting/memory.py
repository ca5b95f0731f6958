"""The digest of a tensor in the host's memory: xxh3 over its elements in logical order, crossed with dtype and shape.

Memory is read by its address: no op runs, and no version is counted. A strided tensor is made contiguous piece by
piece, so that no large copy is made of it.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
import xxhash

from tracer.recording.values.digesting.layouts import MOST_REPEATED, PIECE, UNITS, layout_of, seed_of, span_of, xxh3

_Base = torch._C.TensorBase
address_of: Any = _Base.data_ptr  # not torch.Tensor's, which is watched: it hands memory out
is_contiguous: Any = _Base.is_contiguous
is_neg: Any = _Base.is_neg
is_conj: Any = _Base.is_conj
strides_of: Any = _Base.stride


def is_lazy(tensor: Any) -> bool:
    """Return whether a tensor stands for other values than lie in its memory."""
    return bool(is_neg(tensor) or (tensor.dtype.is_complex and is_conj(tensor)))


def digest_bytes(data: Any, seed: int = 0) -> int:
    """The digest of bytes; never 0, which stands for none."""
    return xxh3(data, seed) or 1


def digest_strided(tensor: torch.Tensor) -> int | None:
    """The digest of a strided tensor of the host; ``None`` where its memory is gone."""
    shape, dtype = tensor.shape, tensor.dtype
    size = tensor.nbytes
    if not size:
        return seed_of(dtype, shape) or 1
    address = address_of(tensor)
    if not address:  # zeros that have no memory, or memory that is gone
        return (xxh3(bytes(size)) ^ seed_of(dtype, shape)) or 1 if tensor._is_zerotensor() else None
    if not is_lazy(tensor):
        layout = layout_of(dtype, shape, None if is_contiguous(tensor) else strides_of(tensor))
        content = None if layout is None else layout.content(address)
        if layout is not None and content is not None:
            return content ^ layout.seed or 1
    elif not (dtype.is_complex or dtype.is_floating_point):
        return None  # of an integer, a sign is more than a bit
    return _digest_in_order(tensor, address)


def _digest_in_order(tensor: torch.Tensor, address: int) -> int:
    itemsize = tensor.itemsize
    shape, strides = list(tensor.shape), list(strides_of(tensor))
    more = ""
    if tensor.nbytes > MOST_REPEATED and 0 in strides:
        more = f"repeated {[axis for axis, stride in enumerate(strides) if not stride]}"
        shape = [size for size, stride in zip(shape, strides, strict=True) if stride]
        strides = [stride for stride in strides if stride]
    buffer: Any = (ctypes.c_char * span_of(shape, strides, itemsize)).from_address(address)
    memory: Any = np.ndarray(shape, UNITS[itemsize], buffer, 0, [stride * itemsize for stride in strides])
    state = xxhash.xxh3_64()
    for piece in _pieces(memory):
        state.update(_flipped(np.ascontiguousarray(piece), tensor))
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


def _flipped(copied: Any, tensor: torch.Tensor) -> Any:
    """A copy of elements of ``tensor``, with the signs that it flips lazily flipped."""
    if not is_lazy(tensor):
        return copied
    is_complex = tensor.dtype.is_complex
    unit = UNITS[tensor.itemsize // 2 if is_complex else tensor.itemsize]
    parts = copied.reshape(-1).copy().view(unit)
    sign = unit.type(1 << (8 * unit.itemsize - 1))
    if is_neg(tensor):
        parts ^= sign
    if is_complex and is_conj(tensor):
        parts[1::2] ^= sign
    return parts
