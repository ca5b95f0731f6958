"""Starting one run as a process of its own, and waiting for it."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any

import msgspec

from tracer.runner.interrupts import AGAIN
from tracer.runner.repeated import guard
from tracer.runner.repeated.task import Order

_CHILD = "tracer.runner.repeated.child"
#: Seconds between two looks at a signal, and at what a run has written so far.
_TICK, _LOOK = 0.1, 0.5
#: Seconds that a run has after control-C before it is told by another signal.
_GRACE = 2.0
#: Seconds after which a run that was told to end, and its guard with it, are killed.
_PATIENCE = guard.PATIENCE + 3.0
#: Ports that a program may open.
_LOWEST, _PORTS = 1024, 65536


def run(
    order: Order,
    variables: Mapping[str, str],
    number: int,
    has_parted: Callable[[], bool] | None = None,
    *,
    folder: Path | None = None,
    before_exec: Callable[[], None] | None = None,
) -> tuple[int, bool]:
    """Make the run of ``order``, the job's ``number``-th from 0, with ``variables`` besides those of this process.

    It runs in ``folder``, or where this process does; ``before_exec`` is called in the child, between fork and exec.
    The result is its exit code, and whether it was ended early: because ``has_parted`` said so, or by a signal. It gets
    this interpreter and its flags, its terminal, and its standard input from where that stands; of a pipe, which only
    one could read, nothing. When this process ends, however that happens, so does the run.
    """
    flags: list[str] = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
    line = [sys.executable, *flags, "-m", _CHILD, msgspec.json.encode(order).decode("utf-8")]
    environ = {**os.environ, **variables, **_apart(number)}
    stdin = None if _can_be_read_again() else subprocess.DEVNULL
    if not hasattr(os, "fork"):
        return wait(subprocess.Popen(line, env=environ, stdin=stdin, cwd=folder), -1, has_parted)
    reading, writing = os.pipe()
    try:
        try:
            child = subprocess.Popen(
                [*line, str(reading)],
                env=environ,
                stdin=stdin,
                cwd=folder,
                pass_fds=[reading],
                preexec_fn=before_exec,
            )
        finally:
            os.close(reading)
        return wait(child, writing, has_parted)
    finally:
        os.close(writing)  # the guard ends what still runs


def _apart(number: int) -> dict[str, str]:
    """What keeps this run of a distributed job from meeting another run's store, where that run's addresses stand.

    torchrun's agent keeps one store for all that its processes do (torch 2.13 has no keys of its own for an attempt),
    so every run but the first makes one itself, as without torchrun: rank 0 at the next port.
    """
    port = os.environ.get("MASTER_PORT", "")
    if number == 0 or "RANK" not in os.environ or not port.isdigit():
        return {}
    other = _LOWEST + (int(port) + number - _LOWEST) % (_PORTS - _LOWEST)
    return {"MASTER_PORT": str(other), "TORCHELASTIC_USE_AGENT_STORE": "False"}


def _can_be_read_again() -> bool:
    """Is standard input a terminal, or a file, which is put back to where it stood?"""
    try:
        if os.isatty(0):
            return True
        os.lseek(0, 0, os.SEEK_CUR)
    except OSError:
        return False
    return True


@contextmanager
def standard_input_kept() -> Iterator[None]:
    """Put standard input, where it is a file, back to where it stands now."""
    try:
        stands = None if os.isatty(0) else os.lseek(0, 0, os.SEEK_CUR)
    except OSError:
        stands = None
    try:
        yield
    finally:
        if stands is not None:
            os.lseek(0, stands, os.SEEK_SET)


def wait(
    child: subprocess.Popen[bytes], orders: int = -1, has_parted: Callable[[], bool] | None = None
) -> tuple[int, bool]:
    """Wait for ``child``: its exit code, and whether it was ended early.

    It is ended where ``has_parted`` says so, and where a signal is to end this process. What a look costs decides how
    often one is taken: at most a tenth of the time goes into looking. ``orders`` is the pipe that its guard reads.
    """
    with standard_input_kept(), _watched(child) as ends_within:
        pause, looked = _LOOK, time.monotonic()
        while True:
            code = ends_within(_TICK)
            if code is not None:
                return code, bool(ENDING.by and code)
            now = time.monotonic()
            if ENDING.by:
                return _end(child, orders, ENDING.number), True
            if has_parted is not None and now - looked >= pause:
                if has_parted():
                    return _end(child, orders), True
                looked = time.monotonic()
                pause = max(_LOOK, 10 * (looked - now))


@contextmanager
def _watched(child: subprocess.Popen[bytes]) -> Iterator[Callable[[float], int | None]]:
    """What waits so many seconds at most for ``child`` to end, and gives its exit code, or ``None``.

    ``Popen.wait`` with a timeout looks up to 2,000 times a second; Linux tells when a process has ended.
    """
    process = -1
    with suppress(AttributeError, OSError):  # another system; an older kernel, or a sandbox that forbids it
        process = os.pidfd_open(child.pid)

    def ends_within(seconds: float) -> int | None:
        if process >= 0:
            select.select([process], [], [], seconds)
            return child.poll()
        with suppress(subprocess.TimeoutExpired):
            return child.wait(seconds)
        return None

    try:
        yield ends_within
    finally:
        if process >= 0:
            os.close(process)


def _end(child: subprocess.Popen[bytes], orders: int, number: int = signal.SIGTERM) -> int:
    """Have ``child`` end, and its guard make it where it does not: one that waits for other ranks runs no handler."""
    if number == signal.SIGINT and _is_in_the_foreground():  # the keyboard has told it
        try:
            return child.wait(_GRACE)
        except subprocess.TimeoutExpired:
            number = signal.SIGTERM
    if orders < 0:
        child.send_signal(number)
    else:
        with suppress(BrokenPipeError):  # it has just ended
            os.write(orders, bytes([number]))
    try:
        return child.wait(_PATIENCE)
    except subprocess.TimeoutExpired:
        child.kill()
        return child.wait()


def _is_in_the_foreground() -> bool:
    """Does what is typed at the terminal, control-C too, go to this process and its children?"""
    try:
        with open("/dev/tty", "rb", buffering=0) as terminal:
            return os.tcgetpgrp(terminal.fileno()) == os.getpgrp()
    except OSError:
        return False


class Ending:
    """The signals that are to end this process: a handler notes them, and the loop that waits for a run acts."""

    def __init__(self) -> None:
        self.number = 0
        self._since = 0.0

    @property
    def by(self) -> str:
        """``ended by SIGTERM``; empty while nothing is to end."""
        return f"ended by {signal.Signals(self.number).name}" if self.number else ""

    @contextmanager
    def noted(self) -> Iterator[None]:
        """Note such signals in here. One that comes a second after the first does what it would have done before.

        Those that are ignored, or that somebody else handles, are left alone, and all are off the main thread.
        """
        before: dict[int, Any] = {}

        def note(number: int, frame: FrameType | None) -> None:
            if not self.number:
                self.number, self._since = number, time.monotonic()
            elif time.monotonic() - self._since > AGAIN:  # ``timeout`` sends each signal twice
                put_back()
                os.kill(os.getpid(), number)

        def put_back() -> None:
            for number, handler in before.items():
                if signal.getsignal(number) is note:
                    signal.signal(number, handler)

        self.number = 0
        if threading.current_thread() is threading.main_thread():
            numbers = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
            ours = (signal.SIG_DFL, signal.default_int_handler)
            before.update({number: signal.getsignal(number) for number in numbers if signal.getsignal(number) in ours})
            for number in before:
                signal.signal(number, note)
        try:
            yield
        finally:
            put_back()
            self.number = 0


#: Of this process.
ENDING = Ending()
