"""A compiled graph that computes with memory which nothing had filled, and twins that fill it first."""

from __future__ import annotations

import sys

import pytest
import torch

from tracer import DeterminismTracer
from tracer.recording.compiled.graph_facts import HANDED_OVER, Read, computes_with_constants, unwritten_reads
from tracer.recording.compiled.graph_text import read_graph
from tracer.recording.storage import native_code
from tracer.recording.torch_private import compile_seams

GRAPH = """
class GraphModule(torch.nn.Module):
    def forward(self, arg0_1: "f32[100, 16][16, 1]cpu"):
        empty: "f32[{size}][1]cpu" = torch.ops.aten.empty.memory_format([{size}], device = device(type='cpu'))
        {body}
        return (last,)
"""
READS = [
    'last: "f32[16][1]cpu" = torch.ops.aten.mul.Tensor(empty, 0.5)',
    'last: "f32[][]cpu" = torch.ops.aten.sum.default(empty)',
    'part: "f32[8][1]cpu" = torch.ops.aten.slice.Tensor(empty, 0, 0, 8)\n'
    '        last: "f32[8][1]cpu" = torch.ops.aten.add.Tensor(arg0_1, part)',
    'copy: "f32[16][1]cpu" = torch.ops.aten.clone.default(empty, memory_format = torch.contiguous_format)\n'
    '        seen: "f32[4, 4][4, 1]cpu" = torch.ops.aten.view.default(copy, [4, 4])\n'
    '        last: "f32[4, 4][4, 1]cpu" = torch.ops.aten.mul.Tensor(seen, 2)',
]
FILLED = [
    'last: "f32[16][1]cpu" = torch.ops.aten.fill.Scalar(empty, 0)',
    'last: "f32[16][1]cpu" = torch.ops.aten.copy.default(empty, arg0_1)',
    'full: "f32[16][1]cpu" = torch.ops.aten.normal_functional.default(empty)\n'
    '        last: "f32[16][1]cpu" = torch.ops.aten.mul.Tensor(full, 2)',
    'last: "f32[16][1]cpu" = torch.ops.aten.full_like.default(empty, 0)',
    'part: "f32[16][1]cpu" = torch.ops.aten.slice_scatter.default(empty, arg0_1, 0, 0, 16)\n'
    '        last: "f32[16][1]cpu" = torch.ops.aten.mul.Tensor(part, 2)',
    # a write at so many indices may cover all of it
    'put: "f32[16][1]cpu" = torch.ops.aten.index_put.default(empty, [arg0_1], arg0_1)\n'
    '        last: "f32[16][1]cpu" = torch.ops.aten.mul.Tensor(put, 2)',
]


#: Code reads the memory itself: products, and what was written at indices before.
OF_MEMORY = [
    'last: "f32[4, 4][4, 1]cpu" = torch.ops.aten.mm.default(arg0_1, empty)',
    'last: "f32[4, 4][4, 1]cpu" = torch.ops.aten.baddbmm.default(empty, arg0_1, arg0_1)',
    'last: "f32[4, 4][4, 1]cpu" = torch.ops.aten.addmm.default(arg0_1, arg0_1, empty, beta = 0)',
    'place: "i64[4][1]cpu" = torch.ops.aten.arange.default(4)\n'
    '        put: "f32[16][1]cpu" = torch.ops.aten.index_put.default(empty, [place], arg0_1)\n'
    '        last: "f32[16][1]cpu" = torch.ops.aten.mul.Tensor(put, 2)',
    'place: "i64[4][1]cpu" = torch.ops.aten.arange.default(4)\n'
    '        put: "f32[16][1]cpu" = torch.ops.aten.index_put.default(empty, [place], arg0_1)\n'
    '        again: "f32[16][1]cpu" = torch.ops.aten.index_put.default(put, [place], arg0_1)\n'
    '        last: "f32[16][1]cpu" = torch.ops.aten.mul.Tensor(again, 2)',
    'place: "i64[4][1]cpu" = torch.ops.aten.arange.default(4)\n'
    '        last: "f32[16][1]cpu" = torch.ops.aten.index_put.default(empty, [place], arg0_1, True)',
]
FILLED += [
    'last: "f32[4, 4][4, 1]cpu" = torch.ops.aten.addmm.default(empty, arg0_1, arg0_1, beta = 0)',
    'place: "i64[8][1]cpu" = torch.ops.aten.arange.default(8)\n'
    '        put: "f32[16][1]cpu" = torch.ops.aten.index_put.default(empty, [place], arg0_1)\n'
    '        again: "f32[16][1]cpu" = torch.ops.aten.index_put.default(put, [place], arg0_1)\n'
    '        last: "f32[16][1]cpu" = torch.ops.aten.mul.Tensor(again, 2)',
    'mask: "b8[16][1]cpu" = torch.ops.aten.gt.Scalar(arg0_1, 0)\n'
    '        put: "f32[16][1]cpu" = torch.ops.aten.index_put.default(empty, [mask], arg0_1)\n'
    '        last: "f32[16][1]cpu" = torch.ops.aten.mul.Tensor(put, 2)',
]


