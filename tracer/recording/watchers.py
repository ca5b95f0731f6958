"""Functions of torch and other libraries that several recordings watch through one replacement. Imports no torch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any, Generic, NamedTuple, TypeVar

from tracer.recording import patching
from tracer.recording.patching import Call, Holder, Watch

Listener = TypeVar("Listener")


class Target(NamedTuple):
    """A function to watch, and what listeners do at its calls."""

    holders: Sequence[Holder]
    before: Callable[[Any, Call], None] | None = None
    after: Callable[[Any, Call], None] | None = None
    look: Callable[[Call], None] | None = None
    """Called once before each call, for what ``after`` needs. If it raises, listeners miss that call."""
    asked: Callable[[Any, Any], None] | None = None
    """Called when the method is looked up on an object, instead of at its calls."""
    around: Callable[[Callable[..., Any], tuple[Any, ...], dict[str, Any]], Any] | None = None
    """Makes the call itself, for whoever listens."""
    in_children: bool = False


class Watchers(Generic[Listener]):
    """Listeners to calls of some functions; ``find`` gives the functions that are loaded by now.

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
        """Who listens now."""
        return self._listeners

    @property
    def placed(self) -> int:
        """How many functions are replaced."""
        return len(self._lifts)

    def add(self, listener: Listener) -> None:
        """Tell ``listener`` from now on."""
        self._listeners = (*self._listeners, listener)
        self.look_again()

    def discard(self, listener: Listener) -> None:
        """Tell ``listener`` no more."""
        listeners = list(self._listeners)
        if listener in listeners:
            listeners.remove(listener)
        self._listeners = tuple(listeners)
        if not listeners:
            while self._lifts:
                self._lifts.popitem()[1]()

    def look_again(self) -> None:
        """Watch what was loaded since, if anybody listens."""
        for target in self._find() if self._listeners else ():
            holders = [
                holder
                for holder in target.holders
                if holder[0] is not None and (id(holder[0]), holder[1]) not in self._lifts
            ]
            lift = patching.place(holders, self._watch(target)) if holders else None
            if lift is not None:
                self._listens_in_children |= target.in_children
                self._lifts.update({(id(owner), name): lift for owner, name in holders})

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

        def after(call: Call) -> None:
            if target.after is not None:
                self._tell(target.after, call)

        def asked(instance: Any) -> None:
            if target.asked is not None:
                self._tell(target.asked, instance)

        if target.around is not None:
            return Watch(around=target.around, in_children=target.in_children)
        if target.asked is not None:
            return Watch(asked=asked, in_children=target.in_children)
        return Watch(before, after if target.after is not None else None, in_children=target.in_children)

    def _tell(self, tell: Callable[[Any, Any], None], of: Any) -> None:
        for listener in self._listeners:
            with suppress(Exception):  # what a note stumbles over is no business of the program's
                tell(listener, of)
