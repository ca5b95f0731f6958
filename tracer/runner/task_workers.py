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
    """The function that has returned as the next task begins."""
    is_task: Callable[[Any], bool] = lambda result: True
    """Whether it is a task that ``begins`` returned."""
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
        module, _, path = name.partition(":")
        owner, _, method = path.partition(".")
        if hasattr(sys.modules.get(module), owner):
            yield getattr(sys.modules[module], owner), method


_CONNECTION = "multiprocessing.connection:_ConnectionBase"
#: What a pool sends to a worker that is to leave.
_NO_TASK = pickle.dumps(None)
_LOOPS = (
    _Loop(
        os.path.join("multiprocessing", "pool.py"),
        "worker",
        ends=f"{_CONNECTION}.send_bytes",
        begins=f"{_CONNECTION}.recv_bytes",
        is_task=lambda result: bool(result != _NO_TASK),
        through=os.path.join("multiprocessing", "queues.py"),
    ),
    _Loop(  # checked on Ray 2.60, whose own loop is C++ code that this function calls
        os.path.join("ray", "_private", "worker.py"),
        "main_loop",
        ends="ray._private.worker:Worker.record_task_log_end",
        begins="ray._private.worker:Worker.record_task_log_start",
    ),
)


def between_tasks(ends: Callable[[], None], begins: Callable[[], None]) -> None:
    """Call ``ends`` when this process has done a task, and ``begins`` when it gets the next, if it is a worker.

    ``ends`` comes before the result is sent: whoever waits for that may end the process as soon as it has it.
    """
    for loop in _LOOPS:

        def ended(call: Call, loop: _Loop = loop) -> None:
            if loop.calls(call.frame):
                ends()

        def begun(call: Call, loop: _Loop = loop) -> None:
            if loop.calls(call.frame) and loop.is_task(call.result):
                begins()

        patching.place(loop.holder(loop.ends), Watch(ended))
        patching.place(loop.holder(loop.begins), Watch(after=begun))
