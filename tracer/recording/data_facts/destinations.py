"""Where an indexed write goes: one number a write, alike for two that go to one place.

Each maker takes an overload and returns what gives these numbers for a call, with how many places there are; ``None``
for an op that writes by no index.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from typing import Any, NamedTuple

import torch

from tracer.facts.arguments import Getter, argument_getter
from tracer.ops.op import Op, Writes


class Places(NamedTuple):
    """Where the writes of one call go."""

    numbers: torch.Tensor
    below: int
    """The numbers lie below this."""


Find = Callable[[tuple[Any, ...], Mapping[str, Any]], Places]
_MASKS = (torch.bool, torch.uint8)


def destinations_of(func: Any, op: Op) -> Find | None:
    """What tells where the calls of ``func``, an overload of ``op``, write."""
    spatial = op.spatial
    if op.writes is Writes.UNPOOLED:
        return _with(
            func, lambda source, indices, size: _pooled(indices, prod(size), spatial), "self", "indices", "output_size"
        )
    if op.writes is Writes.POOLED:
        return _with(
            func, lambda source, indices: _pooled(indices, prod(source.shape[-spatial:]), spatial), "self", "indices"
        )
    if op.writes is None:
        return None
    return _with(func, *_FINDS[op.writes])


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


#: What finds the places, and the arguments that it needs.
_FINDS: dict[Writes, tuple[Any, ...]] = {
    Writes.ALONG: (_along, "self", "dim", "index"),
    Writes.ROWS: (_rows, "self", "dim", "index"),
    Writes.SEVERAL: (_put_by_several, "self", "indices"),
    Writes.FLAT: (_put, "self", "index"),
    Writes.EMBEDDED: (_embedded, "indices", "num_weights", "padding_idx"),
}
