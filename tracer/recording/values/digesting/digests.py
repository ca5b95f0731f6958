"""The digest of any tensor on the host: dense, sparse, nested, quantized, a subclass; ``None`` where it has no bytes.

Asking a sparse tensor for its parts is an op. No mode sees it, autograd does not either, and it changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
import xxhash

from tracer.recording.torch_private import seams
from tracer.recording.values.digesting.layouts import seed_of
from tracer.recording.values.digesting.memory import digest_bytes, digest_strided

_PLAIN = (torch.Tensor, torch.nn.Parameter)
_COMPRESSED = {
    torch.sparse_csr: ("crow_indices", "col_indices"),
    torch.sparse_csc: ("ccol_indices", "row_indices"),
    torch.sparse_bsr: ("crow_indices", "col_indices"),
    torch.sparse_bsc: ("ccol_indices", "row_indices"),
}


def digest(tensor: torch.Tensor) -> int | None:
    """The digest of a tensor of the host; ``None`` for one without bytes of its own (fake, meta, another device).

    It covers dtype, shape and the elements in logical order, to the bit; neither strides nor storage. It is never 0.
    """
    kind = type(tensor)
    if kind not in _PLAIN and seams.dispatches_itself(kind):
        return _of_wrapper(tensor)
    try:
        if tensor.layout is torch.strided and tensor.is_cpu and not tensor.is_quantized and not tensor.is_nested:
            return digest_strided(tensor)
        if not tensor.is_cpu:
            return None
        return _of_other_layout(tensor)
    except (RuntimeError, NotImplementedError, TypeError, ValueError, AttributeError):
        return None


def folded(digests: Iterable[int | None], seed: int = 0) -> int | None:
    """One digest of several in their order; ``None`` where one of them is."""
    state = xxhash.xxh3_64(seed=seed)
    for digest in digests:
        if digest is None:
            return None
        state.update(digest.to_bytes(8, "little"))
    return state.intdigest() or 1


def parts_of(tensor: Any) -> list[torch.Tensor]:
    """The tensors that hold what ``tensor`` is made of; none where it does not say."""
    kind = type(tensor)
    try:
        with unseen():
            if kind not in _PLAIN and seams.dispatches_itself(kind):
                if seams.is_fake(kind) or not hasattr(kind, "__tensor_flatten__"):
                    return []
                return [getattr(tensor, name) for name in tensor.__tensor_flatten__()[0]]
            if tensor.layout is torch.sparse_coo:
                return [tensor._indices(), tensor._values()]
            names = _COMPRESSED.get(tensor.layout, ())
            return [getattr(tensor, name)() for name in (*names, "values")] if names else [tensor]
    except Exception:  # a subclass may ask anything of itself
        return []


@contextmanager
def unseen() -> Iterator[None]:
    """Ops in here are seen by no mode, subclass or autograd."""
    with torch.no_grad(), seams.without_torch_function(), seams.without_modes():
        yield


def _of_other_layout(tensor: torch.Tensor) -> int | None:
    with unseen():
        if tensor.is_quantized:
            return _of_quantized(tensor)
        if tensor.is_nested:
            return _of_nested(tensor)
        if tensor.layout is torch.sparse_coo:
            seed = seed_of(tensor.dtype, tensor.shape, f"sparse_coo {tensor.is_coalesced()}")
            return folded((digest(tensor._indices()), digest(tensor._values())), seed)
        names = _COMPRESSED.get(tensor.layout)
        if names is None:
            return None
        seed = seed_of(tensor.dtype, tensor.shape, str(tensor.layout))
        parts = [getattr(tensor, name)() for name in (*names, "values")]
        return folded(map(digest, parts), seed)


def _of_quantized(tensor: torch.Tensor) -> int | None:
    scheme = tensor.qscheme()
    seed = seed_of(tensor.dtype, tensor.shape, str(scheme))
    whole = digest(tensor.int_repr())
    if scheme in (torch.per_tensor_affine, torch.per_tensor_symmetric):
        grid: list[int | None] = [digest_bytes(f"{tensor.q_scale().hex()} {tensor.q_zero_point()}".encode())]
    else:
        grid = [digest(tensor.q_per_channel_scales()), digest(tensor.q_per_channel_zero_points())]
        grid.append(tensor.q_per_channel_axis() + 1)
    return folded((whole, *grid), seed)


def _of_nested(tensor: torch.Tensor) -> int | None:
    return folded((digest(part) for part in tensor.unbind()), seed_of(tensor.dtype, (tensor.size(0),), "nested"))


def _of_wrapper(tensor: Any) -> int | None:
    """A subclass that dispatches itself: its parts, where it says which they are."""
    kind = type(tensor)
    if seams.is_fake(kind) or not hasattr(kind, "__tensor_flatten__"):
        return None
    try:
        with unseen():
            names, _ = tensor.__tensor_flatten__()
            parts = [digest(getattr(tensor, name)) for name in names]
        return folded(parts, digest_bytes(f"{kind.__qualname__} {tensor.dtype} {names}".encode()))
    except Exception:  # it may ask anything of itself
        return None
