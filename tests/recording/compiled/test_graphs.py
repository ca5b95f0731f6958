"""Compiled graphs: calls spelled as eager ones, reads of memory that nothing filled, values known to be distinct."""

from __future__ import annotations

import re
import sys

import pytest
import torch

from tracer import DeterminismTracer
from tracer.recording.compiled.graph_facts import (
    HANDED_OVER,
    GraphFacts,
    GraphIndices,
    GraphValues,
    Read,
    arguments_of,
    computes_with_constants,
    unwritten_reads,
)
from tracer.recording.compiled.graph_text import AnnotatedTensor, Graph, ProgramLines, read_graph
from tracer.recording.origin import Frame, GraphCall, Module, read_module
from tracer.recording.storage import native_code
from tracer.recording.storage.known_numbers import Distinct
from tracer.recording.torch_private import compile_seams
from tracer.trace.records import DeviceType, NotKept

TEXT = """
class GraphModule(torch.nn.Module):
    def forward(
        self,
        primals_1: "i64[s0][1]cpu",
        tangents_1: "f32[8, 16][16, 1]cpu",
    ):
        # No stacktrace found for following nodes
        iota: "i64[8][1]cpu" = torch.ops.prims.iota.default(8, start = 0, step = 1)

        # File: /w/train.py:18 in forward, code: y = zeros.index_add(0, j, x)
        full: "f32[8, 16][16, 1]cpu" = torch.ops.aten.full.default([8, 16], 0, device = device(type='cpu'))
        index_put: "f32[8, 16][16, 1]cpu" = torch.ops.aten.index_put.default(full, [iota], tangents_1, True)
        native = torch.ops.aten.native_layer_norm.default(index_put, [16], None, None, 1e-05)
        getitem: "f32[8, 16][16, 1]cpu" = native[0];  native = None
        return (getitem,)
"""


def test_calls_bear_their_line_and_what_is_no_call_is_left_out() -> None:
    graph = read_graph(TEXT)
    assert [node.op for node in graph.nodes] == [
        "prims.iota.default",
        "aten.full.default",
        "aten.index_put.default",
        "aten.native_layer_norm.default",
    ]
    line = Frame("/w/train.py", 18, "forward", "y = zeros.index_add(0, j, x)")
    assert [node.place for node in graph.nodes] == [None, line, line, line]
    assert graph.nodes[2].args[0] == AnnotatedTensor("f32", (8, 16), (16, 1), "cpu", "full")
    assert graph.parts == {"getitem": "native"}


@pytest.mark.parametrize(("rows", "known"), [("8", {"shape.numel_ge_32768": False}), ("s0", {})])
def test_facts_are_read_as_those_of_an_eager_call_are_unless_they_hang_on_a_size_that_is_not_fixed(
    rows: str, known: dict[str, bool]
) -> None:
    asked = {"aten.index_put": frozenset({"arg.accumulate", "shape.numel_ge_32768"})}
    graph = read_graph(TEXT.replace('tangents_1: "f32[8', f'tangents_1: "f32[{rows}'))
    found = GraphFacts(lambda: asked).of_graph(graph)[0][2]
    assert {key: value for key, value in found.items() if key.startswith("shape.numel")} == known
    assert (found["arg.accumulate"], found["device"], found["dtype"], found["ndim"]) == (True, "cpu", "float32", 2)


def test_rows_of_an_index_are_distinct_where_there_is_one_and_not_where_each_is_a_number() -> None:
    asked = {"aten.embedding_dense_backward": frozenset({"index.distinct", "index.is_mask"})}
    line = 'g: "f32[8, 4][4, 1]cpu" = torch.ops.aten.embedding_dense_backward.default(x, i, 8, -1, False)'
    for rows, expected in ((64, None), (1, True)):
        given = f'self, x: "f32[{rows}, 4][4, 1]cpu", i: "i64[{rows}][1]cpu"'
        text = f"class G(torch.nn.Module):\n    def forward({given}):\n        {line}\n        return (g,)\n"
        found = GraphFacts(lambda: asked).of_graph(read_graph(text))[0][0]
        assert (found.get("index.distinct"), found["index.is_mask"]) == (expected, False)


@pytest.mark.parametrize("text", ["class", "x = 1", "def backward(self): pass"])
def test_a_text_of_another_form_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="text of a graph"):
        read_graph(text)


