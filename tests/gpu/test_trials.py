"""Trials on a real GPU: racing additions are found, deterministic mode keeps its word, training keeps its bits."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from tests.support.bits import bits
from tracer import DeterminismTracer, Trials
from tracer.names import DataShown
from tracer.trace.records import Tried

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU is here: nothing can be tried on one")
MANY = 100_000


@pytest.fixture
def deterministic_mode() -> Iterator[None]:
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


def tried_in(tracer: DeterminismTracer) -> dict[str, Tried]:
    return {group.op: group.tried for group in tracer.trace.calls if group.tried is not None}


def additions() -> torch.Tensor:
    torch.manual_seed(0)
    index = torch.randint(0, 50, (MANY,), device="cuda")
    return torch.zeros(50, 8, device="cuda").index_add_(0, index, torch.randn(MANY, 8, device="cuda"))


@needs_gpu
def test_additions_that_race_are_found_with_and_without_a_busy_stream() -> None:
    with DeterminismTracer(trials=10) as tracer:
        additions()
    found = tried_in(tracer)["aten.index_add_.default"]
    assert found.varied > 0
    assert found.relative > 0
    assert found.trials == 10
    assert tracer.report().findings[0].refuted is None


@needs_gpu
def test_in_deterministic_mode_the_same_calls_are_tried_and_agree(deterministic_mode: None) -> None:
    plain = additions()
    with DeterminismTracer(trials=10) as tracer:
        tried = additions()
    assert bits(tried) == bits(plain)
    found = tried_in(tracer)["aten.index_add_.default"]
    assert (found.trials, found.varied) == (10, 0)


@needs_gpu
def test_draws_on_the_device_are_as_without_trials() -> None:
    def program() -> list[object]:
        torch.manual_seed(3)
        own = torch.Generator("cuda").manual_seed(4)
        x = torch.randn(100, device="cuda")
        dropped = torch.nn.functional.dropout(x, 0.5)
        x.normal_(generator=own)
        return [bits(dropped), bits(x), torch.cuda.get_rng_state().tolist(), own.get_state().tolist()]

    plain = program()
    with DeterminismTracer(trials=Trials(3, all=True)) as tracer:
        assert program() == plain
    assert not any(one.varied for one in tried_in(tracer).values())


@needs_gpu
def test_data_on_the_device_settle_what_they_settle_elsewhere() -> None:
    with DeterminismTracer(data_facts=True) as tracer:
        index = torch.tensor([2, 0, 1], device="cuda")
        torch.randn(4, device="cuda").index_add_(0, index, torch.randn(3, device="cuda"))
    (group,) = (one for one in tracer.trace.calls if "index_add" in one.op)
    assert group.data == {DataShown.DISTINCT: 1}
    assert not any("index_add" in finding.op for finding in tracer.report().findings)
