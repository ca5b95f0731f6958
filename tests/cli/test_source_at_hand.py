"""The lines that a page shows of files that are at hand: Python's alone, and none that may have moved since."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support.build import call, trace
from tests.support.command import Command
from tracer.runner.script import source_at_hand

AGES = {"train.py": 100, "edited.py": 300, "secrets.env": 100}


def test_lines_are_of_python_files_that_did_not_change_after_the_recording(tmp_path: Path) -> None:
    for name, changed in AGES.items():
        (tmp_path / name).write_text("first\nsecond\n", encoding="utf-8")
        os.utime(tmp_path / name, (changed, changed))
    calls = [call("aten.add.Tensor", location=f"{name}:2") for name in (*AGES, "gone.py")]
    kept = trace(*calls, source_lines={"edited.py:2": "as recorded"})
    assert source_at_hand(kept, str(tmp_path), 200) == {"train.py:2": "second", "edited.py:2": "as recorded"}


def test_a_page_shows_the_line_that_a_change_is_about_and_json_holds_none(
    tmp_path: Path, tracer: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "train.py").write_text("x = 1\nout.index_add_(0, index, rows)  # <sum>\n", encoding="utf-8")
    os.utime(tmp_path / "train.py", (1, 1))
    trace(call("aten.index_add_.default", location="train.py:2")).save(tmp_path / "t.json")
    monkeypatch.chdir(tmp_path)
    done = tracer("report", "t.json", "--backend", "cuda", "--format", "html,json", "-o", "r")
    assert done.code == 0
    plan = (tmp_path / "r.html").read_text(encoding="utf-8").partition('id="plan"')[2].partition("</section>")[0]
    assert "out.index_add_(0, index, rows)  # &lt;sum&gt;".replace("  ", " ") in plan
    assert "out.index_add_" not in (tmp_path / "r.json").read_text(encoding="utf-8")
