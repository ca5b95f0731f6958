"""Models that others wrote, compiled whole on two threads, each beside its eager twin.

Compiled, their sums at indices are findings at their lines; under deterministic mode, and eagerly, they are none.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from tracer import DeterminismTracer, judge
from tracer.findings import Finding
from tracer.names import AT_RISK, Phase, Verdict
from tracer.trace import Trace

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("inductor")]

WORDS, NODES, EDGES = 64, 32, 4_000
#: A program's loss, and who asks for gradients.
Loss = Callable[[], torch.Tensor]


def gpt() -> tuple[nn.Module, Loss]:
    transformers = pytest.importorskip("transformers")
    config = transformers.GPT2Config(n_layer=1, n_head=2, n_embd=32, vocab_size=WORDS, n_positions=128)
    model = transformers.GPT2LMHeadModel(config).train()
    model.config.use_cache = False
    words = torch.randint(0, WORDS, (64, 64))
    return model, lambda: model(input_ids=words, labels=words).loss


class Graph(nn.Module):
    """A convolution on a graph that is written by hand, onto one of torch_geometric's."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution = pytest.importorskip("torch_geometric.nn").SAGEConv(16, 16)
        self.last = nn.Linear(16, 2)

    def forward(self, x: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
        """``x``: nodes by features."""
        x = self.convolution(x, edges).relu()
        summed = torch.zeros_like(x).index_add(0, edges[1], x.index_select(0, edges[0]))
        return self.last(summed)


def graph() -> tuple[nn.Module, Loss]:
    model = Graph()
    x, edges = torch.randn(NODES, 16), torch.randint(0, NODES, (2, EDGES))
    labels = torch.randint(0, 2, (NODES,))
    return model, lambda: F.cross_entropy(model(x, edges), labels)


class Model(NamedTuple):
    """One program, and what is wrong with it once it is compiled."""

    build: Callable[[], tuple[nn.Module, Loss]]
    phases: frozenset[Phase]
    modules: frozenset[str]
    """Where: the ends of the modules' paths."""


BACKWARD = frozenset({Phase.BACKWARD})
MODELS = {
    "GPT-2": Model(gpt, BACKWARD, frozenset({"wte"})),
    "graph": Model(graph, frozenset({Phase.FORWARD, Phase.BACKWARD}), frozenset()),
}


def step(model: Model, *, compiled: bool) -> Trace:
    """Forward and backward, recorded."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    module, loss = model.build()
    if compiled:
        module.compile()
    with DeterminismTracer(module) as tracer:
        loss().backward()
    return tracer.trace


def risky(trace: Trace, **target: Any) -> list[Finding]:
    found = judge(trace, backend="cpu", **target).findings
    varying = [one for one in found if one.op and one.verdict in AT_RISK]
    return [one for one in varying if one.kernels or one.verdict is Verdict.NONDETERMINISTIC]


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_compiled_sums_at_indices_are_findings_at_their_lines_and_eager_twins_have_none(model: Model) -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        compiled, eager = step(model, compiled=True), step(model, compiled=False)
    finally:
        torch.set_num_threads(before)
        torch._dynamo.reset()
    found = risky(compiled)
    assert {one.phase for one in found} == model.phases
    assert model.modules <= {one.module.rpartition(".")[2] for one in found}
    assert all(one.regions and one.kernels and one.location for one in found)
    assert all(one.deterministic_mode is Verdict.DETERMINISTIC for one in found)
    assert not risky(compiled, settings="deterministic")
    assert not risky(eager)
