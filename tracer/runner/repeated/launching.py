"""Starts a run in a process of its own and waits for it."""

from __future__ import annotations

import math
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from types import FrameType

import msgspec

from tracer.recording.options import UNSHAKEN, LineOptions, PlaceOptions
from tracer.runner.interrupts import AGAIN, handled
from tracer.runner.repeated.declared import Circumstance, make_before_the_script
from tracer.runner.script import Task
from tracer.trace.records import FactValue

#: Sizes of small objects, in bytes, and bytes of each size among which the holes are.
_SIZES, _BYTES = range(48, 513, 16), 3 << 14
#: The default interval times these.
_INTERVALS = (1.0, 0.2, 3.0)
_HEADER = sys.getsizeof(b"")
#: Between these blocks are the holes, for as long as the process lives.
_KEPT: list[bytes] = []


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """One run of a task; a child process reads it as its only argument."""

    task: Task
    output: str
    varied: Circumstance | None = None
    held: tuple[Circumstance, ...] = ()
    children: bool = False
    """Record child processes too."""
    settings: dict[str, FactValue] = {}
    """Applied before the script's first line; variables among them are in the environment already."""
    planned: dict[str, FactValue] = {}
    """Settings of the first run's plan, for a run that holds them."""
    magnitudes: bool = False
    """Take magnitudes instead of digests."""
    places: PlaceOptions = UNSHAKEN
    """The options of magnitudes."""
    replayed: tuple[str, ...] | None = None
    """Overloads to replay on the spot, without digests; ``None`` for an ordinary run."""
    lines: LineOptions | None = None
    """How the program's lines are followed, if they are."""
    is_plain: bool = False
    """Record nothing: only what is printed and written is kept."""
    number: int = 0
    """The number of the run in its series."""
    temporary: str = ""
    """The folder for temporary files, if not the system's."""
    scratch: str = ""
    """The job's own folder, removed when the job is gone."""


def change_circumstances(order: Order) -> None:
    """Make settings, and vary or hold circumstances in this process."""
    make_before_the_script(order.settings)
    if Circumstance.ADDRESSES not in order.held:
        move_objects(order.number)
    switch_threads_otherwise(order.number)
    varied = None if order.varied is None else order.varied.varied
    for change in (*(circumstance.held for circumstance in order.held), varied):
        if change is not None and change.inside is not None:
            change.inside(order.planned)


def change_in_child(role: str, task: msgspec.Raw) -> None:
    """``change_circumstances`` in a child process that was not forked, as Python starts there."""
    change_circumstances(msgspec.json.decode(task, type=Order))


