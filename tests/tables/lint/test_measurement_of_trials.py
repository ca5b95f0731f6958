"""A measurement made of a recording: what varied with its facts, what contradicts a table said so."""

from __future__ import annotations

import pytest

from tests.support.build import call, environment, trace
from tracer.errors import TableError
from tracer.names import Backend, DeterministicMode
from tracer.tables.lint.measured import contradictions, measurement_of
from tracer.tables.loading import load_tables
from tracer.trace import Trace
from tracer.trace.records import CudaDevice, Tried

ON_CUDA = {"device": "cuda", "dtype": "float32", "layout": "strided", "ndim": 2}


def recorded() -> Trace:
    varied, agreed = Tried(calls=1, trials=5, varied=2, distinct=3, first=1), Tried(calls=2, trials=10, distinct=1)
    return trace(
        call("aten.neg.default", facts=ON_CUDA, tried=varied),
        call("aten.index_add_.default", facts=ON_CUDA, tried=varied),
        call("aten.index_add_.default", facts=ON_CUDA, tried=agreed, location="train.py:2"),
        call("aten.mm.default", tried=varied),
        environment=environment(devices=(CudaDevice(name="GPU One"),), torch="2.11.0+cu130"),
    )


def test_what_varied_on_the_accelerator_is_kept_and_what_agreed_is_counted() -> None:
    found = measurement_of(recorded())
    assert (found.backend, found.device, found.torch) == (Backend.CUDA, "GPU One", "2.11.0")
    assert [one.what for one in found.run] == ["aten.neg.default, forward, 1", "aten.index_add_.default, forward, 1"]
    assert (found.run[0].runs, found.run[0].distinct, found.run[0].mode) == (6, 3, DeterministicMode.OFF)
    assert (found.samples, found.alike) == (3, 1)


def test_what_a_table_cannot_be_true_of_is_named() -> None:
    (line,) = contradictions(measurement_of(recorded()), load_tables())
    assert line.startswith("aten.neg.default, forward, 1, mode off: 3 distinct results in 6 runs")


def test_a_recording_without_trials_measures_nothing() -> None:
    with pytest.raises(TableError, match="no call of this trace was tried"):
        measurement_of(trace())
