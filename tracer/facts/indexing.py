"""Does an indexed write address each place once? By the index's shape, or because the step made it so.

Noted where it is certain. Two places of one index are the same slot if they agree in the number that stands there and
in every coordinate that the op takes over; so it is enough that the numbers differ along the indexed dimension.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from tracer.facts.arguments import Getter, Reader, argument_getter, takes_lists
from tracer.facts.fact import BOOL, Fact, Kind, KnownIndices, Services, Test

if TYPE_CHECKING:
    import torch

_LARGE = 32768


@cache
def _mask_dtypes() -> tuple[torch.dtype, ...]:
    """Those of a mask, which addresses no element twice."""
    import torch

    return torch.bool, torch.uint8


def _is_mask(index: torch.Tensor) -> bool:
    return index.dtype in _mask_dtypes()


def _writes_once(func: Any, services: Services) -> Test | None:
    indices = services.indices
    lists = argument_getter(func, "indices")
    if lists is not None and not takes_lists(func, "indices"):
        row: Getter = lists  # embedding's backward: each number names a row of the result
        return lambda args, kwargs: _is_distinct_row(row(args, kwargs), indices)
    if lists is not None:
        many: Getter = lists
        return lambda args, kwargs: _are_distinct(many(args, kwargs), indices)
    index, dim = argument_getter(func, "index"), argument_getter(func, "dim")
    if index is None:
        return None
    one: Getter = index
    if dim is None:  # put: the index counts through the whole tensor
        return lambda args, kwargs: _is_distinct_row(one(args, kwargs), indices)
    axis: Getter = dim

    def test(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
        tensor, along = one(args, kwargs), axis(args, kwargs)
        if tensor.dim() < 2:
            along = 0  # index_add and its kin take a row, whatever dimension it counts along
        return bool(tensor.dim() == 0 or tensor.shape[along] <= 1 or indices.distinct_along(tensor, along))

    return test


def _is_distinct_row(tensor: torch.Tensor, indices: KnownIndices) -> bool:
    if tensor.numel() <= 1:
        return True
    numbers = indices.of(tensor)
    return tensor.dim() == 1 and numbers is not None and numbers.has_no_negative


def _are_distinct(given: Sequence[torch.Tensor | None], indices: KnownIndices) -> bool:
    """Do several indices, broadcast together, name each place once?

    Two positions name different places if they differ along a dimension in which one of the indices is a row of
    distinct numbers.
    """
    from torch import broadcast_shapes

    tensors = [value for value in given if value is not None]
    if any(map(_is_mask, tensors)):
        return False
    shape = broadcast_shapes(*(tensor.shape for tensor in tensors))
    settled: set[int] = set()
    for tensor in tensors:
        wide = [dim for dim, size in enumerate(tensor.shape) if size > 1]
        numbers = indices.of(tensor) if len(wide) == 1 else None
        if numbers is not None and numbers.dim == wide[0] and numbers.has_no_negative:
            settled.add(wide[0] + len(shape) - tensor.dim())
    return all(size <= 1 or dim in settled for dim, size in enumerate(shape))


def _index_is_mask(func: Any, services: Services) -> Reader | None:
    found = argument_getter(func, "indices")
    if found is None:
        return None
    get: Getter = found
    if not takes_lists(func, "indices"):
        return lambda args, kwargs: _is_mask(get(args, kwargs))

    def read(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
        return all(_is_mask(index) for index in get(args, kwargs) if index is not None)

    return read


def _one_value(func: Any, services: Services) -> Reader | None:
    """Indexed writing: is one single value written everywhere? Then no order of writes shows."""
    found = argument_getter(func, "values", "source")
    if found is None:
        return None
    get: Getter = found
    from torch import strided

    def read(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
        held = get(args, kwargs)
        if held.numel() == 1 or held.layout is not strided:
            return bool(held.numel() == 1)
        # A number that was expanded, as `index_fill` becomes in a compiled graph, lies in memory once.
        return all(size == 1 or stride == 0 for size, stride in zip(held.shape, held.stride(), strict=True))

    return read


def _numel_is_large(func: Any, services: Services) -> Reader | None:
    """Does the loop that writes have at least 32,768 elements? That is what torch divides among threads."""
    tensor, index = argument_getter(func, "self", "input"), argument_getter(func, "index")
    indices, source = argument_getter(func, "indices"), argument_getter(func, "source")
    if tensor is None:
        return None
    name = str(func)
    if not any(word in name for word in ("put", "index_copy")):
        return None  # the loop of another op is as long as something else
    target: Getter = tensor
    if indices is not None:
        many: Getter = indices
        return lambda args, kwargs: _written_through(target(args, kwargs), many(args, kwargs)) >= _LARGE
    if "index_copy" in name and source is not None:
        written: Getter = source
    elif "put" in name and index is not None:
        written = index
    else:
        written = target
    return lambda args, kwargs: written(args, kwargs).numel() >= _LARGE


def _written_through(tensor: Any, indices: Any) -> int:
    """Elements that ``tensor[indices] = ...`` writes: the indices' broadcast shape times the dimensions left whole."""
    from torch import broadcast_shapes

    shapes = []
    whole = 1
    dimension = 0
    for index in indices:
        if index is None:
            whole *= tensor.shape[dimension]
            dimension += 1
        elif _is_mask(index):
            # A mask takes as many dimensions as it has; how many elements it picks is not asked, as that would
            # read its values: all of them at most.
            shapes.append((index.numel(),))
            dimension += index.ndim
        else:
            shapes.append(tuple(index.shape))
            dimension += 1
    for size in tensor.shape[dimension:]:
        whole *= size
    picked = 1
    for size in broadcast_shapes(*shapes) if shapes else ():
        picked *= size
    return whole * picked


FACTS = (
    Fact("index.is_mask", BOOL, Kind.ASKED, "Is every index that was given a mask?", _index_is_mask),
    Fact("index.one_value", BOOL, Kind.ASKED, "Is one single value written at every index?", _one_value),
    Fact(
        "shape.numel_ge_32768",
        BOOL,
        Kind.ASKED,
        "Does the loop that writes have at least 32,768 elements: those that the indices address?",
        _numel_is_large,
    ),
    Fact(
        "index.distinct",
        BOOL,
        Kind.NOTED,
        "Indexed writing: is no slot addressed twice, by the index's shape or because the step made it so?",
        _writes_once,
    ),
)
