"""The digest of any tensor on the host: strided, sparse, nested, quantized, a subclass; ``None`` where it has no bytes.

It is xxh3 over the elements in logical order (the *content*: a view of memory whose content is known is not read
again), crossed with dtype and shape. Memory is read by its address: no op runs, and no version is counted. Asking a
sparse tensor for its parts is an op, which neither a mode nor autograd sees.
"""

from __future__ import annotations

import ctypes
import math
import threading
from array import array
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import numpy as np
import torch
import xxhash

from tracer.recording.storage.overlaps import is_nested, joined_axes, span_of
from tracer.recording.torch_private import seams

xxh3: Any = xxhash.xxh3_64_intdigest
_char = ctypes.c_char

#: Bytes that are made contiguous at a time.
PIECE = 1 << 22
#: Above so many bytes, repetitions that lie in memory once (``expand``) are read once.
MOST_REPEATED = 1 << 26
#: Up to so many bytes, NumPy copies quicker than torch, which turns large matrices block by block.
_LITTLE = 1 << 17
UNITS: dict[int, Any] = {np.dtype(code).itemsize: np.dtype(code) for code in ("u1", "<u2", "<u4", "<u8", "<c16")}
_QUANTIZED = frozenset({torch.quint8, torch.qint8, torch.qint32, torch.quint4x2, torch.quint2x4})

_CODES = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64, 16: torch.complex128}
_room = torch.from_numpy(np.empty(PIECE, "u1"))
_room_is_mine = threading.Lock()


@lru_cache(1 << 16)
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
        axes = [] if strides is None else joined_axes(shape, strides)
        self.is_ordered = not axes or (len(axes) == 1 and axes[0][1] == 1)
        if not self.is_ordered:
            self.order = (itemsize, *zip(*axes, strict=True))
        self.is_turned = not self.is_ordered and self.span == self.size and is_nested(*self.order[1:])
        """Whether its elements are those of memory without gaps, each once, in another order."""
        self.turned = seed_of(dtype, shape, f"turned {self.order}") if self.is_turned else 0
        """The number that tells it from other tensors over the same bytes; ``turn`` is 1 to 255 of it."""
        self.turn = self.turned % 255 + 1

    def content(self, address: int) -> int | None:
        """That of the tensor at ``address``; ``None`` while another thread makes one contiguous."""
        memory = self.kind.from_address(address)
        if self.is_ordered:
            return xxh3(memory)  # type: ignore[no-any-return]
        itemsize, sizes, steps = self.order
        if self.size <= _LITTLE:
            return xxh3(_in_order(memory, itemsize, sizes, steps))  # type: ignore[no-any-return]
        if not _room_is_mine.acquire(blocking=False):
            return None
        try:
            state = xxhash.xxh3_64()
            with unseen():
                for piece in _pieces(torch.frombuffer(memory, dtype=_CODES[itemsize]).as_strided(sizes, steps)):
                    room: Any = _room[: piece.nbytes]
                    room.view(piece.dtype).view(piece.shape).copy_(piece)
                    state.update(room.numpy())
            return state.intdigest()
        finally:
            _room_is_mine.release()


def _in_order(memory: Any, itemsize: int, sizes: Sequence[int], steps: Sequence[int]) -> Any:
    """A contiguous copy of strided elements, of any dtype."""
    return np.ascontiguousarray(np.ndarray(sizes, UNITS[itemsize], memory, 0, [step * itemsize for step in steps]))


