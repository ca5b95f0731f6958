"""Writing the trace when a signal is about to end the process."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from tracer.plain import say
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

    def write_and_die(number: int, frame: FrameType | None) -> None:
        if recording.is_writing and os.getpid() == process:
            recording.waiting.append(number)
            return
        signal.signal(number, signal.SIG_DFL)
        try:
            if os.getpid() == process:
                say(recording.finish(f"ended by {signal.Signals(number).name}", dying=True))
        except Exception as problem:
            say(f"tracer: error: the trace was not written as asked: {problem}")
        os.kill(os.getpid(), number)

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
