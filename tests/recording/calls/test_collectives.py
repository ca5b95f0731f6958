"""What collectives reduce by, and in how many ranks: extrema and groups of one are the same in any order."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch
import torch.distributed as dist
from torch.distributed import ReduceOp
from torch.testing._internal.distributed.fake_pg import FakeStore

from tracer import DeterminismTracer, Report, judge

pytestmark = pytest.mark.skipif(not dist.is_available(), reason="this torch has no torch.distributed")


@pytest.fixture
def ranks(request: pytest.FixtureRequest) -> Iterator[None]:
    """A process group of so many ranks, of which all but this one are pretended."""
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=request.param)
    yield
    dist.destroy_process_group()


X = torch.tensor([0.1, 0.2, 0.3, 0.4])


def reduced(op: object) -> None:
    dist.all_reduce(X.clone(), op)


def in_many_ways(op: object) -> None:
    """Each way but ``all_reduce``."""
    dist.reduce(X.clone(), 0, op)
    dist.reduce_scatter_tensor(torch.zeros(2), X.clone(), op)
    dist.reduce_scatter(torch.zeros(2), [X[:2].clone(), X[2:].clone()], op)


def report(step: Callable[[], object], backend: str = "cuda") -> Report:
    with DeterminismTracer() as recording:
        step()
    return judge(recording.trace, backend=backend, torch="2.13")


def collectives(found: Report) -> set[str]:
    """The verdicts of collectives that reduce."""
    return {str(call.ruling.verdict) for call in found.judged_calls if "reduce" in call.group.op}


TWO = pytest.mark.parametrize("ranks", [2], indirect=True)


@TWO
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("way", [reduced, in_many_ways])
@pytest.mark.parametrize("op", [ReduceOp.MAX, ReduceOp.MIN, ReduceOp(ReduceOp.MAX)])
@pytest.mark.parametrize("backend", ["cuda", "cpu", "npu"])
def test_an_extremum_is_deterministic_and_no_setting_matters_to_it(
    ranks: None, way: Callable[[object], None], op: object, backend: str
) -> None:
    found = report(lambda: way(op), backend)
    assert collectives(found) == {"deterministic"}
    assert not [finding for finding in found.findings if finding.subject.startswith(("NCCL", "HCCL"))]


@TWO
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("way", [reduced, in_many_ways])
@pytest.mark.parametrize("op", [ReduceOp.SUM, ReduceOp.AVG, ReduceOp.PRODUCT])
def test_a_sum_depends_on_the_switch(ranks: None, way: Callable[[object], None], op: object) -> None:
    found = report(lambda: way(op))
    assert collectives(found) == {"conditional"}
    assert "NCCL_NVLS_ENABLE is not set" in {finding.subject for finding in found.findings}


@pytest.mark.parametrize("ranks", [1], indirect=True)
@pytest.mark.parametrize("backend", ["cuda", "cpu"])
def test_a_group_of_one_has_nothing_to_reduce(ranks: None, backend: str) -> None:
    found = report(lambda: reduced(ReduceOp.SUM), backend)
    assert collectives(found) == {"deterministic"}
    assert not found.findings


@TWO
def test_a_group_of_one_among_two_ranks_has_nothing_to_reduce_either(ranks: None) -> None:
    alone = dist.new_group([0])
    assert collectives(report(lambda: dist.all_reduce(X.clone(), group=alone))) == {"deterministic"}
    assert collectives(report(lambda: dist.all_reduce(X.clone()))) == {"conditional"}


@TWO
def test_whole_numbers_need_no_setting(ranks: None) -> None:
    assert not report(lambda: dist.all_reduce(torch.ones(3, dtype=torch.int64))).findings


@TWO
@pytest.mark.parametrize(("op", "verdict"), [("max", "deterministic"), ("sum", "conditional")])
def test_functional_collectives_say_what_they_reduce_by(ranks: None, op: str, verdict: str) -> None:
    import torch.distributed._functional_collectives as functional

    found = report(lambda: functional.all_reduce(X.clone(), op, [0, 1]) + 0)
    assert collectives(found) == {verdict}


@TWO
def test_several_together_say_what_they_reduce_by(ranks: None) -> None:
    from torch.distributed.distributed_c10d import _coalescing_manager

    def step(op: object) -> None:
        with _coalescing_manager():
            dist.all_reduce(X.clone(), op)
            dist.all_reduce(X.clone(), op)

    assert collectives(report(lambda: step(ReduceOp.MAX))) == {"deterministic"}
    assert collectives(report(lambda: step(ReduceOp.SUM))) == {"conditional"}


@pytest.mark.parametrize("ranks", [3], indirect=True)
@pytest.mark.parametrize("backend", ["cuda", "cpu", "npu"])
def test_whose_message_comes_first_is_a_matter_of_time(ranks: None, backend: str) -> None:
    def step(source: int | None) -> None:
        work = dist.irecv(torch.zeros(3), source)
        assert work is not None
        work.wait()

    def verdicts(source: int | None) -> set[str]:
        judged = report(lambda: step(source), backend).judged_calls
        return {str(call.ruling.verdict) for call in judged if "recv" in call.group.op}

    assert verdicts(None) == {"conditional"}
    assert verdicts(1) == {"deterministic"}
