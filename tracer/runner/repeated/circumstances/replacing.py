"""Functions that stand for others while a circumstance is varied or held, and how they are put back."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

from tracer.runner.imports import when_imported

_OWN = __name__.partition(".")[0]


class Replacements:
    """Everything that was replaced, in order. A process that is one run ends with it; others put it back."""

    def __init__(self) -> None:
        self._undo: list[Callable[[], None]] = []
        self._is_over = False

    def put(self, owner: Any, name: str, value: Any) -> None:
        """Let ``owner.name`` be ``value``; an ``owner`` that has no such name is left alone."""
        before = getattr(owner, name, None)
        if before is None:
            return
        setattr(owner, name, value)
        self._undo.append(lambda: setattr(owner, name, before))

    def then(self, undo: Callable[[], object]) -> None:
        """Call ``undo`` when all is put back."""
        self._undo.append(lambda: (undo(), None)[1])

    def when_imported(self, module: str, replace: Callable[[], None]) -> None:
        """Call ``replace`` once ``module`` is there, unless all has been put back by then."""
        when_imported(module, lambda: None if self._is_over else replace())

    def put_back(self) -> None:
        """Give every name its value back, the latest first."""
        self._is_over = True
        while self._undo:
            self._undo.pop()()


def caller_outside(passing: frozenset[str]) -> FrameType | None:
    """The frame that asked, behind those of this package and of the modules that are ``passing`` it on."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        name = frame.f_globals.get("__name__") or ""
        if name not in passing and name.partition(".")[0] != _OWN:
            return frame
        frame = frame.f_back
    return None
