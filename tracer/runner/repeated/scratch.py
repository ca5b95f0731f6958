"""A job's own folder: what its runs record lies there until the last has ended.

A script that walks through its working directory would meet the recordings of the runs before it, and differ from them.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

#: The recordings, and the file that names the folder which they belong into.
_RECORDINGS, _DESTINATION = "recordings", "destination"


@contextmanager
def scratch_of(destination: Path) -> Iterator[Path]:
    """A folder outside the working directory; in the end ``destination`` has what lies in ``recordings_in`` it."""
    scratch = Path(tempfile.mkdtemp(prefix="tracer-"))
    try:
        recordings_in(scratch).mkdir()
        (scratch / _DESTINATION).write_text(os.path.abspath(destination), encoding="utf-8")
        yield scratch
    finally:
        leave(scratch)


def recordings_in(scratch: Path) -> Path:
    """The folder that runs record to."""
    return scratch / _RECORDINGS


def leave(scratch: Path) -> None:
    """Move the recordings to where they belong, and remove the folder; nothing if that was done already."""
    with suppress(OSError):
        destination = (scratch / _DESTINATION).read_text(encoding="utf-8")
        for entry in recordings_in(scratch).iterdir():
            shutil.move(entry, os.path.join(destination, entry.name))
    shutil.rmtree(scratch, ignore_errors=True)
