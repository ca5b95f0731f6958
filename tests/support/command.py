"""Calling the command line from tests: in this process where that is enough, as a process where it is not."""

from __future__ import annotations

import io
import os
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tracer.cli.main import main

SCRIPTS = Path(__file__).parents[1] / "scripts"

#: Nothing of the terminal or the job that the tests run in.
PLAIN = {
    name: value
    for name, value in os.environ.items()
    if name not in ("RANK", "WORLD_SIZE", "NO_COLOR", "FORCE_COLOR", "COLUMNS", "TERM", "TRACER_DEBUG")
    and not name.startswith(("ATEN_", "PYTEST_"))
}


class Finished(NamedTuple):
    """How a command ended."""

    code: int
    out: str
    err: str


class Command:
    """``tracer`` called in this process, with what a script would change put back after."""

    def __init__(self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
        self._capsys = capsys
        self._monkeypatch = monkeypatch

    def __call__(self, *args: str | Path) -> Finished:
        """Run ``tracer ARGS`` and return how it ended."""
        with self._monkeypatch.context() as patch:
            code = _call(patch, args)
        return Finished(code, *self._capsys.readouterr())


def run_here(folder: Path, *args: str | Path) -> Finished:
    """``tracer ARGS`` in this process and in ``folder``: for fixtures of a module, which no test's fixtures serve.

    What begins before a test is not put back behind it, so threads and variables are put back here.
    """
    import torch

    threads, variables = torch.get_num_threads(), dict(os.environ)
    out, err = io.StringIO(), io.StringIO()
    try:
        with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
            patch.chdir(folder)
            code = _call(patch, args)
    finally:
        torch.set_num_threads(threads)
        for name in os.environ.keys() - variables.keys():
            del os.environ[name]
        os.environ.update(variables)
    return Finished(code, out.getvalue(), err.getvalue())


def _call(patch: pytest.MonkeyPatch, args: tuple[str | Path, ...]) -> int:
    patch.setattr(sys, "argv", ["tracer"])
    patch.setattr(sys, "path", ["/nowhere", *sys.path])
    patch.setattr(sys, "meta_path", list(sys.meta_path))
    patch.setitem(sys.modules, "__main__", sys.modules["__main__"])
    if (torch := sys.modules.get("torch")) is not None:  # no seed of an earlier program waits for a GPU
        patch.setattr(torch.cuda, "_lazy_seed_tracker", torch.cuda._LazySeedTracker())
    try:
        with pytest.raises(SystemExit) as leaving:
            main([str(one) for one in args])
    finally:
        _switch_compilation_on()
    assert isinstance(leaving.value.code, int)
    return leaving.value.code


def _switch_compilation_on() -> None:
    """``--eager`` and shaken runs switch it off until their process ends."""
    seams: Any = sys.modules.get("tracer.recording.torch_private.compile_seams")
    if seams is None or not seams._is_compilation_off:
        return
    seams._is_compilation_off = False
    torch: Any = sys.modules["torch"]
    if hasattr(torch.compiler, "set_stance"):
        torch.compiler.set_stance("default")
    else:
        sys.modules["torch._dynamo.config"].disable = False  # type: ignore[attr-defined]


#: Seconds after which a process hangs; no test fails on less.
PATIENCE = 300


def process(*args: str | Path, cwd: Path, module: bool = False, **environ: str) -> Finished:
    """``python ARGS``, or ``python -m tracer ARGS``, as a process of its own."""
    done = subprocess.run(
        [sys.executable, *(["-m", "tracer"] if module else []), *map(str, args)],
        cwd=cwd,
        env={**PLAIN, **environ},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    return Finished(done.returncode, done.stdout, done.stderr)


def tracer_process(*args: str | Path, cwd: Path, **environ: str) -> Finished:
    """``python -m tracer ARGS`` as a process."""
    return process(*args, cwd=cwd, module=True, **environ)


def ranks(*args: str | Path, cwd: Path, count: int = 2) -> list[Finished]:
    """``python -m tracer ARGS`` as each rank of one job, at the same time, with the variables that torchrun sets."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    job = {"WORLD_SIZE": str(count), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    with ThreadPoolExecutor(count) as started:
        return list(
            started.map(
                lambda rank: tracer_process(*args, cwd=cwd, **job, RANK=str(rank), LOCAL_RANK=str(rank)), range(count)
            )
        )


def both(cwd: Path, *line: str | Path, **environ: str) -> tuple[Finished, Finished]:
    """The same command line through Python itself and through ``tracer run``."""
    plain = process(*line, cwd=cwd, **environ)
    return plain, tracer_process("run", "-o", "t.json", *line, cwd=cwd, **environ)
