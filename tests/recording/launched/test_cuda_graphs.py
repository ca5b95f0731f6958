"""Captured graphs: what was dispatched during a capture counts once, and a replay is a blind spot. The class is stood
in for, and tensors without memory stand for those of a device."""

from __future__ import annotations

import pytest
import torch
from msgspec.structs import replace

from tests.support import build
from tests.support.lines import line_of, record
from tracer import judge
from tracer.names import BlindSpotKind


class CUDAGraph:
    """Holds nothing: only when its method is called is looked at."""

    def replay(self) -> str:
        return "replayed"


@pytest.fixture(autouse=True)
def stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda.graphs, "CUDAGraph", CUDAGraph)


def test_each_replay_is_a_blind_spot_and_what_was_captured_is_judged_as_any_other_call() -> None:
    x, index = torch.zeros(4, device="meta"), torch.zeros(4, dtype=torch.int64, device="meta")

    def step() -> None:
        graph = CUDAGraph()
        x.index_add(0, index, x)  # as it is captured
        for _ in range(3):
            assert graph.replay() == "replayed"

    trace = record(step).trace
    (spot,) = (spot for spot in trace.blind_spots if spot.kind is BlindSpotKind.CUDA_GRAPH)
    assert (spot.count, int(spot.location.rpartition(":")[2])) == (3, line_of(step, "graph.replay()"))
    calls = [replace(one, facts={**one.facts, "device": "cuda"}) for one in trace.calls]
    report = judge(build.trace(*calls, blind_spots=trace.blind_spots), backend="cuda")
    (finding,) = (one for one in report.findings if one.op)
    assert (finding.rule, finding.count) == ("cuda-index-add", 1)
