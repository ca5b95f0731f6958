"""Starting one run as a process of its own, and waiting for it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import FrameType

import msgspec

from tracer.runner.repeated.task import Order

_CHILD = "tracer.runner.repeated.child"
#: Seconds between two looks at what a run has written so far; how long one that was asked to end may take.
_LOOK = 0.5
_PATIENCE = 20.0
#: Ports that a program may open.
_LOWEST, _PORTS = 1024, 65536


def start(order: Order, variables: Mapping[str, str], number: int) -> subprocess.Popen[bytes]:
    """Start the child of ``order``, the job's ``number``-th from 0, with ``variables`` besides those of this process.

    It gets this interpreter and its flags, its terminal, and its standard input from where that stands; of a pipe,
    which only one could read, nothing.
    """
    flags: list[str] = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
    environ = {**os.environ, **variables, **_apart(number)}
    return subprocess.Popen(
        [sys.executable, *flags, "-m", _CHILD, msgspec.json.encode(order).decode("utf-8")],
        env=environ,
        stdin=None if _can_be_read_again() else subprocess.DEVNULL,
    )


def run(
    order: Order, variables: Mapping[str, str], number: int, has_parted: Callable[[], bool] | None = None
) -> tuple[int, bool]:
    """Make the run of ``order``: its exit code, and whether it was ended because ``has_parted`` said so."""
    return wait(start(order, variables, number), has_parted)


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


def wait(child: subprocess.Popen[bytes], has_parted: Callable[[], bool] | None = None) -> tuple[int, bool]:
    """Wait for ``child``: its exit code, and whether it was ended because ``has_parted`` said so.

    What a look costs decides how often one is taken: at most a tenth of the time goes into looking. A signal that is to
    end this process ends the child first, which then writes what it has.
    """
    with standard_input_kept(), _passing_on(child):
        pause = _LOOK
        while has_parted is not None:
            try:
                return child.wait(pause), False
            except subprocess.TimeoutExpired:
                began = time.monotonic()
                if has_parted():
                    return _end(child), True
                pause = max(_LOOK, 10 * (time.monotonic() - began))
        return child.wait(), False


def _end(child: subprocess.Popen[bytes], number: int = signal.SIGTERM) -> int:
    """Ask ``child`` to end, and make it where it does not: one that waits for other ranks runs no handler."""
    child.send_signal(number)
    try:
        return child.wait(_PATIENCE)
    except subprocess.TimeoutExpired:
        child.kill()
        return child.wait()


@contextmanager
def _passing_on(child: subprocess.Popen[bytes]) -> Iterator[None]:
    """Hand the signals that end a job to ``child``; control-C reaches it by itself, from the terminal."""

    def pass_on(number: int, frame: FrameType | None) -> None:
        _end(child, number)
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    numbers = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    try:
        before = [(number, signal.signal(number, pass_on)) for number in numbers]
    except ValueError:  # not the main thread
        before = []
    try:
        yield
    except BaseException:
        if child.poll() is None:
            _end(child)
        raise
    finally:
        for number, handler in before:
            signal.signal(number, handler)
