"""What collectives reduce by, and in how many ranks: extrema and groups of one are the same in any order."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch
import torch.distributed as dist
from torch.distributed import ReduceOp
from torch.testing._internal.distributed.fake_pg import FakeStore

from tests.support.lines import record
from tracer import Report, judge

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


def functional(op: str) -> None:
    import torch.distributed._functional_collectives as functional

    functional.all_reduce(X.clone(), op, [0, 1]) + 0


def several_together(op: object) -> None:
    from torch.distributed.distributed_c10d import _coalescing_manager

    with _coalescing_manager():
        reduced(op)
        reduced(op)


def among_two(group: list[int] | None) -> None:
    dist.all_reduce(X.clone(), group=None if group is None else dist.new_group(group))


def verdicts(report: Report, words: str = "reduce") -> set[str]:
    """The verdicts of collectives that reduce."""
    return {str(call.ruling.verdict) for call in report.judged_calls if words in call.group.op}


EXACT, SUMS = ("deterministic", False), ("conditional", True)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("ranks", [2], indirect=True)
@pytest.mark.parametrize(
    ("step", "expected"),
    [
        (lambda: reduced(ReduceOp.MAX), EXACT),
        (lambda: reduced(ReduceOp(ReduceOp.MAX)), EXACT),
        (lambda: in_many_ways(ReduceOp.MIN), EXACT),
        (lambda: functional("max"), EXACT),
        (lambda: several_together(ReduceOp.MAX), EXACT),
        (lambda: among_two([0]), EXACT),  # a group of one has nothing to reduce
        (lambda: dist.all_reduce(torch.ones(3, dtype=torch.int64)), EXACT),
        (lambda: reduced(ReduceOp.SUM), SUMS),
        (lambda: reduced(ReduceOp.PRODUCT), SUMS),
        (lambda: in_many_ways(ReduceOp.AVG), SUMS),
        (lambda: functional("sum"), SUMS),
        (lambda: several_together(ReduceOp.SUM), SUMS),
        (lambda: among_two(None), SUMS),
    ],
)
def test_a_sum_depends_on_the_switch_and_to_what_is_the_same_in_any_order_no_setting_matters(
    ranks: None, step: Callable[[], object], expected: tuple[str, bool]
) -> None:
    trace = record(step).trace
    for backend in ("cuda",) if expected is SUMS else ("cuda", "cpu", "npu"):
        found = judge(trace, backend=backend, torch="2.13")
        settings = {finding.subject for finding in found.findings if finding.subject.startswith(("NCCL", "HCCL"))}
        assert (verdicts(found), "NCCL_NVLS_ENABLE is not set" in settings) == ({expected[0]}, expected[1]), backend
        assert expected is SUMS or not settings


@pytest.mark.parametrize("ranks", [1], indirect=True)
def test_a_group_of_one_has_nothing_to_reduce(ranks: None) -> None:
    trace = record(lambda: reduced(ReduceOp.SUM)).trace
    for backend in ("cuda", "cpu"):
        found = judge(trace, backend=backend, torch="2.13")
        assert (verdicts(found), found.findings) == ({"deterministic"}, ())


@pytest.mark.parametrize("ranks", [3], indirect=True)
@pytest.mark.parametrize(("source", "verdict"), [(None, "conditional"), (1, "deterministic")])
def test_whose_message_comes_first_is_a_matter_of_time(ranks: None, source: int | None, verdict: str) -> None:
    trace = record(lambda: dist.irecv(torch.zeros(3), source).wait()).trace  # type: ignore[union-attr]
    for backend in ("cuda", "cpu", "npu"):
        assert verdicts(judge(trace, backend=backend, torch="2.13"), "recv") == {verdict}, backend
