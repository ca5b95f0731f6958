"""Where a generator's state came from, by its seed, and whether it drew: Python's and NumPy's global generators.

A generator keeps its initial seed, which connects a draw to the line that seeded, through copies, saved states and
forks. Both modules offer methods of one hidden generator as functions. Imports neither torch nor NumPy.
"""

from __future__ import annotations

import hashlib
import importlib
import marshal
import os
import random
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from functools import cache, partial
from types import FrameType
from typing import Any

import msgspec

from tracer.names import EventKind, GeneratorKind, SeedOrigin
from tracer.recording.events import EventLog
from tracer.recording.origin import LIBRARY, NOWHERE, SKIPPED, USER, Site, Sites, is_torchs_own, spell
from tracer.recording.patching import Holder, Watch, WatchedCall, place
from tracer.recording.randomness import own_generators, seed_calls
from tracer.recording.randomness.own_generators import as_bytes, hashed_state, words_as_bytes
from tracer.recording.randomness.seed_calls import Newest
from tracer.recording.torch_private import LAUNCHER, LAUNCHER_WAITS
from tracer.trace.records import Generator

PYTHON, NUMPY = GeneratorKind.PYTHON.value, GeneratorKind.NUMPY.value


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

    def moved_to(self, state: str, provenance: Provenance) -> None:
        """Note whether it was drawn from up to ``state``; ``provenance``: where its state came from until now."""
        if self.rest in ("", state):
            return
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

    def seeded(self, name: str, former: Provenance, before: str, after: str) -> None:
        """Separate the draws before a seed from those after it; ``former``: where the state ``before`` came from."""
        edges = self._edges.setdefault(name, _Edges("", before))
        edges.moved_to(before, former)
        edges.rest = after


class GeneratorWatch:
    """Watches this process's generators; recorders and a runner start and stop it, each with its own log."""

    def __init__(self) -> None:
        self._sites = Sites()
        self._provenance_at = cache(Provenance)
        self._logs: list[EventLog] = []
        self.recordings: list[GeneratorRecord] = []
        self._undo = ExitStack()
        self._process = os.getpid()

    def look_again(self) -> None:
        """Watch what was loaded since."""

    def states(self) -> Iterator[tuple[str, str, Provenance]]:
        return iter(())

    def _begin(self, log: EventLog) -> bool:
        """Note in ``log`` what seeds a generator; returns whether nothing was watched before."""
        if os.getpid() != self._process:  # a forked child that records for itself
            self._process = os.getpid()
            self._logs.clear()
            self.recordings.clear()
            self._undo.close()
        self._logs.append(log)
        return len(self._logs) == 1

    def _end(self, log: EventLog) -> bool:
        """End what ``_begin`` began with this log; the last one puts the functions back, and ``True`` is returned."""
        if log in self._logs:
            self._logs.remove(log)
        if not self._logs:
            self._undo.close()
        return not self._logs

    def is_asleep(self) -> bool:
        """Whether nothing watches, or this is a forked child."""
        return not self._logs or os.getpid() != self._process

    def _watch(self, holder: Holder, watch: Watch) -> bool:
        """Replace a function until the watch ends; returns whether that is possible."""
        lift = place([holder], watch)
        if lift is not None:
            self._undo.callback(lift)
        return lift is not None

    def _at(self, origin: SeedOrigin, frame: FrameType | None) -> Provenance:
        return self._provenance_at(origin, self._sites.innermost(frame))

    def _note_event(
        self, name: str, origin: SeedOrigin, frame: FrameType | None, seed: object = None, *, is_drawn: bool = False
    ) -> None:
        """Note in each log that generator ``name`` was seeded, with ``seed`` if that is a number; ``is_drawn``: one
        that differs in every process."""
        logs = {id(log): log for log in self._logs}.values()
        noted = (log.note(EventKind.SEED, name, frame=frame, value=str(origin), seed=seed) for log in logs)
        for event in noted:
            if event is not None and is_drawn:
                event.is_drawn = True
                drawn_at = None if event.drawn_at else seed_calls.drawn_at(frame, seed)
                event.drawn_at = event.drawn_at if drawn_at is None else spell(self._sites.resolve(*drawn_at))


