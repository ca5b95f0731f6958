"""Gradients that meet where windows overlap: of average pools and of resampling, as lists of what is added where.

Each output's gradient goes to the inputs of its window, by a weight. Windows and weights belong to the dimensions, one
by one: a weight is the product of those along each. What the weights of a resampling are, torch's own forward op says.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import torch

#: So many addends are made at most; of further planes, which are added up apart, none is looked at.
MOST_ADDENDS = 1 << 24


class Taps(NamedTuple):
    """Along one dimension: which inputs each output reaches, and how strongly; a row an output."""

    places: torch.Tensor
    weights: torch.Tensor
    size: int
    """How many inputs there are."""


def adding_up(gradient: Any, taps: Sequence[Taps]) -> tuple[int, Callable[[Any], Any]]:
    """How many addends a plane has, and what adds them in a given order: planes by places."""
    import torch

    spatial = len(taps)
    place, weight = torch.zeros((), dtype=torch.int64), torch.ones((), dtype=torch.float64)
    for tap in taps:  # outputs, then what each reaches, by dimension
        place = place[..., None, None] * tap.size + tap.places
        weight = weight[..., None, None] * tap.weights
    order = [*range(0, 2 * spatial, 2), *range(1, 2 * spatial, 2)]
    outputs = gradient.shape[-spatial:].numel()
    place = place.permute(order).reshape(outputs, -1)
    weight = weight.permute(order).reshape(outputs, -1)
    output, tap_of = weight.nonzero(as_tuple=True)
    index, weights = place[output, tap_of], weight[output, tap_of].to(gradient.dtype)
    planes = gradient.reshape(-1, outputs)[: max(1, MOST_ADDENDS // max(1, index.numel()))]
    source = planes[:, output] * weights
    into = source.new_zeros(source.shape[0], prod(tap.size for tap in taps))
    return index.numel(), lambda turn: into.index_add(1, index[turn], source[:, turn])


def average_pool(given: dict[str, Any], spatial: int) -> tuple[int, Callable[[Any], Any]]:
    """Gradients of windows of one size; the divisor counts padding where it is asked to."""
    gradient, pooled = given["grad_output"], given["self"]
    kernel = _each(given["kernel_size"], spatial)
    stride = _each(given.get("stride") or kernel, spatial)
    padding = _each(given.get("padding", 0), spatial)
    counts_padding, override = given.get("count_include_pad", True), given.get("divisor_override")
    taps = []
    for dim in range(spatial):
        size, length = pooled.shape[dim - spatial], gradient.shape[dim - spatial]
        starts = [place * stride[dim] - padding[dim] for place in range(length)]
        whole = [(start, min(start + kernel[dim], size + padding[dim])) for start in starts]
        inside = [(max(0, start), min(end, size)) for start, end in whole]
        counts = [end - start for start, end in (whole if counts_padding else inside)]
        taps.append(_windows(inside, [1 if override else count for count in counts], size))
    if override:
        gradient = gradient / override
    return adding_up(gradient, taps)


def adaptive_pool(given: dict[str, Any], spatial: int) -> tuple[int, Callable[[Any], Any]]:
    """Gradients of windows whose ends are rounded outwards, so that they overlap where sizes do not divide."""
    gradient, pooled = given["grad_output"], given["self"]
    taps = []
    for dim in range(-spatial, 0):
        size, length = pooled.shape[dim], gradient.shape[dim]
        spans = [(place * size // length, -(-(place + 1) * size // length)) for place in range(length)]
        taps.append(_windows(spans, [end - start for start, end in spans], size))
    return adding_up(gradient, taps)


def resampling(given: dict[str, Any], forward: str, scales: Sequence[str]) -> tuple[int, Callable[[Any], Any]]:
    """Gradients of a resampling; ``forward``: the op that resamples along one dimension, or along the last of two."""
    import torch

    gradient = given["grad_output"]
    op = getattr(torch.ops.aten, forward)
    corners = () if given.get("align_corners") is None else (given["align_corners"],)
    taps = []
    for dim, scale in enumerate(scales):
        size, length = given["input_size"][2 + dim], given["output_size"][dim]
        units = torch.eye(size, dtype=torch.float64)
        if forward.endswith("1d"):
            made = op(units[:, None], [length], *corners, given.get(scale))[:, 0]
        else:
            made = op(units[:, None, None], [1, length], *corners, None, given.get(scale))[:, 0, 0]
        taps.append(_nonzero(made.T))
    return adding_up(gradient, taps)


def _each(value: Any, spatial: int) -> list[int]:
    values = list(value) if isinstance(value, (list, tuple)) else [value]
    return values * spatial if len(values) == 1 else values


def _windows(spans: list[tuple[int, int]], counts: list[int], size: int) -> Taps:
    import torch

    matrix = torch.zeros(len(spans), size, dtype=torch.float64)
    for row, (start, end) in enumerate(spans):
        matrix[row, start:end] = 1 / counts[row] if end > start else 0
    return _nonzero(matrix)


def _nonzero(matrix: Any) -> Taps:
    """A matrix of outputs by inputs, without the columns that a row does not reach."""
    import torch

    reached = matrix != 0
    widest = max(1, int(reached.sum(1).max()))
    places = reached.to(torch.int8).sort(dim=1, descending=True, stable=True).indices[:, :widest]
    weights = matrix.gather(1, places)
    return Taps(places, weights, matrix.shape[1])
