"""What a program puts back at its end parts nothing; what calls follow does."""

from __future__ import annotations

import torch

import tracer
from tracer import DeterminismTracer, judge

CHANGED = "environment-mode-changed"


def step() -> None:
    """Forward and backward of a look-up, which adds at indices backwards."""
    torch.randn(4, 3, requires_grad=True).index_select(0, torch.tensor([0, 0])).exp().sum().backward()


def found(*, goes_on: bool, times: int = 1) -> set[str]:
    """Rules with a finding on steps under ``reproducible`` in a recording that goes on after them, or does not."""
    with DeterminismTracer() as recording:
        for _ in range(times):
            with tracer.reproducible(0):
                step()
        if goes_on:
            step()
    return {finding.rule for finding in judge(recording.trace, backend="cuda").findings}


def test_settings_that_are_put_back_at_the_end_are_no_change_in_the_middle() -> None:
    assert CHANGED not in found(goes_on=False)
    assert CHANGED not in found(goes_on=False, times=3)


def test_settings_that_are_put_back_before_further_calls_are() -> None:
    assert CHANGED in found(goes_on=True)
