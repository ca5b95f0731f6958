"""Python's ``random`` and NumPy's global generator: who seeded them. Imports neither torch nor NumPy.

Both modules offer the methods of one hidden generator as functions. Those that seed are replaced during a watch, and
nothing else. That somebody drew shows in the generator's state.
"""

from __future__ import annotations

import hashlib
import importlib
import random
import sys
from collections.abc import Callable, Iterator
from functools import partial
from types import FrameType
from typing import Any

import msgspec

from tracer.names import GeneratorKind, SeedOrigin
from tracer.recording.events import EventLog
from tracer.recording.origin.sites import LIBRARY, SKIPPED, USER, is_torchs_own
from tracer.recording.patching import Call, Watch
from tracer.recording.randomness import own_generators, seed_calls
from tracer.recording.randomness.own_generators import as_bytes, table_of
from tracer.recording.randomness.provenance import MACHINE, UNSEEN, GeneratorWatch, Newest, Provenance
from tracer.recording.torch_private import LAUNCHER, LAUNCHER_WAITS

PYTHON, NUMPY = GeneratorKind.PYTHON.value, GeneratorKind.NUMPY.value


class HostGenerator(msgspec.Struct, eq=False):
    """A library's hidden global generator: how it is found, read and given a state."""

    name: str
    module: Any
    restores: str
    hidden: Any
    state: Callable[[], Any]
    """Its state in a form that compares, and that ``repr`` shows in full."""
    provenance: Provenance = UNSEEN
    rest: str = ""
    """The state that the machine last chose, or that watching began with; empty if a state of the machine's was
    drawn from and replaced: a number from it stays what it is."""

    def digest(self) -> str:
        """The digest of its state, sixteen hexadecimal digits; empty if it cannot be read."""
        try:
            return _digest(self.state())
        except Exception:
            return ""

    def stretch(self) -> tuple[str, int]:
        """Names the generator and the table that its state has."""
        try:
            return self.name, hash(table_of(self.state()))
        except Exception:
            return self.name, 0

    def drew_unseeded(self) -> bool:
        """Whether it was drawn from since the machine chose its state."""
        return self.provenance.origin is SeedOrigin.MACHINE and self.digest() != self.rest


def host_generators() -> Iterator[HostGenerator]:
    inst = getattr(random, "_inst", None)
    if inst is not None:
        yield HostGenerator(PYTHON, random, "setstate", inst, inst.getstate)
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
        elif (
            is_first and "numpy" in sys.modules and "numpy.random" not in sys.modules
        ):  # it loads itself when asked for
            importlib.import_module("numpy.random")
            self.look_again(nobody_seeded=True)

    def stop(self, log: EventLog) -> None:
        """End the watch that ``start`` began with this log; the last one restores the functions."""
        if self._end(log):
            self._watches_launcher = False
            self.saved.clear()
            seed_calls.REPLACED.clear()

    def look_again(self, *, nobody_seeded: bool = False) -> None:
        """Watch NumPy's generator too, if NumPy was loaded since; ``nobody_seeded``: it was loaded just now."""
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
            recording.drew_aside(generator.name, before, after)

    def _launcher_begins(self, call: Call) -> None:
        call.before = self.generators[PYTHON].digest()

    def _launcher_waited(self, call: Call) -> None:
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

    def _seeded(self, generator: HostGenerator, name: str, call: Call) -> None:
        """A generator was seeded or its state was set."""
        (before, stretch, is_drawn), former, is_restored = call.before, generator.provenance, name != "seed"
        self.saved.note(stretch, former)
        saved = self.saved.get(generator.stretch()) if is_restored else None
        if is_restored and saved is None:
            _, table = generator.stretch()
            is_unseeded = any(own.having(table) is not None for own in own_generators.WATCHERS.listeners)
            saved = MACHINE if is_unseeded else None
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
        events = [] if is_torchs else self._note_event(generator.name, origin, call.frame, seed, is_drawn=is_drawn)
        for recording in tuple(self.recordings):
            recording.seeded(generator.name, former, before, after, events)


def _digest(state: object) -> str:
    return hashlib.blake2b(repr(state).encode(), digest_size=8).hexdigest()


def _number(call: Call) -> Any:
    return next(iter((*call.args, *call.kwargs.values())), None)


def _look(generator: HostGenerator, call: Call, *, is_seed: bool) -> None:
    number = _number(call) if is_seed else None
    is_drawn = number is not None and seed_calls.takes_another_number(call.frame, number)
    call.before = generator.digest(), generator.stretch(), is_drawn
    drew_unseeded = generator.drew_unseeded()
    seed_calls.is_replaced(generator.name, call.frame, drew_unseeded=drew_unseeded)
    if drew_unseeded:
        generator.rest = ""


#: The watch of this process.
HOST = HostWatch()
