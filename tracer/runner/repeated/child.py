"""The process of one run: ``python -m tracer.runner.repeated.child ORDER [PIPE]``, which becomes the script.

With a pipe, whose other end ``repeat`` alone holds, it forks first, and the parent guards the run: ``SIGKILL``
runs no handler, so a run would outlive its ``repeat`` and keep the GPU.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from tracer.errors import TracerError
from tracer.plain import say
from tracer.recording.options import RecordOptions, Trials
from tracer.runner.interrupts import end_by
from tracer.runner.ranks import current_rank
from tracer.runner.repeated.folder import leave
from tracer.runner.repeated.launching import COULD_NOT_BEGIN, PATIENCE, Order, change_circumstances, change_in_child
from tracer.runner.repeated.left_behind import LeftBehind
from tracer.runner.running import run_script
from tracer.runner.script import prepare

#: How often a call is replayed on the spot before its kernel is blamed.
REPLAYS = 10


def main() -> int:
    """Run the order in the first argument; returns the script's exit code."""
    order = msgspec.json.decode(sys.argv[1], type=Order)
    if order.temporary:
        tempfile.tempdir = None
        os.environ.update(dict.fromkeys(("TMPDIR", "TEMP", "TMP"), order.temporary))
    if len(sys.argv) > 2:
        guard(int(sys.argv[2]), order.scratch)
    change_circumstances(order)
    left = None if order.magnitudes else LeftBehind(without=os.path.dirname(order.output))
    wanted: dict[str, Any] = {"values": True}
    if order.replayed is not None:
        wanted = {"trials": Trials(REPLAYS, all=True, ops=order.replayed)}
    elif order.magnitudes:
        wanted = {"magnitudes": True, "places": order.places, "eager": order.places.shake is not None}
    try:
        if order.is_plain:
            script = prepare(order.task.target, order.task.args, as_module=order.task.as_module)
            sys.modules["__main__"] = script.main
            try:
                exec(script.code, vars(script.main))
            finally:
                assert left is not None
                list(left.states())
            return 0
        return run_script(
            order.task,
            output=Path(order.output),
            rank=current_rank(),
            options=RecordOptions(**wanted, children=order.children, lines=order.lines),
            left_behind=tuple if left is None else left.states,
            quiet=True,
            at_start=(change_in_child, order),
        )
    except TracerError as problem:
        say(f"tracer: error: {problem}")
        return COULD_NOT_BEGIN
    finally:
        if left is not None and order.scratch and (left.left.lines or left.left.files):
            Path(order.scratch, f"{Path(order.output).stem}.left").write_bytes(msgspec.json.encode(left.left))


#: Seconds that what a run started has to end by itself.
_PATIENCE_WITH_CHILDREN = 1.0
#: What a terminal, a scheduler or ``torchrun`` sends to all processes of a job: the run gets it without its guard.
_SENT_TO_ALL = (signal.SIGINT, signal.SIGTERM, *([signal.SIGHUP] if hasattr(signal, "SIGHUP") else []))
#: Of Linux' ``prctl``.
_PDEATHSIG, _CHILD_SUBREAPER = 1, 36


def guard(orders: int, left_behind: str = "") -> None:
    """Fork: the child returns from here and becomes the script, the parent waits for it and leaves as it left.

    It also ends what the run started (loader workers, spawned ranks), which on Linux become its own children as their
    parents end.

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
        is_alone = is_alone or bool(select.select([orders], [], [], 0)[0] and not os.read(orders, 1))
        if left_behind and is_alone:
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


if __name__ == "__main__":
    code = main()
    if code < 0:
        with suppress(OSError, ValueError, AttributeError):  # the script may have closed or replaced it
            sys.stdout.flush()
        end_by(-code)
    sys.exit(code)
