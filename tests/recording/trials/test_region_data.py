"""What data settle inside compiled regions: graphs as AOTAutograd prints them; the compiler itself is met once."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tracer import DeterminismTracer, judge
from tracer.names import DataShown, Direction
from tracer.recording.compiled.compilations import CompiledCode
from tracer.recording.compiled.executions import Run
from tracer.recording.compiled.listing import RegionList
from tracer.recording.origin.modules import OUTSIDE
from tracer.recording.origin.sites import Sites
from tracer.recording.trials.region_data import RegionData
from tracer.trace.records import CallGroup

INPUTS = 'index: "i64[3][1]cpu", source: "f32[3][1]cpu"'
ZEROS = """zeros: "f32[8][1]cpu" = torch.ops.aten.full.default([8], 0, dtype = torch.float32)"""
SHIFTED = 'moved: "i64[3][1]cpu" = torch.ops.aten.add.Tensor(index, 1)'
OWN = 'own: "f32[3][1]cpu" = torch.ops.aten.sin.default(source)'
OWN_INDEX = 'moved: "i64[3][1]cpu" = torch.ops.prims.convert_element_type.default(own, torch.int64)'
ADDED = 'out: "f32[8][1]cpu" = torch.ops.aten.index_put.default(zeros, [{index}], {source}, True)'
HALVES, ONES = torch.tensor([0.5, 0.25, 0.1]), torch.ones(3)
ONCE, TWICE, THRICE = torch.tensor([0, 2, 1]), torch.tensor([0, 2, 0]), torch.tensor([1, 1, 1])


def region(*lines: str, inputs: str = INPUTS) -> tuple[RegionData, RegionList, Run]:
    body = "".join(f"        {line}\n" for line in (*lines, "return (out,)"))
    code = CompiledCode(None, Direction.INFERENCE, "0/0")
    code.text = f"class GraphModule(torch.nn.Module):\n    def forward(self, {inputs}):\n{body}"
    code.devices = ("cpu",)
    listing = RegionList(Sites(()), dict)
    return RegionData(lambda: listing), listing, Run(code, OUTSIDE, in_engine=False, in_optimizer=False, count=1)


def seen(*lines: str, given: list[Any], inputs: str = INPUTS, times: int = 1) -> CallGroup:
    data, listing, run = region(*lines, inputs=inputs)
    for _ in range(times):
        data.before(run, None, given)
    groups = [group for _, group in listing.groups([run], lambda run: times)]
    return groups[-1]


@pytest.mark.parametrize(
    ("lines", "index", "source", "expected"),
    [
        ((ZEROS, ADDED.format(index="index", source="source")), ONCE, HALVES, DataShown.DISTINCT),
        ((ZEROS, ADDED.format(index="index", source="source")), TWICE, HALVES, DataShown.TWICE_ONTO_ZEROS),
        ((ZEROS, ADDED.format(index="index", source="source")), THRICE, HALVES, DataShown.DUPLICATES),
        ((ZEROS, ADDED.format(index="index", source="source")), THRICE, ONES, DataShown.EXACT),
        ((ZEROS, SHIFTED, ADDED.format(index="moved", source="source")), ONCE, HALVES, DataShown.DISTINCT),
        ((ZEROS, OWN, ADDED.format(index="index", source="own")), ONCE, HALVES, DataShown.DISTINCT),
        ((ZEROS, OWN, ADDED.format(index="index", source="own")), TWICE, HALVES, DataShown.DUPLICATES),
        ((ZEROS, OWN, OWN_INDEX, ADDED.format(index="moved", source="source")), ONCE, HALVES, DataShown.UNREAD),
    ],
    ids=[
        *("once", "twice onto zeros", "thrice", "counts", "an index computed from whole numbers"),
        *("values of the region's own", "twice, values of the region's own", "an index of the region's own"),
    ],
)
def test_data_show_what_falls_together_in_a_region(
    lines: tuple[str, ...], index: torch.Tensor, source: torch.Tensor, expected: DataShown
) -> None:
    assert seen(*lines, given=[index, source]).data == {expected: 1}


def test_each_execution_counts_and_one_with_duplicates_ends_the_looking() -> None:
    lines = (ZEROS, ADDED.format(index="index", source="source"))
    data, listing, run = region(*lines)
    for index in (ONCE, ONCE, THRICE, ONCE):
        data.before(run, None, [index, HALVES])
    (group,) = (group for _, group in listing.groups([run], lambda run: 4) if "index_put" in group.op)
    assert group.data == {DataShown.DISTINCT: 2, DataShown.DUPLICATES: 1}
    assert group.count == 4


UNFIXED = """s0: "Sym(s0)", index: "i64[s0][1]cpu", source: "f32[s0][1]cpu\""""
UNFIXED_ADDED = 'out: "f32[8][1]cpu" = torch.ops.aten.index_put.default(zeros, [index], source, True)'


def test_sizes_that_are_not_fixed_are_read_and_never_taken_for_two() -> None:
    from tracer.tables.compilers import compiled_facts

    group = seen(ZEROS, UNFIXED_ADDED, given=[3, THRICE, HALVES], inputs=UNFIXED)
    assert group.data == {DataShown.DUPLICATES: 1}
    _, _, run = region(ZEROS, UNFIXED_ADDED, inputs=UNFIXED)
    listing = RegionList(Sites(()), compiled_facts)
    (call,) = (group for _, group in listing.groups([run], lambda run: 1) if "index_put" in group.op)
    assert "index.adds_two_to_zeros" not in call.facts or call.facts["index.adds_two_to_zeros"] is False


def test_looking_leaves_what_it_looks_at_alone() -> None:
    index, source = TWICE.clone(), HALVES.clone()
    seen(ZEROS, SHIFTED, ADDED.format(index="moved", source="source"), given=[index, source], times=2)
    assert torch.equal(index, TWICE)
    assert torch.equal(source, HALVES)


@pytest.mark.slow
def test_a_compiled_programs_index_is_settled_by_its_data_and_its_twin_is_not() -> None:
    def program(index: torch.Tensor, source: torch.Tensor) -> torch.Tensor:
        return torch.zeros(100_000).index_add(0, index, source) * 2

    source = torch.randn(100_000)
    accused = {}
    for name, index in {"once": torch.randperm(100_000), "often": torch.zeros(100_000, dtype=torch.int64)}.items():
        torch._dynamo.reset()
        with DeterminismTracer(data_facts=True) as tracer:
            torch.compile(program)(index, source)
        accused[name] = [
            finding for finding in judge(tracer.trace, backend="cuda").findings if "index_put" in finding.op
        ]
    assert not accused["once"]
    assert accused["often"]
