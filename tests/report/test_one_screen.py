"""The answer to scripts of real libraries fits one screen: 40 lines at 100 columns.

Longer trainings, for two targets: ``tests/integrations/test_trainings.py``.
"""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

from tests.support.command import tracer_process

LINES, COLUMNS = 40, 100
SCRIPTS = sorted((Path(__file__).parents[1] / "runner" / "repeated" / "others").glob("*.py"))


@pytest.mark.slow
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_the_answer_to_a_script_is_one_screen(script: Path, tmp_path: Path) -> None:
    packages = re.match(r"# needs: (.+)\n", script.read_text(encoding="utf-8"))
    assert packages is not None
    for package in packages[1].split():
        try:
            importlib.import_module(package)
        except Exception as problem:  # absent, or built for another torch
            pytest.skip(f"{package} is needed (the extra `bench`): {problem}")
    trace = tmp_path / "step.trace.json"
    recorded = tracer_process("run", "-o", trace, script, cwd=tmp_path)
    assert recorded.code == 0, recorded.err
    told = tracer_process("report", trace, "--backend", "cuda", cwd=tmp_path, COLUMNS=str(COLUMNS))
    lines = told.out.splitlines()
    assert told.code == 0, told.err
    assert 15 < len(lines) <= LINES
    assert max(map(len, lines)) <= COLUMNS
