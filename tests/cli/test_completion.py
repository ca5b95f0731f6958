"""A shell completes subcommands, options and their values, and prints nothing else where the user types."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete

from tests.support.command import PLAIN, Command, process
from tracer.cli.completing import INSTALL, SHELLS, VARIABLE
from tracer.cli.main import COMMANDS, tracer


def completed(*args: str) -> list[str]:
    """What follows ``tracer ARGS``, of which the last is begun."""
    shell = ShellComplete(tracer, {}, "tracer", VARIABLE)
    return [item.value for item in shell.get_completions(list(args[:-1]), args[-1])]


def test_subcommands_complete() -> None:
    assert completed("") == list(COMMANDS)
    assert completed("re") == ["repeat", "report", "repro"]


@pytest.mark.parametrize("name", sorted(COMMANDS.keys() - {"tables"}))
def test_options_complete(name: str) -> None:
    assert "--help" in completed(name, "--")


@pytest.mark.parametrize(
    ("args", "found"),
    [
        (("report", "--backend", "cu"), ["cuda"]),
        (("report", "--settings", "d"), ["default", "deterministic"]),
        (("report", "--format", "html,c"), ["html,csv"]),
        (("report", "--format", "html,h"), []),
        (("report", "--torch", "2.1"), [f"2.{minor}" for minor in (15, 14, 13, 12, 11, 10, 1)]),
        (("report", "--table", "m"), ["modules"]),
        (("check", "--fail-on", "raises,n"), ["raises,nondeterministic", "raises,new"]),
        (("check", "--backend", "np"), ["npu"]),
        (("check", "--select", "cuda-index-a"), ["cuda-index-add"]),
        (("diff", "--backend", "cuda,np"), ["cuda,npu"]),
        (("diff", "--torch", "2.4,2.13"), ["2.4,2.13"]),
        (("diff", "--settings", "default,w"), ["default,warn"]),
        (("diff", "--format", "j"), ["json"]),
        (("doctor", "--format", "j"), ["json"]),
        (("doctor", "--backend", "re"), []),
        (("doctor", "--fail-on", "rai"), ["raises"]),
        (("explain", "cuda-index-a"), ["cuda-index-add"]),
        (("explain", "torch.cums"), ["torch.cumsum"]),
        (("explain", "CUBLAS_WORKSPACE_C"), ["CUBLAS_WORKSPACE_CONFIG"]),
        (("explain", "--backend", "recor"), []),
        (("tables", "show", "cuda-put"), ["cuda-put"]),
        (("tables", ""), ["lint", "list", "measured", "show"]),
        (("completion", ""), ["bash", "zsh", "fish"]),
    ],
)
def test_values_complete(args: tuple[str, ...], found: list[str]) -> None:
    assert completed(*args) == found


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


@pytest.mark.parametrize("shell", SHELLS)
def test_the_script_says_how_it_is_installed(shell: str, tracer: Command) -> None:
    done = tracer("completion", shell)
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith(f"# Installed by: {INSTALL[shell]}\n")
    assert f"{VARIABLE}={shell}_complete" in done.out


@pytest.mark.parametrize("args", [(), ("tcsh",)])
def test_a_shell_that_is_not_known_is_one_line(args: tuple[str, ...], tracer: Command) -> None:
    done = tracer("completion", *args)
    assert (done.code, done.out) == (2, "")
    assert done.err.count("\n") == 1


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash here")
def test_bash_itself_completes_with_the_script(tmp_path: Path) -> None:
    """The printed script is sourced, and its function called as bash calls it."""
    (tmp_path / "tracer").write_text(f'#!/bin/sh\nexec {sys.executable} -m tracer "$@"\n')
    (tmp_path / "tracer").chmod(0o755)
    asks = 'eval "$(tracer completion bash)"; COMP_WORDS=(tracer report --backend c); COMP_CWORD=3'
    done = subprocess.run(
        ["bash", "-c", f'{asks}; _tracer_completion tracer; echo "${{COMPREPLY[@]}}"'],
        env={**PLAIN, "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.stdout, done.stderr) == ("cpu cuda\n", "")


def test_what_completes_imports_no_torch(tmp_path: Path) -> None:
    code = (
        "import sys\nfrom click.shell_completion import ShellComplete\nfrom tracer.cli.main import tracer\n"
        "found = ShellComplete(tracer, {}, 'tracer', '_X').get_completions(['explain'], 'cuda-put')\n"
        "assert [one.value for one in found] == ['cuda-put'], found\n"
        "assert not {'torch', 'pandas', 'rich'} & sys.modules.keys()\n"
    )
    done = process("-c", code, cwd=tmp_path)
    assert (done.code, done.err) == (0, "")
