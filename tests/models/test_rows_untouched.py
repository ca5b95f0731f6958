"""Real training steps with calls made again on a part of their rows: the same bits; no row-wise op mixes rows."""

from __future__ import annotations

from contextlib import nullcontext

import pytest

from tests.models.test_untouched import every_workload, left_behind
from tests.models.workloads import make
from tests.support.rows import otherwise
from tracer import DeterminismTracer
from tracer.names import RowOutcome


@every_workload
def test_rows_leave_every_bit_as_it_was(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found = otherwise(monkeypatch)
    untouched = left_behind(make(name), nullcontext())
    training = make(name)
    tracer = DeterminismTracer(model=training.model, rows=True)
    recorded = left_behind(training, tracer)
    for part, value in untouched.items():
        assert recorded[part] == value, part
    assert not found
    counts = {outcome: sum(one.count for one in tracer.trace.rows if one.outcome is outcome) for outcome in RowOutcome}
    assert counts[RowOutcome.EQUAL] > counts[RowOutcome.UNKNOWN]
