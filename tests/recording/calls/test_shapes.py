"""Facts about sizes and strides: what a kernel's choice hangs on, read from calls as the dispatcher makes them."""

from __future__ import annotations

import sys
from typing import Any

import pytest
import torch

from tracer.facts import MISSING
from tracer.recording.calls import asked_readers

ATEN = torch.ops.aten
X3 = torch.empty(1, 2, 8, 8, 8, device="meta")
X2 = torch.empty(1, 2, 8, 8, device="meta")
X1 = torch.empty(1, 2, 8, device="meta")
LARGE, SMALL = torch.empty(1, 1, 9, 9, 9, device="meta"), torch.empty(1, 1, 7, 7, 7, device="meta")
INDEX = torch.zeros(4, dtype=torch.int64)


def tokens(count: int) -> torch.Tensor:
    return torch.empty(count, dtype=torch.int64, device="meta")


def gradient(count: int, width: int = 64) -> torch.Tensor:
    return torch.empty(count, width, device="meta")


def read(op: Any, key: str, *args: Any) -> object:
    return asked_readers(op, {key})[key](args, {})


@pytest.mark.parametrize(
    ("op", "arguments", "near"),
    [
        (ATEN.sum.dim_IntList, ([9, 7], [1]), ([9, 8], [1])),
        (ATEN.mean.default, ([2, 3],), ([4, 2],)),
        (ATEN.prod.dim_int, ([3, 9], 0), ([3, 9], -1)),
        (ATEN.avg_pool2d.default, ([1, 1, 9, 9], [4, 6]), ([1, 1, 9, 9], [5, 5])),
        (ATEN.avg_pool2d.default, ([1, 1, 9, 9], [6, 6], [3, 3]), ([1, 1, 9, 9], [6, 6], [6, 6])),
        (ATEN._adaptive_avg_pool2d.default, ([1, 1, 9, 9], [3, 3]), ([1, 1, 10, 10], [2, 2])),
        (ATEN._adaptive_avg_pool2d.default, ([1, 1, 9, 9], [2, 2]), ([1, 1, 9, 9], [1, 1])),
    ],
    ids=str,
)
def test_inductor_writes_out_a_sum_of_few_addends(op: Any, arguments: tuple[Any, ...], near: tuple[Any, ...]) -> None:
    answers = [read(op, "shape.is_unrolled", torch.empty(shape), *others) for shape, *others in (arguments, near)]
    assert answers == [True, MISSING]


@pytest.mark.parametrize(
    ("dtype", "sizes", "is_aligned"),
    [
        (torch.float32, (4, 8, 12), True),
        (torch.float32, (4, 8, 10), MISSING),
        (torch.float32, (3, 8, 12), MISSING),
        (torch.bfloat16, (8, 16, 24), True),
        (torch.bfloat16, (8, 12, 24), MISSING),
    ],
)
def test_inductor_pads_products_to_16_bytes(dtype: torch.dtype, sizes: tuple[int, int, int], is_aligned: Any) -> None:
    rows, inner, columns = sizes
    left, right = torch.empty(rows, inner, dtype=dtype), torch.empty(inner, columns, dtype=dtype)
    assert read(ATEN.mm.default, "shape.is_aligned", left, right) is is_aligned
    assert read(ATEN.addmm.default, "shape.is_aligned", torch.empty(columns), left, right) is is_aligned
    assert read(ATEN.bmm.default, "shape.is_aligned", left[None], right[None]) is is_aligned


@pytest.mark.parametrize(
    ("op", "tensor", "padding"),
    [
        (ATEN.reflection_pad1d_backward.default, X1, [6, 6]),
        (ATEN.reflection_pad1d_backward.default, X1, [7, 0]),
        (ATEN.reflection_pad1d_backward.default, X1, [2, 5]),
        (ATEN.reflection_pad1d_backward.default, X1, [-1, 2]),
        (ATEN.reflection_pad2d_backward.default, X2, [1, 0, 1, 0]),
        (ATEN.replication_pad1d_backward.default, X1, [1, 1]),
        (ATEN.replication_pad1d_backward.default, X1, [2, 0]),
        (ATEN.replication_pad2d_backward.default, X2, [1, 1, 1, 1]),
        (ATEN.replication_pad1d_backward.default, X1[..., :1], [1, 1]),
    ],
)
def test_an_element_meets_thrice_exactly_where_torch_copies_it_three_times(
    op: Any, tensor: torch.Tensor, padding: list[int]
) -> None:
    """Counted on the CPU: the gradient of a sum is how often each element occurs."""
    kind = "reflect" if "reflection" in str(op) else "replicate"
    leaf = torch.zeros(tensor.shape, requires_grad=True)
    torch.nn.functional.pad(leaf, padding, mode=kind).sum().backward()
    assert leaf.grad is not None
    assert read(op, "shape.meets_thrice", tensor, tensor, padding) is bool(leaf.grad.max() >= 3)


