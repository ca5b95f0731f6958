"""``tracer repro`` writes a program for one finding, and with ``--with-values`` the recorded data beside it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.one_call.running import run_program
from tests.recording.test_kept_inputs import recorded
from tests.support.build import call, tensor, trace
from tests.support.command import Command

ARGUMENTS = {
    "self": tensor("float32", 10, 4),
    "dim": 0,
    "index": tensor("int64", 50),
    "source": tensor("float32", 50, 4),
    "alpha": 1,
}


def traced(folder: Path) -> Path:
    path = folder / "trace.json"
    trace(call(given=ARGUMENTS), call(given=ARGUMENTS, location="train.py:20")).save(path)
    return path


def test_it_writes_a_program_that_runs(tracer: Command, tmp_path: Path) -> None:
    file = tmp_path / "one.py"
    done = tracer("repro", traced(tmp_path), "cuda-index-add@train.py:20", "--backend", "cuda", "-o", file)
    assert (done.code, done.out) == (0, "")
    assert done.err == f"tracer: wrote {file}: python {file}\n"
    assert run_program(file.read_text(encoding="utf-8"), "--device", "cpu", "--runs", "2").code == 0


def test_without_a_file_it_prints_the_program_and_says_which_finding_it_took(tracer: Command, tmp_path: Path) -> None:
    done = tracer("repro", traced(tmp_path), "cuda-index-add", "--backend", "cuda")
    assert done.code == 0
    assert done.out.startswith("#!/usr/bin/env python3\n")
    assert "2 findings are named so" in done.err


def test_a_program_with_values_reads_them_and_says_what_is_missing(tracer: Command, tmp_path: Path) -> None:
    recorded(tmp_path, keep="index_put")
    file = tmp_path / "one.py"
    done = tracer("repro", tmp_path / "trace.json", "cpu-index-put", "--with-values", "-o", file)
    assert (done.code, done.out) == (0, "")
    text = file.read_text(encoding="utf-8")
    assert "The data are those of the recorded run." in text
    space: dict[str, object] = {"__file__": str(file)}
    exec(compile(text, str(file), "exec"), space)
    given = space["arguments"]()  # type: ignore[operator]
    assert given["values"].shape == (40_000,)
    assert given["accumulate"] is True
    ran = run_program(text, "--runs", "3", file=str(file))
    assert ran.code in (0, 1), ran
    file.with_suffix(".safetensors").unlink()
    missing = run_program(text, file=str(file))
    assert (missing.code, missing.err.count("\n")) == (2, 1)
    assert "one.safetensors, beside it" in missing.err


@pytest.mark.parametrize("options", [{}, {"keep": "aten.add"}])
def test_a_recording_without_data_is_told_in_one_line(tracer: Command, tmp_path: Path, options: dict[str, str]) -> None:
    recorded(tmp_path, **options)
    done = tracer("repro", tmp_path / "trace.json", "cpu-index-put", "--with-values", "-o", tmp_path / "one.py")
    assert done.code == 2
    assert "holds no data of this call; record it with `tracer run --keep-inputs 'aten.index_put'`" in done.err
    assert done.err.count("\n") == 1
