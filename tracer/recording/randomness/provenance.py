"""Where a generator's state came from, by its seed, and whether it drew in a recording. Imports no torch.

A generator keeps its initial seed. That number connects a draw to the line that seeded it, through copies, saved states
and forks.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Iterable, Iterator
from functools import cache
from types import FrameType

import msgspec

from tracer.names import EventKind, GeneratorKind, SeedOrigin
from tracer.recording.events import EventEntry, EventLog
from tracer.recording.origin.sites import NOWHERE, Site, Sites, spell
from tracer.recording.patching import Holder, Watch, place
from tracer.trace.records import Generator

#: Seeds that are remembered: a program that seeds in each step must not fill the memory.
_KEPT = 4096


class Provenance(msgspec.Struct, frozen=True, eq=False):
    """The origin of states; a watch has one object per origin and line, compared by identity."""

    origin: SeedOrigin
    site: Site = NOWHERE


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


Elsewhere = tuple[tuple[str, Provenance], ...]
"""Origins of the states of other devices' default generators, by kind of device; the empty kind is every other one."""
Drawn = tuple[str, Provenance, Elsewhere]
"""The generator that a call drew from, and the origin of its state; for the CPU's default one, of the others' too."""
_HOSTS = (GeneratorKind.PYTHON.value, GeneratorKind.NUMPY.value)


class Newest:
    """The line that produced each value, for the newest values; what is noted again is new again."""

    def __init__(self) -> None:
        self._of_value: dict[Hashable, Provenance] = {}
        self.get = self._of_value.get
        """The provenance of a value, or ``None``."""

    def note(self, value: Hashable, provenance: Provenance) -> None:
        """``provenance`` was the last to produce ``value``."""
        self._of_value.pop(value, None)
        self._of_value[value] = provenance
        if len(self._of_value) > _KEPT:
            del self._of_value[next(iter(self._of_value))]

    def clear(self) -> None:
        self._of_value.clear()


class _Edges(msgspec.Struct, eq=False):
    """A generator's state at the start and end of the recording, and whether it was drawn from in between."""

    before: str
    rest: str
    """Its state when it was last known not to have drawn since; empty where nothing is known."""
    after: str = ""
    drew: bool = False
    drawn_from: Provenance | None = None
    """The origin of the state that it drew from first, or first of those that the machine chose."""
    last: Provenance = UNSEEN
    reseeded: list[EventEntry] = []
    """Events of the last seeding, if it had drawn before."""
    replaced: str = ""
    """The state that the last seeding replaced."""

    def moved_to(self, state: str, provenance: Provenance) -> None:
        """Note whether it was drawn from up to ``state``; ``provenance``: where its state came from until now."""
        if self.rest in ("", state):
            return
        for event in self.reseeded:
            event.after_draws = True
        self.reseeded = []
        self.rest, self.drew = state, True
        is_machines = self.drawn_from is not None and self.drawn_from.origin is SeedOrigin.MACHINE
        if self.drawn_from is None or (provenance.origin is SeedOrigin.MACHINE and not is_machines):
            self.drawn_from = provenance


class GeneratorRecord:
    """One recording's view of the generators, from ``start`` to ``stop``, any number of times."""

    def __init__(self, *watches: GeneratorWatch) -> None:
        self._watches = watches
        self._edges: dict[str, _Edges] = {}
        self._is_recording = False

    def start(self) -> None:
        for watch in self._watches:
            watch.look_again()
            for name, state, _ in watch.states():
                self.appeared(name, state)
            watch.recordings.append(self)
        self._is_recording = True

    def stop(self) -> None:
        self.look()
        self._is_recording = False
        for watch in self._watches:
            if self in watch.recordings:
                watch.recordings.remove(self)

    def look(self) -> None:
        if not self._is_recording:
            return
        for watch in self._watches:
            watch.look_again()
            for name, state, provenance in watch.states():
                edges = self._edges.setdefault(name, _Edges("", ""))
                edges.after, edges.last = state, provenance
                edges.moved_to(state, provenance)

    def generators(self, drawn: Iterable[Drawn]) -> Iterator[Generator]:
        """Every generator; ``drawn``: those of torch's that the recorded calls drew from, in order."""
        draws = list(drawn)
        drew = {name for name, _, _ in draws}
        first = {name: provenance for name, provenance, _ in reversed(draws) if provenance is not UNUSED}
        for name, edges in sorted(self._edges.items(), key=lambda entry: entry[0] in _HOSTS):
            is_hosts = name in _HOSTS
            provenance = (edges.drawn_from if is_hosts else first.get(name)) or edges.last
            moved = edges.drew if edges.before or edges.drew else None
            yield Generator(
                name=name,
                origin=provenance.origin,
                seeded_at=spell(provenance.site),
                before=edges.before,
                after=edges.after,
                drew=moved if is_hosts else name in drew,
            )

    def appeared(self, name: str, state: str) -> None:
        """Draws from this generator, from ``state`` on, belong to this recording."""
        self._edges.setdefault(name, _Edges(state, state)).rest = state

    def drew_aside(self, name: str, before: str, after: str) -> None:
        """What a library draws as it is imported, or a launcher as it waits, is no draw of the step."""
        edges = self._edges.get(name)
        if edges is not None and edges.rest == before:
            edges.rest = after

    def seeded(self, name: str, former: Provenance, before: str, after: str, events: list[EventEntry]) -> None:
        """Separate the draws before a seed from those after it; ``former``: where the state ``before`` came from."""
        edges = self._edges.setdefault(name, _Edges("", before))
        if after == edges.replaced:  # a block ended: what it was seeded with inside is past
            edges.reseeded = []
        edges.moved_to(before, former)
        edges.rest, edges.replaced = after, before
        edges.reseeded = events if edges.drew else []


class GeneratorWatch:
    """Watches this process's generators; recorders and a runner start and stop it, each with its own log."""

    def __init__(self) -> None:
        self._sites = Sites()
        self._provenance_at = cache(Provenance)
        self._logs: list[EventLog] = []
        self.recordings: list[GeneratorRecord] = []
        self._undo: list[Callable[[], None]] = []
        self._process = os.getpid()

    def look_again(self) -> None:
        """Watch what was loaded since."""

    def states(self) -> Iterator[tuple[str, str, Provenance]]:
        """Yield each generator's name, the digest of its state, and where that came from."""
        return iter(())

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
