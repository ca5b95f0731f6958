"""Defers control-C while the recorder starts and while a trace is written; ends a process by a signal."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

#: Seconds after which a second signal means that the first one waits for too long: ``timeout`` sends each one twice.
AGAIN = 1.0


@contextmanager
def handled(
    numbers: Iterable[int], handler: Callable[[int, FrameType | None], None], *usual: object
) -> Iterator[Callable[[], None]]:
    """Handle those of the signals that have a ``usual`` handler, within this context or until what it gives is called.

    None off the main thread; one that somebody handles otherwise meanwhile is left so.
    """
    before: dict[int, Any] = {}
    if threading.current_thread() is threading.main_thread():
        before = {number: was for number in numbers if (was := signal.getsignal(number)) in usual}

    def put_back() -> None:
        for number, was in before.items():
            if signal.getsignal(number) is handler:
                signal.signal(number, was)

    for number in before:
        signal.signal(number, handler)
    try:
        yield put_back
    finally:
        put_back()


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

    with handled([signal.SIGINT], hold, signal.default_int_handler):
        yield
    if came:
        raise KeyboardInterrupt


def end_by(number: int) -> None:
    """End by signal ``number`` as a process that does not handle it: the parent sees that status.

    Nothing is flushed: a handler may have interrupted a write to the stream.
    """
    with suppress(OSError, ValueError):  # SIGKILL has no handler
        signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
