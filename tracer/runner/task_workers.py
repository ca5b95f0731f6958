"""Loops that run tasks of other processes, and are ended by a signal once there is none. Imports no torch."""

from __future__ import annotations

import os
import pickle
import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, NamedTuple

from tracer.recording import patching
from tracer.recording.patching import Call, Watch


class _Loop(NamedTuple):
    """The loop of one kind of worker."""

    file: str
    """The end of its path."""
    function: str
    ends: str
    """The function that it calls after each task, before the result is sent: ``module:Class.method``."""
    begins: str
    """The function that is called as the next task begins."""
    through: str | None = None
    """The end of the path of a file whose functions call these for it."""

    def calls(self, frame: FrameType | None) -> bool:
        """Return whether the loop makes the call that ``frame`` makes."""
        while frame is not None and (
            frame.f_globals.get("__name__") == patching.__name__  # what lies between is watched too
            or (self.through is not None and frame.f_code.co_filename.endswith(self.through))
        ):
            frame = frame.f_back
        code = None if frame is None else frame.f_code
        return code is not None and code.co_name == self.function and code.co_filename.endswith(self.file)

    def holder(self, name: str) -> Iterator[tuple[Any, str]]:
        """The class and attribute of ``ends`` or ``begins``; nothing where it is not loaded."""
        for one in name.split():
            module, _, path = one.partition(":")
            owner, _, method = path.rpartition(".")
            holder = sys.modules.get(module)
            if holder is not None and (not owner or hasattr(holder, owner)):
                yield (getattr(holder, owner) if owner else holder), method


_QUEUES = os.path.join("multiprocessing", "queues.py")
#: What tells a worker of the next task, by the bytes that hold it.
_UNPACKS = "multiprocessing.reduction:ForkingPickler.loads"
#: What a pool sends to a worker that is to leave.
_NO_TASK = frozenset(pickle.dumps(None, protocol) for protocol in range(pickle.HIGHEST_PROTOCOL + 1))
_LOOPS = (
    _Loop(
        os.path.join("multiprocessing", "pool.py"),
        "worker",
        ends="multiprocessing.connection:_ConnectionBase.send_bytes",
        begins=_UNPACKS,
        through=_QUEUES,
    ),
    _Loop(
        os.path.join("concurrent", "futures", "process.py"),
        "_process_worker",
        ends="concurrent.futures.process:_sendback_result",
        begins=_UNPACKS,
        through=_QUEUES,
    ),
    _Loop(  # checked on joblib 1.6, which holds its own
        os.path.join("loky", "process_executor.py"),
        "_process_worker",
        ends="joblib.externals.loky.process_executor:_sendback_result loky.process_executor:_sendback_result",
        begins=_UNPACKS,
        through=_QUEUES,
    ),
    _Loop(  # checked on Ray 2.60, whose own loop is C++ code that this function calls
        os.path.join("ray", "_private", "worker.py"),
        "main_loop",
        ends="ray._private.worker:Worker.record_task_log_end",
        begins="ray._private.worker:Worker.record_task_log_start",
    ),
)


def between_tasks(ends: Callable[[], None], begins: Callable[[bytes], None]) -> None:
    """Call ``ends`` when this process has done a task, and ``begins`` when it gets the next, if it is a worker: with
    what it was sent, function and arguments; empty where that was not seen.

    ``ends`` comes before the result is sent: whoever waits for that may end the process as soon as it has it.
    """
    for loop in _LOOPS:

        def ended(call: Call, loop: _Loop = loop) -> None:
            if loop.calls(call.frame):
                ends()

        def begun(call: Call, loop: _Loop = loop) -> None:
            sent = call.first if loop.begins is _UNPACKS else b""
            if sent not in _NO_TASK and loop.calls(call.frame):
                begins(bytes(sent))

        frame: FrameType | None = sys._getframe()
        while frame is not None:  # torch may be loaded by what the first task needs, as that is unpacked
            sent = frame.f_locals.get("res") if frame.f_code.co_filename.endswith(_QUEUES) else None
            if isinstance(sent, bytes) and loop.calls(frame):
                begins(sent)
            frame = frame.f_back
        patching.place(loop.holder(loop.ends), Watch(ended))
        patching.place(loop.holder(loop.begins), Watch(begun))
