"""Planted faults of ``settings``, and their clean twins; see ``planting``."""

from __future__ import annotations

from pathlib import Path

from tests.planted.planting import CLEAN, FAULTS, expect_found, expect_nothing, of

IN_EVERY_RUN = {"cublas_variable_late"}


@of("settings", FAULTS, IN_EVERY_RUN)
def test_a_planted_fault_is_found_at_its_line(script: Path, tmp_path: Path) -> None:
    expect_found(script, tmp_path)


@of("settings", CLEAN, IN_EVERY_RUN)
def test_a_clean_twin_raises_nothing(script: Path, tmp_path: Path) -> None:
    expect_nothing(script, tmp_path)
