"""Every backward call names the line of its forward op: compared with anomaly mode, in a separate run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.bits import seed_everything
from tests.models.oracle import count_unlinked, lines_by_anomaly_mode, lines_of_trace
from tests.models.workloads import MAKERS, make
from tracer import DeterminismTracer

#: Calls with a sequence number that a trace cannot attribute, and says so.
UNLINKED: dict[str, int] = {}


def compare(make_step: Callable[[], Callable[[], Any]], unlinked: int = 0) -> DeterminismTracer:
    """Run one fresh step under anomaly mode and one under the recorder; both must name the same lines."""
    seed_everything(0)
    expected = lines_by_anomaly_mode(make_step())
    seed_everything(0)
    step = make_step()
    with DeterminismTracer() as tracer:
        step()
    found = lines_of_trace(tracer.trace)
    assert expected, "the step has no backward call"
    assert count_unlinked(tracer.trace) == unlinked
    if not unlinked:
        assert found == expected
    else:
        assert (expected - found).total() <= unlinked
        assert found.total() == expected.total()
    return tracer


@pytest.mark.parametrize("name", MAKERS)
def test_every_backward_call_names_the_line_that_anomaly_mode_names(name: str) -> None:
    def two_steps() -> Callable[[], Any]:
        training = make(name)
        return lambda: [training.step() for _ in range(2)]

    compare(two_steps)
