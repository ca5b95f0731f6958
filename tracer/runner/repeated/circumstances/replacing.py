"""Functions that stand for others while a circumstance is varied or held, and how they are put back."""

from __future__ import annotations

import sys
import sysconfig
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from pathlib import PurePath
from types import FrameType
from typing import Any

from tracer.recording.origin.sites import below_packages
from tracer.runner.imports import when_imported

_OWN = __name__.partition(".")[0]
#: Where a function that is watched is called from.
_WATCHED = "tracer.recording.patching"
_LIBRARIES = (
    *{sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")},
    str(PurePath(__file__).parents[3]),
    "<frozen",
)


class Replacements:
    """Everything that was replaced, in order. A process that is one run ends with it; others put it back."""

    def __init__(self, uses: str = "") -> None:
        self._undo: list[Callable[[], None]] = []
        self._is_over = False
        self._uses = uses
        self.used: set[str] = set()
        """The circumstances that the program asked something of."""

    def use(self, name: str, frame: FrameType | None) -> None:
        """Note that the program asked, from ``frame``, for what the circumstance ``name`` decides.

        What a library asks as it is imported is no matter of the program's. The notes go to a file, where there is one,
        so that those of forked processes arrive as well.
        """
        if name in self.used or frame is None:
            return
        if not (is_of_library(frame.f_code.co_filename) and _is_import(frame)):
            self.note(name)

    def note(self, name: str) -> None:
        """Note that the program asked for what the circumstance ``name`` decides."""
        self.used.add(name)
        if self._uses:
            with suppress(OSError), open(self._uses, "a", encoding="utf-8") as stream:
                stream.write(f"{name}\n")

    def put(self, owner: Any, name: str, value: Any) -> None:
        """Let ``owner.name`` be ``value``; an ``owner`` that has no such name is left alone."""
        before = getattr(owner, name, None)
        if before is None:
            return
        is_inherited = isinstance(owner, type) and name not in vars(owner)
        setattr(owner, name, value)
        self._undo.append(lambda: delattr(owner, name) if is_inherited else setattr(owner, name, before))

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


@lru_cache(maxsize=4096)  # asked at every call of a held function
def is_of_library(name: str) -> bool:
    """Return whether this file is one of Python's, of an installed package's or of the tracer's."""
    return name.startswith(_LIBRARIES) or bool(below_packages(name))


def _is_import(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False


def caller(frame: FrameType) -> FrameType:
    """``frame``, or whoever called through it, where it is that of a function which the recorder watches."""
    while frame.f_globals.get("__name__") == _WATCHED and frame.f_back is not None:
        frame = frame.f_back
    return frame


def caller_outside(passing: frozenset[str]) -> FrameType | None:
    """The frame that asked, behind those of this package and of the modules that are ``passing`` it on."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        name = frame.f_globals.get("__name__") or ""
        if name not in passing and name.partition(".")[0] != _OWN:
            return frame
        frame = frame.f_back
    return None