def _pieces(strided: torch.Tensor) -> Iterator[torch.Tensor]:
    """The parts of ``strided`` that follow in logical order, none larger than a piece."""
    if strided.nbytes <= PIECE:
        yield strided
    elif len(strided) == 1:
        yield from _pieces(strided[0])
    else:
        for part in strided.split(max(1, PIECE // strided[0].nbytes)):
            yield from _pieces(part)


@lru_cache(1 << 13)
def layout_of(dtype: torch.dtype, shape: Any, strides: Any) -> Layout | None:
    """That of a dense tensor without lazy sign, whose strides are ``None`` if contiguous; ``None``: a longer way."""
    if 0 in shape or dtype in _QUANTIZED:
        return None
    if strides is not None and 0 in strides and math.prod(shape) * dtype.itemsize > MOST_REPEATED:
        return None
    return Layout(dtype, shape, strides)


_Base = torch._C.TensorBase
address_of: Any = _Base.data_ptr  # not torch.Tensor's, which is watched: it hands memory out
is_contiguous: Any = _Base.is_contiguous
is_neg: Any = _Base.is_neg
is_conj: Any = _Base.is_conj
strides_of: Any = _Base.stride

_PLAIN = (torch.Tensor, torch.nn.Parameter)
_BY_ROW, _BY_COLUMN = ("crow_indices", "col_indices", "values"), ("ccol_indices", "row_indices", "values")
#: The methods that give the parts of a sparse tensor.
_PARTS = {
    torch.sparse_coo: ("_indices", "_values"),
    **dict.fromkeys((torch.sparse_csr, torch.sparse_bsr), _BY_ROW),
    **dict.fromkeys((torch.sparse_csc, torch.sparse_bsc), _BY_COLUMN),
}


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
    """Through a copy of its own: lazily flipped signs, large repetitions, or beside a thread that uses the buffer."""
    itemsize, dtype = tensor.itemsize, tensor.dtype
    shape, strides = list(tensor.shape), list(strides_of(tensor))
    more = ""
    if tensor.nbytes > MOST_REPEATED and 0 in strides:
        more = f"repeated {[axis for axis, stride in enumerate(strides) if not stride]}"
        shape = [size for size, stride in zip(shape, strides, strict=True) if stride]
        strides = [stride for stride in strides if stride]
    buffer: Any = (ctypes.c_char * span_of(shape, strides, itemsize)).from_address(address)
    content = _in_order(buffer, itemsize, shape, strides)
    if is_lazy(tensor):
        unit = UNITS[itemsize // 2 if dtype.is_complex else itemsize]
        content = content.reshape(-1).copy().view(unit)
        sign = unit.type(1 << (8 * unit.itemsize - 1))
        if is_neg(tensor):
            content ^= sign
        if dtype.is_complex and is_conj(tensor):
            content[1::2] ^= sign
    return (xxh3(content) ^ seed_of(dtype, tensor.shape, more)) or 1


def digest(tensor: torch.Tensor) -> int | None:
    """The digest of a host tensor, to the bit and never 0; ``None`` for one without bytes (fake, meta, elsewhere)."""
    try:
        if _is_wrapper(tensor):
            return _of_wrapper(tensor)
        if not tensor.is_cpu:
            return None
        if tensor.layout is torch.strided and not tensor.is_quantized and not tensor.is_nested:
            return digest_strided(tensor)
        with unseen():
            return _of_other_layout(tensor)
    except Exception:  # a subclass may ask anything of itself
        return None


def folded(digests: Iterable[int | None], seed: int) -> int | None:
    """One digest of several in their order; ``None`` where one of them is."""
    numbers: list[Any] = list(digests)
    return None if None in numbers else digest_bytes(array("Q", numbers).tobytes(), seed)


def parts_of(tensor: Any) -> list[torch.Tensor]:
    """The tensors that hold what ``tensor`` is made of; none where it does not say."""
    try:
        with unseen():
            if _is_wrapper(tensor):
                return [getattr(tensor, name) for name in _attributes_of(tensor) or ()]
            return [getattr(tensor, name)() for name in _PARTS.get(tensor.layout, ())] or [tensor]
    except Exception:  # a subclass may ask anything of itself
        return []


def _is_wrapper(tensor: Any) -> bool:
    """Return whether ``tensor`` is a subclass that dispatches itself."""
    return type(tensor) not in _PLAIN and seams.dispatches_itself(type(tensor))


def _attributes_of(tensor: Any) -> list[str] | None:
    """The attributes of a wrapper that are its parts (``DTensor`` names its mesh too); ``None``: it does not say."""
    kind = type(tensor)
    if seams.is_fake(kind) or not hasattr(kind, "__tensor_flatten__"):
        return None
    names: list[str] = tensor.__tensor_flatten__()[0]
    return [name for name in names if isinstance(getattr(tensor, name), torch.Tensor)]


@contextmanager
def unseen() -> Iterator[None]:
    """Ops in here are seen by no mode, subclass or autograd."""
    with torch.no_grad(), seams.without_torch_function(), seams.without_modes():
        yield


def _of_wrapper(tensor: Any) -> int | None:
    """A subclass that dispatches itself: its parts, where it says which they are."""
    with unseen():
        names = _attributes_of(tensor)
        if names is None:
            return None
        parts = [digest(getattr(tensor, name)) for name in names]
    return folded(parts, digest_bytes(f"{type(tensor).__qualname__} {tensor.dtype} {names}".encode()))


def _of_other_layout(tensor: torch.Tensor) -> int | None:
    if tensor.is_nested:
        return folded(map(digest, tensor.unbind()), seed_of(tensor.dtype, (tensor.size(0),), "nested"))
    if tensor.is_quantized:
        more, whole = str(tensor.qscheme()), digest(tensor.int_repr())
        if tensor.qscheme() in (torch.per_tensor_affine, torch.per_tensor_symmetric):
            grid: list[int | None] = [digest_bytes(f"{tensor.q_scale().hex()} {tensor.q_zero_point()}".encode())]
        else:
            grid = [digest(tensor.q_per_channel_scales()), digest(tensor.q_per_channel_zero_points())]
            grid.append(tensor.q_per_channel_axis() + 1)
        return folded((whole, *grid), seed_of(tensor.dtype, tensor.shape, more))
    if tensor.layout not in _PARTS:
        return None
    more = f"sparse_coo {tensor.is_coalesced()}" if tensor.layout is torch.sparse_coo else str(tensor.layout)
    parts = [digest(getattr(tensor, name)()) for name in _PARTS[tensor.layout]]
    return folded(parts, seed_of(tensor.dtype, tensor.shape, more))


#: Bytes of a word, and words that are mixed at a time.
_WORD = 8
_CHUNK = 1 << 20


def _signed(number: int) -> int:
    return number - (1 << 64) if number >> 63 else number


#: Added once for each position (2**64 over the golden ratio), and the multipliers, all odd.
STRIDE = _signed(0x9E3779B97F4A7C15)
FIRST = _signed(0xBF58476D1CE4E5B9)
SECOND = _signed(0x94D049BB133111EB)
#: Bits that words are shifted by.
SHIFTS = (30, 27, 31)


def mixed_sum(tensor: torch.Tensor) -> torch.Tensor:
    """The sum of a dense tensor's words, each mixed with its position, as an int64 of no dimension on its device.

    A word is eight bytes, zeros after the last. A sum of integers is the same in every order. ``triton_mix`` is its
    twin."""
    data = plain(tensor).view(torch.uint8)
    whole = data.numel() // _WORD * _WORD
    total = torch.zeros((), dtype=torch.int64, device=data.device)
    body = data[:whole].view(torch.int64) if whole else data[:0].to(torch.int64)
    for first in range(0, body.numel(), _CHUNK):
        total += _mix(body[first : first + _CHUNK], first)
    if whole < data.numel():
        tail = torch.zeros(_WORD, dtype=torch.uint8, device=data.device)
        tail[: data.numel() - whole] = data[whole:]
        total += _mix(tail.view(torch.int64), whole // _WORD)
    return total


def _mix(words: torch.Tensor, first: int) -> torch.Tensor:
    positions = torch.arange(first + 1, first + 1 + words.numel(), dtype=torch.int64, device=words.device)
    mixed = words + positions * STRIDE
    mixed = (mixed ^ _shifted(mixed, SHIFTS[0])) * FIRST
    mixed = (mixed ^ _shifted(mixed, SHIFTS[1])) * SECOND
    return (mixed ^ _shifted(mixed, SHIFTS[2])).sum()


def _shifted(words: torch.Tensor, by: int) -> torch.Tensor:
    """Shifted to the right, zeros coming in."""
    return (words >> by) & ((1 << (64 - by)) - 1)


def is_plain(tensor: torch.Tensor) -> bool:
    """Return whether the elements lie in logical order where eight bytes can be read at a time, as they are."""
    return bool(is_contiguous(tensor) and not address_of(tensor) % _WORD and not is_lazy(tensor))


def plain(tensor: torch.Tensor) -> torch.Tensor:
    """The elements of ``tensor`` in logical order, where eight bytes can be read at a time, in one row."""
    resolved = tensor.detach().resolve_conj().resolve_neg().contiguous().reshape(-1)
    is_row = address_of(resolved) % _WORD == 0 and (not resolved.numel() or resolved.stride(0) == 1)
    return resolved if is_row else resolved.clone(memory_format=torch.contiguous_format)


def finished(total: int, seed: Any) -> int:
    """The digest from a sum, once that is on the host."""
    return digest_bytes((total & ((1 << 64) - 1)).to_bytes(8, "little"), seed)
