"""The environment of a trace holds the settings under which the calls ran, also those of a block."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch

from tracer import DeterminismTracer, judge
from tracer.names import Verdict
from tracer.trace import Trace


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    mode, flag = torch.are_deterministic_algorithms_enabled(), torch.backends.cudnn.deterministic
    yield
    torch.use_deterministic_algorithms(mode)
    torch.backends.cudnn.deterministic = flag


def verdicts(trace: Trace, op: str) -> set[Verdict]:
    return {found.verdict for found in judge(trace, backend="cuda", torch="2.13").findings if found.op.startswith(op)}


@pytest.mark.parametrize("inside", [True, False])
def test_a_block_around_the_step_is_judged_by_its_own_flags(inside: bool) -> None:
    model = torch.nn.Conv2d(3, 4, 3)
    torch.backends.cudnn.deterministic = not inside
    flags = torch.backends.cudnn.flags(enabled=True, benchmark=False, deterministic=inside)
    with DeterminismTracer(model) as tracer, flags:
        model(torch.ones(2, 3, 8, 8)).sum().backward()
    assert torch.backends.cudnn.deterministic is not inside
    assert tracer.trace.environment.cudnn_deterministic is inside
    assert (Verdict.NONDETERMINISTIC in verdicts(tracer.trace, "aten.convolution_backward")) is not inside


@pytest.mark.parametrize("inside", [True, False])
def test_a_mode_that_is_put_back_at_the_end_is_that_of_the_calls(inside: bool) -> None:
    torch.use_deterministic_algorithms(not inside)
    with DeterminismTracer() as tracer:
        torch.use_deterministic_algorithms(inside)
        torch.zeros(4).index_add(0, torch.tensor([0, 0]), torch.ones(2))
        torch.use_deterministic_algorithms(not inside)
    assert tracer.trace.environment.deterministic_mode == ("on" if inside else "off")
    assert verdicts(tracer.trace, "aten.index_add") == (set() if inside else {Verdict.NONDETERMINISTIC})


def counted(change: Callable[[], None]) -> bool | None:
    """The recorded flag, where a step ran before ``change`` and a call of no module after it."""
    model = torch.nn.Linear(2, 2)
    torch.backends.cudnn.deterministic = True
    with DeterminismTracer(model) as tracer:
        torch.ones(2).add(1)
        change()
        model(torch.ones(1, 2)).sum().backward()
        torch.backends.cudnn.deterministic = True
        torch.ones(2).add(1)
    return tracer.trace.environment.cudnn_deterministic


def off() -> None:
    torch.backends.cudnn.deterministic = False


def test_calls_of_the_step_decide_before_those_beside_it() -> None:
    assert counted(off) is False
    assert counted(lambda: None) is True


def test_a_second_recording_counts_its_own_calls() -> None:
    model = torch.nn.Linear(2, 2)
    assert counted(off) is False
    torch.backends.cudnn.deterministic = True
    with DeterminismTracer(model) as tracer:
        model(torch.ones(1, 2)).sum().backward()
        torch.backends.cudnn.deterministic = False
    assert tracer.trace.environment.cudnn_deterministic is True
