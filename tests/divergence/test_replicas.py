"""Replicas on several ranks: the first step and parameter at which they stop being the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.divergence.recorded import Recorder, Run, d
from tracer.divergence import are_ranks, compare_replicas
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
    assert compare_replicas([record(rank, header={"rank": n, "world_size": 3}) for n in range(3)]) is None


@pytest.mark.parametrize(("gradients", "said"), [(2, True), (None, False)])
def test_a_rank_that_drifts_is_told_with_step_and_parameter(
    record: Recorder, gradients: int | None, said: bool
) -> None:
    ranks = [record(rank, header={"rank": n, "world_size": 3}) for n in (0, 2)]
    ranks.insert(1, record(rank, drifts=3, gradients=gradients, header={"rank": 1, "world_size": 3}))
    drift = compare_replicas(ranks)
    assert drift is not None
    assert (drift.step, drift.name, drift.parameters, drift.ranks) == (3, "b", 1, ((0, 2), (1,)))
    assert drift.gradients_differ is said


def test_shards_are_not_replicas(record: Recorder) -> None:
    assert compare_replicas([record(rank, shard=n) for n in range(2)]) is None


def test_ranks_of_one_job_are_not_two_runs(record: Recorder) -> None:
    one, two = (record(rank, header={"rank": n, "world_size": 2}) for n in range(2))
    alone = record(rank)
    assert are_ranks(one, two)
    assert not are_ranks(one, one)
    assert not are_ranks(one, alone)
