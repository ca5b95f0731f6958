"""Lets several recordings watch functions of torch and other libraries. Imports no torch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Generic, TypeVar

import msgspec

from tracer.recording import patching
from tracer.recording.patching import Call, Holder, Watch

Listener = TypeVar("Listener")


class Target(msgspec.Struct, frozen=True):
    """A function to watch, and what listeners do at its calls."""

    holders: Sequence[Holder]
    before: Callable[[Any, Call], None] | None = None
    after: Callable[[Any, Call], None] | None = None
    look: Callable[[Call], None] | None = None
    """Called once before each call, to read what ``after`` needs. If it raises, listeners miss that call."""
    asked: Callable[[Any, Any], None] | None = None
    """Called when the method is looked up on an object, instead of at its calls."""
    around: Callable[[Callable[..., Any], tuple[Any, ...], dict[str, Any]], Any] | None = None
    """Makes the call itself."""
    in_children: bool = False


class Watchers(Generic[Listener]):
    """Listeners to calls of some functions; ``find`` returns those that are loaded by now.

    Listeners come and go in any order; while there is one, the functions stay replaced.
    """

    def __init__(self, find: Callable[[], Iterable[Target]]) -> None:
        self._find = find
        self._listeners: tuple[Listener, ...] = ()
        self._lifts: dict[tuple[int, str], Callable[[], None]] = {}
        self._listens_in_children = False
        patching.in_children(self._step_aside)

    @property
    def listeners(self) -> tuple[Listener, ...]:
        """The current listeners."""
        return self._listeners

    @property
    def placed(self) -> int:
        """The number of replaced functions."""
        return len(self._lifts)

    def add(self, listener: Listener) -> None:
        """Start telling ``listener``."""
        self._listeners = (*self._listeners, listener)
        self.look_again()

    def discard(self, listener: Listener) -> None:
        """Stop telling ``listener``."""
        listeners = list(self._listeners)
        with suppress(ValueError):
            listeners.remove(listener)
        self._listeners = tuple(listeners)
        while self._lifts and not listeners:
            self._lifts.popitem()[1]()

    def look_again(self) -> None:
        """Watch what was loaded since, if anybody listens."""
        self.watch(self._find() if self._listeners else ())

    def watch(self, targets: Iterable[Target]) -> None:
        """Replace the functions of ``targets``, unless they are replaced already."""
        for target in targets:
            holders = {(id(owner), name): (owner, name) for owner, name in target.holders if owner is not None}
            new = holders.keys() - self._lifts.keys()
            lift = patching.place([holders[key] for key in holders if key in new], self._watch(target)) if new else None
            if lift is not None:
                self._listens_in_children |= target.in_children
                self._lifts.update(dict.fromkeys(new, lift))

    def _step_aside(self) -> None:
        """In a forked child: drop the listeners, unless one asked to go on there."""
        if not self._listens_in_children:
            self._listeners = ()
            self._lifts.clear()

    def _watch(self, target: Target) -> Watch:
        def before(call: Call) -> None:
            if target.look is not None:
                target.look(call)
            if target.before is not None:
                self._tell(target.before, call)

        if target.around is not None:
            return Watch(around=target.around, in_children=target.in_children)
        if target.asked is not None:
            return Watch(asked=partial(self._tell, target.asked), in_children=target.in_children)
        after = None if target.after is None else partial(self._tell, target.after)
        return Watch(before, after, in_children=target.in_children)

    def _tell(self, tell: Callable[[Any, Any], None], of: Any) -> None:
        for listener in self._listeners:
            with suppress(Exception):  # no business of the program's
                tell(listener, of)
