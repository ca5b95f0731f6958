"""Processes that begin with torch loaded: a server that imports it once and forks for each command.

A test that starts ``python`` spends nine tenths of its time on ``import torch``. What hangs on a fresh interpreter (its
hash seed, what is imported when, threads that a variable sets) starts one of its own: ``fresh`` processes.

The server computes nothing, so that no thread of a library runs in it when it forks.
"""

from __future__ import annotations

import atexit
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent


class Finished(NamedTuple):
    """What a command left behind."""

    code: int
    out: str
    err: str


class Forking:
    """One server, started when the first command asks for it."""

    def __init__(self) -> None:
        self._server: subprocess.Popen[str] | None = None

    def run(self, args: Sequence[str], *, cwd: Path, env: Mapping[str, str], module: str = "") -> Finished:
        """``python ARGS``, or ``python -m MODULE ARGS``, in a child that has torch loaded already."""
        server = self._started()
        assert server.stdin is not None
        assert server.stdout is not None
        with tempfile.TemporaryDirectory() as folder:
            out, err = Path(folder, "out"), Path(folder, "err")
            request = {"args": list(args), "cwd": str(cwd), "env": dict(env), "module": module}
            server.stdin.write(json.dumps({**request, "out": str(out), "err": str(err)}) + "\n")
            server.stdin.flush()
            answer = server.stdout.readline()
            assert answer, "the server of forks ended"
            return Finished(int(answer), out.read_text(encoding="utf-8"), err.read_text(encoding="utf-8"))

    def _started(self) -> subprocess.Popen[str]:
        if self._server is None or self._server.poll() is not None:
            self._server = subprocess.Popen(
                [sys.executable, "-m", "tests.forking"],
                cwd=ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            atexit.register(self.stop)
        return self._server

    def stop(self) -> None:
        """End the server, if it runs."""
        server, self._server = self._server, None
        if server is not None and server.stdin is not None and server.stdout is not None:
            server.stdin.close()
            server.stdout.close()
            server.wait()


FORKING = Forking()


def _serve() -> None:
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what an import prints is no answer
    import numpy  # noqa: F401
    import torch
    import torch.distributed
    import torch.utils.data  # noqa: F401

    import tracer.cli.run
    import tracer.recording.recorder
    import tracer.runner.running  # noqa: F401
    from tracer.tables.loading import load_tables
    from tracer.tables.settings.rows import load_rows

    tuple(load_tables().values())
    load_rows()
    while line := sys.stdin.readline():
        request = json.loads(line)
        child = os.fork()
        if child == 0:
            answers.close()
            _become(request)
        _, status = os.waitpid(child, 0)
        answers.write(f"{os.waitstatus_to_exitcode(status)}\n")
        answers.flush()


def _become(request: dict[str, object]) -> None:
    """Be the process that was asked for, and end as it does; but torch is not taken down piece by piece."""
    import signal
    import threading

    import numpy

    for place, (name, flags) in enumerate(
        ((os.devnull, os.O_RDONLY), *((str(request[one]), os.O_WRONLY | os.O_CREAT) for one in ("out", "err")))
    ):
        opened = os.open(name, flags, 0o600)
        os.dup2(opened, place)
        os.close(opened)
    sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w", buffering=1)  # noqa: SIM115
    sys.__stdin__, sys.__stdout__, sys.__stderr__ = sys.stdin, sys.stdout, sys.stderr
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.clear()
    os.environ.update(request["env"])  # type: ignore[arg-type]
    os.chdir(str(request["cwd"]))
    numpy.random.seed()  # Python's own generator does this by itself
    code = _run([str(one) for one in request["args"]], str(request["module"]))  # type: ignore[attr-defined]
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _run(args: list[str], module: str) -> int:
    """Run a script or a module as ``__main__``; what it exits with, or 1 behind a traceback that begins with it."""
    import runpy

    sys.path[:] = [one for one in sys.path if one not in ("", str(ROOT))]
    sys.path += [one for one in os.environ.get("PYTHONPATH", "").split(os.pathsep) if one]
    try:
        if module:
            sys.path.insert(0, os.getcwd())
            sys.argv = [module, *args]
            runpy.run_module(module, run_name="__main__", alter_sys=True)
        else:
            sys.path.insert(0, os.path.dirname(os.path.abspath(args[0])))
            sys.argv = args
            runpy.run_path(args[0], run_name="__main__")
    except SystemExit as leaving:
        if isinstance(leaving.code, str):
            print(leaving.code, file=sys.stderr)
        return leaving.code if isinstance(leaving.code, int) else int(leaving.code is not None)
    except BaseException as problem:
        trace = problem.__traceback__
        while trace is not None and trace.tb_frame.f_code.co_filename in (__file__, runpy.__file__, "<frozen runpy>"):
            trace = trace.tb_next
        sys.excepthook(type(problem), problem, trace)
        return 1
    return 0


if __name__ == "__main__":
    _serve()
