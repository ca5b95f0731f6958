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


def source_is_written() -> None:
    buffer, there = torch.ones(4), torch.empty(4)
    there.copy_(buffer, non_blocking=True)  # here
    there.mul(2)
    buffer.zero_()


def sources_of_a_list_are_written() -> None:
    buffers, there = [torch.ones(4), torch.ones(2)], [torch.empty(4), torch.empty(2)]
    torch._foreach_copy_(there, buffers, non_blocking=True)  # here
    buffers[1].zero_()


def number_of_the_host_is_read() -> None:
    buffer, there = torch.ones(4), torch.empty(4)
    there.copy_(buffer, non_blocking=True)  # here
    torch.ones(2).sum().item()
    buffer.zero_()


def result_is_read() -> None:
    host = torch.empty(2, 4)
    host.copy_(output().detach(), non_blocking=True)  # here
    host.mean()


def result_goes_to_numpy() -> None:
    host = torch.empty(2, 4)
    host.copy_(output().detach(), non_blocking=True)  # here
    host.numpy()


@pytest.mark.parametrize(
    "step",
    [
        *(source_is_written, sources_of_a_list_are_written, number_of_the_host_is_read),
        *(result_is_read, result_goes_to_numpy),
    ],
)
def test_memory_of_a_copy_that_nobody_waited_for_is_conditional_on_a_gpu(step: Callable[[], None]) -> None:
    trace = record(step).trace
    assert placed(trace, backend="cuda") == [(str(line_of(step, "# here")), Verdict.CONDITIONAL)]
    assert placed(trace, backend="cpu") == placed(trace) == []


def it_waits() -> None:
    buffer, there = torch.ones(4), torch.empty(4)
    there.copy_(buffer)
    buffer.zero_()


def a_number_is_read() -> None:
    buffer, there = torch.ones(4), torch.empty(4)
    there.copy_(buffer, non_blocking=True)
    output().sum().item()
    buffer.zero_()


def it_stays_on_the_host() -> None:
    torch.ones(4, dtype=torch.int32).to("cpu", torch.float32, non_blocking=True).mean()


def source_is_left_alone() -> None:
    static = torch.empty(4)
    for number in range(3):
        static.copy_(torch.full((4,), float(number)), non_blocking=True)
        static.mul(2)


def source_is_read_again() -> None:
    buffer, there = torch.ones(4), torch.empty(4)
    there.copy_(buffer, non_blocking=True)
    buffer.sum()


def result_is_left_alone() -> None:
    torch.empty(2, 4).copy_(output().detach(), non_blocking=True)
    output().mean()


@pytest.mark.parametrize(
    "step",
    [
        *(it_waits, a_number_is_read, it_stays_on_the_host),
        *(source_is_left_alone, source_is_read_again, result_is_left_alone),
    ],
)
def test_copies_that_cannot_meet_their_memory_are_no_finding(step: Callable[[], None]) -> None:
    assert placed(record(step).trace, backend="cuda") == []