def test_a_line_that_moved_is_found_by_its_text_and_the_same_text_twice_by_its_order() -> None:
    def step(line: int, code: str, module: str = "") -> GraphCall:
        return GraphCall((Frame("/w/t.py", line, "forward", code),), Module("", module))

    today = ProgramLines([step(20, "x = self.act(x)", "a"), step(21, "x = x + 1"), step(22, "x = self.act(x)", "b")])
    then = [
        Frame("/w/t.py", line, "forward", code) for line, code in ((18, "x = self.act(x)"), (20, "x = self.act(x)"))
    ]
    assert [found.frames[-1].line for found in today.match(then, backwards=False) if found] == [20, 22]
    assert [found.frames[-1].line for found in today.match(then[::-1], backwards=True) if found] == [22, 20]
    assert today.match([Frame("/w/t.py", 3, "forward", "gone")], backwards=False) == [None]


def test_a_line_that_was_compiled_from_a_copy_of_the_program_is_found_in_the_program() -> None:
    here = GraphCall((Frame("/w/train.py", 20, "forward", "x = self.act(x)"),), None)
    found = ProgramLines([here]).match([Frame("/copy/train.py", 9, "forward", "x = self.act(x)")], backwards=False)
    assert found == [here]
    other = ProgramLines([here]).match([Frame("/copy/train.py", 9, "other", "x = self.act(x)")], backwards=False)
    assert other == [None]


@pytest.mark.parametrize(("columns", "is_aligned"), [(8, True), (9, False)])
def test_a_product_of_a_dynamic_size_is_padded_by_its_other_sizes_alone(columns: int, is_aligned: bool) -> None:
    text = f"""
class GraphModule(torch.nn.Module):
    def forward(self, rows: "f32[s0, 16][16, 1]cpu", weight: "f32[16, {columns}][{columns}, 1]cpu"):
        mm: "f32[s0, {columns}][{columns}, 1]cpu" = torch.ops.aten.mm.default(rows, weight)
        return (mm,)
"""
    facts = GraphFacts(lambda: {"aten.mm": frozenset({"shape.is_aligned"})})
    assert facts.of_graph(read_graph(text))[0][0].get("shape.is_aligned", False) is is_aligned


def test_of_several_modules_that_one_line_calls_the_one_that_holds_them_is_named() -> None:
    frames = (Frame("/w/t.py", 5, "forward", "x = self.b(self.a(x))"),)
    steps = [GraphCall(frames, Module("", path)) for path in ("layers.0.a", "layers.0.b")]
    place = Frame("/w/t.py", 5, "forward", "x = self.b(self.a(x))")
    (found,) = ProgramLines(steps).match([place], backwards=False)
    assert found is not None
    assert found.module == Module("", "layers.0")


def test_a_modules_path_is_spelled_as_named_modules_spells_it() -> None:
    assert read_module({"1": ("L['self'].layers.0", "Block")}) == Module("", "layers.0")
    assert read_module({"1": ("L['self']._modules['layers']._modules['0']", "Block")}) == Module("", "layers.0")
    assert read_module({"1": ("G['net']", "Net"), "2": ("G['net'].layers[3]", "Block")}) == Module("Net", "layers.3")
    assert read_module({}) is None


def values_of(text: str, indices: GraphIndices) -> dict[str, torch.Tensor]:
    graph = read_graph(text)
    values = GraphValues(graph, indices, {})
    for node in graph.nodes:
        values.follow(node)
    return {name: values.eager(value) for name, value in graph.values.items() if value is not None}


def test_small_whole_numbers_of_a_graph_are_known_as_such() -> None:
    text = """
class Graph(torch.nn.Module):
    def forward(self, arg0_1: "f32[4][1]cpu"):
        full: "f32[4][1]cpu" = torch.ops.aten.full.default([4], 0)
        view: "f32[2, 2][2, 1]cpu" = torch.ops.aten.view.default(full, [2, 2])
        full_1: "f32[4][1]cpu" = torch.ops.aten.full.default([4], 1)
        add: "f32[4][1]cpu" = torch.ops.aten.add.Tensor(arg0_1, full)
        gt: "b8[4][1]cpu" = torch.ops.aten.gt.Scalar(arg0_1, 0)
        where: "f32[4][1]cpu" = torch.ops.aten.where.self(gt, full_1, full)
        add_1: "f32[4][1]cpu" = torch.ops.aten.add.Tensor(where, full_1)
        half: "f32[4][1]cpu" = torch.ops.aten.mul.Tensor(where, 0.5)
        cast: "f32[4][1]cpu" = torch.ops.prims.convert_element_type.default(gt, torch.float32)
        inf: "f32[4][1]cpu" = torch.ops.aten.mul.Tensor(where, inf)
        return (add,)
"""
    indices = GraphIndices()
    known = {name: indices.largest_whole(tensor) for name, tensor in values_of(text, indices).items()}
    whole = {name: largest for name, largest in known.items() if largest is not None}
    assert whole == {"full": 0, "view": 0, "full_1": 1, "gt": 1, "where": 1, "add_1": 2, "cast": 1}


