"""How many addends meet in one element: the bound is never too small, held against torch's own sums on a CPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st

from tracer.facts import MISSING
from tracer.facts.sizes import (
    adaptive_windows_of_one,
    fractional_windows_of_one,
    windows_of_one,
)
from tracer.recording.calls.fact_readers import asked_readers

ATEN = torch.ops.aten
KEY = "shape.meets_at_most_twice"


def met(function: Callable[[torch.Tensor], torch.Tensor], *shape: int) -> int:
    """How many outputs of ``function`` weigh on one input, for the input on which most do."""
    source = torch.zeros(shape, dtype=torch.float64, requires_grad=True)
    result = function(source)
    counts = torch.zeros(shape)
    for place in range(result.numel()):
        (gradient,) = torch.autograd.grad(result.flatten()[place], source, retain_graph=True)
        counts += gradient.abs() > 1e-12
    return int(counts.max())


def covered(total: int, starts: list[int], ends: list[int]) -> int:
    return max(sum(start <= at < end for start, end in zip(starts, ends, strict=True)) for at in range(total))


@given(st.integers(1, 6), st.integers(1, 6), st.integers(1, 4), st.integers(1, 12))
def test_no_element_lies_in_more_windows_than_the_bound(size: int, step: int, gap: int, count: int) -> None:
    places = [start * step + inside * gap for start in range(count) for inside in range(size)]
    assert max(map(places.count, places)) <= windows_of_one(size, step, gap, count)


@pytest.mark.parametrize(
    ("size", "step", "gap", "count", "most"),
    [(3, 2, 1, 9, 2), (2, 2, 1, 9, 1), (3, 1, 1, 9, 3), (3, 1, 1, 2, 2), (2, 2, 2, 9, 2)],
)
def test_the_bound_is_met(size: int, step: int, gap: int, count: int, most: int) -> None:
    places = [start * step + inside * gap for start in range(count) for inside in range(size)]
    assert max(map(places.count, places)) == most == windows_of_one(size, step, gap, count)


@given(st.integers(1, 20), st.integers(1, 40))
def test_no_element_lies_in_more_adaptive_windows_than_the_bound(total: int, count: int) -> None:
    starts = [i * total // count for i in range(count)]
    ends = [-(-(i + 1) * total // count) for i in range(count)]
    most = covered(total, starts, ends)
    assert most <= adaptive_windows_of_one(total, count) <= most + 1
    if total >= count:
        assert most == adaptive_windows_of_one(total, count)


@given(st.integers(2, 20), st.integers(1, 5), st.integers(1, 12), st.floats(0, 0.999))
def test_no_element_lies_in_more_fractional_windows_than_the_bound(
    total: int, size: int, count: int, sample: float
) -> None:
    if size > total or count > total:
        return
    apart = (total - size) / (count - 1) if count > 1 else 0.0
    starts = [int((i + sample) * apart) - int(sample * apart) for i in range(count - 1)] + [total - size]
    assert covered(total, starts, [start + size for start in starts]) <= fractional_windows_of_one(total, size, count)


#: Function, the shape that it is given, the op of its backward, and whether two is the most that meet.
RESAMPLED = [
    ("linear", (1, 1, 8), 4, None, False, True),
    ("linear", (1, 1, 9), 6, None, False, True),
    ("linear", (1, 1, 9), 4, None, True, True),
    ("linear", (1, 1, 9), 7, None, True, True),
    ("linear", (1, 1, 6), 9, None, False, False),
    ("bilinear", (1, 1, 8, 8), (4, 4), None, False, True),
    ("bilinear", (1, 1, 9, 9), None, 0.5, False, True),
    ("bilinear", (1, 1, 9, 8), (3, 3), None, False, True),
    ("bilinear", (1, 1, 9, 8), (3, 5), None, False, True),
    ("bilinear", (1, 1, 9, 9), (6, 6), None, False, False),
    ("bilinear", (1, 1, 9, 9), (4, 4), None, True, True),
    ("bilinear", (1, 1, 9, 9), (5, 5), None, True, False),  # outputs fall on inputs, but for rounding
    ("bilinear", (1, 1, 4, 4), (8, 8), None, False, False),
    ("trilinear", (1, 1, 4, 6, 4), (2, 2, 2), None, False, True),
    ("trilinear", (1, 1, 4, 4, 4), (3, 3, 3), None, False, False),
    ("bicubic", (1, 1, 8, 8), (2, 2), None, False, True),
    ("bicubic", (1, 1, 8, 8), (4, 4), None, False, False),
]


@pytest.mark.parametrize(("mode", "shape", "size", "scale", "aligned", "expected"), RESAMPLED)
def test_resampling_meets_twice_at_most_where_torch_shows_it(
    mode: str, shape: tuple[int, ...], size: Any, scale: float | None, aligned: bool, expected: bool
) -> None:
    def resample(x: torch.Tensor) -> torch.Tensor:
        return F.interpolate(x, size=size, scale_factor=scale, mode=mode, align_corners=aligned)

    spatial = len(shape) - 2
    op = getattr(ATEN, f"upsample_{mode}{spatial}d_backward").default
    output = list(resample(torch.zeros(shape)).shape[2:])
    args = (torch.zeros(1, 1, *output), output, list(shape), aligned, *[scale] * spatial)
    said = asked_readers(op, {KEY})[KEY](args, {})
    assert said is (True if expected else MISSING)
    if expected:
        assert met(resample, *shape) <= 2


@given(st.integers(1, 12), st.integers(1, 14), st.booleans())
def test_what_is_noted_of_linear_resampling_is_true(total: int, count: int, aligned: bool) -> None:
    op = ATEN.upsample_linear1d_backward.default
    args = (torch.zeros(1, 1, count), [count], [1, 1, total], aligned)
    if asked_readers(op, {KEY})[KEY](args, {}) is True:
        assert met(lambda x: F.interpolate(x, size=count, mode="linear", align_corners=aligned), 1, 1, total) <= 2


@pytest.mark.parametrize(
    ("op", "args", "expected"),
    [
        (ATEN.max_pool3d_with_indices_backward.default, ([1, 1, 3], [1, 1, 2], [0], [1], False), True),
        (ATEN.max_pool3d_with_indices_backward.default, ([3], [2], [0], [1], False), False),
        (ATEN.avg_pool3d_backward.default, ([3, 1, 1], [2, 1, 1], [0], False, True, None), True),
        (ATEN.avg_pool3d_backward.default, ([2, 2, 1], [1, 1, 1], [0], False, True, None), False),
        (ATEN.avg_pool3d_backward.default, ([2], [], [0], False, True, None), True),
    ],
)
def test_pooling_with_a_kernel(op: Any, args: tuple[Any, ...], expected: bool) -> None:
    source, gradient = torch.empty(1, 1, 9, 9, 9, device="meta"), torch.empty(1, 1, 7, 7, 7, device="meta")
    given_args = (gradient, source, *args)
    assert asked_readers(op, {KEY})[KEY](given_args, {}) is (True if expected else MISSING)


def test_one_dimensional_adaptive_pooling_meets_twice_at_most_and_two_uneven_dimensions_do_not() -> None:
    (read,) = asked_readers(ATEN._adaptive_avg_pool2d_backward.default, ["shape.meets_at_most_twice"]).values()
    assert read((torch.empty(1, 1, 1, 3), torch.empty(1, 1, 1, 7)), {}) is True
    assert read((torch.empty(1, 1, 3, 3), torch.empty(1, 1, 7, 7)), {}) is MISSING
    assert met(lambda x: F.adaptive_avg_pool1d(x, 3), 1, 1, 7) == 2
    assert met(lambda x: F.adaptive_avg_pool2d(x, 3), 1, 1, 7, 7) == 4
