"""Where a generator's state came from, by its seed. Imports no torch.

A generator keeps its initial seed. That number connects a draw to the line that seeded it, through copies, saved states
and forks.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable
from functools import cache
from types import FrameType
from typing import Protocol

from tracer.names import EventKind, SeedOrigin
from tracer.recording.events import EventEntry, EventLog
from tracer.recording.origin.sites import NOWHERE, Site, Sites
from tracer.recording.patching import Holder, Watch, place

#: Seeds that are remembered per line: a program that seeds in each step must not fill the memory.
_KEPT = 256


class Provenance:
    """The origin of states; a watch has one object per origin and line, compared by identity."""

    __slots__ = ("origin", "site")

    def __init__(self, origin: SeedOrigin, site: Site = NOWHERE) -> None:
        self.origin = origin
        self.site = site


#: A program seeded it, at a line that was not seen.
PROGRAM = Provenance(SeedOrigin.PROGRAM)
#: It was left to the machine.
MACHINE = Provenance(SeedOrigin.MACHINE)
FIXED = Provenance(SeedOrigin.FIXED)
UNSEEN = Provenance(SeedOrigin.UNSEEN)
#: A checkpoint did not save it.
MOVED_ON = Provenance(SeedOrigin.MOVED_ON)
#: It does not matter: nothing depends on what is drawn.
UNUSED = Provenance(SeedOrigin.UNSEEN)


class Newest:
    """The line that produced each value; only the newest values for each line."""

    def __init__(self) -> None:
        self._of_value: dict[Hashable, Provenance] = {}
        self._of_line: dict[Provenance, dict[Hashable, None]] = {}
        self.get = self._of_value.get
        """The provenance of a value, or ``None``."""

    def note(self, value: Hashable, provenance: Provenance) -> None:
        """``provenance`` was the last to produce ``value``."""
        before = self._of_value.get(value)
        if before is not None:
            del self._of_line[before][value]
        newest = self._of_line.setdefault(provenance, {})
        newest[value] = None
        self._of_value[value] = provenance
        if len(newest) > _KEPT:
            oldest = next(iter(newest))
            del newest[oldest], self._of_value[oldest]

    def clear(self) -> None:
        """Forget everything."""
        self._of_value.clear()
        self._of_line.clear()


class Listener(Protocol):
    """A recording that is under way; states are told by their digests."""

    def appeared(self, name: str, state: str) -> None:
        """Generator ``name`` is watched from now on."""

    def drew_aside(self, name: str, before: str, after: str) -> None:
        """It drew, and that is no draw of the program's."""

    def seeded(self, name: str, former: Provenance, before: str, after: str, events: list[EventEntry]) -> None:
        """It was given the state ``after``; ``former``: where the state ``before`` came from."""


class GeneratorWatch:
    """Watches this process's generators; recorders and a runner start and stop it, each with its own log."""

    def __init__(self) -> None:
        self._sites = Sites()
        self._provenance_at = cache(Provenance)
        self._logs: list[EventLog] = []
        self.recordings: list[Listener] = []
        self._undo: list[Callable[[], None]] = []
        self._process = os.getpid()

    def _begin(self, log: EventLog) -> bool:
        """Note in ``log`` what seeds a generator; returns whether nothing was watched before."""
        if os.getpid() != self._process:  # a forked child that records for itself
            self._process = os.getpid()
            self._logs.clear()
            self.recordings.clear()
            self._put_back()
        self._logs.append(log)
        return len(self._logs) == 1

    def _end(self, log: EventLog) -> bool:
        """End what ``_begin`` began with this log; the last one puts the functions back, and ``True`` is returned."""
        if log in self._logs:
            self._logs.remove(log)
        if not self._logs:
            self._put_back()
        return not self._logs

    def is_asleep(self) -> bool:
        """Whether nothing watches, or this is a forked child."""
        return not self._logs or os.getpid() != self._process

    def _watch(self, holder: Holder, watch: Watch) -> bool:
        """Replace a function until ``_put_back``; returns whether that is possible."""
        lift = place([holder], watch)
        if lift is not None:
            self._undo.append(lift)
        return lift is not None

    def _put_back(self) -> None:
        while self._undo:
            self._undo.pop()()

    def _at(self, origin: SeedOrigin, frame: FrameType | None) -> Provenance:
        return self._provenance_at(origin, self._sites.innermost(frame))

    def _note_event(
        self,
        name: str,
        origin: SeedOrigin,
        frame: FrameType | None,
        seed: object = None,
        *,
        is_drawn: bool = False,
    ) -> list[EventEntry]:
        """Note in each log that generator ``name`` was seeded, with ``seed`` if that is a number; ``is_drawn``: one
        that differs in every process."""
        logs = {id(log): log for log in self._logs}.values()
        noted = (log.note(EventKind.SEED, name, frame=frame, value=str(origin), seed=seed) for log in logs)
        events = [event for event in noted if event is not None]
        for event in events:
            event.is_drawn |= is_drawn
        return events
