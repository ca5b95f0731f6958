"""The table of ops: its names are torch's, and each row says something."""

from __future__ import annotations

import pytest
import torch

from tracer.ops import Op, bare_name, row_of, rows

#: Names that the dispatcher does not have: what torch.ops.prim and torch.ops.prims add, higher-order ops, and kernels
#: that Inductor calls by a name of its own.
_ELSEWHERE = {
    *("bias_addmm", "mm_plus_mm", "prepare_softmax_online", "flex_attention", "flex_attention_backward"),
    *("triton_kernel_wrapper_functional", "triton_kernel_wrapper_mutation", "device", "layout", "prim_device"),
    *("prim_dtype", "is_non_overlapping_and_dense", "is_strides_like_format"),
}


def _dispatched() -> set[str]:
    names = (name.partition("::")[2] for name in torch._C._dispatch_get_all_op_names())
    return {form for name in names for form in (name, name.partition(".")[0])}


def test_every_name_is_an_op_of_torch() -> None:
    unknown = {row.name for row in rows()} - _dispatched() - _ELSEWHERE
    assert not unknown or torch.__version__ < "2.13", unknown


@pytest.mark.parametrize("row", rows(), ids=lambda row: row.name)
def test_a_row_says_something(row: Op) -> None:
    assert row != Op(row.name)


def test_an_op_without_a_row_has_no_column() -> None:
    assert row_of("tanh") == Op("tanh")


@pytest.mark.parametrize(
    ("overload", "packet"),
    [("aten.index_add_.default", "index_add_"), ("aten.index_add_", "index_add_"), ("cond", "cond")],
)
def test_an_overload_is_looked_up_by_its_packet(overload: str, packet: str) -> None:
    assert bare_name(overload) == packet
