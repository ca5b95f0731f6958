"""Processes that begin with torch in memory: a server that imports it once and forks for each command.

A test that starts ``python`` spends nine tenths of its time on ``import torch``. What was loaded is hidden until it is
imported (``unveiling``): a script finds itself in a process that has imported nothing. What needs an interpreter
that is truly new (for its hash seed, variables that torch reads as it loads, what an import costs) starts one.

The server computes nothing, so that no thread of a library runs in it when it forks. The workers of a session share
one: it forks a server for each that asks, so that a library is loaded once.
"""

from __future__ import annotations

import atexit
import json
import os
import select
import socket
import subprocess
import sys
import tempfile
import time
import traceback
import weakref
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from _pytest.config import default_plugins

if TYPE_CHECKING:
    from tests.unveiling import Veil

ROOT = Path(__file__).parent.parent
SECONDS = 60


class Finished(NamedTuple):
    """What a command left behind."""

    code: int
    out: str
    err: str


class Forking:
    """The server: of this process, or the one that all workers of a session share. It starts with the first command."""

    def __init__(self) -> None:
        self._stream: BinaryIO | None = None
        self._server: Server | None = None
        self._shared = ""

    def share(self, address: str) -> None:
        """Ask the server at ``address``, which another process keeps; empty: one of this process."""
        self._shared = address

    def address(self, *, loads: bool = False) -> str:
        """Where the server is asked; ``loads``: many will ask, so that it need not wait for the first."""
        if not self._shared and self._server is None:
            self._server = Server(loads=loads)
            atexit.register(self._server.stop)
        return self._shared or self._server.address  # type: ignore[union-attr]

    def run(self, args: Sequence[str], *, cwd: Path, env: Mapping[str, str], anew: str = "") -> Finished:
        """``python ARGS`` in a child that has torch in memory, and of package ``anew`` nothing."""
        return self.together([args], cwd=cwd, envs=[env], anew=anew)[0]

    def together(
        self, commands: Sequence[Sequence[str]], *, cwd: Path, envs: Sequence[Mapping[str, str]], anew: str = ""
    ) -> list[Finished]:
        """Several at the same time, as ranks are that wait for one another."""
        stream = self._connected()
        with tempfile.TemporaryDirectory() as folder:
            names = [(Path(folder, f"out{number}"), Path(folder, f"err{number}")) for number in range(len(commands))]
            requests = [
                {"args": list(args), "cwd": str(cwd), "env": dict(env), "out": str(out), "err": str(err), "anew": anew}
                for args, env, (out, err) in zip(commands, envs, names, strict=True)
            ]
            stream.write(json.dumps(requests).encode("utf-8") + b"\n")
            stream.flush()
            answer = stream.readline()
            if not answer:
                self._stream = None
            assert answer, "the server of forks ended"
            return [
                Finished(code, out.read_text(encoding="utf-8"), err.read_text(encoding="utf-8"))
                for code, (out, err) in zip(json.loads(answer), names, strict=True)
            ]

    def _connected(self) -> BinaryIO:
        if self._stream is None:
            with socket.socket(socket.AF_UNIX) as ours:
                ours.connect(self.address())
                self._stream = ours.makefile("rwb")
        return self._stream


