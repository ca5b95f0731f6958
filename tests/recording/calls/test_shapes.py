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
INDEX = torch.zeros(4, dtype=torch.int64)


def tokens(count: int) -> torch.Tensor:
    return torch.empty(count, dtype=torch.int64, device="meta")


def gradient(count: int, width: int = 64) -> torch.Tensor:
    return torch.empty(count, width, device="meta")


def read(op: Any, key: str, *args: Any) -> object:
    return asked_readers(op, {key})[key](args, {})


@pytest.mark.parametrize(
    ("kernel", "stride", "dilation", "overlap"),
    [
        ([2, 2, 2], [2, 2, 2], [1, 1, 1], False),
        ([2, 2, 2], [], [1], False),
        ([3, 3, 3], [2, 2, 2], [1, 1, 1], True),
        ([3, 1, 1], [3, 1, 1], [1, 1, 1], False),
        ([2, 2, 2], [2, 2, 2], [2, 1, 1], True),  # windows {0, 2} and {2, 4}
    ],
)
def test_windows_overlap_where_their_spread_exceeds_the_stride(
    kernel: list[int], stride: list[int], dilation: list[int], overlap: bool
) -> None:
    op = ATEN.max_pool3d_with_indices_backward.default
    args = (X3, X3, kernel, stride, [0, 0, 0], dilation, False, X3)
    assert read(op, "shape.windows_overlap", *args) is overlap


@pytest.mark.parametrize(("kernel", "output", "overlap"), [(2, 4, False), (2, 5, True), (3, 4, True), (8, 1, False)])
def test_fractional_windows_overlap_where_they_start_too_close(kernel: int, output: int, overlap: bool) -> None:
    op = ATEN.fractional_max_pool2d_backward.default
    assert read(op, "shape.windows_overlap", X2, X2, [kernel] * 2, [output] * 2, X2) is overlap


@pytest.mark.parametrize(
    ("stride", "padding", "expected"), [([1], [0, 0, 0], True), ([1], [1, 0, 0], False), ([2, 1, 1], [0], False)]
)
def test_stride_one_without_padding(stride: list[int], padding: list[int], expected: bool) -> None:
    op = ATEN.avg_pool3d_backward.default
    assert read(op, "shape.unit_stride_unpadded", X3, X3, [2], stride, padding, False, True, None) is expected


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


def spelt(value: object) -> str:
    """An id that is the same in every process: what is missing is an object without a name."""
    return "missing" if value is MISSING else str(value)


@pytest.mark.parametrize(
    ("op", "shape", "dims", "is_single"),
    [
        (ATEN.sum.default, [16, 64], (), True),
        (ATEN.sum.default, [16, 65], (), MISSING),
        (ATEN.mean.dim, [1, 64], ([1],), True),
        (ATEN.mean.dim, [2, 64], ([1],), MISSING),
        (ATEN.sum.dim_IntList, [8, 64], ([-1, 0],), True),
    ],
    ids=spelt,
)
def test_few_addends_that_become_one_number(op: Any, shape: list[int], dims: tuple[Any, ...], is_single: Any) -> None:
    assert read(op, "shape.is_single_sum", torch.empty(shape), *dims) is is_single


@pytest.mark.parametrize(
    ("dtype", "sizes", "is_aligned"),
    [
        (torch.float32, (4, 8, 12), True),
        (torch.float32, (4, 8, 10), MISSING),
        (torch.float32, (3, 8, 12), MISSING),
        (torch.bfloat16, (8, 16, 24), True),
        (torch.bfloat16, (8, 12, 24), MISSING),
    ],
    ids=spelt,
)
def test_inductor_pads_products_to_16_bytes(dtype: torch.dtype, sizes: tuple[int, int, int], is_aligned: Any) -> None:
    rows, inner, columns = sizes
    left, right = torch.empty(rows, inner, dtype=dtype), torch.empty(inner, columns, dtype=dtype)
    assert read(ATEN.mm.default, "shape.is_aligned", left, right) is is_aligned
    assert read(ATEN.addmm.default, "shape.is_aligned", torch.empty(columns), left, right) is is_aligned
    assert read(ATEN.bmm.default, "shape.is_aligned", left[None], right[None]) is is_aligned


@pytest.mark.parametrize(("kernel", "stride", "gathered"), [(3, 2, True), (5, 1, True), (6, 1, False), (6, 2, True)])
def test_inductor_gathers_from_at_most_125_windows(kernel: int, stride: int, gathered: bool) -> None:
    arguments = (X3, X3, [kernel], [stride] * 3, [0], False, True, None)
    assert read(ATEN.avg_pool3d_backward.default, "shape.windows_gathered", *arguments) is gathered


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


@pytest.mark.parametrize(
    ("op", "key", "arguments", "expected"),
    [
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
def test_a_fact_of_sizes_values_or_layouts_is_read(op: Any, key: str, arguments: list[Any], expected: bool) -> None:
    assert read(op, key, *arguments) is expected


def test_channels_last_is_told_from_a_layout_that_is_both() -> None:
    op = ATEN._adaptive_avg_pool2d_backward.default
    both = torch.empty(2, 1, 4, 4).contiguous(memory_format=torch.channels_last)
    last = torch.empty(2, 3, 4, 4).contiguous(memory_format=torch.channels_last)
    found = [read(op, "shape.channels_last", x, x) for x in (both, last, X2, X1)]
    assert found == [False, True, False, False]


@pytest.mark.parametrize(
    ("indices", "rows", "by_frequency", "width", "atomics"),
    [
        (3072, 2, False, 64, False),  # few indices take the kernel that adds in order
        (3072, 2, True, 64, True),
        (4096, 2, False, 64, True),  # token types
        (8192, 50257, False, 768, False),  # a vocabulary
        (8192, 250, False, 768, True),
        (8192, 250, False, 1152, False),  # wider rows take more blocks
        (8192, 300, False, 768, False),
    ],
)
def test_an_embedding_with_many_more_indices_than_rows_repeats_them_long(
    indices: int, rows: int, by_frequency: bool, width: int, atomics: bool
) -> None:
    op = ATEN.embedding_dense_backward.default
    args = (gradient(indices, width), tokens(indices), rows, -1, by_frequency)
    assert read(op, "shape.rows_repeat_long", *args) is atomics


@pytest.mark.parametrize(
    ("k", "dim", "radix"), [(64, -1, True), (64, 3, True), (64, 0, False), (8, -1, False), (96, -1, False)]
)
def test_topk_sizes_that_have_a_counting_kernel(k: int, dim: int, radix: bool) -> None:
    assert read(ATEN.topk.default, "shape.topk_radix", X2, k, dim) is radix


def test_counts_past_float_are_a_matter_of_size() -> None:
    small, large = tokens(2**24), tokens(2**24 + 1)
    assert [read(ATEN.histc.default, "shape.numel_gt_16777216", x) for x in (small, large)] == [False, True]


@pytest.mark.skipif(sys.platform != "linux", reason="torch ships distributed ops for Linux")
def test_a_collectives_reduction_is_a_word() -> None:
    op = torch.ops._c10d_functional.all_reduce.default
    assert read(op, "arg.reduce_op", X1, "SUM", "0") == "sum"
    assert read(op, "arg.reduce_op", X1, "unheard", "0") not in ("unheard", "sum")
