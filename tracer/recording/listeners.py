"""Who is told of what replaced functions see; they come and go in any order, the last one puts the functions back."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Generic, TypeVar

Listener = TypeVar("Listener")


class Listeners(ABC, Generic[Listener]):
    """Listeners of one process, who share the replaced functions."""

    def __init__(self) -> None:
        self._listeners: list[Listener] = []
        self._undo: dict[tuple[int, str], Callable[[], None]] = {}
        """By the object and the attribute that hold a replaced function: how to put it back."""

    def add(self, listener: Listener) -> None:
        """Tell ``listener`` from now on."""
        self._listeners.append(listener)
        self.look_again()

    def discard(self, listener: Listener) -> None:
        """Tell ``listener`` no more."""
        if listener in self._listeners:
            self._listeners.remove(listener)
        if not self._listeners:
            while self._undo:
                self._undo.popitem()[1]()

    @abstractmethod
    def look_again(self) -> None:
        """Replace what was loaded since, if anybody listens."""
