"""Every backward call names the line of its forward op: compared with anomaly mode, in a separate run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from tests.models import graphs
from tests.models.oracle import Named, count_unlinked, lines_by_anomaly_mode, lines_of_trace
from tests.models.workloads import IN_EVERY_RUN, MAKERS, make
from tests.support.bits import seed_everything
from tests.support.slow import slow_unless
from tracer import DeterminismTracer, Trace
from tracer.names import BlindSpotKind, Phase


def record(make_step: Callable[[], Callable[[], Any]]) -> Trace:
    seed_everything(0)
    step = make_step()
    with DeterminismTracer() as tracer:
        step()
    return tracer.trace


def by_anomaly_mode(make_step: Callable[[], Callable[[], Any]]) -> dict[Named, int]:
    seed_everything(0)
    lines = lines_by_anomaly_mode(make_step())
    assert lines, "the step has no backward call"
    return lines


@pytest.mark.parametrize("name", slow_unless(IN_EVERY_RUN, MAKERS))
def test_every_backward_call_of_a_model_names_the_line_that_anomaly_mode_names(name: str) -> None:
    def two_steps() -> Callable[[], Any]:
        training = make(name)
        return lambda: [training.step() for _ in range(2)]

    trace = record(two_steps)
    lines = lines_of_trace(trace, python_in_backward=name == "custom function")
    assert lines == by_anomaly_mode(two_steps)
    assert count_unlinked(trace) == 0


@pytest.mark.parametrize("name", graphs.GRAPHS)
def test_every_backward_call_of_an_awkward_graph_names_the_line_that_anomaly_mode_names(name: str) -> None:
    if name == "saved tensor hooks" and not hasattr(torch._C._autograd, "_top_saved_tensors_default_hooks"):
        pytest.skip("this torch does not tell which function packs saved tensors")
    trace = record(graphs.GRAPHS[name])
    assert lines_of_trace(trace, python_in_backward=True) == by_anomaly_mode(graphs.GRAPHS[name])
    assert count_unlinked(trace) == 0


def test_a_function_that_dispatched_nothing_is_not_given_the_next_line() -> None:
    make_step = graphs.custom_function_without_a_trace
    lines, expected = lines_of_trace(trace := record(make_step)), by_anomaly_mode(make_step)
    readys = {named for named in expected if named[1] == "ReadyBackward"}
    assert len(readys) == 3
    assert {named: count for named, count in lines.items() if named[1] != "ReadyBackward"} == {
        named: count for named, count in expected.items() if named not in readys
    }
    (own,) = [group for group in trace.calls if group.node == "ReadyBackward"]
    assert (own.count, own.function) == (3, "Ready.backward")
    (called_backward,) = {group.location for group in trace.calls if group.node == "AccumulateGrad"}
    assert own.called_from == called_backward


def test_a_graph_made_before_recording_bears_the_line_that_called_backward_and_is_reported() -> None:
    trace = record(graphs.graph_made_before)
    numbered = [
        group for group in trace.calls if group.phase is Phase.BACKWARD and not group.node.startswith("AccumulateGrad")
    ]
    assert {group.function for group in numbered} == {"record"}
    assert sum(group.count for group in numbered) == count_unlinked(trace) > 0
    assert [spot.kind for spot in trace.blind_spots] == [BlindSpotKind.NO_FORWARD_LINK]
