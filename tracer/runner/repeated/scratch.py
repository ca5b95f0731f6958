"""A job's own folder: what its runs record lies there until the last has ended.

A script that walks through its working directory would meet the recordings of the runs before it, and differ from them.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tracer.plain import say
from tracer.trace.lines import files_of_lines
from tracer.trace.paths import files_of_children, values_path

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


def remove_run(trace: Path) -> None:
    """Remove the files that a run left: its trace, its file of values, and those of its child processes."""
    for left in (trace, values_path(trace), *files_of_children(trace), *files_of_lines(trace)):
        left.unlink(missing_ok=True)


def leave(scratch: Path) -> None:
    """Move the recordings to where they belong, and remove the folder; they stay, and it says so, if they cannot go."""
    recordings = recordings_in(scratch)
    try:
        destination = (scratch / _DESTINATION).read_text(encoding="utf-8")
        os.makedirs(destination, exist_ok=True)
        for entry in recordings.iterdir():
            shutil.move(entry, os.path.join(destination, entry.name))
    except OSError as problem:
        if recordings.exists() and any(recordings.iterdir()):
            say(f"tracer: the recordings stay in {recordings}: {problem.strerror or problem}")
            return
    shutil.rmtree(scratch, ignore_errors=True)
