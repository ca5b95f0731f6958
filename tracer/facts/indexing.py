"""Whether an indexed write addresses each place once: by the index's shape, or because the step made it so.

Two places share a slot only if they agree in the number and in every coordinate that the op takes over: numbers that
differ along the indexed dimension are enough.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from math import prod
from typing import TYPE_CHECKING, Any

from tracer import facts
from tracer.facts import Args, ArgumentReader, Kwargs, Services, argument_getter

if TYPE_CHECKING:
    import torch

    Indices = Sequence[torch.Tensor | None]

_LARGE = 32768
#: The argument of numbers that an indexed op writes or adds.
_VALUES = ("values", "source", "src", "weights", "value")


@cache
def _mask_dtypes() -> tuple[torch.dtype, ...]:
    import torch

    return torch.bool, torch.uint8


def _is_mask(index: torch.Tensor) -> bool:
    """A mask addresses no element twice."""
    return index.dtype in _mask_dtypes()


def _list_of_indices(func: Any) -> ArgumentReader | None:
    """A getter of ``indices`` where it is a list, as of ``index_put``; an embedding's backward takes one tensor."""
    get = argument_getter(func, "indices")
    arguments = () if get is None else func._schema.arguments
    return get if any(each.name == "indices" and "List" in str(each.type) for each in arguments) else None


def _addends(indices: Indices) -> int:
    """The number of elements that indices, broadcast together, address."""
    from torch import broadcast_shapes

    return prod(broadcast_shapes(*(index.shape for index in indices if index is not None)))


@facts.asked(
    "index.broadcasts",
    "Indexed writing: is one number written along dimensions that are not indexed, by several indices or by one"
    " alone, or is a row repeated for several?",
    "self indices values",
    domain=("no", "number", "alone", "row"),
)
def _broadcasts(target: torch.Tensor, indices: Indices, values: torch.Tensor) -> str:
    """The elements of a mask are not counted: a value without a dimension for them is broadcast."""
    from torch import broadcast_shapes

    given = [index for index in indices if index is not None]
    masks = [index for index in given if _is_mask(index)]
    shape = broadcast_shapes(*((1,) if _is_mask(index) else index.shape for index in given))
    rest = target.dim() - len(given) + len(masks) - sum(index.dim() for index in masks)
    if values.numel() == 1:
        is_filled = values.dim() == 0 and len(masks) == len(given) == 1  # as masked_fill_ does
        return "no" if is_filled or not rest else "number" if masks or prod(shape) > 1 else "alone"
    has_all = values.dim() == rest + len(shape) and (masks or values.numel() == _written_through(target, indices))
    return "no" if has_all else "row"


@facts.asked("index.is_mask", "Is every index that was given a mask?")
def _index_is_mask(func: Any, services: Services) -> ArgumentReader | None:
    several, single = _list_of_indices(func), argument_getter(func, "indices")
    if several is not None:
        return lambda args, kwargs: all(_is_mask(index) for index in several(args, kwargs) if index is not None)
    return None if single is None else lambda args, kwargs: _is_mask(single(args, kwargs))


@facts.asked("index.one_value", "Is one single value written at every index?", "values|source")
def _one_value(written: torch.Tensor) -> bool:
    """Then no order of writes shows."""
    from torch import strided

    if written.numel() == 1 or written.layout is not strided:
        return bool(written.numel() == 1)
    # A number that was expanded, as `index_fill` becomes in a compiled graph, lies in memory once.
    return all(size == 1 or stride == 0 for size, stride in zip(written.shape, written.stride(), strict=True))


@facts.asked(
    "shape.numel_ge_32768", "Does the loop that writes have at least 32,768 elements: those that the indices address?"
)
def _numel_is_large(func: Any, services: Services) -> ArgumentReader | None:
    """Torch divides such a loop among threads."""
    name = str(func)
    target, indices = argument_getter(func, "self", "input"), argument_getter(func, "indices")
    if target is None or not ("put" in name or "index_copy" in name):
        return None  # the loop of another op is as long as something else
    if indices is not None:
        return lambda args, kwargs: _written_through(target(args, kwargs), indices(args, kwargs)) >= _LARGE
    written = argument_getter(func, "source" if "index_copy" in name else "index") or target
    return lambda args, kwargs: written(args, kwargs).numel() >= _LARGE


def _written_through(tensor: Any, indices: Any) -> Any:
    """Elements that ``tensor[indices] = ...`` writes: the indices' broadcast shape times the dimensions left whole."""
    from torch import broadcast_shapes

    shapes, whole, dimension = [], 1, 0
    for index in indices:
        if index is None:
            whole *= tensor.shape[dimension]
        elif _is_mask(index):  # how many elements it picks would mean reading it: all of them at most
            shapes.append((index.numel(),))
            dimension += index.ndim - 1
        else:
            shapes.append(tuple(index.shape))
        dimension += 1
    return whole * prod(tensor.shape[dimension:]) * prod(broadcast_shapes(*shapes) if shapes else ())


