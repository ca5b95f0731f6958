"""The child processes of one recording, each recorded in a trace beside the recording's own. Imports no torch."""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from tracer.recording.options import RecordOptions
from tracer.recording.process.following import FOLLOWING, Started, Step, children_of
from tracer.trace.file import child_path
from tracer.trace.records import Child

#: How the folder of a job's log is named, and the file in it that says that the first process needs it no more.
_PREFIX, _LEFT = "tracer-", "left"
#: What a child process runs as it loads torch: it records itself as a script is recorded.
_BEGIN = "tracer.runner.child_processes:begin"


class ChildTask(msgspec.Struct, frozen=True, kw_only=True):
    """Options with which every child is recorded, the same as its parent's."""

    output: str
    """The parent's trace."""
    start: int = 0
    stop: int | None = None
    source_folder: str | None = None
    options: RecordOptions


class ChildTraces:
    """Follows what this process starts while it is entered; a child's trace lies beside ``output``.

    ``options`` are those of the recording; without ``output`` traces lie in a temporary folder, until this is removed.
    ``at_start`` is done in a child that was not forked before its first line.
    """

    def __init__(
        self, output: Path | None, options: RecordOptions, *, at_start: Step | None = None, **task: Any
    ) -> None:
        for left in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*/{_LEFT}"):  # by those that were killed
            remove_left(str(left.parent))
        self._folder = tempfile.mkdtemp(prefix=_PREFIX)
        self._process = os.getpid()
        # At exit too: after the hook of ``multiprocessing``, which ends the children that are daemons.
        weakref.finalize(self, _remove, self._folder, self._process)
        self.output = output or Path(self._folder, "step.json")
        """The trace that children's traces lie beside."""
        self._task = ChildTask(output=str(self.output), options=msgspec.structs.replace(options, name=""), **task)
        self._at_start = at_start
        self._started = Started()
        self._is_entered = False

    def begin(self, left_by_fork: Callable[[], None]) -> None:
        """Follow what this process starts from now on; nothing where another recording follows it.

        ``left_by_fork`` is called in a forked child, which is to leave its parent's recording.
        """
        if not FOLLOWING.folder:
            self._is_entered = True
            FOLLOWING.follow(self._folder, (_BEGIN, self._task), self._started, self._at_start)
            FOLLOWING.left_by_fork = left_by_fork

    def end(self) -> None:
        """Follow no more: processes that run on go on recording themselves."""
        if self._is_entered and os.getpid() == self._process:
            self._is_entered = False
            FOLLOWING.leave()

    def listed(self) -> tuple[Child, ...]:
        """Return each child process so far: its role, its state, and how it ended."""
        return children_of(FOLLOWING.events(self._folder), lambda role: child_path(self.output, role).exists())

    def remove(self) -> None:
        """Remove what children left in the temporary folder."""
        _remove(self._folder, self._process)


def _remove(folder: str, process: int) -> None:
    """Remove a recording's own folder, unless this is a forked child, or a process that runs on will begin there."""
    if os.getpid() == process:
        with suppress(OSError):
            Path(folder, _LEFT).touch()
        remove_left(folder)


def remove_left(folder: str) -> None:
    """Remove ``folder`` if its job's first process has left it, and none but this one of its processes runs on."""
    if os.path.exists(os.path.join(folder, _LEFT)):
        others = FOLLOWING.processes(folder) - {os.getpid()}
        if not any(map(_is_running, others)) and not FOLLOWING.has_just_started(folder):
            shutil.rmtree(folder, ignore_errors=True)


def _is_running(process: int) -> bool:
    """Return whether this process exists. One that ended and was not waited for does not, where that can be read."""
    try:
        os.kill(process, 0)
        with open(f"/proc/{process}/stat", "rb") as stream:
            return stream.read().rpartition(b")")[2].split()[0] != b"Z"
    except ProcessLookupError:
        return False
    except OSError:
        return True