class Server:
    """A process that ends when its keeper does, however that ends: it reads a pipe that nobody else writes to."""

    def __init__(self, *, loads: bool = False) -> None:
        self.address = os.path.join(tempfile.mkdtemp(prefix="forks-"), "socket")
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(self.address)
            listening.listen()  # from here on a command waits until there is somebody to take it
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.forking", str(listening.fileno()), *(["load"] if loads else [])],
                cwd=ROOT,
                env={**os.environ, "TORCH_WARM_POOL": "0"},  # Inductor would start processes as it loads
                stdin=subprocess.PIPE,
                pass_fds=[listening.fileno()],
            )

    def stop(self) -> None:
        """End it."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


FORKING = Forking()

#: What scripts, ``tracer`` and torch itself import sooner or later.
LOADED = (
    *("torch", "torch.distributed", "torch.utils.data", "torch._dynamo", "torch._inductor.compile_fx"),
    *("numpy", "pandas"),
    *("tracer.cli.run", "tracer.cli.report", "tracer.cli.doctor", "tracer.recording.recorder", "tracer.runner.running"),
    *("tracer.session", "tracer.report.files.formats", "tracer.recording.values.recording"),
    *("tracer.divergence.repeated", "tracer.judging.judgement", "tracer.report"),
    *(f"_pytest.{one}" for one in default_plugins),
    *(f"tracer.runner.repeated.circumstances.{one}" for one in ("arrival", "clock", "host", "memory", "planned")),
    *("tracer.recording.compiled.inductor", "tracer.recording.process.setting_events", "tracer.runner.window"),
    *("tracer.recording.randomness.worker_draws", "tracer.reproduction.making", "tracer.runner.repeated.task"),
    *("tracer.recording.randomness.loaders", "tracer.tables.compilers"),
    *("tracer.report.terminal.text", "tracer.report.page.html", "tracer.gate.gating"),
    *("multiprocessing.popen_fork", "multiprocessing.queues", "multiprocessing.synchronize", "encodings.utf_8_sig"),
)
#: Standard input: what the keeper holds the other end of.
KEEPER = 0


def _serve(listening: socket.socket, loads: bool) -> None:
    """Load at once or when somebody asks for the first time, and fork a server for each who does."""
    os.dup2(2, 1)  # what an import prints is no answer
    veil = _loaded() if loads else None
    while KEEPER not in select.select([KEEPER, listening], [], [])[0]:
        if veil is None:
            veil = _loaded()
        asking, _ = listening.accept()
        if os.fork() == 0:
            listening.close()
            try:
                _answer(asking, veil)
            except BaseException:
                traceback.print_exc()
            os._exit(0)
        asking.close()
        os.waitpid(-1, os.WNOHANG)
    address = Path(listening.getsockname())
    address.unlink(missing_ok=True)
    address.parent.rmdir()


def _loaded() -> Veil:
    """Everything in memory, and out of sight."""
    import gc

    gc.disable()  # of what an import makes, nothing is garbage
    sys.path[:] = [one for one in sys.path if one not in ("", str(ROOT))]
    sys.path.insert(0, str(ROOT))
    from tests import huge_pages
    from tests.unveiling import Veil

    veil = Veil()
    veil.load(LOADED)
    from tracer.tables.loading import named_variables, required_facts

    required_facts()
    named_variables()
    for one in ((), [], iter(()), (each for each in ())):
        Counter(one)  # asks whether its class is a mapping, which is remembered: every mapping there is has to say no
    veil.draw("torch", "torch._dynamo", "functorch", "numpy", "pandas", "rich", "jinja2", "itables", "xxhash")
    gc.freeze()
    gc.enable()
    for one in weakref.finalize._registry.values():  # type: ignore[attr-defined]
        one.atexit = False  # they would take libraries down that are hidden
    huge_pages.gather()
    return veil


def _answer(asking: socket.socket, veil: Veil) -> None:
    """Fork for each command that is asked for, until nobody asks any more or the keeper is gone."""
    reseed = veil.hidden["numpy.random"].seed
    stream = asking.makefile("rwb")
    while KEEPER not in select.select([KEEPER, asking], [], [])[0] and (line := stream.readline()):
        children = []
        for request in json.loads(line):
            child = os.fork()
            if child == 0:
                stream.close()
                asking.close()
                reseed()  # from the machine's entropy, as Python's own generator does
                if request["anew"]:
                    veil.forget(request["anew"])
                _become(request)
            children.append(child)
        stream.write(json.dumps(_ends(children)).encode("utf-8") + b"\n")
        stream.flush()


def _ends(children: list[int]) -> list[int]:
    """What each child exited with; one that does not end is killed, and all are when the keeper is gone."""
    codes: dict[int, int] = {}
    late = time.monotonic() + SECONDS
    while len(codes) < len(children):
        for child in children:
            if child not in codes:
                ended, status = os.waitpid(child, os.WNOHANG)
                if ended:
                    codes[child] = os.waitstatus_to_exitcode(status)
        if len(codes) < len(children) and (select.select([KEEPER], [], [], 0.003)[0] or time.monotonic() > late):
            for child in children:
                if child not in codes:
                    os.kill(child, 9)
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
    found = (*given, *(one for one in sys.path if one != str(ROOT)), str(ROOT))  # an installation finds us last
    sys.path[:] = dict.fromkeys(found)
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
    _serve(socket.socket(fileno=int(sys.argv[1])), loads="load" in sys.argv[2:])