class HostGenerator(msgspec.Struct, eq=False):
    """A library's hidden global generator: how it is found, read and given a state."""

    name: str
    module: Any
    restores: str
    hidden: Any
    state: Callable[[], Any]
    """Its state as ``words_as_bytes`` and ``as_bytes`` give one."""
    provenance: Provenance = UNSEEN
    rest: str = ""
    """The state that the machine last chose, or that watching began with; empty if a state of the machine's was
    drawn from and replaced: a number from it stays what it is."""

    def digest(self) -> str:
        try:
            return _digest(self.state())
        except Exception:
            return ""

    def stretch(self) -> tuple[str, int]:
        """Names the generator and the table that its state has."""
        return self.name, hashed_state(self.hidden)[0]

    def drew_unseeded(self) -> bool:
        return self.provenance.origin is SeedOrigin.MACHINE and self.digest() != self.rest


def host_generators() -> Iterator[HostGenerator]:
    inst = getattr(random, "_inst", None)
    if inst is not None:
        yield HostGenerator(PYTHON, random, "setstate", inst, lambda: words_as_bytes(inst.getstate()))
    numpy: Any = sys.modules.get("numpy.random")
    hidden = getattr(getattr(numpy, "mtrand", None), "_rand", None)
    if hidden is not None and hasattr(numpy, "set_state"):
        read = lambda: as_bytes(hidden.get_state(legacy=False))  # noqa: E731
        yield HostGenerator(NUMPY, numpy, "set_state", hidden._bit_generator, read)