@facts.noted(
    "index.distinct",
    "Indexed writing: is no slot addressed twice, by the index's shape or because the step made it so?",
)
def _writes_once(func: Any, services: Services) -> ArgumentReader | None:
    known, several = services.indices, _list_of_indices(func)
    if several is not None:
        return lambda args, kwargs: _are_distinct(several(args, kwargs), known)
    single = argument_getter(func, "indices")
    index, dim = single or argument_getter(func, "index"), argument_getter(func, "dim")
    if index is None:
        return None

    def of_row(args: Args, kwargs: Kwargs) -> bool:
        tensor = index(args, kwargs)
        numbers = known.of(tensor) if tensor.numel() > 1 and tensor.dim() == 1 else None
        return tensor.numel() <= 1 or (numbers is not None and numbers.has_no_negative)

    if dim is None or single is not None:  # the index counts through the whole tensor, or names rows of the result
        return of_row

    def along_dim(args: Args, kwargs: Kwargs) -> bool:
        tensor, along = index(args, kwargs), dim(args, kwargs)
        if tensor.dim() < 2:
            along = 0  # index_add and its kin take a row, whatever dimension it counts along
        return bool(tensor.dim() == 0 or tensor.shape[along] <= 1 or known.distinct_along(tensor, along))

    return along_dim


def _are_distinct(indices: Indices, known: Any) -> bool:
    """Return whether several indices, broadcast together, name each place once. Two positions name different places if
    they differ along a dimension in which one of the indices is a row of distinct numbers."""
    from torch import broadcast_shapes

    tensors = [value for value in indices if value is not None]
    if any(map(_is_mask, tensors)):
        return False
    shape = broadcast_shapes(*(tensor.shape for tensor in tensors))
    settled = {len(shape) - 1} if known.distinct_together(tensors) else set()
    for tensor in tensors:
        wide = [dim for dim, size in enumerate(tensor.shape) if size > 1]
        numbers = known.of(tensor) if len(wide) == 1 else None
        if numbers is not None and numbers.dim == wide[0] and numbers.has_no_negative:
            settled.add(wide[0] + len(shape) - tensor.dim())
    return all(size <= 1 or dim in settled for dim, size in enumerate(shape))


@facts.noted("index.adds_two_to_zeros", "Indexed addition in compiled code: do at most two addends meet, onto zeros?")
def _adds_two_to_zeros(func: Any, services: Services) -> ArgumentReader | None:
    @facts.of_arguments("self|input indices accumulate")
    def read(target: torch.Tensor, indices: Indices, accumulate: bool) -> bool:
        return accumulate and services.indices.largest_whole(target) == 0 and _addends(indices) <= 2

    return read(func, services)


def _adding(func: Any) -> ArgumentReader | None:
    """Return a test of whether a call adds what it writes, as it is; ``None`` for an overload that never does."""
    accumulate, reduce = argument_getter(func, "accumulate"), argument_getter(func, "reduce")
    if accumulate is None and reduce is None and "add" not in str(func) and "bincount" not in str(func):
        return None

    def test(args: Args, kwargs: Kwargs) -> bool:
        if reduce is not None and reduce(args, kwargs) not in ("sum", "add", "mean"):
            return False
        return bool(accumulate is None or accumulate(args, kwargs)) and kwargs.get("alpha", 1) == 1

    return test


@facts.noted(
    "shape.adds_whole_numbers", "Indexed addition: are all numbers whole, and too few for a sum to be rounded?"
)
def _adds_whole_numbers(func: Any, services: Services) -> ArgumentReader | None:
    """Return a test of whether each sum on the way is a whole number that the dtype holds exactly."""
    target, values = argument_getter(func, "self", "input"), argument_getter(func, *_VALUES)
    index, dim = argument_getter(func, "index"), argument_getter(func, "dim")
    is_adding, counts = _adding(func), "bincount" in str(func)  # which counts through `self`, from zero on
    if target is None or values is None or is_adding is None:
        return None

    def most_addends(args: Args, added: torch.Tensor) -> int:
        """How many numbers may meet in one element at most."""
        if "index_put" in str(func):
            return _addends(args[1])
        along = None if index is None else index(args, {})
        if along is None or dim is None or not along.dim():
            return added.numel()
        return int(along.shape[dim(args, {}) if along.dim() > 1 else 0])

    def test(args: Args, kwargs: Kwargs) -> bool:
        from torch import finfo

        added = values(args, kwargs)
        if added is None or not is_adding(args, kwargs):
            return False
        held = added if counts else target(args, kwargs)
        before, each = 0 if counts else services.indices.largest_whole(held), services.indices.largest_whole(added)
        if before is None or each is None or not held.dtype.is_floating_point:
            return False
        return bool(before + each * most_addends(args, added) <= 2 / finfo(held.dtype).eps)

    return test


@facts.noted("index.adds_one_number", "Indexed addition: is each number that is added zero or one and the same?")
def _adds_one_number(func: Any, services: Services) -> ArgumentReader | None:
    values, is_adding = argument_getter(func, *_VALUES), _adding(func)
    if values is None or is_adding is None:
        return None
    return lambda args, kwargs: is_adding(args, kwargs) and services.indices.has_one_number(values(args, kwargs))


@facts.noted(
    "index.writes_what_it_read",
    "Indexed writing in compiled code: is what is written computed from what was read at the same indices alone?",
)
def _writes_what_it_read(func: Any, services: Services) -> ArgumentReader | None:
    dim, index = argument_getter(func, "dim"), argument_getter(func, "index")
    several, accumulate = _list_of_indices(func), argument_getter(func, "accumulate")
    values, was_read_at = argument_getter(func, "values", "src"), services.indices.was_read_at
    if values is None or "reduce" in str(func) or "add" in str(func):
        return None
    if several is not None:
        return lambda args, kwargs: (
            not (accumulate is not None and accumulate(args, kwargs))
            and was_read_at(values(args, kwargs), None, several(args, kwargs))
        )
    if dim is None or index is None:
        return None
    return lambda args, kwargs: was_read_at(values(args, kwargs), dim(args, kwargs), [index(args, kwargs)])
