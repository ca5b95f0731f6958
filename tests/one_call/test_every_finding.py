"""Every finding of every model gives a program that runs; where the call varies on this CPU, it ends with 1."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.models.graphs import GRAPHS
from tests.models.workloads import MAKERS, make
from tests.one_call.running import Ran, run_program
from tests.support.bits import seed_everything
from tracer import DeterminismTracer
from tracer.names import About, Verdict
from tracer.one_call import program_of
from tracer.report import Report

NODES, EDGES, WIDTH = 2_000, 200_000, 8
BACKENDS = ("cpu", "cuda", "npu")


class Messages(nn.Module):
    """A layer that passes messages along edges: so many that two threads meet while they add up its gradients."""

    def __init__(self) -> None:
        super().__init__()
        self.kinds = nn.Embedding(50, WIDTH)
        self.message = nn.Linear(WIDTH, WIDTH)
        self.head = nn.Linear(WIDTH, 3)

    def forward(self, kinds: Tensor, edges: Tensor) -> Tensor:
        nodes = self.kinds(kinds)
        begin, end = edges
        sent = F.relu(self.message(nodes))[begin]
        met = torch.zeros(NODES, WIDTH).index_add(0, end, sent)
        return self.head((nodes + met).mean(0, keepdim=True))


def recorded(name: str) -> DeterminismTracer:
    """One training step of a model."""
    if name == "messages":
        seed_everything(0)
        model: nn.Module = Messages()
        kinds, edges = torch.randint(0, 50, (NODES,)), torch.randint(0, NODES, (2, EDGES))
        with DeterminismTracer(model) as tracer:
            F.cross_entropy(model(kinds, edges), torch.tensor([1])).backward()
        return tracer
    training = make(name)
    with DeterminismTracer(training.model) as tracer:
        training.step()
    return tracer


class Written(NamedTuple):
    """The program of one finding."""

    op: str
    text: str
    verdict: Verdict

    @property
    def call(self) -> str:
        """What it runs, on whichever device; what it says of the finding is left out."""
        return re.sub(r"^DEVICE = .*$", "", self.text.partition('"""\n\n')[2], flags=re.MULTILINE)

    @property
    def kind(self) -> str:
        """The same for calls that differ in sizes and lines alone."""
        return re.sub(r"\d+", "0", self.call)


def programs(report: Report) -> list[Written]:
    return [
        Written(finding.op, program_of(report, finding).text, finding.verdict)
        for finding in report.findings
        if finding.about is About.CALL
    ]


def faults(ends: dict[str, tuple[str, Ran]]) -> list[tuple[str, Ran]]:
    """Programs that did not come to an end of their own."""
    return [(op, ran) for op, ran in ends.values() if ran.code not in (0, 1)]


def test_the_findings_of_three_models_give_programs_that_run_and_those_that_vary_here_end_with_1(
    two_threads: None,
) -> None:
    varies: set[str] = set()
    ends: dict[str, tuple[str, Ran]] = {}
    for name in ("gpt2", "caption", "messages"):
        tracer = recorded(name)
        written = {backend: programs(tracer.report(backend=backend)) for backend in BACKENDS}
        assert written["npu"], name
        varies |= {one.kind for one in written["cpu"] if one.verdict is Verdict.NONDETERMINISTIC}
        ran = {op for op, _ in ends.values()}
        others = [one for one in written["npu"] if one.op not in ran]  # nearly every op of a step is a finding there
        for one in (*written["cpu"], *written["cuda"], *others):
            if one.kind not in ends:
                runs = "300" if one.kind in varies else "2"  # small calls: most of them agree on a busy machine
                ends[one.kind] = (one.op, run_program(one.text, "--device", "cpu", "--runs", runs))
    assert faults(ends) == []
    assert {kind for kind, (_, ran) in ends.items() if ran.code == 1} == varies
    assert {ends[kind][0] for kind in varies} == {"aten.index_put.default"}
    assert len({op for op, _ in ends.values()}) > 20


def ends_of(tracer: DeterminismTracer, backend: str) -> dict[str, tuple[str, Ran]]:
    """How the program of each finding ends, once for each text of a call."""
    ends: dict[str, tuple[str, Ran]] = {}
    for one in programs(tracer.report(backend=backend)):
        if one.call not in ends:
            ends[one.call] = (one.op, run_program(one.text, "--device", "cpu", "--runs", "2"))
    return ends


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", MAKERS)
def test_every_finding_of_a_training_gives_a_program_that_runs(name: str, backend: str) -> None:
    ends = ends_of(recorded(name), backend)
    assert faults(ends) == []
    # Products alone, of which cuBLAS is asked no more since torch 2.10.
    assert ends or backend == "cpu" or (name, backend) == ("custom function", "cuda")


@pytest.mark.slow
@pytest.mark.parametrize("step", GRAPHS.values(), ids=GRAPHS)
def test_every_finding_of_an_awkward_graph_gives_a_program_that_runs(step: Callable[[], Callable[[], Any]]) -> None:
    torch.manual_seed(0)
    made = step()
    with DeterminismTracer() as tracer:
        made()
    for backend in ("cuda", "npu"):
        assert faults(ends_of(tracer, backend)) == []
