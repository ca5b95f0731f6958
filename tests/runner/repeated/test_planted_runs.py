"""Every planted fault is found by running twice: the line, the cause, the arm. Every twin agrees in every call."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.runner.repeated.planting import PROGRAMS, expect_agreement, expect_parting, program
from tests.support.slow import slow_unless
from tracer.divergence.causes import RootCause

#: Programs of causes that no test within a process has; of their twins the one that says most: equal bits.
FAULTS_IN_EVERY_RUN = {"empty_is_read", "index_put", "left_behind", "pointer_writes"}
TWINS_IN_EVERY_RUN = {"index_put"}


def programs(in_every_run: set[str]) -> pytest.MarkDecorator:
    """All planted programs, slow but for those named."""
    cases = slow_unless(lambda path: path.stem in in_every_run, PROGRAMS)
    return pytest.mark.parametrize("path", cases, ids=lambda path: path.stem)


@pytest.fixture(autouse=True)
def _no_traceback_of_ours(capfd: pytest.CaptureFixture[str]) -> Iterator[None]:
    yield
    said = capfd.readouterr().err
    assert "tracer/" not in said, said


@programs(FAULTS_IN_EVERY_RUN)
def test_runs_part_at_the_planted_line_and_cause(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expect_parting(program(path), tmp_path, monkeypatch)


@programs(TWINS_IN_EVERY_RUN)
def test_runs_of_a_clean_twin_agree_in_every_call(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expect_agreement(program(path), tmp_path, monkeypatch)


def test_there_are_two_of_each_cause_at_least() -> None:
    causes = Counter(cause for one in map(program, PROGRAMS) for cause in set(one.parts.values()))
    elsewhere = {"collective", "unknown"}  # see tests/cli/test_ranks.py
    elsewhere.add("thread-order")  # see test_forked_branches.py
    for cause in {each.value for each in RootCause} - elsewhere:
        assert causes[cause] >= 2, cause
