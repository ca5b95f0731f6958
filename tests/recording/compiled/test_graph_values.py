"""Which values of a graph are known to hold distinct numbers, and near misses of which that is not said."""

from __future__ import annotations

import pytest

from tracer.recording.compiled.graph_facts import GraphFacts
from tracer.recording.compiled.graph_text import Graph, read_graph
from tracer.recording.storage.known_numbers import Distinct

FORWARD = """
class GraphModule(torch.nn.Module):
    def forward(self, primals_1: "f32[6, 4][4, 1]cpu"):
        sort = torch.ops.aten.sort.stable(primals_1, stable = False, dim = -1, descending = True)
        getitem: "f32[6, 4][4, 1]cpu" = sort[0]
        getitem_1: "i64[6, 4][4, 1]cpu" = sort[1];  sort = None
        topk = torch.ops.aten.topk.default(primals_1, 3, 0)
        getitem_2: "f32[3, 4][4, 1]cpu" = topk[0]
        getitem_3: "i64[3, 4][4, 1]cpu" = topk[1];  topk = None
        iota: "i64[6][1]cpu" = torch.ops.prims.iota.default(6, start = 0, step = 1)
        flip: "i64[6][1]cpu" = torch.ops.aten.flip.default(iota, [0])
        back: "i64[6][1]cpu" = torch.ops.prims.iota.default(6, start = 2, step = -1)
        unsqueeze: "i64[6, 1][1, 1]cpu" = torch.ops.aten.unsqueeze.default(flip, 1)
        expand: "i64[6, 5][1, 0]cpu" = torch.ops.aten.expand.default(unsqueeze, [6, 5])
        rows: "i64[1, 6][6, 1]cpu" = torch.ops.aten.view.default(iota, [1, 6])
        again: "i64[12][1]cpu" = torch.ops.aten.view.default(expand_2, [12])
        sums: "i64[6][1]cpu" = torch.ops.aten.add.Tensor(iota, flip)
        small: "u8[6][1]cpu" = torch.ops.prims.convert_element_type.default(iota, torch.uint8)
        picked: "i64[2][1]cpu" = torch.ops.aten.index.Tensor(iota, [primals_2])
        touched = torch.ops.mylib.shuffle_.default(getitem_3)
        return (getitem, getitem_1)
"""
#: A backward that scatters through what its forward sorted.
BACKWARD = """
class GraphModule(torch.nn.Module):
    def forward(self, getitem_1: "i64[6, 4][4, 1]cpu", tangents_1: "f32[6, 4][4, 1]cpu"):
        full: "f32[6, 4][4, 1]cpu" = torch.ops.aten.full.default([6, 4], 0)
        scatter: "f32[6, 4][4, 1]cpu" = torch.ops.aten.scatter.src(full, {dim}, getitem_1, tangents_1)
        return (scatter,)
"""
ASKED = {"aten.scatter.src": frozenset({"index.distinct"}), "aten.index_put": frozenset({"index.distinct"})}


def distinct_numbers(graph: Graph, handed_over: dict[str, Distinct]) -> dict[str, Distinct]:
    return GraphFacts(dict).of_graph(graph, handed_over)[1]


def backward(dim: int = 1, sizes: str = "6") -> Graph:
    return read_graph(BACKWARD.format(dim=dim).replace("[6, 4]", f"[{sizes}, 4]"))


@pytest.mark.parametrize(
    ("name", "dim"), {"getitem_1": 1, "iota": 0, "flip": 0, "unsqueeze": 0, "expand": 0, "rows": 1, "back": 0}.items()
)
def test_what_is_sorted_counted_or_seen_otherwise_is_distinct(name: str, dim: int) -> None:
    found = distinct_numbers(read_graph(FORWARD), {})[name]
    assert found.dim == dim
    assert found.has_no_negative is (name != "back")


@pytest.mark.parametrize("name", ["getitem", "again", "sums", "small", "picked", "getitem_3"])
def test_values_repeated_rounded_summed_or_touched_by_another_op_are_not(name: str) -> None:
    """``getitem_3`` is handed to an op of which nobody knows what it writes."""
    assert name not in distinct_numbers(read_graph(FORWARD), {})


def test_a_backward_scatters_once_to_each_place_along_the_sorted_dimension_and_along_no_other() -> None:
    handed_over = distinct_numbers(read_graph(FORWARD), {})
    for dim, sizes, expected in ((1, "6", True), (-1, "s0", True), (0, "6", None), (0, "s0", None)):
        graph = backward(dim, sizes)
        facts, _ = GraphFacts(lambda: ASKED).of_graph(graph, handed_over)
        assert facts[1].get("index.distinct") is expected
    alone = backward()
    assert distinct_numbers(alone, {}) == {}
    assert distinct_numbers(alone, {"sort": Distinct(1)}) == {}
    assert "index.distinct" not in GraphFacts(lambda: ASKED).of_graph(alone)[0][1]
