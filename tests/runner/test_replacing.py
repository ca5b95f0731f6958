"""A script that replaces its process by ``exec`` is recorded up to there, and that is said."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.command import tracer_process


@pytest.mark.slow
@pytest.mark.parametrize(
    ("program", "hint"),
    [
        ("'echo', ['echo', 'here']", "record that one"),
        ("'python3', ['python3', '-c', 'print(\\'here\\')']", "set beforehand"),
    ],
)
def test_another_program_that_takes_the_scripts_place_is_told(tmp_path: Path, program: str, hint: str) -> None:
    (tmp_path / "train.py").write_text(f"import os\nos.execvp({program})\n")
    done = tracer_process("run", "train.py", cwd=tmp_path)
    assert (done.code, done.out) == (0, "here\n")
    assert "(exec), which is not recorded" in done.err
    assert hint in done.err
