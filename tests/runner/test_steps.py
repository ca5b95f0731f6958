"""Which steps ``--steps`` names."""

from __future__ import annotations

import pytest

from tracer.errors import UsageError
from tracer.runner.steps import Steps


@pytest.mark.parametrize(
    ("text", "steps"),
    [
        ("0:1", Steps(0, 1)),
        ("5:8", Steps(5, 8)),
        ("3", Steps(3, 4)),
        ("2:", Steps(2)),
        (":4", Steps(0, 4)),
        (":", Steps()),
        (" 1:2 ", Steps(1, 2)),
    ],
)
def test_a_window_reads_as_a_slice(text: str, steps: Steps) -> None:
    assert Steps.parse(text) == steps
    assert Steps.parse(str(steps)) == steps


@pytest.mark.parametrize("text", ["", "a:b", "-1:", "1:-1", "3:1", "2:2", ":0", "1:5:2", "1.5:2", "٣:٤", "1,2"])
def test_anything_else_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(UsageError) as refusal:
        Steps.parse(text)
    assert len(str(refusal.value).splitlines()) == 1


@pytest.mark.parametrize(
    ("steps", "finished", "is_missed"),
    [
        (Steps(), 0, False),
        (Steps(0, 1), 0, True),
        (Steps(0, 1), 1, False),
        (Steps(5, 8), 7, True),
        (Steps(5), 4, True),
        (Steps(5), 5, False),
    ],
)
def test_a_run_that_is_too_short_is_told(steps: Steps, finished: int, is_missed: bool) -> None:
    assert bool(steps.missed(finished)) is is_missed
