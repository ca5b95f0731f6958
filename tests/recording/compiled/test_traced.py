"""Calls that compute a gradient within a compiled graph name the forward's line, or say that they do not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch._dynamo import compiled_autograd
from torch._dynamo.backends.common import aot_autograd

from tests.recording.compiled.programs import ran
from tests.support.build import call, trace
from tests.support.lines import line_of
from tracer import DeterminismTracer, judge
from tracer.names import BlindSpotKind, Phase
from tracer.recording.origin.sites import GraphCall, step_of
from tracer.recording.torch_private import compile_seams

pytestmark = pytest.mark.skipif(not compile_seams.SEES_REGIONS, reason="this torch's regions are not seen")
X = torch.ones(4, 4)


class Graphs:
    """Keeps what AOTAutograd makes, and runs it as it is."""

    def __init__(self) -> None:
        self.steps: dict[str, GraphCall] = {}
        self.backend = aot_autograd(fw_compiler=self._keep)

    def _keep(self, graph: Any, inputs: Any) -> Any:
        self.steps |= {str(node.target): step_of(node) for node in graph.graph.nodes if node.op == "call_function"}
        return graph

    def line(self, op: str) -> int:
        """The innermost line of the last call of an op."""
        return self.steps[op].frames[-1].line


@pytest.fixture
def graphs() -> Iterator[Graphs]:
    torch._dynamo.reset()
    yield Graphs()
    torch._dynamo.reset()


def loss(w: torch.Tensor) -> torch.Tensor:
    found = w.exp()  # takes a power
    return found.tanh().sum()  # bends


@pytest.mark.slow
@pytest.mark.parametrize("asks", [torch.func.grad, torch.func.jacrev], ids=["grad", "jacrev"])
def test_a_gradient_within_a_graph_names_the_lines_of_its_forward(graphs: Graphs, asks: Callable[..., Any]) -> None:
    with DeterminismTracer():
        torch.compile(lambda w: asks(loss)(w) * 2, backend=graphs.backend, fullgraph=True)(X)
    assert graphs.line("aten.rsub.Scalar" if "aten.rsub.Scalar" in graphs.steps else "aten.tanh_backward.default") == (
        line_of(loss, "# bends")
    )
    assert graphs.line("aten.mul.Tensor") > line_of(loss, "# bends")


def test_a_gradient_of_a_gradient_names_the_line_of_the_innermost_forward(graphs: Graphs) -> None:
    def cubed(w: torch.Tensor) -> torch.Tensor:
        return w.sin().sum()

    def twice(w: torch.Tensor) -> torch.Tensor:
        return torch.func.grad(lambda v: torch.func.grad(cubed)(v).sum())(w)

    with DeterminismTracer():
        torch.compile(twice, backend=graphs.backend, fullgraph=True)(X)
    for op in ("aten.sin.default", "aten.neg.default"):
        assert graphs.line(op) == line_of(cubed, "w.sin()")
    assert graphs.steps["aten.neg.default"].is_backward


def test_compiled_autograd_names_the_node_of_an_eager_forward_and_says_that_no_line_is_known(graphs: Graphs) -> None:
    w = torch.ones(4, 4, requires_grad=True)
    with DeterminismTracer(), compiled_autograd._enable(lambda one: torch.compile(one, backend=graphs.backend)):
        loss(w).backward()
    told = graphs.steps["aten.tanh_backward.default"]
    assert (told.node, told.is_backward, told.forward_unknown) == ("TanhBackward0", True, True)


def test_a_finding_says_that_its_line_is_the_one_that_asked_for_the_gradient() -> None:
    known, unknown = (
        judge(trace(call(phase=Phase.BACKWARD, forward_unknown=one)), backend="cuda").findings for one in (False, True)
    )
    said = [one.why.endswith("the line of the forward is not known.") for one in (*known, *unknown) if one.op]
    assert said == [False, True]


PROGRAM = """
import torch


def loss(w, rows):
    return torch.zeros(8, 16).index_add(0, rows, w).exp().sum()  # adds


def run(steps):
    torch.manual_seed(0)
    asked = lambda w, rows: torch.func.grad(loss)(w, rows)  # asks
    w, rows = torch.randint(-2, 3, (64, 16)).float(), torch.randint(0, 8, (64,))  # their sums are exact
    compiled = torch.compile(asked, fullgraph=True)
    return None, [compiled(w, rows) for _ in range(steps)]
"""


@pytest.mark.slow
def test_with_code_from_a_cache_such_a_call_bears_the_line_that_asked_and_says_so(
    inductor: None, tmp_path: Path
) -> None:
    fresh, without, again = (ran(tmp_path, record=one, text=PROGRAM, steps=1) for one in (True, False, True))
    assert (fresh.misses, without.misses, again.misses) == (1, 0, 0)
    assert torch.equal(fresh.losses[0], without.losses[0])
    for run, line, is_unknown in ((fresh, "adds", False), (again, "asks", True)):
        assert run.trace is not None
        (group,) = [one for one in run.trace.calls if one.op in ("aten.index.Tensor", "aten.gather.default")]
        assert (int(group.location.rpartition(":")[2]), group.forward_unknown) == (run.lines[line], is_unknown)
        assert group.phase is Phase.BACKWARD
        assert any(one.kind is BlindSpotKind.NO_FORWARD_LINK for one in run.trace.blind_spots) is is_unknown
