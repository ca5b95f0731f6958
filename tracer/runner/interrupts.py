"""Defers control-C while the recorder starts and while a trace is written; ends a process by a signal."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType

#: Seconds after which a second signal means that the first one waits for too long: ``timeout`` sends each one twice.
AGAIN = 1.0


@contextmanager
def interrupt_held() -> Iterator[None]:
    """Defer ``KeyboardInterrupt`` to the end of the block; a second control-C, a second or more later, raises at once.

    If the program handles SIGINT itself, or off the main thread, nothing is deferred.
    """
    came = 0.0

    def hold(number: int, frame: FrameType | None) -> None:
        nonlocal came
        if came and time.monotonic() - came > AGAIN:
            raise KeyboardInterrupt
        came = came or time.monotonic()

    is_ours = threading.current_thread() is threading.main_thread()
    if not is_ours or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    signal.signal(signal.SIGINT, hold)
    try:
        yield
    finally:
        if signal.getsignal(signal.SIGINT) is hold:
            signal.signal(signal.SIGINT, signal.default_int_handler)
    if came:
        raise KeyboardInterrupt


def end_by(number: int) -> None:
    """End by signal ``number`` as a process that does not handle it: the parent sees that status.

    Nothing is flushed: a handler may have interrupted a write to the stream.
    """
    with suppress(OSError, ValueError):  # SIGKILL has no handler
        signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
