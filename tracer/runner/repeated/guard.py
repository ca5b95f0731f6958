"""The process between ``tracer repeat`` and one of its runs, which ends the run when ``repeat`` says so or is gone.

``SIGKILL`` runs no handler, so ``repeat`` cannot end its run when it is killed itself, and the training would keep its
GPU. The guard reads a pipe whose other end ``repeat`` alone holds. It also ends what the run started (loader workers,
spawned ranks), which on Linux become its own children as their parents end. Where ``repeat`` is gone it removes what
that would have removed.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from tracer.runner.interrupts import end_by
from tracer.runner.repeated.scratch import leave

#: Seconds that a run has to end by itself once it was told to, and then what it started.
PATIENCE, _PATIENCE_WITH_CHILDREN = 4.0, 1.0
#: What a terminal, a scheduler or ``torchrun`` sends to all processes of a job: the run gets it without its guard.
_SENT_TO_ALL = (signal.SIGINT, signal.SIGTERM, *([signal.SIGHUP] if hasattr(signal, "SIGHUP") else []))
#: Of Linux' ``prctl``.
_PDEATHSIG, _CHILD_SUBREAPER = 1, 36


def guard(orders: int, left_behind: str = "") -> None:
    """Fork: the child returns from here and becomes the script, the parent waits for it and leaves as it left.

    ``orders`` is a pipe: a byte in it is the number of a signal for the script, its end says that ``repeat`` is gone.
    ``left_behind`` is the scratch folder of ``repeat``, which is left as that would leave it if it is gone.
    """
    masked = signal.pthread_sigmask(signal.SIG_BLOCK, _SENT_TO_ALL)
    parent = os.getpid()
    _prctl(_CHILD_SUBREAPER, 1)
    script = os.fork()
    if script == 0:
        _prctl(_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)
        os.close(orders)
        signal.pthread_sigmask(signal.SIG_SETMASK, masked)
        return
    status = 1 << 8
    try:
        for number in _SENT_TO_ALL:
            signal.signal(number, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_SETMASK, masked)
        status, was_told, is_alone = _wait(script, orders)
        if was_told:
            _end_descendants()
        if left_behind and (is_alone or _is_closed(orders)):
            leave(Path(left_behind))
    finally:
        _leave_as(status)


def _wait(script: int, orders: int) -> tuple[int, bool, bool]:
    """Wait for ``script`` and pass on what ``orders`` says: its status, whether it was told to end, and whether
    ``repeat`` is gone.
    """
    ended, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)  # its number is written to ``wake``
    sources, deadline = [orders, ended], None
    while True:
        while (done := os.waitpid(-1, os.WNOHANG))[0]:
            if done[0] == script:
                return done[1], deadline is not None, orders not in sources
        left = None if deadline is None else max(0.0, deadline - time.monotonic())
        ready, _, _ = select.select(sources, [], [], left)
        if ended in ready:
            os.read(ended, 4096)
        if orders in ready:
            order = os.read(orders, 1)
            if not order:
                sources.remove(orders)
            os.kill(script, order[0] if order else signal.SIGTERM)
            deadline = deadline or time.monotonic() + PATIENCE
        if deadline is not None and time.monotonic() >= deadline:
            os.kill(script, signal.SIGKILL)


def _is_closed(orders: int) -> bool:
    """Return whether the pipe's other end is closed, with nothing left to read."""
    ready, _, _ = select.select([orders], [], [], 0)
    return bool(ready) and not os.read(orders, 1)


def _end_descendants() -> None:
    """End what the run started and left: asked first, then made to."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        for process in _descendants():
            with suppress(OSError):
                os.kill(process, number)
        deadline = time.monotonic() + _PATIENCE_WITH_CHILDREN
        while any(_descendants()) and time.monotonic() < deadline:
            with suppress(ChildProcessError):
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
            time.sleep(0.01)


def _descendants() -> Iterator[int]:
    """The processes below this one, which Linux lists in ``/proc``; none where there is no such list."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc") if os.path.isdir("/proc/self") else ():
        with suppress(OSError, ValueError):
            with open(f"/proc/{int(name)}/stat", "rb") as stream:
                parent = int(stream.read().rpartition(b")")[2].split()[1])
            children.setdefault(parent, []).append(int(name))
    below = [os.getpid()]
    for process in below:
        below += children.get(process, ())
    yield from below[1:]


def _prctl(option: int, value: int) -> None:
    """Set an attribute of this process where the system is Linux."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def _leave_as(status: int) -> None:
    """End as the script did, by the same signal where it was one."""
    if os.WIFSIGNALED(status):
        import resource

        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # the script has left its core already
        end_by(os.WTERMSIG(status))
    os._exit(os.waitstatus_to_exitcode(status))
