"""Replicas on several ranks: the first step and parameter at which they stop being the same."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.divergence.recorded import Recorder, Run, Tensor, d
from tracer.divergence.causes import RootCause
from tracer.divergence.comparing import are_ranks, compare_recordings, compare_replicas
from tracer.names import Phase
from tracer.report.sections.runs import divergence_headline
from tracer.trace.values import ValueKind


@pytest.fixture
def record(tmp_path: Path) -> Recorder:
    return Recorder(tmp_path)


def rank(run: Run, drifts: int | None = None, gradients: int | None = None, shard: int = 0) -> None:
    for step in range(5):
        run.writer.step(step)
        for name in ("a", "b"):
            drifted = name == "b" and drifts is not None and step >= drifts
            run.writer.moment(ValueKind.PARAMETER, name, d(name, step, shard, drifted))
            run.writer.moment(ValueKind.GRADIENT, name, d(name, step, "gradient", step == gradients and name == "b"))


def test_ranks_that_stay_together_do_not_drift(record: Recorder) -> None:
    found = compare_replicas(*(record(rank, header={"rank": n, "world_size": 3}) for n in (0, 2)))
    assert (found.ranks, found.steps, found.are_replicas, found.drift) == ((0, 2), 5, True, None)


@pytest.mark.parametrize(("gradients", "said"), [(2, True), (None, False)])
def test_a_rank_that_drifts_is_told_with_step_and_parameter(
    record: Recorder, gradients: int | None, said: bool
) -> None:
    drift = compare_replicas(record(rank), record(rank, drifts=3, gradients=gradients)).drift
    assert drift is not None
    assert (drift.step, drift.name, drift.parameters) == (3, "b", 1)
    assert drift.gradients_differ is said


@pytest.mark.parametrize(
    ("differs", "by"),
    [
        pytest.param(lambda step: False, {}, id="none"),
        pytest.param(lambda step: True, {"quantizer.proj": 0}, id="from the start"),
        pytest.param(lambda step: step > 1, {"quantizer.proj": 2}, id="later"),
        pytest.param(lambda step: step == 4, {"quantizer.proj": 4}, id="at the end"),
    ],
)
def test_buffers_of_replicas_are_compared_and_it_is_said_what_was(
    record: Recorder, differs: Callable[[int], bool], by: dict[str, int]
) -> None:
    def with_buffers(run: Run, me: int) -> None:
        rank(run)
        for step in range(5):
            run.writer.step(step)
            run.writer.moment(ValueKind.BUFFER, "norm.count", d(step))
            run.writer.moment(ValueKind.BUFFER, "quantizer.proj", d("proj", me if differs(step) else 0))
            run.writer.moment(ValueKind.BUFFER, f"of rank {me}", d(me))

    found = compare_recordings(*(record(with_buffers, me=n, header={"rank": n, "world_size": 2}) for n in range(2)))
    assert found.replicas is not None
    assert (found.replicas.drift, found.replicas.parameters, found.replicas.buffers) == (None, 2, 2)
    assert found.replicas.buffers_differ == by
    assert found.agrees == (not by)
    said = divergence_headline(found)
    assert "the same 2 parameters in all 5 compared steps" in said
    assert ("1 of 2 buffers differ: quantizer.proj" if by else "no buffer differs, of 2") in said


def test_shards_are_not_replicas(record: Recorder) -> None:
    found = compare_replicas(*(record(rank, shard=n) for n in range(2)))
    assert (found.are_replicas, found.drift) == (False, None)


def test_ranks_without_parameters_are_not_compared(record: Recorder) -> None:
    assert compare_replicas(record(no_parameters), record(no_parameters)).steps == 0


def no_parameters(run: Run) -> None:
    run.call("ones.default", line=1)


def data_parallel(run: Run, me: int, forgotten: int = -1) -> None:
    """A step of data-parallel training: other batches, gradients brought together, but for one step."""
    weight = run.enter(ValueKind.PARAMETER, "fc.weight", "w")
    for step in range(4):
        run.writer.step(step)
        batch = run.enter(ValueKind.BATCH, "loader", ("batch", me, step), step)
        grad = run.call("mm.default", batch, weight, line=10)
        if step != forgotten:
            reduced = d("reduced", step)
            grad = Tensor(reduced, run.enter(ValueKind.OUTSIDE, "", 0).origin)
        run.writer.moment(ValueKind.PARAMETER, "fc.weight", weight.digest)
        run.writer.moment(ValueKind.GRADIENT, "fc.weight", grad.digest)
        weight = run.call("add_.Tensor", weight, grad, line=20, phase=Phase.OPTIMIZER)


@pytest.mark.parametrize("forgotten", [-1, 1])
def test_two_ranks_are_held_against_each_other_by_their_parameters(record: Recorder, forgotten: int) -> None:
    one, two = (
        record(data_parallel, me=me, forgotten=forgotten, header={"rank": me, "world_size": 2}) for me in range(2)
    )
    found = compare_recordings(one, two)
    assert found.replicas is not None
    assert found.replicas.are_replicas
    assert found.agrees == (forgotten < 0)
    if forgotten >= 0:
        assert found.replicas.drift is not None
        assert (found.replicas.drift.step, found.replicas.drift.gradients_differ) == (2, True)
        (root,) = found.roots
        assert (root.cause, root.step, root.location) == (RootCause.COLLECTIVE, 1, "train.py:20")
    else:
        assert found.roots == ()


def test_ranks_of_one_job_are_not_two_runs(record: Recorder) -> None:
    one, two = (record(rank, header={"rank": n, "world_size": 2}) for n in range(2))
    alone = record(rank)
    assert are_ranks(one, two)
    assert not are_ranks(one, one)
    assert not are_ranks(one, alone)