HELD, FLAT = torch.ones(10), torch.ones(4)
DENSE, SPARSE = torch.eye(2), torch.eye(2).to_sparse()
MAX_POOL = ATEN.max_pool3d_with_indices_backward.default
FRACTIONAL = ATEN.fractional_max_pool2d_backward.default
AVERAGE = ATEN.avg_pool3d_backward.default
EMBEDDING = ATEN.embedding_dense_backward.default


def pooled(kernel: list[int], stride: list[int], dilation: list[int]) -> list[Any]:
    return [X3, X3, kernel, stride, [0, 0, 0], dilation, False, X3]


def averaged(kernel: list[int], stride: list[int], padding: list[int]) -> list[Any]:
    return [X3, X3, kernel, stride, padding, False, True, None]


def looked_up(indices: int, rows: int, width: int, by_frequency: bool = False) -> list[Any]:
    return [gradient(indices, width), tokens(indices), rows, -1, by_frequency]


@pytest.mark.parametrize(
    ("op", "key", "arguments", "expected"),
    [
        (MAX_POOL, "shape.windows_overlap", pooled([2, 2, 2], [2, 2, 2], [1, 1, 1]), False),
        (MAX_POOL, "shape.windows_overlap", pooled([2, 2, 2], [], [1]), False),
        (MAX_POOL, "shape.windows_overlap", pooled([3, 3, 3], [2, 2, 2], [1, 1, 1]), True),
        (MAX_POOL, "shape.windows_overlap", pooled([3, 1, 1], [3, 1, 1], [1, 1, 1]), False),
        # windows {0, 2} and {2, 4}
        (MAX_POOL, "shape.windows_overlap", pooled([2, 2, 2], [2, 2, 2], [2, 1, 1]), True),
        (FRACTIONAL, "shape.windows_overlap", [X2, X2, [2, 2], [4, 4], X2], False),
        (FRACTIONAL, "shape.windows_overlap", [X2, X2, [2, 2], [5, 5], X2], True),
        (FRACTIONAL, "shape.windows_overlap", [X2, X2, [3, 3], [4, 4], X2], True),
        (FRACTIONAL, "shape.windows_overlap", [X2, X2, [8, 8], [1, 1], X2], False),
        (AVERAGE, "shape.unit_stride_unpadded", averaged([2], [1], [0, 0, 0]), True),
        (AVERAGE, "shape.unit_stride_unpadded", averaged([2], [1], [1, 0, 0]), False),
        (AVERAGE, "shape.unit_stride_unpadded", averaged([2], [2, 1, 1], [0]), False),
        # Inductor gathers from at most 125 windows.
        (AVERAGE, "shape.windows_gathered", averaged([3], [2, 2, 2], [0]), True),
        (AVERAGE, "shape.windows_gathered", averaged([5], [1, 1, 1], [0]), True),
        (AVERAGE, "shape.windows_gathered", averaged([6], [1, 1, 1], [0]), False),
        (AVERAGE, "shape.windows_gathered", averaged([6], [2, 2, 2], [0]), True),
        # Windows in which an element meets at most once more.
        (MAX_POOL, "shape.meets_at_most_twice", [SMALL, LARGE, [1, 1, 3], [1, 1, 2], [0], [1], False], True),
        (MAX_POOL, "shape.meets_at_most_twice", [SMALL, LARGE, [3], [2], [0], [1], False], MISSING),
        (AVERAGE, "shape.meets_at_most_twice", [SMALL, LARGE, [3, 1, 1], [2, 1, 1], [0], False, True, None], True),
        (AVERAGE, "shape.meets_at_most_twice", [SMALL, LARGE, [2, 2, 1], [1, 1, 1], [0], False, True, None], MISSING),
        (AVERAGE, "shape.meets_at_most_twice", [SMALL, LARGE, [2], [], [0], False, True, None], True),
        # Few addends that become one number.
        (ATEN.sum.default, "shape.is_single_sum", [torch.empty(16, 64)], True),
        (ATEN.sum.default, "shape.is_single_sum", [torch.empty(16, 65)], MISSING),
        (ATEN.mean.dim, "shape.is_single_sum", [torch.empty(1, 64), [1]], True),
        (ATEN.mean.dim, "shape.is_single_sum", [torch.empty(2, 64), [1]], MISSING),
        (ATEN.sum.dim_IntList, "shape.is_single_sum", [torch.empty(8, 64), [-1, 0]], True),
        # Few indices take the kernel that adds in order; many more than rows repeat these long.
        (EMBEDDING, "shape.rows_repeat_long", looked_up(3072, 2, 64), False),
        (EMBEDDING, "shape.rows_repeat_long", looked_up(3072, 2, 64, by_frequency=True), True),
        (EMBEDDING, "shape.rows_repeat_long", looked_up(4096, 2, 64), True),
        (EMBEDDING, "shape.rows_repeat_long", looked_up(8192, 50257, 768), False),
        (EMBEDDING, "shape.rows_repeat_long", looked_up(8192, 250, 768), True),
        (EMBEDDING, "shape.rows_repeat_long", looked_up(8192, 250, 1152), False),  # wider rows take more blocks
        (EMBEDDING, "shape.rows_repeat_long", looked_up(8192, 300, 768), False),
        (ATEN.topk.default, "shape.topk_radix", [X2, 64, -1], True),
        (ATEN.topk.default, "shape.topk_radix", [X2, 64, 3], True),
        (ATEN.topk.default, "shape.topk_radix", [X2, 64, 0], False),
        (ATEN.topk.default, "shape.topk_radix", [X2, 8, -1], False),
        (ATEN.topk.default, "shape.topk_radix", [X2, 96, -1], False),
        (ATEN.histc.default, "shape.numel_gt_16777216", [tokens(2**24)], False),
        (ATEN.histc.default, "shape.numel_gt_16777216", [tokens(2**24 + 1)], True),
        (ATEN.resize_.default, "shape.grows", [HELD, [11]], True),
        (ATEN.resize_.default, "shape.grows", [HELD, [2, 5]], False),
        (ATEN.resize_.default, "shape.grows", [HELD[5:], [6]], True),
        (ATEN.resize_.default, "shape.grows", [HELD[:2], [10]], False),
        (ATEN.resize_.default, "shape.grows", [HELD[5:], [0]], False),
        (ATEN.resize_as_.default, "shape.grows", [HELD, torch.ones(11)], True),
        (ATEN.index_put_.default, "index.one_value", [FLAT, [INDEX], torch.zeros(())], True),
        (ATEN.index_put_.default, "index.one_value", [FLAT, [INDEX], torch.zeros(()).expand(4)], True),
        (ATEN.index_put_.default, "index.one_value", [FLAT, [INDEX], FLAT], False),
        (ATEN.put_.default, "index.one_value", [FLAT, INDEX, FLAT], False),
        (ATEN.native_dropout.default, "arg.dropout", [X1, 0.1, True], True),
        (ATEN.native_dropout.default, "arg.dropout", [X1, 0.1, None], True),
        (ATEN.native_dropout.default, "arg.dropout", [X1, 0.1, False], False),
        (ATEN.native_dropout.default, "arg.dropout", [X1, 0.0, True], False),
        (ATEN.rrelu_with_noise.default, "arg.training", [X1, X1, 0.1, 0.3, False], False),
        (ATEN.mm.default, "operands.both_sparse", [SPARSE, SPARSE], True),
        (ATEN.mm.default, "operands.both_sparse", [SPARSE, DENSE], False),
        (ATEN.addmm.default, "operands.both_sparse", [SPARSE, SPARSE, DENSE], False),
        (ATEN.addmm.default, "operands.both_sparse", [DENSE, SPARSE, SPARSE], True),
    ],
)
def test_a_fact_of_sizes_values_or_layouts_is_read(op: Any, key: str, arguments: list[Any], expected: object) -> None:
    assert read(op, key, *arguments) is expected


def test_channels_last_is_told_from_a_layout_that_is_both() -> None:
    op = ATEN._adaptive_avg_pool2d_backward.default
    both = torch.empty(2, 1, 4, 4).contiguous(memory_format=torch.channels_last)
    last = torch.empty(2, 3, 4, 4).contiguous(memory_format=torch.channels_last)
    found = [read(op, "shape.channels_last", x, x) for x in (both, last, X2, X1)]
    assert found == [False, True, False, False]


@pytest.mark.skipif(sys.platform != "linux", reason="torch ships distributed ops for Linux")
def test_a_collectives_reduction_is_a_word() -> None:
    op = torch.ops._c10d_functional.all_reduce.default
    assert read(op, "arg.reduce_op", X1, "SUM", "0") == "sum"
    assert read(op, "arg.reduce_op", X1, "unheard", "0") not in ("unheard", "sum")
