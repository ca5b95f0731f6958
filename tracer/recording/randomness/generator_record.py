"""The process's generators in one recording: their states at its start and end, and whether they drew in between."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from tracer.names import SeedOrigin
from tracer.recording.events import EventEntry
from tracer.recording.origin.sites import spell
from tracer.recording.randomness.generators import SEEDS, Drawn, digest_of, state_of
from tracer.recording.randomness.host_generators import HOST, NUMPY, PYTHON
from tracer.recording.randomness.provenance import UNSEEN, UNUSED, Provenance
from tracer.recording.torch_private import seams
from tracer.trace.records import Generator


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

    def __init__(self) -> None:
        self._edges: dict[str, _Edges] = {}
        self._is_recording = False

    def start(self) -> None:
        """Recording starts."""
        HOST.look_again()
        for name, state, _ in _states():
            self.appeared(name, state)
        for watch in (SEEDS, HOST):
            watch.recordings.append(self)
        self._is_recording = True

    def stop(self) -> None:
        """Recording ends."""
        self.look()
        self._is_recording = False
        for watch in (SEEDS, HOST):
            if self in watch.recordings:
                watch.recordings.remove(self)

    def look(self) -> None:
        """Read the current states while recording."""
        if not self._is_recording:
            return
        HOST.look_again()
        for name, state, provenance in _states():
            edges = self._edges.setdefault(name, _Edges("", ""))
            edges.after, edges.last = state, provenance
            edges.moved_to(state, provenance)

    def generators(self, drawn: Iterable[Drawn]) -> Iterator[Generator]:
        """Every generator; ``drawn``: those of torch's that the recorded calls drew from, in order."""
        draws = list(drawn)
        drew = {name for name, _, _ in draws}
        first = {name: provenance for name, provenance, _ in reversed(draws) if provenance is not UNUSED}
        for name, edges in sorted(self._edges.items(), key=lambda entry: entry[0] in (PYTHON, NUMPY)):
            is_hosts = name in (PYTHON, NUMPY)
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


def _states() -> Iterator[tuple[str, str, Provenance]]:
    """Yield each generator's name, its state, and where that came from."""
    for name, generator in seams.default_generators():
        yield name, digest_of(state_of(generator)), SEEDS.provenance(generator)
    for host in HOST.generators.values():
        yield host.name, host.digest(), host.provenance
