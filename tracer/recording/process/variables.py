"""Environment variables that the program sets or removes, each with its line. Imports no torch: it begins before.

All of Python writes through ``os.putenv`` and ``os.unsetenv``, which are replaced while somebody listens. What C code
sets is not seen.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from types import FrameType
from typing import Any

from tracer.names import EventKind
from tracer.recording.events import EventLog
from tracer.recording.origin.sites import is_torchs_own
from tracer.recording.patching import Call
from tracer.recording.watchers import Target, Watchers

#: What stands between ``os.environ[...] = ...`` and the two functions.
_PASSING = ("os.py", "_collections_abc.py", "<frozen os>", "<frozen _collections_abc>")

#: Told the variable's name, its value before and after (empty: not set), and the frame that asked for it.
Listener = Callable[[str, str, str, "FrameType | None"], None]


class VariableEvents:
    """Notes in ``log`` the changes of the variables ``names``.

    ``look`` is called before each note, so that a start that nobody saw is noted before the variable that came too
    late.
    """

    def __init__(self, log: EventLog, names: Iterable[str], look: Callable[[], None]) -> None:
        self._log = log
        self._names = frozenset(names)
        self._look = look

    def start(self) -> None:
        """Begin to watch."""
        _WATCH.add(self._changed)

    def stop(self) -> None:
        """Stop watching."""
        _WATCH.discard(self._changed)

    def _changed(self, name: str, before: str, value: str, frame: FrameType | None) -> None:
        if name in self._names and before != value and not _is_by_torch(frame):
            self._look()
            self._log.changed(EventKind.VARIABLE, name, frame=frame, before=before, value=value)


def _is_by_torch(frame: FrameType | None) -> bool:
    """Return whether torch set it. What it sets for its compiler's cache or a worker is not the program's."""
    while frame is not None and frame.f_code.co_filename.endswith(_PASSING):
        frame = frame.f_back
    return frame is not None and is_torchs_own(frame.f_code.co_filename)


def _look(call: Call) -> None:
    name = _text(call.first)
    call.before = name, os.environ.get(name, "") if name else ""


def _tell(listener: Listener, call: Call) -> None:
    name, before = call.before
    listener(name, before, _text(call.args[1]) if len(call.args) > 1 else "", call.frame)


def _text(value: Any) -> str:
    """``value`` as ``os.environ`` shows it; empty for other types, which the original refuses."""
    try:
        return os.fsdecode(value)
    except (TypeError, ValueError):
        return ""


#: The watch of this process.
_WATCH: Watchers[Listener] = Watchers(
    lambda: [Target([(os, name)], look=_look, after=_tell) for name in ("putenv", "unsetenv")]
)
