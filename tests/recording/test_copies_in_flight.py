"""Copies with ``non_blocking=True`` whose memory is used again before anything waited for them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from tests.support.lines import line_of, record
from tracer import Trace, judge
from tracer.names import Verdict

RULE = "environment-copy-in-flight"


def placed(trace: Trace, **target: str) -> list[tuple[str, Verdict]]:
    found = [finding for finding in judge(trace, **target).findings if finding.rule == RULE]
    return [(finding.location.rpartition(":")[2], finding.verdict) for finding in found]


def output() -> torch.Tensor:
    return torch.nn.Linear(4, 4)(torch.ones(2, 4))


def copied(then: Callable[[torch.Tensor, torch.Tensor], object], non_blocking: bool = True) -> Callable[[], None]:
    """A buffer that is copied, and what is done next with the buffer and with its copy."""

    def step() -> None:
        buffer, there = torch.ones(4), torch.empty(4)
        there.copy_(buffer, non_blocking=non_blocking)  # here
        then(buffer, there)

    return step


def fetched(then: Callable[[torch.Tensor], object]) -> Callable[[], None]:
    """A result that is copied to the host, and what is done next with the copy."""

    def step() -> None:
        host = torch.empty(2, 4)
        host.copy_(output().detach(), non_blocking=True)  # here
        then(host)

    return step


def sources_of_a_list_are_written() -> None:
    buffers, there = [torch.ones(4), torch.ones(2)], [torch.empty(4), torch.empty(2)]
    torch._foreach_copy_(there, buffers, non_blocking=True)  # here
    buffers[1].zero_()


@pytest.mark.parametrize(
    "step",
    [
        copied(lambda buffer, there: (there.mul(2), buffer.zero_())),
        copied(lambda buffer, there: (torch.ones(2).sum().item(), buffer.zero_())),  # a number of the host
        sources_of_a_list_are_written,
        fetched(lambda host: host.mean()),
        fetched(lambda host: host.numpy()),
    ],
)
def test_memory_of_a_copy_that_nobody_waited_for_is_conditional_on_a_gpu(step: Callable[[], None]) -> None:
    trace = record(step).trace
    assert placed(trace, backend="cuda") == [(str(line_of(step, "# here")), Verdict.CONDITIONAL)]
    assert placed(trace, backend="cpu") == placed(trace) == []


def it_stays_on_the_host() -> None:
    torch.ones(4, dtype=torch.int32).to("cpu", torch.float32, non_blocking=True).mean()


def source_is_left_alone() -> None:
    static = torch.empty(4)
    for number in range(3):
        static.copy_(torch.full((4,), float(number)), non_blocking=True)
        static.mul(2)


@pytest.mark.parametrize(
    "step",
    [
        copied(lambda buffer, there: buffer.zero_(), non_blocking=False),
        copied(lambda buffer, there: (output().sum().item(), buffer.zero_())),
        copied(lambda buffer, there: buffer.sum()),
        fetched(lambda host: output().mean()),
        it_stays_on_the_host,
        source_is_left_alone,
    ],
)
def test_copies_that_cannot_meet_their_memory_are_no_finding(step: Callable[[], None]) -> None:
    assert placed(record(step).trace, backend="cuda") == []
