"""Python's ``random`` and NumPy's global generator: who seeded and who drew. Imports neither torch nor NumPy.

Both modules offer the methods of one hidden generator as functions. Those that seed are replaced during a watch, and
NumPy's that draw; of Python's standard library nothing else is. That somebody drew shows in the generator's state.
"""

from __future__ import annotations

import hashlib
import os
import random
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from types import FrameType
from typing import Any, Protocol

from tracer.names import GeneratorKind, SeedOrigin
from tracer.recording.events import EventEntry, EventLog
from tracer.recording.origin.sites import LIBRARY, SKIPPED, USER, is_torchs_own
from tracer.recording.patching import Call, Watch, in_children
from tracer.recording.randomness import own_generators, seed_calls
from tracer.recording.randomness.own_generators import as_bytes
from tracer.recording.randomness.provenance import MACHINE, UNSEEN, GeneratorWatch, Newest, Provenance
from tracer.recording.torch_private.launchers import LAUNCHER, LAUNCHER_WAITS

PYTHON, NUMPY = GeneratorKind.PYTHON.value, GeneratorKind.NUMPY.value
_RESTORES = frozenset({"setstate", "set_state"})
#: What NumPy offers as functions that are not the hidden generator's methods themselves.
_NUMPY_FUNCTIONS = frozenset({"seed", "ranf", "sample"})


class HostListener(Protocol):
    """A recording that is notified of the two generators."""

    def host_appeared(self, generator: HostGenerator) -> None:
        """``generator`` is watched from now on."""

    def host_drew(self, generator: HostGenerator, op: str, frame: FrameType) -> None:
        """``op`` draws from ``generator``."""

    def host_drew_aside(self, generator: HostGenerator, before: str, after: str) -> None:
        """A library drew, from the state ``before`` to ``after``, and that is no draw of the program's."""

    def host_seeded(self, generator: HostGenerator, former: Provenance, before: str, events: list[EventEntry]) -> None:
        """``generator`` was seeded; its state was ``before`` and came from ``former``."""


class HostGenerator:
    """One of the two hidden generators."""

    def __init__(self, name: str, module: Any, hidden: Any, get_state: Callable[[], object]) -> None:
        self.name = name
        self.module = module
        self.hidden = hidden
        self._get_state = get_state
        self.provenance = UNSEEN
        self.rest = ""
        """Its state when it was given that, or when watching began."""
        self.as_seeded = ""
        """Its state before the call that seeds it now."""

    def digest(self) -> str:
        """The digest of its state, sixteen hexadecimal digits; empty if it cannot be read."""
        try:
            return _digest(self._get_state())
        except Exception:
            return ""

    def stretch(self) -> int:
        """What its state has in common with those shortly before and after it: a Mersenne twister's table, which some
        600 draws leave as it is."""
        try:
            state: Any = self._get_state()
            return hash(state[1][:-1] if self.name == PYTHON else str(state[1][1][0]))
        except Exception:
            return 0

    def drew_unseeded(self) -> bool:
        """Whether it was drawn from since the machine chose its state."""
        return self.provenance.origin is SeedOrigin.MACHINE and (self.as_seeded or self.digest()) != self.rest


