"""Where output goes: checked before the work starts, printable on any terminal, a spinner meanwhile.

Results go through ``show``, what is said beside them through ``tracer.plain.say``: both show control characters.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from tracer.errors import ReportError, TracerError, UsageError, reason_of
from tracer.plain import LaidOut, is_terminal, visible

if TYPE_CHECKING:
    from rich.status import Status


def check_writable(path: Path, *, error: type[TracerError] = UsageError) -> None:
    """Raise ``error`` if ``path`` cannot become a file.

    Called before the work whose result it will hold: a script that trained for hours must not find out then.
    """
    if os.path.isdir(path):
        raise error(f"{path} is a folder", hint="name a file")
    if os.path.exists(path) and not os.path.isfile(path):
        return
    check_folder(path.parent, error=error)
    try:
        os.lstat(path)
    except FileNotFoundError:
        pass
    except (OSError, ValueError) as problem:  # the name is too long, say
        raise error(f"cannot write {path}: {reason_of(problem)}", hint="choose another name") from problem


def check_folder(folder: Path, *, error: type[TracerError] = UsageError) -> None:
    """Raise ``error`` if no file can be made in ``folder``, or in what stands where it will be made.

    A nameless file is really made: permission bits say little to root and on a read-only disk.
    """
    import tempfile  # it loads compressors and generators, which no help needs

    try:
        standing = next((parent for parent in (folder, *folder.parents) if parent.exists()), folder)
        with tempfile.TemporaryFile(dir=standing):
            pass
    except (OSError, ValueError) as problem:
        raise error(f"cannot write in {folder}: {reason_of(problem)}", hint="choose another folder") from problem


def show(text: str) -> None:
    """Print ``text`` on standard output, ``visible``; what its encoding cannot spell becomes a question mark.

    Raises ``ReportError`` where nothing can be written there: the disk is full, or somebody closed it.
    """
    if not isinstance(text, LaidOut):
        text = visible(text)
    try:
        encoding = sys.stdout.encoding or "utf-8"
        sys.stdout.write(text.encode(encoding, "replace").decode(encoding))
        if not text.endswith("\n"):
            sys.stdout.write("\n")
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except (OSError, ValueError, AttributeError) as problem:
        reason = "it is closed" if sys.stdout is None or sys.stdout.closed else reason_of(problem)
        drop_output()
        raise ReportError(f"cannot write standard output: {reason}", hint="write to a file with -o") from problem


def show_all(texts: Iterable[str]) -> None:
    """``show`` each, an empty line between them."""
    for number, text in enumerate(texts):
        if number:
            show("")
        show(text)


def drop_output() -> None:
    """Let what waits for standard output go nowhere: Python flushes it again as it ends, and would fail again."""
    with suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


#: Seconds of silence; most reports are written within them.
PATIENCE = 1.0


@contextmanager
def progress(doing: str) -> Iterator[None]:
    """Show ``doing`` beside a spinner while the body runs, if it runs for longer than ``PATIENCE``."""
    if not is_terminal(sys.stderr):
        yield
        return
    shown: list[Status] = []
    import threading

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