def test_values_computed_from_a_read_at_an_index_alone_are_known_as_such() -> None:
    text = """
class Graph(torch.nn.Module):
    def forward(self, arg0_1: "f32[4, 9][9, 1]cpu", arg1_1: "i64[4, 5][5, 1]cpu", arg2_1: "f32[4, 5][5, 1]cpu"):
        gather: "f32[4, 5][5, 1]cpu" = torch.ops.aten.gather.default(arg0_1, -1, arg1_1)
        lt: "b8[4, 5][5, 1]cpu" = torch.ops.aten.lt.Scalar(gather, 0)
        mul: "f32[4, 5][5, 1]cpu" = torch.ops.aten.mul.Tensor(gather, 2)
        where: "f32[4, 5][5, 1]cpu" = torch.ops.aten.where.self(lt, mul, gather)
        sub: "f32[4, 5][5, 1]cpu" = torch.ops.aten.sub.Tensor(where, arg2_1)
        bernoulli: "f32[4, 5][5, 1]cpu" = torch.ops.aten.bernoulli.p(where, 0.5)
        return (sub,)
"""
    indices = GraphIndices()
    tensors = values_of(text, indices)
    read = {name for name, tensor in tensors.items() if indices.was_read_at(tensor, 1, [tensors["arg1_1"]])}
    assert read == {"gather", "lt", "mul", "where"}


def test_the_rounds_of_one_line_are_told_apart_by_counting_its_ops() -> None:
    frames = (Frame("/net.py", 7, "forward", "return self.act(self.fc(x))"),)
    modules = [Module("Net", f"blocks.{block}.{name}") for block in (0, 1) for name in ("fc", "act")]
    lines = ProgramLines([GraphCall(frames, module) for module in modules])
    place = Frame("/net.py", 7, "forward", "return self.act(self.fc(x))")
    ops = ["aten.t", "aten.addmm", "aten.relu", "aten.t", "aten.addmm", "aten.relu"]
    for backwards in (False, True):
        matched = lines.match([place] * 6, backwards=backwards, ops=ops)
        paths = [step.module.path for step in matched if step is not None and step.module is not None]
        rounds = ["blocks.0"] * 3 + ["blocks.1"] * 3
        assert paths == (rounds[::-1] if backwards else rounds)
    uneven = lines.match([place] * 2, backwards=False, ops=["aten.addmm", "aten.relu"])
    assert {step.module for step in uneven if step is not None} == {Module("Net", "blocks")}


GRAPH = """
class GraphModule(torch.nn.Module):
    def forward(self, arg0_1: "f32[100, 16][16, 1]cpu"):
        empty: "f32[{size}][1]cpu" = torch.ops.aten.empty.memory_format([{size}], device = device(type='cpu'))
        {body}
        return (last,)
"""

#: Bodies of graphs in short: a node is of sixteen floats, unless it names its numbers.
READS = {
    "multiplied": "last = mul.Tensor(empty, 0.5)",
    "summed": "last f32[] = sum.default(empty)",
    "seen in part": "part f32[8] = slice.Tensor(empty, 0, 0, 8); last f32[8] = add.Tensor(arg0_1, part)",
    "copied and seen otherwise": (
        "copy = clone.default(empty); seen f32[4, 4] = view.default(copy, [4, 4]); last f32[4, 4] = mul.Tensor(seen, 2)"
    ),
}
PLACE = "place i64[4] = arange.default(4); put = index_put.default(empty, [place], arg0_1)"
#: Code reads the memory itself: products, and what was written at indices before.
OF_MEMORY = {
    "multiplied": "last f32[4, 4] = mm.default(arg0_1, empty)",
    "added to": "last f32[4, 4] = baddbmm.default(empty, arg0_1, arg0_1)",
    "a factor": "last f32[4, 4] = addmm.default(arg0_1, arg0_1, empty, beta = 0)",
    "written at indices": f"{PLACE}; last = mul.Tensor(put, 2)",
    "twice": f"{PLACE}; again = index_put.default(put, [place], arg0_1); last = mul.Tensor(again, 2)",
    "accumulated onto": ("place i64[4] = arange.default(4); last = index_put.default(empty, [place], arg0_1, True)"),
}
FILLED = {
    "filled": "last = fill.Scalar(empty, 0)",
    "copied": "last = copy.default(empty, arg0_1)",
    "drawn": "full = normal_functional.default(empty); last = mul.Tensor(full, 2)",
    "asked for its shape": "last = full_like.default(empty, 0)",
    "written through": "part = slice_scatter.default(empty, arg0_1, 0, 0, 16); last = mul.Tensor(part, 2)",
    # a write at so many indices may cover all of it
    "written at indices": "put = index_put.default(empty, [arg0_1], arg0_1); last = mul.Tensor(put, 2)",
    "multiplied by zero": "last f32[4, 4] = addmm.default(empty, arg0_1, arg0_1, beta = 0)",
    "written at indices in two parts": (
        f"{PLACE.replace('4', '8')}; again = index_put.default(put, [place], arg0_1); last = mul.Tensor(again, 2)"
    ),
    "written by a mask": (
        "mask b8[16] = gt.Scalar(arg0_1, 0); put = index_put.default(empty, [mask], arg0_1); last = mul.Tensor(put, 2)"
    ),
}