class HostWatch(GeneratorWatch):
    """The watch of the two hidden generators."""

    def __init__(self) -> None:
        super().__init__()
        for name in (PYTHON, NUMPY):
            seed_calls.DREW_UNSEEDED[name] = partial(self._drew_unseeded, name)
        self.generators: dict[str, HostGenerator] = {}
        self.saved = Newest()
        """Stretch of states that a generator was in -> where they came from."""
        self.recordings: list[HostListener] = []
        self._watches_launcher = False
        self._at_import: object = None
        """The state of Python's generator as the last module was to be imported."""
        self._is_child = False
        in_children(self._forked)

    def start(self, log: EventLog, *, from_process_start: bool = False) -> None:
        """Note in ``log`` what seeds the two generators. ``from_process_start``: none can have been seeded before."""
        if os.getpid() != self._process or self._is_child:  # a forked child that records for itself
            self._process, self._is_child = os.getpid(), False
            self._logs.clear()
            self.recordings.clear()
            self._put_back()
        is_first = not self._logs
        self._logs.append(log)
        if is_first:
            self.generators.clear()
        self.look_again()
        if is_first and from_process_start:
            self.generators[PYTHON].provenance = MACHINE

    def stop(self, log: EventLog) -> None:
        """End the watch that ``start`` began with this log; the last one restores the functions."""
        if log in self._logs:
            self._logs.remove(log)
        if not self._logs:
            self._put_back()
            self._watches_launcher = False
            self.saved.clear()

    def look_again(self, *, nobody_seeded: bool = False) -> None:
        """Watch NumPy's generator too, if NumPy was loaded since; ``nobody_seeded``: it was loaded just now."""
        if self.is_asleep():
            return
        own_generators.WATCHERS.look_again()  # NumPy may be loaded by now
        launcher = sys.modules.get(LAUNCHER)
        if launcher is not None and not self._watches_launcher:  # it draws the time that it waits
            waits = Watch(self._launcher_begins, self._launcher_waited)
            self._watches_launcher = self._watch((launcher, LAUNCHER_WAITS), waits)
        for generator in self._loaded():
            if generator.name not in self.generators:
                generator.provenance = MACHINE if nobody_seeded else UNSEEN
                generator.rest = generator.digest()
                self.generators[generator.name] = generator
                self._replace(generator)
                for recording in tuple(self.recordings):
                    recording.host_appeared(generator)

    def imports(self, frame: FrameType) -> None:
        """A module is to be imported by ``frame``. What libraries draw between two such moments of one import of the
        program's own (``rich`` draws a number for its styles) is no draw of the program."""
        generator = self.generators.get(PYTHON)
        if generator is None or self.is_asleep():
            return
        code = frame.f_code
        kind = self._sites.kind_of(code.co_filename) if code.co_name == "<module>" else USER
        if kind <= SKIPPED:  # torch and the standard library draw nothing as they load, and a state is costly to read
            return
        state = generator.hidden.getstate()
        if kind == LIBRARY and self._at_import is not None and state != self._at_import:
            self._drew_aside(_digest(self._at_import), _digest(state))
        self._at_import = state

    def _drew_aside(self, before: str, after: str) -> None:
        generator = self.generators[PYTHON]
        generator.rest = after if generator.rest == before else generator.rest
        for recording in tuple(self.recordings):
            recording.host_drew_aside(generator, before, after)

    def _launcher_begins(self, call: Call) -> None:
        call.before = self.generators[PYTHON].digest()

    def _launcher_waited(self, call: Call) -> None:
        self._drew_aside(call.before, self.generators[PYTHON].digest())

    def _drew_unseeded(self, name: str) -> bool:
        return not self._is_child and name in self.generators and self.generators[name].drew_unseeded()

    def is_asleep(self) -> bool:
        """Whether nothing watches, or this is a forked child."""
        return self._is_child or not self._logs

    def _forked(self) -> None:
        self._is_child = True

    def _drew(self, generator: HostGenerator, op: str, call: Call) -> None:
        with suppress(Exception):
            for recording in tuple(self.recordings):
                recording.host_drew(generator, op, call.frame)

    def _seeded(self, generator: HostGenerator, name: str, call: Call) -> None:
        """A generator was seeded or its state was set."""
        args, frame = (*call.args, *call.kwargs.values()), call.frame
        (before, stretch), former, is_restored = call.before, generator.provenance, name in _RESTORES
        self.saved.note((generator.name, stretch), former)
        saved = self.saved.get((generator.name, generator.stretch())) if is_restored else None
        if saved is not None and before == generator.digest():
            return  # torch's compiler does so in the program's own frame, whenever it comes upon one
        is_drawn = False
        if is_restored:
            origin = SeedOrigin.RESTORED
        elif not args or args[0] is None:
            origin = SeedOrigin.MACHINE
        else:
            generator.as_seeded = before
            is_drawn = seed_calls.takes_another_number(frame)
            generator.as_seeded = ""
            origin = SeedOrigin.MACHINE if is_drawn else SeedOrigin.PROGRAM
        generator.provenance, generator.rest = saved or self._at(origin, frame), generator.digest()
        is_torchs = is_restored and is_torchs_own(frame.f_code.co_filename)  # what it compiled may have drawn
        seed = next(iter(args), None)
        events = [] if is_torchs else self._note_event(generator.name, origin, frame, seed, is_drawn=is_drawn)
        for recording in tuple(self.recordings):
            recording.host_seeded(generator, former, before, events)

    def _loaded(self) -> Iterator[HostGenerator]:
        inst = getattr(random, "_inst", None)
        if inst is not None:
            yield HostGenerator(PYTHON, random, inst, inst.getstate)
        numpy: Any = sys.modules.get("numpy.random")
        hidden = getattr(getattr(numpy, "mtrand", None), "_rand", None)
        if hidden is not None and hasattr(numpy, "set_state"):
            yield HostGenerator(NUMPY, numpy, hidden, lambda: as_bytes(hidden.get_state(legacy=False)))

    def _replace(self, generator: HostGenerator) -> None:
        module, hidden = generator.module, generator.hidden
        for name, function in list(vars(module).items()):
            if name.startswith("_") or not callable(function):
                continue
            is_own = getattr(function, "__self__", None) is hidden
            is_numpys = generator.name == NUMPY and (is_own or name in _NUMPY_FUNCTIONS) and name != "get_state"
            if is_numpys or (is_own and (name == "seed" or name in _RESTORES)):
                self._watch((module, name), self._watch_of(generator, name))

    def _watch_of(self, generator: HostGenerator, name: str) -> Watch:
        """The wrapper around calls of one function of the module."""
        if name == "seed" or name in _RESTORES:
            return Watch(partial(_note_state, generator), partial(self._seeded, generator, name))
        return Watch(partial(self._drew, generator, f"{generator.module.__name__}.{name}"))


def _digest(state: object) -> str:
    return hashlib.blake2b(repr(state).encode(), digest_size=8).hexdigest()


def _note_state(generator: HostGenerator, call: Call) -> None:
    call.before = generator.digest(), generator.stretch()


#: The watch of this process.
HOST = HostWatch()
