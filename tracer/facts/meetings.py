"""How many addends meet in one element: two give one sum in either order, three or more may not.

Upper bounds from sizes alone, in constant time, since every call asks; addends of weight zero are not counted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import gcd, prod
from typing import TYPE_CHECKING, Any

from tracer.facts.argument_readers import of_arguments
from tracer.facts.fact import Makes, Services, Test

if TYPE_CHECKING:
    import torch

#: Source positions are computed in floating point: what lies this close to an element counts as reaching it.
_CLOSE = 1e-3
#: More than two, however many.
MANY = 3


def meets_at_most_twice(func: Any, services: Services) -> Test | None:
    """Return a test of whether no element of the result of ``func`` collects more than two addends."""
    bounds = _bounds_of(str(func).split(".")[1])(func, services)
    return None if bounds is None else lambda args, kwargs: prod(bounds(args, kwargs)) <= 2


def _bounds_of(name: str) -> Makes:
    if "adaptive" in name:
        return _adaptive_windows(3 if "3d" in name else 2)
    if "fractional" in name:
        return _fractional_windows
    if name.startswith("upsample"):
        return _resampled(_reach_of_cubic if "cubic" in name else _reach_of_linear)
    return _windows(3 if "3d" in name else 2)


def _windows(spatial: int) -> Makes:
    """Pooling with a kernel: the windows that an element may lie in."""

    @of_arguments("grad_output", "kernel_size", "stride", "dilation?")
    def read(gradient: torch.Tensor, kernel: Sequence[int], stride: Sequence[int], dilation: Any) -> list[int]:
        sizes, steps, gaps = list(kernel), list(stride or kernel), list(dilation or [1])
        counts = list(gradient.shape[-spatial:])
        each = [values * len(counts) if len(values) == 1 else values for values in (sizes, steps, gaps)]
        return [windows_of_one(*extents) for extents in zip(*each, counts, strict=True)]

    return read


def windows_of_one(size: int, step: int, gap: int, count: int) -> int:
    """In how many of ``count`` windows one element lies at most: ``size`` elements, ``gap`` apart, each ``step`` on."""
    common = gcd(step, gap)
    return max(1, min(-(-size * common // step), -(-count * common // gap)))


def _adaptive_windows(spatial: int) -> Makes:
    @of_arguments("self", "grad_output")
    def read(source: torch.Tensor, gradient: torch.Tensor) -> list[int]:
        extents = zip(source.shape[-spatial:], gradient.shape[-spatial:], strict=True)
        return [adaptive_windows_of_one(total, count) for total, count in extents]

    return read


def adaptive_windows_of_one(total: int, count: int) -> int:
    """In how many of ``count`` windows over ``total`` elements one lies at most: neighbours share no more than one."""
    if not count or total % count == 0:
        return 1
    return 2 if total > count else -(-count // max(total, 1)) + (count % max(total, 1) > 0)


@of_arguments("self", "kernel_size", "output_size")
def _fractional_windows(source: torch.Tensor, sizes: Sequence[int], counts: Sequence[int]) -> list[int]:
    spatial = source.shape[-len(sizes) :]
    return [fractional_windows_of_one(*extents) for extents in zip(spatial, sizes, counts, strict=True)]


def fractional_windows_of_one(total: int, size: int, count: int) -> int:
    """As ``windows_of_one``, for windows that start at least ``floor((total - size) / (count - 1))`` apart."""
    spacing = (total - size) // (count - 1) if count > 1 else size
    return min(count, -(-size // spacing)) if spacing > 0 else count


def _resampled(reach: Callable[[float, bool], int]) -> Makes:
    @of_arguments("output_size", "input_size", "align_corners", "scales?", "scales_d?", "scales_h?", "scales_w?")
    def read(output: Sequence[int], source: Sequence[int], is_aligned: bool, *scales: float | None) -> list[int]:
        counts = list(output)
        totals = list(source)[-len(counts) :]
        by_dimension = scales[:1] if len(counts) == 1 else scales[-len(counts) :]
        return [
            1 if total == count else reach(_step(total, count, scale, is_aligned), is_aligned)
            for total, count, scale in zip(totals, counts, by_dimension, strict=True)
        ]

    return read


def _step(total: int, count: int, scale: float | None, is_aligned: bool) -> float:
    """Return the distance in the input of two neighbours of the output; arbitrarily large if there is only one."""
    if is_aligned:
        return (total - 1) / (count - 1) if count > 1 else float(max(total, MANY))
    return 1 / scale if scale is not None and scale > 0 else total / count


def _reach_of_linear(step: float, is_aligned: bool) -> int:
    """Return the number of outputs that weigh on one input, each on the two that it falls between."""
    if step < 1 + _CLOSE:
        return MANY
    if abs(step - 2) < _CLOSE:
        return 2 if is_aligned else 1  # not aligned, each output falls in the middle between two inputs
    return 1 if step > 2 else 2


def _reach_of_cubic(step: float, is_aligned: bool) -> int:
    """The same for four inputs each. Nearer to an edge than that, one output weighs on it several times."""
    return 1 if step > 4 + _CLOSE or (step > 4 - _CLOSE and not is_aligned) else MANY
