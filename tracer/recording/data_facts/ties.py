"""Whether equal values stand where it shows which of them comes first: looked at once the call has chosen."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

from tracer.facts.arguments import Getter, argument_getter
from tracer.names import DataShown
from tracer.ops.op import Op, Orders

Look = Callable[[tuple[Any, ...], Mapping[str, Any], Any], DataShown]


def ties_of(func: Any, op: Op) -> Look | None:
    """What looks for ties in the calls of ``func``, an overload of ``op``; ``None``: it orders nothing."""
    source, dim = argument_getter(func, "self"), argument_getter(func, "dim")
    if op.orders is None or source is None or dim is None:
        return None
    get: Getter = source
    along: Getter = dim
    test = _among_chosen if op.orders is Orders.SEVERAL else _of_one

    def look(args: tuple[Any, ...], kwargs: Mapping[str, Any], result: Any) -> DataShown:
        numbers, axis = get(args, kwargs), along(args, kwargs)
        if not numbers.dim() or not numbers.numel():
            return DataShown.NO_TIES
        if numbers.is_floating_point() and bool(numbers.isnan().any()):
            return DataShown.NAN
        return DataShown.TIES if test(numbers, result[0], axis) else DataShown.NO_TIES

    return look


def _of_one(numbers: torch.Tensor, chosen: torch.Tensor, dim: int) -> bool:
    """Is the value that was chosen there twice?"""
    kept = chosen if chosen.dim() == numbers.dim() else chosen.unsqueeze(dim)
    return bool(((numbers == kept).sum(dim) > 1).any())


def _among_chosen(numbers: torch.Tensor, chosen: torch.Tensor, dim: int) -> bool:
    """Are two of the chosen values equal, or does the last of them stand among what was left as well?"""
    if not chosen.shape[dim]:
        return False
    ordered = chosen.sort(dim).values
    extent = ordered.shape[dim]
    if bool((ordered.narrow(dim, 1, extent - 1) == ordered.narrow(dim, 0, extent - 1)).any()):
        return True
    if extent == numbers.shape[dim]:
        return False
    # Each chosen value is there once; one that is found again was left at the edge.
    edges = (ordered.narrow(dim, 0, 1), ordered.narrow(dim, extent - 1, 1))
    return any(bool(((numbers == edge).sum(dim) > 1).any()) for edge in edges)
