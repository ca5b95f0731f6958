"""``--help`` is quick and complete."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.command import Command, process
from tracer import __version__
from tracer.cli.main import COMMANDS


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


def test_help_imports_no_subcommand_and_nothing_heavy(tmp_path: Path) -> None:
    code = (
        "import sys\nfrom tracer.cli.main import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit:\n    print(*sys.modules, file=sys.stderr)\n"
    )
    done = process("-c", code, cwd=tmp_path)
    loaded = set(done.err.split())
    assert "Commands:" in done.out
    assert not loaded & {"torch", "pandas", "numpy", "rich", "jinja2", "msgspec", "packaging"}
    assert not loaded & {module for module, _ in COMMANDS.values()}


def modules_after(code: str, folder: Path) -> set[str]:
    """What a new process has loaded once it ran ``code``."""
    done = process("-c", f"import sys\n{code}\nprint(*sys.modules, file=sys.stderr)", cwd=folder)
    return set(done.err.split())


def test_help_loads_little_more_than_click_does(tmp_path: Path) -> None:
    ends = "(['--help'])\nexcept SystemExit:\n    pass"
    ours = modules_after(f"from tracer.cli.main import main\ntry:\n    main{ends}", tmp_path)
    clicks = modules_after(f"import click\ntry:\n    click.Group(){ends}", tmp_path)
    more = ours - clicks
    assert len([name for name in more if name.startswith("tracer")]) <= 10, sorted(more)
    assert len(more) <= 20, sorted(more)


def test_a_reader_that_goes_away_gets_no_traceback(tmp_path: Path) -> None:
    """``tracer --help | true``."""
    with subprocess.Popen(
        [sys.executable, "-m", "tracer", "--help"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=tmp_path
    ) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        running.stdout.close()
        err = running.stderr.read()
    assert running.returncode in (0, 141)
    assert err == b""
