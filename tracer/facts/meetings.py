"""How many addends meet in one element: two add up to the same sum in either order, from three on the order shows.

Bounds from sizes alone, never too small: by dimension, and their product over the dimensions. An addend of weight zero
changes no sum and is not counted. Each takes constant time, since it is worked out for every call.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import gcd, prod
from typing import Any

from tracer.facts.arguments import argument_getter, getters
from tracer.facts.fact import Services, Test

#: Source positions are computed in floating point: what lies this close to an element counts as reaching it.
_CLOSE = 1e-3
#: More than two, however many.
MANY = 3

_Bounds = Callable[[tuple[Any, ...], Mapping[str, Any]], Sequence[int]]


def meets_at_most_twice(func: Any, services: Services) -> Test | None:
    """Does no element of the result of ``func`` collect more than two addends?"""
    found = _bounds_of(func)
    if found is None:
        return None
    bounds: _Bounds = found
    return lambda args, kwargs: prod(bounds(args, kwargs)) <= 2


def _bounds_of(func: Any) -> _Bounds | None:
    name = str(func).split(".")[1]
    if "adaptive" in name:
        return _adaptive_windows(func, 3 if "3d" in name else 2)
    if "fractional" in name:
        return _fractional_windows(func)
    if name.startswith("upsample"):
        return _resampled(func, _reach_of_cubic if "cubic" in name else _reach_of_linear)
    return _windows(func)


def _windows(func: Any) -> _Bounds | None:
    """Pooling with a kernel: the windows that an element may lie in."""
    known = getters(func, "grad_output", "kernel_size", "stride")
    if known is None:
        return None
    gradient, kernel, stride = known
    spread = argument_getter(func, "dilation")

    def read(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[int]:
        sizes = list(kernel(args, kwargs))
        steps = list(stride(args, kwargs)) or sizes
        gaps = list(spread(args, kwargs)) if spread is not None else [1]
        counts = list(gradient(args, kwargs).shape[-3:] if "3d" in str(func) else gradient(args, kwargs).shape[-2:])
        each = [values * len(counts) if len(values) == 1 else values for values in (sizes, steps, gaps)]
        return [windows_of_one(*extents) for extents in zip(*each, counts, strict=True)]

    return read


def windows_of_one(size: int, step: int, gap: int, count: int) -> int:
    """In how many of ``count`` windows one element lies at most: ``size`` elements, ``gap`` apart, each ``step`` on."""
    common = gcd(step, gap)
    return max(1, min(-(-size * common // step), -(-count * common // gap)))


def _adaptive_windows(func: Any, spatial: int) -> _Bounds | None:
    known = getters(func, "grad_output", "self")
    if known is None:
        return None
    gradient, source = known

    def read(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[int]:
        inner, outer = source(args, kwargs).shape[-spatial:], gradient(args, kwargs).shape[-spatial:]
        return [adaptive_windows_of_one(total, count) for total, count in zip(inner, outer, strict=True)]

    return read


def adaptive_windows_of_one(total: int, count: int) -> int:
    """In how many of ``count`` windows over ``total`` elements one lies at most: neighbours share no more than one."""
    if not count or total % count == 0:
        return 1
    return 2 if total > count else -(-count // max(total, 1)) + (count % max(total, 1) > 0)


def _fractional_windows(func: Any) -> _Bounds | None:
    known = getters(func, "self", "kernel_size", "output_size")
    if known is None:
        return None
    source, kernel, output = known

    def read(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[int]:
        sizes, counts = kernel(args, kwargs), output(args, kwargs)
        spatial = source(args, kwargs).shape[-len(sizes) :]
        return [fractional_windows_of_one(*extents) for extents in zip(spatial, sizes, counts, strict=True)]

    return read


def fractional_windows_of_one(total: int, size: int, count: int) -> int:
    """As ``windows_of_one``, for windows that start at least ``floor((total - size) / (count - 1))`` apart."""
    apart = (total - size) // (count - 1) if count > 1 else size
    return min(count, -(-size // apart)) if apart > 0 else count


def _resampled(func: Any, reach: Callable[[float, bool], int]) -> _Bounds | None:
    known = getters(func, "output_size", "input_size", "align_corners")
    if known is None:
        return None
    output, source, aligned = known
    names = [a.name for a in func._schema.arguments if a.name.startswith("scales")]
    scales = [get for get in (argument_getter(func, name) for name in names) if get is not None]

    def read(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[int]:
        counts = list(output(args, kwargs))
        totals = list(source(args, kwargs))[-len(counts) :]
        given = [get(args, kwargs) for get in scales] if len(scales) == len(counts) else [None] * len(counts)
        is_aligned = bool(aligned(args, kwargs))
        return [
            1 if total == count else reach(_step(total, count, scale, is_aligned), is_aligned)
            for total, count, scale in zip(totals, counts, given, strict=True)
        ]

    return read


def _step(total: int, count: int, scale: float | None, is_aligned: bool) -> float:
    """How far apart in the input two neighbours of the output lie; as far as one likes where there is one alone."""
    if is_aligned:
        return (total - 1) / (count - 1) if count > 1 else float(max(total, MANY))
    return 1 / scale if scale is not None and scale > 0 else total / count


def _reach_of_linear(step: float, is_aligned: bool) -> int:
    """How many outputs weigh on one input, each on the two that it falls between."""
    if step < 1 + _CLOSE:
        return MANY
    if abs(step - 2) < _CLOSE:
        return 2 if is_aligned else 1  # not aligned, each output falls in the middle between two inputs
    return 1 if step > 2 else 2


def _reach_of_cubic(step: float, is_aligned: bool) -> int:
    """The same for four inputs each. Nearer to an edge than that, one output weighs on it several times."""
    return 1 if step > 4 + _CLOSE or (step > 4 - _CLOSE and not is_aligned) else MANY
