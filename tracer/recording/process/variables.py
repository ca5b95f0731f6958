"""Environment variables that the program sets or removes, each with its line. Imports no torch: it begins before.

No function is replaced: the dictionary behind ``os.environ`` is one that tells of its changes while somebody listens.
What C code sets, or a bare ``os.putenv``, is not seen.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from types import FrameType
from typing import Any

from tracer.names import EventKind
from tracer.recording.events import EventLog
from tracer.recording.origin.sites import is_torchs_own, outwards

#: What stands between ``os.environ[...] = ...`` and its dictionary.
_PASSING = ("os.py", "_collections_abc.py", "<frozen os>", "<frozen _collections_abc>")


class VariableEvents:
    """Notes in ``log`` the changes of the variables ``names``; calls ``look`` before, to note starts in their order."""

    def __init__(self, log: EventLog, names: Iterable[str], look: Callable[[], None]) -> None:
        self._log = log
        self._names = frozenset(names)
        self._look = look

    def start(self) -> None:
        """Begin to watch."""
        _LISTENERS.append(self)
        _keep_in(_Telling)

    def stop(self) -> None:
        """Stop watching."""
        _LISTENERS[:] = [other for other in _LISTENERS if other is not self]
        if not _LISTENERS:
            _keep_in(dict)

    def changed(self, name: str, before: str, value: str, frame: FrameType | None) -> None:
        """Note the change of a variable; an empty value is one that is not set."""
        if name in self._names and before != value and not _is_by_torch(frame):
            self._look()
            self._log.changed(EventKind.VARIABLE, name, frame=frame, before=before, value=value)


def _is_by_torch(frame: FrameType | None) -> bool:
    """Return whether torch set it. What it sets for its compiler's cache or a worker is not the program's."""
    files = (caller.f_code.co_filename for caller in outwards(frame))
    return is_torchs_own(next((file for file in files if not file.endswith(_PASSING)), ""))


class _Telling(dict[Any, Any]):
    """The variables, as ``os.environ`` keeps them."""

    def __setitem__(self, key: Any, value: Any) -> None:
        before = self.get(key)
        super().__setitem__(key, value)
        _tell(key, before, value)

    def __delitem__(self, key: Any) -> None:
        before = self.get(key)
        super().__delitem__(key)
        _tell(key, before, None)


def _tell(*changed: Any) -> None:
    name, before, value = ("" if text is None else os.environ.decodevalue(text) for text in changed)
    for listener in tuple(_LISTENERS):
        with suppress(Exception):  # a failure of the recorder must not reach the program
            listener.changed(name, before, value, sys._getframe(2))


def _keep_in(kind: type[dict[Any, Any]]) -> None:
    """Keep the variables in a dictionary of this kind, for texts and for bytes the same."""
    variables: Any = os.environ
    former = getattr(variables, "_data", None)
    if isinstance(former, dict) and type(former) is not kind:
        data = kind(former)
        for view in (variables, getattr(os, "environb", None)):
            if view is not None and getattr(view, "_data", None) is former:
                view._data = data


_LISTENERS: list[VariableEvents] = []
