"""Training with models and trainers that nobody here wrote: two runs of each agree in every call; no root is told."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

from tests.runner.repeated.planting import told
from tracer.runner.repeated.repeating import Asked, repeat_script
from tracer.runner.script import Task

PROGRAMS = sorted((Path(__file__).parent / "others").glob("*.py"))


def needed(program: Path) -> list[str]:
    """The packages that its first line names."""
    found = re.match(r"# needs: (.+)\n", program.read_text(encoding="utf-8"))
    assert found is not None, program
    return found[1].split()


def test_there_are_twelve_of_five_packages() -> None:
    assert len(PROGRAMS) == 12
    assert len({needed(program)[0] for program in PROGRAMS}) == 5


@pytest.mark.slow
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.stem)
def test_its_runs_agree_in_every_call(program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for package in needed(program):
        try:
            importlib.import_module(package)
        except Exception as problem:  # absent, or built for another torch
            pytest.skip(f"{package} is needed (the extra `bench`): {problem}")
    monkeypatch.chdir(tmp_path)
    found = repeat_script(Asked(task=Task(target=str(program)), folder=tmp_path / "runs", arms=())).repeated
    assert [run.code for run in found.runs] == [0, 0]
    assert not found.roots, told(found)
    assert found.agrees
    assert found.calls_compared > 50
    assert found.divergence.not_digested == 0
