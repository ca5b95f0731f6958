"""A compiled graph's calls, spelled as eager ones: devices above all, which a graph's text writes in its own way."""

from __future__ import annotations

import pytest

from tracer.recording.compiled.graph_facts import arguments_of
from tracer.recording.compiled.graph_text import read_graph
from tracer.trace.records import DeviceType, NotKept

GRAPH = """
class GraphModule(torch.nn.Module):
    def forward(self, primals_1: "f32[4][1]cpu"):
        full: "f32[8, 16][16, 1]cuda:0" = torch.ops.aten.full.default([8, 16], 0, device = DEVICE)
        return (full,)
"""


@pytest.mark.parametrize(
    ("written", "device"),
    [
        ("device(type='cuda', index=0)", "cuda"),
        ("device(type='cuda', index = 3)", "cuda"),
        ("device(type='cpu')", "cpu"),
        ("device('cuda:1')", "cuda"),
    ],
)
def test_a_device_with_its_index_is_the_kind_of_device(written: str, device: str) -> None:
    (node,) = read_graph(GRAPH.replace("DEVICE", written)).nodes
    assert arguments_of(node, device)["device"] == DeviceType(device)


def test_what_is_spelled_in_no_known_way_is_left_open_and_stops_nothing() -> None:
    (node,) = read_graph(GRAPH.replace("DEVICE", "device(made_up)")).nodes
    assert arguments_of(node, "cuda")["device"] == NotKept()
