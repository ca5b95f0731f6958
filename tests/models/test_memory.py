"""Real training steps read no unwritten memory and write to none that overlaps."""

from __future__ import annotations

import pytest

from tests.models.workloads import IN_EVERY_RUN, MAKERS, make
from tests.support.slow import slow_unless
from tracer import DeterminismTracer


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", slow_unless(IN_EVERY_RUN, MAKERS))
def test_training_is_blamed_for_nothing(name: str) -> None:
    tracer = DeterminismTracer()
    with tracer:
        training = make(name)
        for _ in range(2):
            training.step()
    trace = tracer.trace
    assert (trace.unwritten_reads, trace.overlaps) == ((), ())
    assert not tracer._session.recorder.storages.writes.failures
    assert not tracer._session.recorder.storages.registry.live