def reads(body: str, size: str = "16", given: str | None = None) -> list[Read]:
    nodes = []
    for name, form, call in re.findall(r"(\w+) (?:(\w+\[[\d, ]*\]) )?= ([^;]+)", body):
        strides = {"f32[4, 4]": "[4, 1]", "f32[]": "[]", "f32[100, 16]": "[16, 1]"}.get(form, "[1]")
        nodes.append(f'{name}: "{form or "f32[16]"}{strides}cpu" = torch.ops.aten.{call}')
    graph = read_graph(GRAPH.format(body="\n        ".join(nodes), size=size))
    return list(unwritten_reads(graph, given) if given else unwritten_reads(graph))


@pytest.mark.parametrize("body", READS.values(), ids=READS)
def test_computing_with_memory_that_nothing_filled_is_told_with_who_gave_it(body: str) -> None:
    assert reads(body) == [(body.count(" = "), 0, True)]
    assert reads(body, size="0") == []


@pytest.mark.parametrize("body", OF_MEMORY.values(), ids=OF_MEMORY)
def test_no_constant_stands_for_memory_of_products_and_of_writes_at_indices(body: str) -> None:
    assert reads(body) == [(len(body.split("; ")), 0, False)]


@pytest.mark.parametrize("body", FILLED.values(), ids=FILLED)
def test_memory_that_is_written_first_is_not(body: str) -> None:
    assert reads(body) == []


def test_an_input_that_nothing_filled_is_told_where_the_graph_computes_with_it_and_not_where_it_selects() -> None:
    def of_input(body: str) -> list[int]:
        return [read.number for read in reads(body, given="arg0_1") if read.allocation == HANDED_OVER]

    assert of_input("last f32[100, 16] = mul.Tensor(arg0_1, 0.5)") == [1]
    assert of_input("last f32[100, 16] = where.self(empty, empty, arg0_1)") == []
    assert of_input("last f32[100, 16] = copy_.default(arg0_1, empty)") == []


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


@pytest.mark.slow
def test_eager_memory_that_a_region_reads_is_told_and_what_it_does_not_take_is_followed_still(inductor: None) -> None:
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


ON_DEVICE = """
class GraphModule(torch.nn.Module):
    def forward(self, primals_1: "f32[4][1]cpu"):
        full: "f32[8, 16][16, 1]cuda:0" = torch.ops.aten.full.default([8, 16], 0, device = DEVICE)
        return (full,)
"""


@pytest.mark.parametrize(
    ("written", "device"),
    [
        ("device(type='cuda', index = 3)", DeviceType("cuda")),
        ("device(type='cpu')", DeviceType("cpu")),
        ("device('cuda:1')", DeviceType("cuda")),
        ("device(type='odd', index=3)", None),  # of another build
        ("device(made_up)", NotKept()),
    ],
)
def test_a_device_with_its_index_is_the_kind_of_device_and_one_in_no_known_spelling_stops_nothing(
    written: str, device: object
) -> None:
    graph = read_graph(ON_DEVICE.replace("DEVICE", written))
    (node,) = graph.nodes
    assert len(GraphFacts(dict).of_graph(graph)[0]) == 1
    assert device is None or arguments_of(node, "cuda")["device"] == device


def test_a_value_without_a_form_has_no_device() -> None:
    ((facts, *_), _) = GraphFacts(dict).of_graph(read_graph(ON_DEVICE.replace(': "f32[8, 16][16, 1]cuda:0"', "")))
    assert facts["device"] == "none"