def reads(body: str, size: str = "16") -> list[Read]:
    return list(unwritten_reads(read_graph(GRAPH.format(body=body, size=size))))


@pytest.mark.parametrize(
    "body",
    READS,
    ids=["multiplied", "summed", "seen in part", "copied and seen otherwise"],
)
def test_computing_with_memory_that_nothing_filled_is_told_with_who_gave_it(body: str) -> None:
    assert reads(body) == [(body.count("torch.ops"), 0, True)]
    assert reads(body, size="0") == []


@pytest.mark.parametrize(
    "body",
    OF_MEMORY,
    ids=["multiplied", "added to", "a factor", "written at indices", "twice", "accumulated onto"],
)
def test_no_constant_stands_for_memory_of_products_and_of_writes_at_indices(body: str) -> None:
    assert reads(body) == [(body.count("torch.ops"), 0, False)]


@pytest.mark.parametrize(
    ("source", "is_one"),
    [
        ("auto tmp0 = std::numeric_limits<float>::quiet_NaN();", True),
        ('tmp0 = float("nan")', True),
        ("tmp0 = in_ptr0[x0]; nanmean(tmp0)", False),
    ],
)
def test_generated_code_tells_whether_it_computes_with_a_constant(source: str, is_one: bool) -> None:
    assert computes_with_constants(source) is is_one


@pytest.mark.slow
def test_a_region_that_computes_with_a_constant_in_place_of_unwritten_memory_reads_none(inductor: None) -> None:
    def padded(x: torch.Tensor) -> torch.Tensor:
        whole = torch.empty(40, 16)
        whole[:30] = x
        return whole * 2

    def put(x: torch.Tensor, place: torch.Tensor) -> torch.Tensor:
        whole = torch.empty(40, 16)
        whole[place] = x
        return whole * 2

    x = torch.ones(30, 16)
    with DeterminismTracer() as tracer:
        assert torch.compile(padded)(x)[30:].isnan().all()
        torch.compile(put)(x, torch.arange(30))
    (read,) = tracer.trace.unwritten_reads
    assert (read.op, read.function.rpartition(".")[2]) == ("aten.mul.Tensor", "put")


@pytest.mark.parametrize(
    "body",
    FILLED,
    ids=[
        *("filled", "copied", "drawn", "asked for its shape", "written through"),
        "written at indices",
        *("multiplied by zero", "written at indices in two parts", "written by a mask"),
    ],
)
def test_memory_that_is_written_first_is_not(body: str) -> None:
    assert reads(body) == []


def test_an_input_that_nothing_filled_is_told_where_the_graph_computes_with_it_and_not_where_it_selects() -> None:
    def of_input(body: str) -> list[int]:
        found = unwritten_reads(read_graph(GRAPH.format(body=body, size=16)), "arg0_1")
        return [read.number for read in found if read.allocation == HANDED_OVER]

    assert of_input('last: "f32[100, 16][16, 1]cpu" = torch.ops.aten.mul.Tensor(arg0_1, 0.5)') == [1]
    assert of_input('last: "f32[100, 16][16, 1]cpu" = torch.ops.aten.where.self(empty, empty, arg0_1)') == []
    assert of_input('last: "f32[100, 16][16, 1]cpu" = torch.ops.aten.copy_.default(arg0_1, empty)') == []


@pytest.mark.slow
def test_memory_that_eager_code_gave_and_a_region_reads_is_told_and_what_it_does_not_take_is_followed_still(
    inductor: None,
) -> None:
    compiled = torch.compile(lambda given, x: (given + x).sum())
    x = torch.ones(16, 16)
    with DeterminismTracer() as tracer:
        untouched = torch.empty(16, 16)
        for _ in range(2):
            compiled(torch.empty(16, 16), x)
        compiled(torch.empty(16, 16).fill_(1), x)
        untouched.sum()
    read = {one.op: (one.count, one.allocated_by) for one in tracer.trace.unwritten_reads}
    gave = "aten.empty.memory_format"
    assert read == {"aten.add.Tensor": (2, gave), "aten.sum.default": (1, gave)}


@pytest.mark.slow
def test_eager_memory_is_followed_still_once_compiled_code_was_loaded(inductor: None) -> None:
    torch.compile(lambda x: x.sin() + 1)(torch.ones(16, 16))  # its kernel calls a function of torch's library
    kernels = [
        one for one in sys.modules if compile_seams.is_generated(one, getattr(sys.modules[one], "__file__", None) or "")
    ]
    assert any(native_code._names_torch(str(sys.modules[one].__file__)) for one in kernels)
    with DeterminismTracer() as tracer:
        torch.empty(3).sum()
    (read,) = tracer.trace.unwritten_reads
    assert (read.op, read.allocated_by) == ("aten.sum.default", "aten.empty.memory_format")
