"""Planted faults of ``memory``, and their clean twins; see ``planting``. They run in this process."""

from __future__ import annotations

from pathlib import Path

from tests.planted.planting import CLEAN, FAULTS, expect_found, expect_nothing, of
from tests.support.command import Command


@of("memory", FAULTS)
def test_a_planted_fault_is_found_at_its_line(script: Path, tmp_path: Path, here: Command) -> None:
    expect_found(script, tmp_path, here)


@of("memory", CLEAN)
def test_a_clean_twin_raises_nothing(script: Path, tmp_path: Path, here: Command) -> None:
    expect_nothing(script, tmp_path, here)
