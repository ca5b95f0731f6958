"""Does an indexed write address each place once? By the index's shape, or because the step made it so.

Noted where it is certain. Two places of one index are the same slot if they agree in the number that stands there and
in every coordinate that the op takes over; so it is enough that the numbers differ along the indexed dimension.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from tracer.recording.calls.arguments import MISSING, Getter, Reader, argument_getter, takes_lists
from tracer.recording.storage.indices import Indices

_MASKS = (torch.bool, torch.uint8)


def writes_once(func: Any, indices: Indices) -> Reader | None:
    """A reader of ``index.distinct`` for ``func``, or ``None`` where it takes no index."""
    lists = argument_getter(func, "indices")
    if lists is not None and not takes_lists(func, "indices"):
        row: Getter = lists  # embedding's backward: each number names a row of the result
        return lambda args, kwargs: True if _is_distinct_row(row(args, kwargs), indices) else MISSING
    if lists is not None:
        many: Getter = lists
        return lambda args, kwargs: True if _are_distinct(many(args, kwargs), indices) else MISSING
    index, dim = argument_getter(func, "index"), argument_getter(func, "dim")
    if index is None:
        return None
    one: Getter = index
    if dim is None:  # put: the index counts through the whole tensor
        return lambda args, kwargs: True if _is_distinct_row(one(args, kwargs), indices) else MISSING
    axis: Getter = dim

    def read(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        tensor, along = one(args, kwargs), axis(args, kwargs)
        if tensor.dim() < 2:
            along = 0  # index_add and its kin take a row, whatever dimension it counts along
        if tensor.dim() == 0 or tensor.shape[along] <= 1 or indices.distinct_along(tensor, along):
            return True
        return MISSING

    return read


def _is_distinct_row(tensor: torch.Tensor, indices: Indices) -> bool:
    if tensor.numel() <= 1:
        return True
    numbers = indices.of(tensor)
    return tensor.dim() == 1 and numbers is not None and numbers.has_no_negative


def _are_distinct(given: Sequence[torch.Tensor | None], indices: Indices) -> bool:
    """Do several indices, broadcast together, name each place once?

    Two positions name different places if they differ along a dimension in which one of the indices is a row of
    distinct numbers.
    """
    tensors = [value for value in given if value is not None]
    if any(tensor.dtype in _MASKS for tensor in tensors):
        return False
    shape = torch.broadcast_shapes(*(tensor.shape for tensor in tensors))
    settled: set[int] = set()
    for tensor in tensors:
        wide = [dim for dim, size in enumerate(tensor.shape) if size > 1]
        numbers = indices.of(tensor) if len(wide) == 1 else None
        if numbers is not None and numbers.dim == wide[0] and numbers.has_no_negative:
            settled.add(wide[0] + len(shape) - tensor.dim())
    return all(size <= 1 or dim in settled for dim, size in enumerate(shape))
