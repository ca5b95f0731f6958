"""Processes that the program starts, and that are not followed: what they compute is in no recording."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any

from tracer.names import BlindSpotKind
from tracer.recording.origin.sites import is_torchs_own
from tracer.recording.patching import Call

Said = tuple[BlindSpotKind, str]

#: Programs that run Python programs; a compiler or ``git`` trains nothing.
_RUNS_PYTHON = re.compile(
    r"(^|[\s/])(python[\d.]*|pypy[\d.]*|torchrun|accelerate|deepspeed|mpirun|mpiexec|srun|horovodrun)(\.exe)?(\s|$)"
)
_LOADER_WORKER = ("torch.utils.data._utils.worker", "_worker_loop")
#: Whose forks are told of where the process is started.
_FORKS_FOR_PROCESSES = os.path.join("multiprocessing", "popen_fork.py")


def on_process(call: Call) -> Said | None:
    """What to say of a ``multiprocessing`` process that starts; a loader's workers are told of with their loader."""
    target = getattr(call.first, "_target", None)
    if (getattr(target, "__module__", ""), getattr(target, "__name__", "")) == _LOADER_WORKER:
        return None
    return BlindSpotKind.OTHER_PROCESS, "a process was started: its ops are not seen"


def on_program(call: Call) -> Said | None:
    """What to say of a program that ``subprocess`` starts: of those that run Python alone, and not for torch itself."""
    if not runs_python(call.args[1] if len(call.args) > 1 else None) or _is_torchs(call.frame):
        return None
    return BlindSpotKind.OTHER_PROCESS, "another Python program was started: its ops are not seen"


def runs_python(command: Any) -> bool:
    """Does ``command``, as ``subprocess`` takes it, run a Python program?"""
    if isinstance(command, Sequence) and not isinstance(command, (str, bytes)):
        spelt = [os.fsdecode(part) for part in command if isinstance(part, (str, bytes, os.PathLike))]
    else:
        spelt = [os.fsdecode(command)] if isinstance(command, (str, bytes, os.PathLike)) else []
    if spelt[:1] == [sys.executable] or any(_RUNS_PYTHON.search(part) for part in spelt[:1]):
        return True
    # A shell's command line is one word: ``sh -c "python train.py"``.
    return any(_RUNS_PYTHON.search(part) for part in spelt if " " in part)


def _is_torchs(frame: FrameType | None) -> bool:
    """Does torch start it for itself, as its compiler's workers are?"""
    while frame is not None and os.path.basename(frame.f_code.co_filename) == "subprocess.py":
        frame = frame.f_back
    return frame is not None and is_torchs_own(frame.f_code.co_filename)


class ForkWatch:
    """Tells of ``os.fork`` called by the program itself; a hook at forks can be set and never be taken away."""

    def __init__(self) -> None:
        self._tell: Callable[[BlindSpotKind, str, FrameType], None] | None = None
        self._is_set = False

    def tell(self, whom: Callable[[BlindSpotKind, str, FrameType], None] | None) -> None:
        """Tell ``whom`` of each fork from now on; ``None``: nobody."""
        self._tell = whom
        if whom is not None and not self._is_set and hasattr(os, "register_at_fork"):
            self._is_set = True
            os.register_at_fork(after_in_parent=self._forked)

    def _forked(self) -> None:
        tell, frame = self._tell, sys._getframe(1)
        if tell is not None and not frame.f_code.co_filename.endswith(_FORKS_FOR_PROCESSES):
            tell(BlindSpotKind.OTHER_PROCESS, "the process was forked: the child's ops are not seen", frame)