class HostWatch(GeneratorWatch):
    def __init__(self) -> None:
        super().__init__()
        for name in (PYTHON, NUMPY):
            seed_calls.DREW_UNSEEDED[name] = partial(self._drew_unseeded, name)
        self.generators: dict[str, HostGenerator] = {}
        self.saved = Newest()
        """Stretch of states that a generator was in -> where they came from."""
        self._watches_launcher = False
        own_generators.HAVE_UNSEEDED.append(self._has_unseeded)
        self._at_import: dict[str, Any] = {}
        """The states as the last module was to be imported."""

    def start(self, log: EventLog, *, from_process_start: bool = False) -> None:
        """Note in ``log`` what seeds the two generators. ``from_process_start``: none can have been seeded before."""
        is_first = self._begin(log)
        if is_first:
            self.generators.clear()
        self.look_again()
        if is_first and from_process_start:
            self.generators[PYTHON].provenance = MACHINE
        elif is_first and "numpy" in sys.modules and "numpy.random" not in sys.modules:  # which loads itself when asked
            importlib.import_module("numpy.random")
            self.look_again(nobody_seeded=True)

    def stop(self, log: EventLog) -> None:
        """End the watch that ``start`` began with this log; the last one restores the functions."""
        if self._end(log):
            self._watches_launcher = False
            self.saved.clear()
            seed_calls.REPLACED.clear()

    def look_again(self, *, nobody_seeded: bool = False) -> None:
        if self.is_asleep():
            return
        own_generators.WATCHERS.look_again()  # NumPy may be loaded by now
        launcher = sys.modules.get(LAUNCHER)
        if launcher is not None and not self._watches_launcher:  # it draws the time that it waits
            waits = Watch(self._launcher_begins, self._launcher_waited)
            self._watches_launcher = self._watch((launcher, LAUNCHER_WAITS), waits)
        for generator in host_generators():
            if generator.name not in self.generators:
                self.generators[generator.name] = generator
                generator.rest, generator.provenance = generator.digest(), MACHINE if nobody_seeded else UNSEEN
                for name in ("seed", generator.restores):
                    look = partial(_look, generator, is_seed=name == "seed")
                    self._watch((generator.module, name), Watch(look, partial(self._seeded, generator, name)))
                for recording in tuple(self.recordings):
                    recording.appeared(generator.name, generator.rest)

    def states(self) -> Iterator[tuple[str, str, Provenance]]:
        return ((each.name, each.digest(), each.provenance) for each in self.generators.values())

    def imports(self, frame: FrameType) -> None:
        """A module is to be imported by ``frame``. What libraries draw between two such moments of one import of the
        program's own (``rich`` draws a number for its styles) is no draw of the program."""
        code = frame.f_code
        kind = self._sites.kind_of(code.co_filename) if code.co_name == "<module>" else USER
        # Torch and the standard library draw nothing as they load, and a state is costly to read.
        if kind <= SKIPPED or self.is_asleep():
            return
        for name, generator in self.generators.items():
            state = generator.state()
            before = self._at_import.get(name, state)
            if kind == LIBRARY and state != before:
                self._drew_aside(generator, _digest(before), _digest(state))
            self._at_import[name] = state

    def _drew_aside(self, generator: HostGenerator, before: str, after: str) -> None:
        generator.rest = after if generator.rest == before else generator.rest
        for recording in tuple(self.recordings):
            edges = recording._edges.get(generator.name)
            if edges is not None and edges.rest == before:
                edges.rest = after

    def _launcher_begins(self, call: WatchedCall) -> None:
        call.before = self.generators[PYTHON].digest()

    def _launcher_waited(self, call: WatchedCall) -> None:
        self._drew_aside(self.generators[PYTHON], call.before, self.generators[PYTHON].digest())

    def _drew_unseeded(self, name: str) -> bool:
        return not self.is_asleep() and name in self.generators and self.generators[name].drew_unseeded()

    def _has_unseeded(self, table: int) -> bool:
        """Return whether one of the two has a state of this table, or had it, that nobody seeded."""
        for name, generator in self.generators.items():
            known = generator.provenance if generator.stretch()[1] == table else self.saved.get((name, table))
            if known is not None and known.origin is SeedOrigin.MACHINE:
                return not self.is_asleep()
        return False

    def _seeded(self, generator: HostGenerator, name: str, call: WatchedCall) -> None:
        (before, stretch, is_drawn), former, is_restored = call.before, generator.provenance, name != "seed"
        self.saved.note(stretch, former)
        saved = self.saved.get(generator.stretch()) if is_restored else None
        if is_restored and saved is None:
            owns = own_generators.WATCHERS.listeners
            saved = MACHINE if any(own.having(generator.stretch()[1]) is not None for own in owns) else None
        after, seed = generator.digest(), _number(call)
        if saved is not None and before == after:
            return  # torch's compiler does so in the program's own frame, whenever it comes upon one
        origin = SeedOrigin.MACHINE if seed is None or is_drawn else SeedOrigin.PROGRAM
        origin = SeedOrigin.RESTORED if is_restored else origin
        generator.provenance = saved or self._at(origin, call.frame)
        self.saved.note(generator.stretch(), generator.provenance)
        had_drawn = former.origin is SeedOrigin.MACHINE and not generator.rest
        if origin is SeedOrigin.MACHINE and not had_drawn:
            generator.rest = after
        is_torchs = is_restored and is_torchs_own(call.frame.f_code.co_filename)  # what it compiled may have drawn
        if not is_torchs:
            self._note_event(generator.name, origin, call.frame, seed, is_drawn=is_drawn)
        for recording in tuple(self.recordings):
            recording.seeded(generator.name, former, before, after)


def _digest(state: Any) -> str:
    return hashlib.blake2b(marshal.dumps(state, 2), digest_size=8).hexdigest()


def _number(call: WatchedCall) -> Any:
    return next(iter((*call.args, *call.kwargs.values())), None)


def _look(generator: HostGenerator, call: WatchedCall, *, is_seed: bool) -> None:
    number = _number(call) if is_seed else None
    is_drawn = number is not None and seed_calls.takes_another_number(call.frame, number)
    call.before = generator.digest(), generator.stretch(), is_drawn
    drew_unseeded = generator.drew_unseeded()
    seed_calls.is_replaced(generator.name, call.frame, drew_unseeded=drew_unseeded)
    if drew_unseeded:
        generator.rest = ""


#: The watch of this process.
HOST = HostWatch()
