"""Processes that begin with torch in memory: a server that imports it once and forks for each command.

A test that starts ``python`` spends nine tenths of its time on ``import torch``. What was loaded is hidden until it is
imported (``unveiling``): a script finds itself in a process that has imported nothing. What needs an interpreter
that is truly new (for its hash seed, variables that torch reads as it loads, what an import costs) starts one.

The server computes nothing, so that no thread of a library runs in it when it forks.
"""

from __future__ import annotations

import atexit
import json
import os
import subprocess
import sys
import tempfile
import time
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from _pytest.config import default_plugins

ROOT = Path(__file__).parent.parent
SECONDS = 60


class Finished(NamedTuple):
    """What a command left behind."""

    code: int
    out: str
    err: str


class Forking:
    """One server, started when the first command asks for it."""

    def __init__(self) -> None:
        self._server: subprocess.Popen[str] | None = None

    def run(self, args: Sequence[str], *, cwd: Path, env: Mapping[str, str]) -> Finished:
        """``python ARGS`` in a child that has torch in memory."""
        return self.together([args], cwd=cwd, envs=[env])[0]

    def together(
        self, commands: Sequence[Sequence[str]], *, cwd: Path, envs: Sequence[Mapping[str, str]]
    ) -> list[Finished]:
        """Several at the same time, as ranks are that wait for one another."""
        server = self._started()
        assert server.stdin is not None
        assert server.stdout is not None
        with tempfile.TemporaryDirectory() as folder:
            names = [(Path(folder, f"out{number}"), Path(folder, f"err{number}")) for number in range(len(commands))]
            requests = [
                {"args": list(args), "cwd": str(cwd), "env": dict(env), "out": str(out), "err": str(err)}
                for args, env, (out, err) in zip(commands, envs, names, strict=True)
            ]
            server.stdin.write(json.dumps(requests) + "\n")
            server.stdin.flush()
            answer = server.stdout.readline()
            assert answer, "the server of forks ended"
            return [
                Finished(code, out.read_text(encoding="utf-8"), err.read_text(encoding="utf-8"))
                for code, (out, err) in zip(json.loads(answer), names, strict=True)
            ]

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

#: What scripts, ``tracer`` and torch itself import sooner or later.
LOADED = (
    *("torch", "torch.distributed", "torch.utils.data", "torch._dynamo", "numpy", "pandas"),
    *("tracer.cli.run", "tracer.cli.report", "tracer.cli.doctor", "tracer.recording.recorder", "tracer.runner.running"),
    *("tracer.session", "tracer.report.files.formats", "tracer.recording.values.recording"),
    *("tracer.divergence.repeated", "tracer.judging.judgement", "tracer.report"),
    *(f"_pytest.{one}" for one in default_plugins),
    *(f"tracer.runner.repeated.circumstances.{one}" for one in ("arrival", "clock", "host", "memory", "planned")),
)


def _serve() -> None:
    import gc

    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what an import prints is no answer
    sys.path[:] = [one for one in sys.path if one not in ("", str(ROOT))]
    sys.path.insert(0, str(ROOT))
    from tests.unveiling import Veil

    veil = Veil()
    veil.load(LOADED)
    from tracer.tables.loading import named_variables, required_facts

    required_facts()
    named_variables()
    veil.draw("torch", "functorch", "numpy", "pandas", "rich", "jinja2", "itables", "xxhash")
    gc.collect()
    gc.freeze()
    for one in weakref.finalize._registry.values():  # type: ignore[attr-defined]
        one.atexit = False  # they would take libraries down that are hidden
    reseed = veil.hidden["numpy.random"].seed
    while line := sys.stdin.readline():
        children = []
        for request in json.loads(line):
            child = os.fork()
            if child == 0:
                answers.close()
                reseed()  # from the machine's entropy, as Python's own generator does
                _become(request)
            children.append(child)
        answers.write(json.dumps(_ends(children)) + "\n")
        answers.flush()


def _ends(children: list[int]) -> list[int]:
    """What each child exited with; one that does not end is killed."""
    codes: dict[int, int] = {}
    late = time.monotonic() + SECONDS
    while len(codes) < len(children):
        for child in children:
            if child not in codes:
                ended, status = os.waitpid(child, os.WNOHANG)
                if ended:
                    codes[child] = os.waitstatus_to_exitcode(status)
                elif time.monotonic() > late:
                    os.kill(child, 9)
        time.sleep(0.004)
    return [codes[child] for child in children]


def _become(request: dict[str, object]) -> None:
    """Be the process that was asked for, and end as it does; but torch is not taken down piece by piece."""
    import threading

    for place, (name, flags) in enumerate(
        ((os.devnull, os.O_RDONLY), *((str(request[one]), os.O_WRONLY | os.O_CREAT) for one in ("out", "err")))
    ):
        opened = os.open(name, flags, 0o600)
        os.dup2(opened, place)
        os.close(opened)
    sys.stdin, sys.stdout = open(0), open(1, "w")  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, errors="backslashreplace")  # noqa: SIM115
    sys.__stdin__, sys.__stdout__, sys.__stderr__ = sys.stdin, sys.stdout, sys.stderr
    os.environ.clear()
    os.environ.update(request["env"])  # type: ignore[arg-type]
    os.chdir(str(request["cwd"]))
    code = _run([str(one) for one in request["args"]])  # type: ignore[attr-defined]
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _run(args: list[str]) -> int:
    """Run ``-c CODE``, ``-m MODULE`` or a script as ``__main__``; what it exits with, or 1 behind its traceback."""
    import runpy
    import types

    given = [one for one in os.environ.get("PYTHONPATH", "").split(os.pathsep) if one]
    sys.path[:] = [*given, *(one for one in sys.path if one not in (str(ROOT), *given))]
    sys.orig_argv = [sys.executable, *args]
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    sys.modules["__mp_main__"] = main  # so multiprocessing names it, as it is imported
    main.__builtins__ = __builtins__  # type: ignore[attr-defined]
    try:
        if args[0] == "-m":
            sys.path.insert(0, os.getcwd())
            sys.argv = args[1:]
            runpy._run_module_as_main(args[1])  # type: ignore[attr-defined]
        elif args[0] == "-c":
            sys.path.insert(0, "")
            sys.argv = ["-c", *args[2:]]
            exec(compile(args[1], "<string>", "exec"), main.__dict__)
        else:
            sys.path.insert(0, os.path.dirname(os.path.realpath(args[0])))
            sys.argv = args
            main.__file__ = os.path.abspath(args[0])
            exec(compile(Path(args[0]).read_bytes(), args[0], "exec"), main.__dict__)
    except SystemExit as leaving:
        if isinstance(leaving.code, str):
            print(leaving.code, file=sys.stderr)
        return leaving.code if isinstance(leaving.code, int) else int(leaving.code is not None)
    except BaseException as problem:
        trace = problem.__traceback__
        while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
            trace = trace.tb_next
        sys.excepthook(type(problem), problem.with_traceback(trace), trace)
        return 1
    return 0


if __name__ == "__main__":
    _serve()
