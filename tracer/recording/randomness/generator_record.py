"""The process's generators in one recording: their states at its start and end, and draws on the host."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from types import FrameType

import msgspec

from tracer.names import Phase
from tracer.recording.events import EventEntry
from tracer.recording.origin.sites import LIBRARY, Site, Sites, placed, spell
from tracer.recording.randomness.generators import SEEDS, Drawn, digest_of, state_of
from tracer.recording.randomness.host_generators import HOST, HostGenerator
from tracer.recording.randomness.provenance import UNSEEN, UNUSED, Provenance
from tracer.recording.torch_private import seams
from tracer.trace.records import Draw, Generator

_Place = tuple[str, str, str, int, int, Provenance]


class _Edges(msgspec.Struct, eq=False):
    """A generator's state at the start and end of the recording, and whether it was drawn from in between."""

    before: str
    rest: str
    """Its state when it was last known not to have drawn since."""
    after: str = ""
    drew: bool = False
    first: Provenance | None = None
    """The origin of the state that it drew from first."""
    last: Provenance = UNSEEN
    reseeded: list[EventEntry] = []
    """Events of the last seeding, if it had drawn before."""
    drew_aside: bool = False
    """Whether the last recorded draw was of a library that was being imported, and so none of the step."""

    def moved_to(self, state: str, provenance: Provenance) -> None:
        """Note whether it was drawn from up to ``state``; ``provenance``: where its state came from until now."""
        if self.drew_aside:
            self.drew_aside, self.rest = False, state
        if state == self.rest:
            return
        for event in self.reseeded:
            event.after_draws = True
        self.reseeded = []
        self.rest, self.drew = state, True
        self.first = self.first or provenance


class _HostDraw(msgspec.Struct, eq=False):
    """Draws by one function at one line."""

    phase: Phase
    site: Site
    own: Site
    count: int = 0


class GeneratorRecord:
    """One recording's view of the generators, from ``start`` to ``stop``, any number of times."""

    def __init__(self, sites: Sites, phase: Callable[[], Phase]) -> None:
        self._sites = sites
        self._phase = phase
        self._torch: dict[str, _Edges] = {}
        self._host: dict[str, _Edges] = {}
        self._draws: dict[_Place, _HostDraw] = {}
        self._is_recording = False

    def start(self) -> None:
        """Recording starts."""
        SEEDS.follow()
        for name, generator in seams.default_generators():
            if name not in self._torch:
                state = digest_of(state_of(generator))
                self._torch[name] = _Edges(state, state)
        HOST.look_again()
        for host in HOST.generators.values():
            self.host_appeared(host)
        HOST.recordings.append(self)
        self._is_recording = True

    def stop(self) -> None:
        """Recording ends."""
        self.look()
        self._is_recording = False
        if self in HOST.recordings:
            HOST.recordings.remove(self)

    def look(self) -> None:
        """Read the current states while recording."""
        if not self._is_recording:
            return
        SEEDS.settle()
        for name, generator in seams.default_generators():
            edges = self._torch.setdefault(name, _Edges("", ""))
            edges.after, edges.last = digest_of(state_of(generator)), SEEDS.provenance(generator)
        HOST.look_again()
        for host in HOST.generators.values():
            state = host.digest()
            edges = self._host.setdefault(host.name, _Edges("", ""))
            edges.after, edges.last = state, host.provenance
            if edges.rest:
                edges.moved_to(state, host.provenance)

    def generators(self, drawn: Iterable[Drawn]) -> Iterator[Generator]:
        """Every generator; ``drawn``: those that the recorded calls drew from, in order."""
        draws = list(drawn)
        drew = {drawn[0] for drawn in draws}
        first = {name: provenance for name, provenance, _ in reversed(draws) if provenance is not UNUSED}
        for name, edges in self._torch.items():
            yield self._spelled(name, edges, first.get(name, edges.last), name in drew)
        for name, edges in self._host.items():
            moved = edges.drew if edges.before or edges.drew else None
            yield self._spelled(name, edges, edges.first or edges.last, moved)

    def draws(self) -> Iterator[Draw]:
        """Draws from the host's generators, in order of first occurrence."""
        for (name, op, _, _, _, provenance), draw in tuple(self._draws.items()):
            yield Draw(
                generator=name,
                op=op,
                phase=draw.phase,
                **placed(draw.site, draw.own),
                count=draw.count,
                origin=provenance.origin,
                seeded_at=spell(provenance.site),
            )

    def host_appeared(self, generator: HostGenerator) -> None:
        """Draws from now on belong to this recording."""
        state = generator.digest()
        self._host.setdefault(generator.name, _Edges(state, state)).rest = state

    def host_drew_aside(self, generator: HostGenerator, before: str, after: str) -> None:
        """What a library draws as it is imported, or a launcher as it waits, is no draw of the step."""
        edges = self._host.get(generator.name)
        if edges is not None and edges.rest == before:
            edges.rest = after

    def host_drew(self, generator: HostGenerator, op: str, frame: FrameType) -> None:
        """Count one draw, by the line outside the standard library that made it."""
        kind_of = self._sites.kind_of
        caller: FrameType | None = frame
        while caller is not None and kind_of(caller.f_code.co_filename) <= 0:
            caller = caller.f_back
        outside = caller or frame
        code = outside.f_code
        edges = self._host.get(generator.name)
        is_aside = (
            code.co_name == "<module>"
            and kind_of(code.co_filename) == LIBRARY
            and outside.f_globals.get("__name__") != "__main__"
        )
        if edges is not None and (is_aside or edges.drew_aside):
            edges.moved_to(generator.digest(), generator.provenance)
            edges.drew_aside = is_aside
        if is_aside:
            return
        key = (generator.name, op, code.co_filename, code.co_firstlineno, outside.f_lasti, generator.provenance)
        if key not in self._draws:
            site, own = self._sites.innermost(outside), self._sites.users_own(outside)
            self._draws[key] = _HostDraw(self._phase(), site, own)
        self._draws[key].count += 1

    def host_seeded(self, generator: HostGenerator, former: Provenance, before: str, events: list[EventEntry]) -> None:
        """Separate the draws before a seed from those after it."""
        edges = self._host.get(generator.name)
        if edges is None:
            return
        edges.moved_to(before, former)
        edges.rest = generator.digest()
        edges.reseeded = events if edges.drew else []

    def _spelled(self, name: str, edges: _Edges, provenance: Provenance, drew: bool | None) -> Generator:
        return Generator(
            name=name,
            origin=provenance.origin,
            seeded_at=spell(provenance.site),
            before=edges.before,
            after=edges.after,
            drew=drew,
        )
