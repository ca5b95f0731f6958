"""Every planted fault has its clean twin, and there are enough of both."""

from __future__ import annotations

from tests.planted.planting import CLEAN, FAULTS


def test_each_fault_has_a_clean_twin() -> None:
    assert {path.stem for path in FAULTS} == {path.stem.removesuffix("_clean") for path in CLEAN}


def test_there_are_thirty_of_each_and_every_area_has_its_module() -> None:
    assert len(FAULTS) == len(CLEAN) >= 30
    assert {path.parent.name for path in FAULTS} == {"draws", "loading", "memory", "settings", "writes"}
