"""``tracer repro`` writes a program for one finding, and says what it was."""

from __future__ import annotations

from pathlib import Path

from tests.one_call.running import run_program
from tests.support.build import call, tensor, trace
from tests.support.command import Command

ARGUMENTS = {
    "self": tensor("float32", 10, 4),
    "dim": 0,
    "index": tensor("int64", 50),
    "source": tensor("float32", 50, 4),
    "alpha": 1,
}


def recorded(folder: Path) -> Path:
    path = folder / "trace.json"
    trace(call(given=ARGUMENTS), call(given=ARGUMENTS, location="train.py:20")).save(path)
    return path


def test_it_writes_a_program_that_runs(tracer: Command, tmp_path: Path) -> None:
    file = tmp_path / "one.py"
    done = tracer("repro", recorded(tmp_path), "cuda-index-add@train.py:20", "--backend", "cuda", "-o", file)
    assert (done.code, done.out) == (0, "")
    assert done.err == f"tracer: wrote {file}: python {file}\n"
    assert run_program(file.read_text(encoding="utf-8"), "--device", "cpu", "--runs", "2").code == 0


def test_without_a_file_it_prints_the_program_and_says_which_finding_it_took(tracer: Command, tmp_path: Path) -> None:
    done = tracer("repro", recorded(tmp_path), "cuda-index-add", "--backend", "cuda")
    assert done.code == 0
    assert done.out.startswith("#!/usr/bin/env python3\n")
    assert "2 findings are named so" in done.err


def test_what_names_no_finding_is_refused_in_one_line(tracer: Command, tmp_path: Path) -> None:
    done = tracer("repro", recorded(tmp_path), "cuda-sort", "--backend", "cuda")
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("tracer: error: no finding is named 'cuda-sort'")
    assert done.err.count("\n") == 1
