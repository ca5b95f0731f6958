"""Planted faults are found at their lines, and their clean twins raise nothing; see ``planting``."""

from __future__ import annotations

from pathlib import Path

from tests.planted.planting import SCRIPTS, expect_found, expect_nothing, of
from tests.support.command import Command

#: Each runs in a process of its own, so few are in every run; memory and writes run in this one.
IN_EVERY_RUN = {"cublas_variable_late", "generator_objects", "shuffle_unseeded", "unseeded_dropout", "workers_numpy"}


def test_there_are_enough_of_every_area() -> None:
    assert len(SCRIPTS) > 30
    assert {path.parent.name for path in SCRIPTS} == {"draws", "loading", "memory", "settings", "writes"}


@of(("draws", "loading", "settings"), IN_EVERY_RUN)
def test_a_planted_fault_is_found_at_its_line(script: Path, tmp_path: Path) -> None:
    expect_found(script, tmp_path)


@of(("draws", "loading", "settings"), IN_EVERY_RUN)
def test_a_clean_twin_raises_nothing(script: Path, tmp_path: Path) -> None:
    expect_nothing(script, tmp_path)


@of(("memory", "writes"))
def test_a_fault_of_memory_is_found_at_its_line(script: Path, tmp_path: Path, tracer: Command) -> None:
    expect_found(script, tmp_path, tracer)


@of(("memory", "writes"))
def test_a_clean_twin_of_memory_raises_nothing(script: Path, tmp_path: Path, tracer: Command) -> None:
    expect_nothing(script, tmp_path, tracer)
