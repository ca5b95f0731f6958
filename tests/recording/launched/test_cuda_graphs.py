"""Captured graphs: what was dispatched during a capture counts as often as it was replayed. The class is stood in for,
and tensors without memory stand for those of a device."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from msgspec.structs import replace

from tests.support import build
from tests.support.lines import groups, line_of, record
from tracer import DeterminismTracer, judge
from tracer.names import BlindSpotKind, RegionInside, RegionKind


class CUDAGraph:
    """Holds nothing: only when its methods are called is looked at."""

    def capture_begin(self) -> None:
        pass

    def capture_end(self) -> None:
        pass

    def replay(self) -> str:
        return "replayed"


@pytest.fixture(autouse=True)
def stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda.graphs, "CUDAGraph", CUDAGraph)


def captured(graph: CUDAGraph, work: Callable[[], object]) -> CUDAGraph:
    graph.capture_begin()  # captures
    work()
    graph.capture_end()
    return graph


def counted(tracer: DeterminismTracer, op: str) -> dict[str | None, int]:
    found: dict[str | None, int] = {}
    for one in groups(tracer, op):
        found[one.region] = found.get(one.region, 0) + one.count
    return found


def test_captured_calls_count_once_a_replay_and_the_others_once() -> None:
    on_device, on_host = torch.ones(4, device="meta"), torch.ones(4)

    def work() -> None:
        on_device.sin()
        on_device.sin()
        on_host.cos()

    def step() -> None:
        on_device.sin()
        graph = captured(CUDAGraph(), work)
        for _ in range(5):
            assert graph.replay() == "replayed"

    tracer = record(step)
    (region,) = tracer.trace.regions
    assert (region.kind, region.executions, region.ops) == (RegionKind.CUDA_GRAPH, 5, 2)
    assert (region.inside, region.why) == (RegionInside.OPS, None)
    assert int(region.location.rpartition(":")[2]) == line_of(captured, "# captures")
    assert counted(tracer, "aten.sin") == {None: 1, region.id: 10}
    assert counted(tracer, "aten.cos") == {None: 1}, "calls on the host ran at the capture"
    assert tracer.trace.call_count == 12
    assert not [spot for spot in tracer.trace.blind_spots if spot.kind is BlindSpotKind.CUDA_GRAPH]


def test_a_graph_that_was_not_replayed_ran_nothing() -> None:
    x = torch.ones(4, device="meta")
    tracer = record(lambda: captured(CUDAGraph(), x.sin))
    (region,) = tracer.trace.regions
    assert (region.executions, region.ops, region.why) == (0, 1, "never-ran")
    assert not groups(tracer, "aten.sin")


def test_two_graphs_are_told_apart() -> None:
    x = torch.ones(4, device="meta")

    def step() -> None:
        first, second = captured(CUDAGraph(), x.sin), captured(CUDAGraph(), x.sin)
        first.replay()
        for _ in range(2):
            second.replay()

    assert counted(record(step), "aten.sin") == {"cuda-graph 1": 1, "cuda-graph 2": 2}


def test_a_graph_of_before_the_recording_is_a_blind_spot() -> None:
    graph = captured(CUDAGraph(), lambda: None)
    trace = record(lambda: [graph.replay() for _ in range(3)]).trace
    (region,) = trace.regions
    assert (region.executions, region.inside, region.why) == (3, RegionInside.UNSEEN, "compiled-earlier")
    (spot,) = (spot for spot in trace.blind_spots if spot.kind is BlindSpotKind.CUDA_GRAPH)
    assert spot.count == 3


def test_what_is_watched_is_put_back() -> None:
    before = dict(vars(CUDAGraph))
    record(lambda: CUDAGraph().replay())
    assert {name: vars(CUDAGraph)[name] for name in before} == before


def test_a_call_in_a_graph_is_judged_as_any_other() -> None:
    x, index = torch.zeros(4, device="meta"), torch.zeros(4, dtype=torch.int64, device="meta")
    tracer = record(lambda: captured(CUDAGraph(), lambda: x.index_add(0, index, x)).replay())
    calls = [replace(one, facts={**one.facts, "device": "cuda"}) for one in groups(tracer, "aten.index_add")]
    report = judge(build.trace(*calls, regions=tracer.trace.regions), backend="cuda")
    (finding,) = (one for one in report.findings if one.op)
    assert (finding.rule, finding.count, finding.regions) == ("cuda-index-add", 1, ("cuda-graph 1",))
