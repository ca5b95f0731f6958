"""Processes that the program starts and that are not followed: their ops are in no recording.

Imports neither torch, since a pool may be started before it, nor ``multiprocessing``, which notes at its import which
module ``__main__`` is. A loader's workers are left to their loader: their batches are inputs of recorded calls, which
are digested.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import weakref
from collections import Counter
from collections.abc import Iterator, Sequence
from types import FrameType
from typing import Any

from tracer.names import BlindSpotKind
from tracer.recording.origin import Sites, is_torchs_own, outwards, programs_frame
from tracer.recording.patching import WatchedCall, WatchedFunction, Watchers
from tracer.trace.records import BlindSpot

#: Programs that run Python programs; a compiler or ``git`` trains nothing.
_RUNS_PYTHON = (
    r"(^|[\s/])(python[\d.]*|pypy[\d.]*|torchrun|accelerate|deepspeed|mpirun|mpiexec|srun|horovodrun)(\.exe)?(\s|$)"
)
#: Torch's own launchers, which start the program; whatever else torch starts is for itself.
_LAUNCHERS = os.path.join("torch", "distributed", "")
_LOADER_WORKER = ("torch.utils.data._utils.worker", "_worker_loop")
#: Seconds of processor time of a child above which it may compute: loading torch takes more.
_TRAINS = 0.5
#: Whose forks are told of where the process is started.
FORKS_FOR_PROCESSES = (os.path.join("multiprocessing", "popen_fork.py"), "subprocess.py")


class ChildLog:
    """The processes that one recording saw start, or met alive, by line."""

    def __init__(self, sites: Sites) -> None:
        self._sites = sites
        self._unfollowed: Counter[tuple[str, str]] = Counter()
        self._processes: weakref.WeakSet[Any] = weakref.WeakSet()
        """Those of ``multiprocessing`` that were counted."""
        self._listens = False
        self._used = 0.0
        """Seconds of processor time that children had used, as far as they ended, when it began to listen."""
        self._saw_any = False
        """Whether a start was seen, which may explain what children used since."""

    def start(self) -> None:
        """Begin to watch. Processes that are alive may compute for what is recorded now."""
        if not self._listens:
            self._listens = True
            CHILDREN.add(self)
            self._used = _used_by_children()
            loaded = sys.modules.get("multiprocessing")
            for process in loaded.active_children() if loaded is not None else ():
                is_own = getattr(process, "_parent_pid", None) == os.getpid()  # a forked one still lists its siblings
                if is_own and process not in self._processes and not is_loader_worker(process):
                    self._processes.add(process)
                    self._note("a process was alive as recording began", None)

    def stop(self) -> None:
        """Stop watching: what starts now computes nothing that was recorded."""
        self._look()
        self._listens = False
        CHILDREN.discard(self)

    def listed(self) -> Iterator[BlindSpot]:
        self._look()
        for (detail, location), count in self._unfollowed.items():
            yield BlindSpot(kind=BlindSpotKind.OTHER_PROCESS, detail=detail, location=location, count=count)

    def _look(self) -> None:
        """Note that a child computed that nobody saw start: ``os.system`` and ``os.posix_spawn`` are not replaced."""
        if self._listens and not self._saw_any and _used_by_children() - self._used > _TRAINS:
            self._saw_any = True
            self._note("a process computed that was started unseen (`os.system`, `os.posix_spawn`)", None)

    def process_starts(self, call: WatchedCall) -> None:
        """A ``multiprocessing`` process starts, of a pool or of ``mp.spawn`` too."""
        self._saw_any = True
        if not is_loader_worker(call.first):
            self._processes.add(call.first)
            self._note("a process was started", call.frame)

    def program_starts(self, call: WatchedCall) -> None:
        """``subprocess`` starts a program: those count that run Python, though none that torch runs for itself."""
        self._saw_any = True
        is_launched = is_started_by_torch(call.frame, _LAUNCHERS)
        if runs_python((*call.args, None, None)[1]) and (is_launched or not is_started_by_torch(call.frame)):
            self._note("another Python program was started", call.frame)

    def forks(self, frame: FrameType) -> None:
        """The program called ``os.fork``."""
        self._saw_any = True
        self._note("the process was forked", frame, lost="the child's ops are not seen")

    def _note(self, process: str, frame: FrameType | None, *, lost: str = "") -> None:
        """Count one process, at the line of ``frame`` that is outside the standard library and torch."""
        location = self._sites.location(frame)
        self._unfollowed[BlindSpotKind.OTHER_PROCESS.of(process, lost), location] += 1


def _used_by_children() -> float:
    used = os.times()
    return used.children_user + used.children_system


def is_started_by_torch(frame: FrameType | None, part: str = "") -> bool:
    """Return whether torch itself, or a ``part`` of it, starts the program, as its compiler starts its workers."""
    files = (caller.f_code.co_filename for caller in outwards(frame))
    starter = next((file for file in files if os.path.basename(file) != "subprocess.py"), "")
    return is_torchs_own(starter) and part in starter


def is_loader_worker(process: Any) -> bool:
    """Return whether ``process`` is a ``multiprocessing`` process that fetches batches."""
    target = getattr(process, "_target", None)
    return (getattr(target, "__module__", ""), getattr(target, "__name__", "")) == _LOADER_WORKER


def runs_python(command: Any) -> bool:
    """Return whether ``command``, as ``subprocess`` takes it, runs a Python program."""
    parts = command if isinstance(command, Sequence) and not isinstance(command, (str, bytes)) else (command,)
    words = [os.fsdecode(part) for part in parts if isinstance(part, (str, bytes, os.PathLike))]
    if words[:1] == [sys.executable]:
        return True
    # A shell's command line is one word: ``sh -c "python train.py"``.
    return any(re.search(_RUNS_PYTHON, word) for place, word in enumerate(words) if place == 0 or " " in word)


class _Children(Watchers[ChildLog]):
    """Listeners to processes that start; ``os.fork`` is seen by a hook, which cannot be removed once set."""

    def __init__(self) -> None:
        super().__init__(self._functions)
        self._is_set = False

    def _functions(self) -> Iterator[WatchedFunction]:
        process = getattr(sys.modules.get("multiprocessing.process"), "BaseProcess", None)
        yield WatchedFunction([(process, "start")], before=lambda log, call: log.process_starts(call))
        yield WatchedFunction([(subprocess.Popen, "_execute_child")], before=lambda log, call: log.program_starts(call))

    def look_again(self) -> None:
        super().look_again()
        if not self._is_set and hasattr(os, "register_at_fork"):
            self._is_set = True
            os.register_at_fork(after_in_parent=self._forked)

    def _forked(self) -> None:
        frame = programs_frame()
        if frame is not None and not frame.f_code.co_filename.endswith(FORKS_FOR_PROCESSES):
            for listener in self.listeners:
                listener.forks(frame)


#: The watches of this process.
CHILDREN = _Children()
