"""Whatever a recording looks like: with itself it agrees, and one change is found where it was made."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.divergence.recorded import Recorder, Run, Tensor
from tracer.divergence.causes import RootCause
from tracer.divergence.comparing import compare_recordings
from tracer.trace.values import ValueKind

#: One call: which op, how far back its inputs were made, and whether a step begins before it.
STEP = st.tuples(st.integers(0, 3), st.sets(st.integers(1, 6), max_size=3), st.booleans(), st.booleans())
PROGRAMS = st.lists(STEP, min_size=1, max_size=25)


def run_program(run: Run, calls: list[Any], noise: dict[int, int] | None = None, extra: int | None = None) -> None:
    made: list[Tensor] = [run.enter(ValueKind.PARAMETER, "w", 0)]
    step = 0
    for index, (op, back, begins, fresh) in enumerate(calls):
        if begins:
            step += 1
            run.writer.step(step)
        if index == extra:
            run.call("extra.default", line=999)
        read = [made[-way] for way in sorted(back) if way <= len(made)]
        if fresh:
            read.append(run.enter(ValueKind.BATCH, "loader", index, index))
        made.append(run.call(f"op{op}.default", *read, line=op, numbers=str(op), noise=(noise or {}).get(index)))
    if extra == len(calls):
        run.call("extra.default", line=999)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("recordings")


@given(calls=PROGRAMS)
def test_a_recording_agrees_with_itself(folder: Path, calls: list[Any]) -> None:
    record = Recorder(folder)
    found = compare_recordings(record(run_program, calls=calls), record(run_program, calls=calls))
    assert found.agrees
    assert found.calls_compared == len(calls)
    assert (found.roots, found.follows, found.not_digested) == ((), 0, 0)


@given(calls=PROGRAMS, data=st.data())
def test_one_result_that_differs_is_one_root_there(folder: Path, calls: list[Any], data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(calls) - 1))
    record = Recorder(folder)
    first = record(run_program, calls=calls)
    second = record(run_program, calls=calls, noise={place: 1})
    found = compare_recordings(first, second)
    (root,) = found.roots
    assert (root.cause, root.call, root.other_call) == (RootCause.KERNEL, place, place)
    differing = (first.values.inputs != second.values.inputs) | (first.values.outputs != second.values.outputs)
    assert root.follows == found.follows == int(differing.sum()) - 1


@given(calls=PROGRAMS, data=st.data())
def test_one_call_too_many_is_one_root_there(folder: Path, calls: list[Any], data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(calls)))
    record = Recorder(folder)
    plain, more = record(run_program, calls=calls), record(run_program, calls=calls, extra=place)
    for first, second, only in ((plain, more, (0, 1)), (more, plain, (1, 0))):
        found = compare_recordings(first, second)
        (root,) = found.roots
        assert (root.cause, root.op, root.call) == (RootCause.STRUCTURE, "aten.extra.default", place)
        assert (found.only, found.calls_compared) == (only, len(calls))


@given(calls=PROGRAMS, places=st.sets(st.integers(0, 24), min_size=1, max_size=4))
def test_whatever_differs_is_told(folder: Path, calls: list[Any], places: set[int]) -> None:
    """No difference goes unmentioned: each is a root, or follows from one that comes before it."""
    record = Recorder(folder)
    first = record(run_program, calls=calls)
    second = record(run_program, calls=calls, noise=dict.fromkeys(places, 1))
    found = compare_recordings(first, second)
    differing = int((first.values.outputs != second.values.outputs).sum())
    told = sum(1 + root.same_cause + root.follows for root in found.roots)
    assert told == differing
    assert found.agrees == (not differing)
