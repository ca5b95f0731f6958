"""Which steps ``--steps`` names."""

from __future__ import annotations

import pytest

from tracer.errors import UsageError
from tracer.runner.script import StepRange


@pytest.mark.parametrize(
    ("text", "steps"),
    [
        ("0:1", StepRange(0, 1)),
        ("5:8", StepRange(5, 8)),
        ("3", StepRange(3, 4)),
        ("2:", StepRange(2)),
        (":4", StepRange(0, 4)),
        (":", StepRange()),
        (" 1:2 ", StepRange(1, 2)),
    ],
)
def test_a_window_reads_as_a_slice(text: str, steps: StepRange) -> None:
    assert StepRange.parse(text) == steps
    assert StepRange.parse(str(steps)) == steps


@pytest.mark.parametrize("text", ["", "a:b", "-1:", "1:-1", "3:1", "2:2", ":0", "1:5:2", "1.5:2", "٣:٤", "1,2"])
def test_anything_else_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(UsageError) as refusal:
        StepRange.parse(text)
    assert len(str(refusal.value).splitlines()) == 1


@pytest.mark.parametrize(
    ("steps", "finished", "is_missed"),
    [
        (StepRange(), 0, False),
        (StepRange(0, 1), 0, True),
        (StepRange(0, 1), 1, False),
        (StepRange(5, 8), 7, True),
        (StepRange(5), 4, True),
        (StepRange(5), 5, False),
    ],
)
def test_a_run_that_is_too_short_is_told(steps: StepRange, finished: int, is_missed: bool) -> None:
    assert bool(steps.missed(finished)) is is_missed
