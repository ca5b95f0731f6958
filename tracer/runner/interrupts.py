"""Control-C held back while the recorder begins and while its trace is written, and how a signal ends a process."""

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
    """Raise ``KeyboardInterrupt`` at the end of the block, if control-C came in it; at once if it comes again later.

    Where the program handles it, or off the main thread, nothing is held.
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
    """End as signal ``number`` ends a process that does not handle it, so that a parent sees what it sees of Python.

    Nothing is flushed: a handler may have interrupted a write to the stream.
    """
    with suppress(OSError, ValueError):  # SIGKILL has no handler
        signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
