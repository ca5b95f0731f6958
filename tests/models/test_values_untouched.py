"""Real training steps with digests: the same bits as without, and every call of a second run agrees."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import torch

from tests.models.test_untouched import every_workload, left_behind
from tests.models.workloads import make
from tests.recording.values.reading import moments, rows
from tracer import DeterminismTracer
from tracer.trace.values import Mark, read_values


@every_workload
def test_digests_leave_every_bit_as_it_was_and_agree_in_a_second_run(name: str, tmp_path: Path) -> None:
    found = []
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # what varies by threads is no business of this test
    try:
        untouched = left_behind(make(name), nullcontext())
        for run in range(2):
            training = make(name)
            tracer = DeterminismTracer(model=training.model, values=tmp_path / f"{run}.values")
            recorded = left_behind(training, tracer)
            for part, value in untouched.items():
                assert recorded[part] == value, part
            assert tracer._session.recorder.values is not None
            assert tracer._session.recorder.values.calls.failures == 0
            found.append(read_values(tmp_path / f"{run}.values"))
    finally:
        torch.set_num_threads(threads)
    first, second = found
    assert not first.partial
    for one, other in zip(rows(first), rows(second), strict=True):
        assert one == other
    assert moments(first) == moments(second)
    lost = [row for row in rows(first) if row.mark_bits & (Mark.INPUT_NOT_DIGESTED | Mark.OUTPUT_NOT_DIGESTED)]
    assert not lost
