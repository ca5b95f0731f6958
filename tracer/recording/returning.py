"""Being told of calls that returned: what a function of torch's changed, for as long as somebody listens.

The function is called with what it was given, its result and its exceptions are its own; then the listeners are told,
with what was looked at before. Listeners share the replacement and may come and go in any order.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from types import FrameType
from typing import Any, NamedTuple

from tracer.recording.listeners import Listener, Listeners
from tracer.recording.torch_private import seams


class Call(NamedTuple):
    """A call that returned."""

    frame: FrameType
    """The frame that made it."""
    before: Any
    """What was looked at before it."""
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


class Watched(NamedTuple):
    """A function that is to be watched."""

    original: Callable[..., Any]
    holders: Sequence[tuple[Any, str]]
    """Objects, and the attribute of each, that hold the function."""
    look: Callable[[], Any]
    """Called before each call; an exception of it is ignored, and nobody is told of that call."""
    tell: Callable[[Any, Call], None]
    """Called for each listener after each call."""


class Returning(Listeners[Listener]):
    """The replaced functions of this process, and who listens; ``find`` gives those that are loaded by now."""

    def __init__(self, find: Callable[[], list[Watched]]) -> None:
        super().__init__()
        self._find = find

    @property
    def listeners(self) -> tuple[Listener, ...]:
        """Who listens now."""
        return tuple(self._listeners)

    def look_again(self) -> None:
        for watched in self._find() if self._listeners else ():
            holders = [one for one in watched.holders if (id(one[0]), one[1]) not in self._undo]
            if holders:
                self._replace(watched, holders)

    def _replace(self, watched: Watched, holders: Sequence[tuple[Any, str]]) -> None:
        original, look, tell = watched.original, watched.look, watched.tell

        @functools.wraps(original, updated=())
        def told(*args: Any, **kwargs: Any) -> Any:
            listeners = tuple(self._listeners)
            before, has_looked = None, False
            if listeners:
                with suppress(Exception):
                    before, has_looked = look(), True
            result = original(*args, **kwargs)
            if has_looked:
                call = Call(sys._getframe(1), before, args, kwargs)
                for listener in listeners:
                    with suppress(Exception):  # what a note stumbles over is no business of the program's
                        tell(listener, call)
            return result

        seams.skip_in_dynamo(told)
        for owner, name in holders:
            with suppress(AttributeError, TypeError):  # an immutable type of another build
                setattr(owner, name, told)
                self._undo[id(owner), name] = functools.partial(_put_back, owner, name, told, original)


def _put_back(owner: Any, name: str, told: Callable[..., Any], original: Callable[..., Any]) -> None:
    """Undo one replacement, unless somebody replaced it again: then it stays, and tells nobody."""
    if getattr(owner, name, None) is told:
        setattr(owner, name, original)
