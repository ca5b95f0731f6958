"""``--help`` and a shell's completion, and ``tracer demo``: what a newcomer meets first."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete

from tests.support.command import PLAIN, Command, process
from tracer import __version__
from tracer.bundled import make_training
from tracer.cli.main import COMMANDS, tracer
from tracer.trace import Trace


@pytest.mark.parametrize("name", COMMANDS)
def test_each_subcommand_shows_examples_that_it_understands(name: str, tracer: Command) -> None:
    done = tracer(name, "--help")
    assert (done.code, done.err) == (0, "")
    assert "Examples:" in done.out
    assert f"tracer {name}" in done.out


def test_the_groups_list_and_each_commands_own_summary_agree(tracer: Command) -> None:
    listed = tracer("-h").out
    for name, (_, summary) in COMMANDS.items():
        assert re.search(rf"^  {name} +{re.escape(summary[:30])}", listed, re.MULTILINE)


def test_the_version_is_the_packages(tracer: Command) -> None:
    assert tracer("--version").out == f"tracer {__version__}\n"


def modules_after(code: str, folder: Path) -> set[str]:
    """What a new process has loaded once it ran ``code``."""
    done = process("-c", f"import sys\n{code}\nprint(*sys.modules, file=sys.stderr)", cwd=folder)
    return set(done.err.split())


def test_help_loads_little_more_than_click_does_and_no_subcommand(tmp_path: Path) -> None:
    ends = "(['--help'])\nexcept SystemExit:\n    pass"
    ours = modules_after(f"from tracer.cli.main import main\ntry:\n    main{ends}", tmp_path)
    clicks = modules_after(f"import click\ntry:\n    click.Group(){ends}", tmp_path)
    more = ours - clicks
    assert len([name for name in more if name.startswith("tracer")]) <= 10, sorted(more)
    assert len(more) <= 20, sorted(more)
    assert not more & {"torch", "pandas", "numpy", "rich", "jinja2", "msgspec", "packaging"}
    assert not more & {module for module, _ in COMMANDS.values()}


SHELL = ShellComplete(tracer, {}, "tracer", "_TRACER_COMPLETE")


def completed(*args: str) -> list[str]:
    """What follows ``tracer ARGS``, of which the last is begun."""
    return [item.value for item in SHELL.get_completions(list(args[:-1]), args[-1])]


def test_subcommands_complete() -> None:
    assert completed("") == list(COMMANDS)
    assert completed("re") == ["repeat", "resume", "report", "repro"]


@pytest.mark.parametrize("name", sorted(COMMANDS.keys() - {"tables"}))
def test_options_complete(name: str) -> None:
    assert "--help" in completed(name, "--")


@pytest.mark.parametrize("line", ["report tra", "check tra", "diff tra", "diff a tra", "run tra", "run a.py tra"])
def test_files_are_left_to_the_shell(line: str) -> None:
    *words, begun = line.split()
    assert [item.type for item in SHELL.get_completions(words, begun)] == ["file"]


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
    complete = "ShellComplete(tracer, {}, 'tracer', '_X').get_completions(['report'], '--ta')"
    code = f"from click.shell_completion import ShellComplete\nfrom tracer.cli.main import tracer\nassert {complete}"
    assert not {"torch", "pandas", "rich"} & modules_after(code, tmp_path)
    assert completed("report", "--ta") == ["--table"]


def test_the_demo_writes_its_files_and_says_what_to_open(folder: Path, tracer: Command) -> None:
    done = tracer("demo")
    assert (done.code, done.err) == (0, "")
    assert sorted(path.name for path in folder.iterdir()) == ["report.csv", "report.html", "step.trace.json"]
    assert "Open report.html in a browser" in done.out
    assert "\x1b" not in done.out
    trace = Trace.load("step.trace.json")
    assert trace.partial == ""
    assert {"captions.words", "down.0", "head"} <= {one.module for one in trace.calls}
    assert all(str(folder) not in one.location for one in trace.calls)
    assert tracer("report", "step.trace.json", "--backend", "cuda", "-o", "again.csv").code == 0
    assert Path("again.csv").read_bytes() == Path("report.csv").read_bytes()


def test_the_demo_writes_where_it_is_told(tmp_path: Path, tracer: Command) -> None:
    done = tracer("demo", "--output-dir", tmp_path / "new" / "place")
    assert done.code == 0
    assert len(list((tmp_path / "new" / "place").iterdir())) == 3


def test_the_bundled_step_trains() -> None:
    training = make_training()
    losses = [training.step() for _ in range(4)]
    assert losses[-1] < losses[0]
