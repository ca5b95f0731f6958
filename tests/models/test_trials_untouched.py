"""Real training steps with every call tried: the same bits as without, whatever the step does."""

from __future__ import annotations

from contextlib import nullcontext

import pytest
import torch

from tests.models.test_untouched import left_behind
from tests.models.workloads import MAKERS, make
from tracer import DeterminismTracer, Trials
from tracer.names import Untried

#: Quick, and between them: dropout, checkpointing, autocast, hooks on parameters, functions of the user's own.
QUICK = ("mixed precision", "optimizer in backward", "custom function")


def check(name: str) -> None:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # what varies by threads is no business of this test
    try:
        untouched = left_behind(make(name), nullcontext())
        training = make(name)
        tracer = DeterminismTracer(model=training.model, trials=Trials(2, all=True))
        recorded = left_behind(training, tracer)
    finally:
        torch.set_num_threads(threads)
    for part, value in untouched.items():
        assert recorded[part] == value, part
    tried = [(group.op, group.tried) for group in tracer.trace.calls if group.tried is not None]
    assert [op for op, one in tried if one.varied] == []
    assert [op for op, one in tried if Untried.FAILED in one.untried] == []
    assert sum(one.trials for _, one in tried) > 100


@pytest.mark.parametrize("name", [name for name in MAKERS if name in QUICK])
def test_trials_leave_every_bit_as_it_was_and_nothing_varies_on_one_thread(name: str) -> None:
    check(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in MAKERS if name not in QUICK])
def test_trials_leave_every_bit_of_a_larger_step_as_it_was(name: str) -> None:
    check(name)
