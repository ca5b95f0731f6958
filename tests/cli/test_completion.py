"""A shell completes subcommands, options and files, as click does it by itself."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete

from tests.support.command import PLAIN, process
from tracer.cli.main import COMMANDS, tracer

VARIABLE = "_TRACER_COMPLETE"


def completed(*args: str) -> list[str]:
    """What follows ``tracer ARGS``, of which the last is begun."""
    shell = ShellComplete(tracer, {}, "tracer", VARIABLE)
    return [item.value for item in shell.get_completions(list(args[:-1]), args[-1])]


def test_subcommands_complete() -> None:
    assert completed("") == list(COMMANDS)
    assert completed("re") == ["repeat", "resume", "report", "repro"]


@pytest.mark.parametrize("name", sorted(COMMANDS.keys() - {"tables"}))
def test_options_complete(name: str) -> None:
    assert "--help" in completed(name, "--")


@pytest.mark.parametrize(
    "args",
    [
        ("report", "tra"),
        ("check", "tra"),
        ("diff", "tra"),
        ("diff", "a", "tra"),
        ("run", "tra"),
        ("run", "a.py", "tra"),
    ],
)
def test_files_are_left_to_the_shell(args: tuple[str, ...]) -> None:
    shell = ShellComplete(tracer, {}, "tracer", VARIABLE)
    assert [item.type for item in shell.get_completions(list(args[:-1]), args[-1])] == ["file"]


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash here")
def test_bash_itself_completes_with_the_script(tmp_path: Path) -> None:
    """The printed script is sourced, and its function called as bash calls it."""
    (tmp_path / "tracer").write_text(f'#!/bin/sh\nexec {sys.executable} -m tracer "$@"\n')
    (tmp_path / "tracer").chmod(0o755)
    asks = 'eval "$(_TRACER_COMPLETE=bash_source tracer)"; COMP_WORDS=(tracer rep); COMP_CWORD=1'
    done = subprocess.run(
        ["bash", "-c", f'{asks}; _tracer_completion tracer; echo "${{COMPREPLY[@]}}"'],
        env={**PLAIN, "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert [word.removeprefix("plain,") for word in done.stdout.split()] == ["repeat", "report", "repro"]


def test_what_completes_imports_no_torch(tmp_path: Path) -> None:
    code = (
        "import sys\nfrom click.shell_completion import ShellComplete\nfrom tracer.cli.main import tracer\n"
        "found = ShellComplete(tracer, {}, 'tracer', '_X').get_completions(['report'], '--ta')\n"
        "assert [one.value for one in found] == ['--table'], found\n"
        "assert not {'torch', 'pandas', 'rich'} & sys.modules.keys()\n"
    )
    done = process("-c", code, cwd=tmp_path)
    assert (done.code, done.err) == (0, "")
