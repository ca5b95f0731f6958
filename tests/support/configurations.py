"""Two configurations of a step that are compared in the test's own process, and where they begin to differ."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import tracer
from tracer.divergence.magnitudes import CompareVerdict, Comparison, PlaceDifference

Step = Callable[[], Any]
#: What two that compute the same are said to be.
ALIKE = CompareVerdict.EQUAL, CompareVerdict.ROUNDING


def compared(first: Step, second: Step) -> Comparison:
    """Held against each other, with one shaken run as the yardstick."""
    return tracer.compare(first, second, yardstick_runs=1)


def begins(comparison: Comparison) -> PlaceDifference:
    """The first significant place, of which there must be one."""
    assert comparison.verdict is CompareVerdict.SIGNIFICANT
    assert comparison.first is not None
    return comparison.first


def line_in(file: str, words: str) -> str:
    """The first line of ``file`` with these words, as places name it."""
    lines = Path(file).read_text(encoding="utf-8").splitlines()
    return f"{Path(file).name}:{next(number for number, line in enumerate(lines, 1) if words in line)}"
