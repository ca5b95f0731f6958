"""Saying what takes long: a spinner on standard error, on a terminal only, after a second only."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tracer.plain import is_terminal

if TYPE_CHECKING:
    from rich.status import Status

#: Seconds of silence; most reports are written within them.
PATIENCE = 1.0


@contextmanager
def progress(doing: str) -> Iterator[None]:
    """Show ``doing`` beside a spinner while the body runs, if it runs for longer than ``PATIENCE``."""
    if not is_terminal(sys.stderr):
        yield
        return
    shown: list[Status] = []
    timer = threading.Timer(PATIENCE, _spin, (doing, shown))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
        for status in shown:
            status.stop()


def _spin(doing: str, shown: list[Status]) -> None:
    from rich.console import Console
    from rich.markup import escape

    status = Console(stderr=True).status(escape(doing))
    status.start()
    shown.append(status)
