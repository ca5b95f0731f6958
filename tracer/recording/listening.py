"""Being told of each call of a function of torch's, for a while, without changing what it does.

The function is replaced by one that tells the listeners first. Listeners of one process share the replacement, so that
they may come and go in any order; the last one puts the function back, unless somebody else has replaced it since.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import Any

from tracer.recording.listeners import Listener, Listeners
from tracer.recording.torch_private import seams

#: What is told of a call: a listener, the frame that made it, and the call's first argument (``None`` without one).
Tell = Callable[[Listener, FrameType, Any], None]


class Watched(Listeners[Listener]):
    """The replaced functions, and who listens. ``find`` gives what is to be replaced and is loaded by now."""

    def __init__(self, find: Callable[[], list[tuple[Any, str, Tell[Listener]]]]) -> None:
        super().__init__()
        self._find = find

    def look_again(self) -> None:
        if self._listeners:
            for owner, name, tell in self._find():
                if owner is not None and (id(owner), name) not in self._undo:
                    self._replace(owner, name, tell)

    def _replace(self, owner: Any, name: str, tell: Tell[Listener]) -> None:
        original = vars(owner).get(name)
        if not callable(original):
            return
        is_told = True

        @functools.wraps(original, updated=())
        def watched(*args: Any, **kwargs: Any) -> Any:
            if is_told:
                frame = sys._getframe(1)
                for listener in tuple(self._listeners):
                    with suppress(Exception):  # what a note stumbles over is no business of the program's
                        tell(listener, frame, args[0] if args else None)
            return original(*args, **kwargs)

        def undo() -> None:
            nonlocal is_told
            is_told = False
            if vars(owner).get(name) is watched:
                setattr(owner, name, original)

        seams.skip_in_dynamo(watched)
        setattr(owner, name, watched)
        self._undo[id(owner), name] = undo
