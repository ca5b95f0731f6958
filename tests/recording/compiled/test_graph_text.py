"""What the text of a graph says, read without compiling anything."""

from __future__ import annotations

import pytest

from tracer.recording.compiled.graph_text import read_graph

_TEXT = """class {name}(torch.nn.Module):
    def forward(
        self,
        arg0_1: "f32[16, 16][16, 1]cpu",  # PlainAOTInput(idx=0)
        arg1_1: "i64[9][1]cpu",  # PlainAOTInput(idx=1)
    ):
        # File: train.py:4 in table, code: return x.index_add(0, idx, src)
        index_put: "f32[16, 16][16, 1]cpu" = torch.ops.aten.index_put.default(arg0_1, [arg1_1], arg0_1, True)
        return (
            index_put,  # PlainAOTOutput(idx=0)
        )
"""


@pytest.mark.parametrize("name", ["GraphModule", "<lambda>", "joint_fn.<locals>.inner"])
def test_a_graph_is_read_whatever_the_function_was_called_that_it_was_made_of(name: str) -> None:
    graph = read_graph(_TEXT.format(name=name))
    (node,) = graph.nodes
    assert node.op == "aten.index_put.default"
    assert node.place is not None
    assert (node.place.path, node.place.line) == ("train.py", 4)
    assert node.result is not None
    assert node.result.shape == (16, 16)


def test_a_text_of_another_form_is_refused() -> None:
    with pytest.raises(ValueError, match="cannot be parsed"):
        read_graph("graph(%x : Tensor):\n  return %x")