def move_objects(number: int) -> None:
    """Put the program's objects elsewhere than other runs do; run 0 has them where they come.

    Runs that are started one after the other often lay out their objects alike, down to the order of a set of them, and
    agree although the next one would not. So Python's memory for small objects is given holes, in which the program's
    objects come to lie. Tensors and arrays have their numbers in other memory, and are aligned as they were.
    """
    if not number:
        return
    chosen, kept = random.Random(number), []
    for size in _SIZES:
        blocks = [bytes(size - _HEADER) for _ in range(_BYTES // size)]
        chosen.shuffle(blocks)
        kept += blocks[::2]
        while blocks:  # in this order the holes are filled later
            blocks.pop()
    _KEPT.extend(kept)


def switch_threads_otherwise(number: int) -> None:
    """Let Python switch threads sooner or later than in run ``number - 1``; as ever in run 0."""
    sys.setswitchinterval(sys.getswitchinterval() * _INTERVALS[number % len(_INTERVALS)])


# --- starting a run, and waiting for it ----------------------------------------------------------------------

_CHILD = "tracer.runner.repeated.child"
#: The exit code of a child that could not start its script; scripts are unlikely to use it.
COULD_NOT_BEGIN = 122
#: Seconds between two checks for a signal.
_TICK = 0.1
#: Seconds that a run has after control-C before it gets another signal.
_GRACE = 2.0
#: Seconds that a run has to end by itself once it was told to.
_PATIENCE = 4.0
#: Seconds that what it started has then.
_PATIENCE_WITH_CHILDREN = 1.0
#: Ports that a program may open.
_LOWEST, _PORTS = 1024, 65536


def run(
    order: Order,
    variables: Mapping[str, str],
    number: int,
    until: float = math.inf,
    *,
    folder: Path | None = None,
    python: str = sys.executable,
    before_exec: Callable[[], None] | None = None,
    prints: Path | None = None,
) -> tuple[int, bool]:
    """Make the run of ``order``, the job's ``number``-th from 0, with ``variables`` added to the environment.

    It runs in ``folder``, or in this process's working directory; ``before_exec`` is called in the child, between fork
    and exec; what it prints goes to the file ``prints``, if there is one. Returns its exit code, and whether it was
    ended early: because the monotonic clock reached ``until``, or by a signal.
    The run inherits the interpreter and its flags, the terminal, and standard input at its current position, but no
    pipe, which only one run could read. When this process ends, for whatever reason, so does the run.
    """
    flags: list[str] = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
    line = [python, *flags, "-m", _CHILD, msgspec.json.encode(order).decode("utf-8")]
    environ = {**os.environ, **variables, **_own_store(number)}
    can_be_read_again = os.isatty(0) or _input_position() is not None
    stdin = None if can_be_read_again else subprocess.DEVNULL
    if hasattr(os, "fork"):
        line.append(str(os.getpid()))
    with nullcontext() if prints is None else open(prints, "wb") as stream:
        errors = None if stream is None else subprocess.STDOUT
        child = subprocess.Popen(
            line, env=environ, stdin=stdin, stdout=stream, stderr=errors, cwd=folder, preexec_fn=before_exec
        )
    return wait(child, until)


def _own_store(number: int) -> dict[str, str]:
    """Variables that give this run of a distributed job a store of its own, without the addresses of earlier runs.

    torchrun's agent keeps one store for all its processes (torch 2.13 does not prefix keys by attempt), so every run
    but the first creates its own, as without torchrun: rank 0 at the next port.
    """
    port = os.environ.get("MASTER_PORT", "")
    if number == 0 or "RANK" not in os.environ or not port.isdigit():
        return {}
    other = _LOWEST + (int(port) + number - _LOWEST) % (_PORTS - _LOWEST)
    return {"MASTER_PORT": str(other), "TORCHELASTIC_USE_AGENT_STORE": "False"}


def _input_position() -> int | None:
    """The position of standard input if it is a file; ``None`` for a terminal or a pipe."""
    with suppress(OSError):
        return None if os.isatty(0) else os.lseek(0, 0, os.SEEK_CUR)
    return None


def wait(child: subprocess.Popen[bytes], until: float = math.inf) -> tuple[int, bool]:
    """Wait for ``child``: its exit code, and whether ``until`` or a signal to this process ended it early."""
    position = _input_position()
    try:
        while True:
            with suppress(subprocess.TimeoutExpired):
                code = child.wait(_TICK)
                return code, bool(ENDING.by and code)
            if ENDING.by:
                return _end(child, ENDING.number), True
            if time.monotonic() > until:
                return _end(child), True
    finally:  # where standard input is a file, the next run begins there too
        if position is not None:
            os.lseek(0, position, os.SEEK_SET)


def _end(child: subprocess.Popen[bytes], number: int = signal.SIGTERM) -> int:
    """End ``child``, and on Linux what it started (loader workers, spawned ranks): asked first, then made to."""
    if number == signal.SIGINT:  # a terminal has sent it to the child as well
        try:
            return child.wait(_GRACE)
        except subprocess.TimeoutExpired:
            number = signal.SIGTERM
    started = _below(child.pid)
    child.send_signal(number)
    try:
        return child.wait(_PATIENCE)
    except subprocess.TimeoutExpired:  # one that waits for other ranks runs no handler
        started |= _below(child.pid)
        child.kill()
        return child.wait()
    finally:
        for number in (signal.SIGTERM, signal.SIGKILL):
            deadline = time.monotonic() + _PATIENCE_WITH_CHILDREN
            for process, _ in started & _running().keys():
                with suppress(OSError):
                    os.kill(process, number)
            while started & _running().keys() and time.monotonic() < deadline:
                time.sleep(0.01)


def _running() -> dict[tuple[int, int], int]:
    """Each process's number and the time of its start, with its parent, as Linux lists them; empty elsewhere."""
    running: dict[tuple[int, int], int] = {}
    for name in os.listdir("/proc") if os.path.isdir("/proc/self") else ():
        with suppress(OSError, ValueError):
            with open(f"/proc/{int(name)}/stat", "rb") as stream:
                fields = stream.read().rpartition(b")")[2].split()
            if fields[0] != b"Z":
                running[int(name), int(fields[19])] = int(fields[1])
    return running


def _below(process: int) -> set[tuple[int, int]]:
    """The processes that ``process`` started, and that those did."""
    running = _running()
    found: list[tuple[int, int]] = [(process, 0)]
    for parent, _ in found:
        found += (each for each, of in running.items() if of == parent)
    return set(found[1:])


class Ending:
    """The signals that ask this process to end: a handler notes them, the loop that waits for a run acts on them."""

    def __init__(self) -> None:
        self.number = 0
        self._since = 0.0

    @property
    def by(self) -> str:
        """``ended by SIGTERM``; empty if no signal came."""
        return f"ended by {signal.Signals(self.number).name}" if self.number else ""

    @contextmanager
    def handling_signals(self) -> Iterator[None]:
        """Note such signals within this context. A second one, a while after the first, has its usual effect.

        Signals that are ignored or handled by somebody else are left alone; off the main thread, all of them.
        """
        numbers = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
        put_back: Callable[[], None]

        def note(number: int, frame: FrameType | None) -> None:
            if not self.number:
                self.number, self._since = number, time.monotonic()
            elif time.monotonic() - self._since > AGAIN:  # ``timeout`` sends each signal twice
                put_back()
                os.kill(os.getpid(), number)

        self.number = 0
        try:
            with handled(numbers, note, signal.SIG_DFL, signal.default_int_handler) as put_back:
                yield
        finally:
            self.number = 0


#: The signals to this process.
ENDING = Ending()
