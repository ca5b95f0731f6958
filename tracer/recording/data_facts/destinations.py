"""Where an indexed write goes: one number a write, alike for two that go to one place.

Each maker takes an overload and returns what gives these numbers for a call, with how many places there are; ``None``
for an op that writes by no index.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from typing import Any, NamedTuple

import torch

from tracer.recording.calls.arguments import Getter, argument_getter


class Places(NamedTuple):
    """Where the writes of one call go."""

    numbers: torch.Tensor
    below: int
    """The numbers lie below this."""


Find = Callable[[tuple[Any, ...], Mapping[str, Any]], Places]
_MASKS = (torch.bool, torch.uint8)
_ALONG = frozenset({"scatter", "scatter_", "scatter_add", "scatter_add_", "scatter_reduce", "scatter_reduce_"})
_ROWS = frozenset({"index_add", "index_add_", "index_copy", "index_copy_", "index_reduce", "index_reduce_"})
_PUTS = frozenset({"index_put", "index_put_", "_index_put_impl", "_index_put_impl_", "_unsafe_index_put"})
#: By the number of spatial dimensions.
_POOLS = {
    "max_pool2d_with_indices_backward": 2,
    "max_pool3d_with_indices_backward": 3,
    "adaptive_max_pool2d_backward": 2,
    "adaptive_max_pool3d_backward": 3,
    "fractional_max_pool2d_backward": 2,
    "fractional_max_pool3d_backward": 3,
    "max_unpool2d": 2,
    "max_unpool3d": 3,
}


def destinations_of(func: Any, name: str) -> Find | None:
    """What tells where the calls of ``func``, whose packet is ``name``, write."""
    if name in _ALONG:
        return _with(func, _along, "self", "dim", "index")
    if name in _ROWS:
        return _with(func, _rows, "self", "dim", "index")
    if name in _PUTS:
        return _with(func, _put_by_several, "self", "indices")
    if name in ("put", "put_"):
        return _with(func, _put, "self", "index")
    if name == "embedding_dense_backward":
        return _with(func, _embedded, "indices", "num_weights", "padding_idx")
    spatial = _POOLS.get(name)
    if spatial is not None and name.startswith("max_unpool"):
        return _with(
            func, lambda source, indices, size: _pooled(indices, prod(size), spatial), "self", "indices", "output_size"
        )
    if spatial is not None:
        return _with(
            func, lambda source, indices: _pooled(indices, prod(source.shape[-spatial:]), spatial), "self", "indices"
        )
    return None


def _with(func: Any, find: Callable[..., Places], *names: str) -> Find | None:
    found = [argument_getter(func, name) for name in names]
    known: list[Getter] = [get for get in found if get is not None]
    if len(known) != len(names):
        return None
    return lambda args, kwargs: find(*(get(args, kwargs) for get in known))


def _along(target: torch.Tensor, dim: int, index: torch.Tensor) -> Places:
    """A place is told by the index along ``dim``, and by where the index stands in all others."""
    if not target.dim() or not index.dim():
        return Places(index.reshape(-1), max(1, target.numel()))
    extent = target.shape[dim]
    rows = index.movedim(dim, -1).reshape(-1, index.shape[dim])
    return _in_rows(rows, extent)


def _in_rows(numbers: torch.Tensor, extent: int) -> Places:
    """Rows of numbers, of which each counts for itself."""
    offsets = torch.arange(numbers.shape[0], device=numbers.device).unsqueeze(1) * extent
    return Places((numbers.to(torch.int64) + offsets).reshape(-1), numbers.shape[0] * extent)


def _rows(target: torch.Tensor, dim: int, index: torch.Tensor) -> Places:
    return Places(index.reshape(-1), target.shape[dim] if target.dim() else 1)


def _put(target: torch.Tensor, index: torch.Tensor) -> Places:
    count = target.numel()
    return Places(index.reshape(-1).to(torch.int64).remainder(max(1, count)), count)


def _put_by_several(target: torch.Tensor, indices: Any) -> Places:
    given: list[tuple[int, torch.Tensor]] = []
    dim = 0
    for index in indices:
        if index is None:
            dim += 1
        elif index.dtype in _MASKS:
            for part in index.nonzero().unbind(1):
                given.append((target.shape[dim], part))
                dim += 1
        else:
            given.append((target.shape[dim], index))
            dim += 1
    whole = torch.zeros((), dtype=torch.int64, device=target.device)
    count = 1
    for extent, index in given:
        whole = whole * extent + index.to(target.device, torch.int64).remainder(max(1, extent))
        count *= extent
    return Places(whole.reshape(-1), count)


def _embedded(indices: torch.Tensor, rows: int, padding: int) -> Places:
    """The row that pads gets no gradient."""
    numbers = indices.reshape(-1)
    return Places(numbers[numbers != padding] if padding >= 0 else numbers, int(rows))


def _pooled(indices: torch.Tensor, extent: int, spatial: int) -> Places:
    return _in_rows(indices.reshape(-1, prod(indices.shape[-spatial:])), extent)


def most_at_one_place(places: Places) -> int:
    """How many writes go to the place that most go to."""
    numbers, count = places
    if numbers.numel() < 2:
        return numbers.numel()
    if count <= 4 * numbers.numel() + 65536:
        return int(torch.bincount(numbers).max())
    ordered = numbers.sort().values
    if not bool((ordered[1:] == ordered[:-1]).any()):
        return 1
    return 3 if bool((ordered[2:] == ordered[:-2]).any()) else 2
