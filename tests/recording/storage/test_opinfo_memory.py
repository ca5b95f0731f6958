"""torch's operator database, forward and backward: no entry reads unwritten memory, none writes over itself.

The first sample of each is walked in ``test_opinfo``.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.recording.test_opinfo import _one_thread as _one_thread
from tests.recording.test_opinfo import op_db as op_db
from tests.recording.test_opinfo import run, samples_of
from tracer import DeterminismTracer

CHUNKS = 16


def check(entries: list[Any], count: int) -> None:
    said = []
    for op in entries:
        tracer = DeterminismTracer()
        for sample in samples_of(op, count):
            run(op, sample, tracer)
        trace = tracer.trace
        said += [f"{op.formatted_name}: {one}" for one in (*trace.unwritten_reads, *trace.overlaps)]
        if tracer._session.recorder.storages.writes.failures:
            said.append(f"{op.formatted_name}: could not be followed")
    assert not said, "\n".join(said)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_no_op_is_blamed_for_its_memory_in_any_sample(op_db: list[Any], chunk: int) -> None:
    check(op_db[chunk::CHUNKS], count=10_000)
