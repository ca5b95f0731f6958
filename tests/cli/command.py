"""Calling the command line from tests: in this process where that is enough, as a process where it is not."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.forking import FORKING, Finished
from tracer.cli.main import main

SCRIPTS = Path(__file__).parent.parent / "scripts"

#: Nothing of the terminal or the job that the tests run in.
PLAIN = {
    name: value
    for name, value in os.environ.items()
    if name not in ("RANK", "WORLD_SIZE", "NO_COLOR", "FORCE_COLOR", "COLUMNS", "TERM", "TRACER_DEBUG")
}


class Command:
    """``tracer`` called in this process, with what a script would change put back after."""

    def __init__(self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
        self._capsys = capsys
        self._monkeypatch = monkeypatch

    def __call__(self, *args: str | Path) -> Finished:
        """Run ``tracer ARGS`` and return how it ended."""
        with self._monkeypatch.context() as patch:
            patch.setattr(sys, "argv", ["tracer"])
            patch.setattr(sys, "path", ["/nowhere", *sys.path])
            patch.setattr(sys, "meta_path", list(sys.meta_path))
            patch.setitem(sys.modules, "__main__", sys.modules["__main__"])
            with pytest.raises(SystemExit) as leaving:
                main([str(one) for one in args])
        out, err = self._capsys.readouterr()
        assert isinstance(leaving.value.code, int)
        return Finished(leaving.value.code, out, err)


#: Variables that a process may be given after torch was loaded: nothing reads them before.
_LATE = {"PYTHONPATH", "COLUMNS", "NO_COLOR", "FORCE_COLOR", "TERM", "RANK", "WORLD_SIZE", "CUBLAS_WORKSPACE_CONFIG"}


def process(*args: str | Path, cwd: Path, module: bool = False, fresh: bool = True, **environ: str) -> Finished:
    """``python ARGS``, or ``python -m tracer ARGS``, as a process of its own.

    ``fresh``: an interpreter that has loaded nothing. Else, and where every variable can come late, one that begins
    with torch loaded: an exit code and what was recorded are the same, what is imported when is not.
    """
    if not fresh and environ.keys() <= _LATE and hasattr(os, "fork"):
        env = {**PLAIN, **environ}
        return FORKING.run([str(one) for one in args], cwd=cwd, env=env, module="tracer" if module else "")
    command = [sys.executable, *(["-m", "tracer"] if module else []), *map(str, args)]
    done = subprocess.run(
        command,
        cwd=cwd,
        env={**PLAIN, **environ},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
    )
    return Finished(done.returncode, done.stdout, done.stderr)


def tracer_process(*args: str | Path, cwd: Path, **environ: str) -> Finished:
    """``python -m tracer ARGS`` as a process."""
    return process(*args, cwd=cwd, module=True, **environ)


def both(cwd: Path, *line: str | Path, **environ: str) -> tuple[Finished, Finished]:
    """The same command line through Python and through ``tracer run``."""
    return process(*line, cwd=cwd, **environ), tracer_process("run", "-o", "t.json", *line, cwd=cwd, **environ)
