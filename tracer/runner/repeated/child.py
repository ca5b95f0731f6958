"""The process of one run: ``python -m tracer.runner.repeated.child ORDER [PARENT]``, which becomes the script."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import tempfile
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from tracer.errors import TracerError
from tracer.plain import say
from tracer.recording.lines.recording import begun_lines
from tracer.recording.options import RecordOptions, Trials
from tracer.runner.interrupts import end_by
from tracer.runner.outcome import ScriptRecording
from tracer.runner.ranks import current_rank
from tracer.runner.repeated.launching import COULD_NOT_BEGIN, Order, change_circumstances, change_in_child
from tracer.runner.repeated.left_behind import LeftBehind
from tracer.runner.running import run_script
from tracer.runner.script import prepare

#: How often a call is replayed on the spot before its kernel is blamed.
REPLAYS = 10


def main(order: Order) -> int:
    """Run an order; returns the script's exit code."""
    if order.temporary:
        tempfile.tempdir = None
        os.environ.update(dict.fromkeys(("TMPDIR", "TEMP", "TMP"), order.temporary))
    if len(sys.argv) > 2:
        _ends_with(int(sys.argv[2]))
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
            lines = None if order.lines is None else begun_lines(Path(order.output), order.lines)
            exec(script.code, vars(script.main))
            if lines is not None:
                lines.stop()
            return 0
        recording = ScriptRecording(
            order.task,
            Path(order.output),
            rank=current_rank(),
            options=RecordOptions(**wanted, children=order.children, lines=order.lines),
            left_behind=tuple if left is None else left.states,
            is_quiet=True,
            at_start=(f"{change_in_child.__module__}:{change_in_child.__qualname__}", order),
        )
        return run_script(recording)
    except TracerError as problem:
        say(f"tracer: error: {problem}")
        return COULD_NOT_BEGIN
    finally:
        if left is not None and order.is_plain:
            list(left.states())
        if left is not None and order.scratch and (left.left.lines or left.left.files):
            Path(order.scratch, f"{Path(order.output).stem}.left").write_bytes(msgspec.json.encode(left.left))


#: Of Linux' ``prctl``.
_PDEATHSIG = 1


def _ends_with(parent: int) -> None:
    """Let Linux kill this process when ``parent`` is gone, as ``SIGKILL`` runs no handler: it would keep the GPU."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    try:
        os.kill(parent, 0)
    except ProcessLookupError:
        os._exit(1)


if __name__ == "__main__":
    order = msgspec.json.decode(sys.argv[1], type=Order)
    code = main(order)
    if code < 0:
        with suppress(OSError, ValueError, AttributeError):  # the script may have closed or replaced it
            sys.stdout.flush()
        end_by(-code)
    if order.task.exit_after_steps and any(thread.daemon for thread in threading.enumerate()):
        sys.stdout.flush()  # Python ends such threads in the middle of an op, which aborts the process
        os._exit(code)
    sys.exit(code)
