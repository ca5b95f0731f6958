"""Every planted fault is found by running twice: the line, the cause, the arm. Every twin agrees in every call."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.runner.repeated.planting import PROGRAMS, Program, expect_agreement, expect_parting, program
from tracer.divergence.model import RootCause

PARAMETERS = [pytest.param(program(path), id=path.stem) for path in PROGRAMS]
_FRESH = pytest.mark.fresh_interpreter
FAULTS = [
    pytest.param(program(path), id=path.stem, marks=_FRESH if "process" in program(path).said else ())
    for path in PROGRAMS
]


@pytest.mark.parametrize("one", FAULTS)
def test_the_runs_part_at_the_line_and_for_the_cause_that_is_planted(
    one: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expect_parting(one, tmp_path, monkeypatch)


@pytest.mark.parametrize("one", PARAMETERS)
def test_the_runs_of_the_clean_twin_agree_in_every_call(
    one: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expect_agreement(one, tmp_path, monkeypatch)


def test_there_are_two_of_each_cause_at_least() -> None:
    causes = Counter(cause for one in map(program, PROGRAMS) for cause in set(one.parts.values()))
    of_several_processes = {"collective", "unknown"}  # see tests/cli/test_ranks_with_values.py
    for cause in {each.value for each in RootCause} - of_several_processes:
        assert causes[cause] >= 2, cause
