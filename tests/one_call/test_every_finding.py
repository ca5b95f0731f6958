"""Every finding of every model gives a program that runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from tests.models.graphs import GRAPHS
from tests.models.workloads import MAKERS, make
from tests.one_call.running import run_program
from tracer import DeterminismTracer
from tracer.names import About
from tracer.one_call import program_of


def ends_of(tracer: DeterminismTracer, backend: str) -> dict[str, tuple[int, str]]:
    """How the program of each finding ends, once for each text of a call."""
    report = tracer.report(backend=backend)
    ends: dict[str, tuple[int, str]] = {}
    for finding in report.findings:
        if finding.about is About.CALL:
            text = program_of(report, finding).text
            call = text.partition('"""\n\n')[2]
            if call not in ends:
                done = run_program(text, "--device", "cpu", "--runs", "2")
                ends[call] = (done.code, f"{finding.op}: {done.err}")
    return ends


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["cpu", "cuda", "npu"])
@pytest.mark.parametrize("name", MAKERS)
def test_every_finding_of_a_training_gives_a_program_that_runs(name: str, backend: str) -> None:
    training = make(name)
    with DeterminismTracer(training.model) as tracer:
        training.step()
    ends = ends_of(tracer, backend)
    assert [end for end in ends.values() if end[0] not in (0, 1)] == []
    assert ends or backend == "cpu"


@pytest.mark.slow
@pytest.mark.parametrize("step", GRAPHS.values(), ids=GRAPHS)
def test_every_finding_of_an_awkward_graph_gives_a_program_that_runs(step: Callable[[], Callable[[], Any]]) -> None:
    torch.manual_seed(0)
    made = step()
    with DeterminismTracer() as tracer:
        made()
    for backend in ("cuda", "npu"):
        assert [end for end in ends_of(tracer, backend).values() if end[0] not in (0, 1)] == []


def test_a_finding_of_a_real_training_gives_a_program_that_runs() -> None:
    training = make("caption")
    with DeterminismTracer(training.model) as tracer:
        training.step()
    ends = ends_of(tracer, "cuda")
    assert len(ends) >= 4
    assert {code for code, _ in ends.values()} == {0}, ends
