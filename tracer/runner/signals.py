"""Writing the trace when a signal is about to end the process, and not being cut short while it is written."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType

from tracer.plain import say
from tracer.runner.interrupts import AGAIN, end_by
from tracer.runner.outcome import ScriptRecording

#: Sent by job schedulers, torchrun and a closing terminal; they end a Python process at once.
DEADLY = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))


@contextmanager
def trace_before_dying(recording: ScriptRecording) -> Iterator[None]:
    """Have ``recording`` written before such a signal ends the process as it would have without us.

    Nothing is raised into the script, whose ``finally`` blocks would not have run either. A signal that the
    script or its parent handles or ignores is left alone; a forked child just dies.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    process = os.getpid()
    writing_since = 0.0

    def write_and_die(number: int, frame: FrameType | None) -> None:
        nonlocal writing_since
        if os.getpid() != process:
            end_by(number)
        elif recording.is_writing:
            # ``timeout`` and schedulers send a signal twice at once; one that comes later is for a process that hangs.
            if recording.waiting and time.monotonic() - writing_since > AGAIN:
                end_by(number)
            recording.waiting.append(number)
            writing_since = writing_since or time.monotonic()
        else:
            recording.is_writing = True
            recording.waiting.append(number)
            writing_since = time.monotonic()
            try:
                say(recording.finish(f"ended by {signal.Signals(number).name}", dying=True))
            except Exception as problem:
                with suppress(Exception):  # the script's stream may be in the middle of a line
                    say(f"tracer: error: the trace was not written as asked: {problem}")
            finally:
                end_by(number)

    ours = [number for number in DEADLY if signal.getsignal(number) is signal.SIG_DFL]
    for number in ours:
        signal.signal(number, write_and_die)
    try:
        yield
    finally:
        for number in ours:
            if signal.getsignal(number) is write_and_die:
                signal.signal(number, signal.SIG_DFL)
        for number in recording.waiting:
            os.kill(os.getpid(), number)
