"""A script that replaces its process by ``exec`` is recorded in the process that comes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.command import process, tracer_process
from tracer import Trace
from tracer.runner.running import recorded_line

OWN = ["-m", "tracer", "run", "-o", "t.json"]


@pytest.mark.parametrize(
    ("command", "line"),
    [
        (["python", "train.py", "1"], ["python", *OWN, "train.py", "1"]),
        (["python", "-u", "-X", "dev", "train.py"], ["python", "-u", "-X", "dev", *OWN, "train.py"]),
        (["/usr/bin/python3.11", "-m", "train", "1"], ["/usr/bin/python3.11", *OWN, "-m", "train", "1"]),
        (["python", "-c", "pass"], []),
        (["python", "-I", "train.py"], []),
        (["python", "-uE", "train.py"], []),
        (["python", "-Werror::ImportWarning", "train.py"], ["python", "-Werror::ImportWarning", *OWN, "train.py"]),
        (["python", "-"], []),
        (["python"], []),
        (["python", "-m"], []),
        (["bash", "train.sh"], []),
    ],
)
def test_a_python_program_is_recorded_with_the_same_options(command: list[str], line: list[str]) -> None:
    assert recorded_line(command, OWN) == line


def test_without_a_command_line_of_its_own_nothing_is_recorded_anew() -> None:
    assert recorded_line(["python", "train.py"], ()) == []


RESTARTED = """
import os, sys
if os.environ.get("PYTHONHASHSEED") != "0":
    os.environ["PYTHONHASHSEED"] = "0"
    os.execv(sys.executable, [sys.executable, *sys.argv])
import torch
print(sys.argv[1:], hash("name"), torch.ones(3).sum().item())
"""


@pytest.mark.slow
@pytest.mark.parametrize("options", [(), ("--children",)])
def test_a_script_that_sets_its_hash_seed_and_starts_anew_is_recorded(tmp_path: Path, options: tuple[str, ...]) -> None:
    (tmp_path / "train.py").write_text(RESTARTED)
    plain = process("train.py", "7", cwd=tmp_path)
    done = tracer_process("run", *options, "train.py", "7", cwd=tmp_path)
    assert (done.code, done.out) == (plain.code, plain.out), done.err
    assert "the script replaces its process (exec); recording begins anew" in done.err
    assert Trace.load(tmp_path / "trace.json").call_count == 3


@pytest.mark.slow
def test_another_program_that_takes_the_scripts_place_is_told(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import os\nos.execvp('echo', ['echo', 'here'])\n")
    done = tracer_process("run", "train.py", cwd=tmp_path)
    assert (done.code, done.out) == (0, "here\n")
    assert "replaces its process by echo (exec), which is not recorded" in done.err
