"""Generators of the program's own that were made without a fixed seed and drew, by the line that made each.

A generator that is given a state before it is drawn from counts as the one does that this state came from. What workers
of a loader make or draw is not seen. Imports neither torch nor NumPy.
"""

from __future__ import annotations

import gc
import os
import random
import sys
import weakref
from array import array
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from types import FrameType
from typing import Any

import msgspec

from tracer.names import GeneratorKind
from tracer.recording.events import EventLog
from tracer.recording.origin import LIBRARY, USER, Sites, outwards, placed
from tracer.recording.patching import WatchedCall, WatchedFunction, Watchers
from tracer.recording.randomness import seed_calls
from tracer.trace.records import OwnGenerator

_RANDOM = os.path.abspath(random.__file__)
_NUMPY_RANDOM = os.path.join("numpy", "random", "")
_OWN = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "")
_UNPICKLES = os.path.join("numpy", "random", "_pickle.py")
_KEPT = 1024
#: NumPy's own bit generators.
_NUMPY_BITS = frozenset({"PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64"})

_State = tuple[int, int]
"""Hashes of what a state shares with those shortly before and after it, and of all of it."""


class _Followed(msgspec.Struct, eq=False):
    """A generator without a seed, which is held to be looked at in the end."""

    alive: Callable[[], Any]
    at_birth: Callable[[], _State]
    counted: OwnGenerator
    line: seed_calls.CodePlace
    is_elsewhere: bool = False
    """Whether a loader's worker may have a copy."""

    @property
    def drew(self) -> bool:
        generator = self.alive()
        return generator is not None and hashed_state(generator) != self.at_birth()


class OwnGenerators:
    def __init__(self, sites: Sites, events: EventLog) -> None:
        self._sites = sites
        self._events = events
        self._counts: Counter[OwnGenerator] = Counter()
        self._entropy = seed_calls.Newest(_KEPT)
        """The last numbers that NumPy took from the system for generators without a seed."""
        self._followed: dict[int, _Followed] = {}

    def start(self) -> None:
        WATCHERS.add(self)

    def stop(self) -> None:
        WATCHERS.discard(self)

    def listed(self) -> tuple[OwnGenerator, ...]:
        """The generators, in order of first occurrence."""
        counts = Counter(self._counts)
        for followed in tuple(self._followed.values()):
            if followed.drew:
                counts[followed.counted] += 1
            elif followed.is_elsewhere:
                counts[msgspec.structs.replace(followed.counted, drew=False)] += 1
        return tuple(msgspec.structs.replace(made, count=count) for made, count in counts.items())

    def may_draw_elsewhere(self) -> None:
        """A loader starts workers: they may have copies."""
        for followed in self._followed.values():
            followed.is_elsewhere = True

    def python_is_seeded(self, call: WatchedCall) -> None:
        """``seed`` of a ``random.Random``, which its construction calls too."""
        is_made = call.frame.f_code.co_filename == _RANDOM and call.frame.f_code.co_name == "__init__"
        frame = _outside(call.frame) if is_made else call.frame
        seed = call.args[1] if len(call.args) > 1 else next(iter(call.kwargs.values()), None)
        self.is_seeded(GeneratorKind.PYTHON_OBJECTS, call.first, call.before, seed, frame)

    def is_seeded(
        self, kind: GeneratorKind, generator: Any, before: _State, seed: object, frame: FrameType | None
    ) -> None:
        self.begins_anew(generator, before)
        if seed is None or seed_calls.takes_another_number(frame, seed):
            self._starts(kind, generator, seed is not None, frame)

    def takes_from_the_system(self, call: WatchedCall) -> None:
        """A ``random.SystemRandom`` is made, which has no state to compare or seed; packages name files by one."""
        frame = _outside(call.frame)
        if frame is not None and self._sites.kind_of(frame.f_code.co_filename) == USER:
            self._counts.update(filter(None, [self._counted_as(GeneratorKind.PYTHON_OBJECTS, False, frame)]))

    def _starts(self, kind: GeneratorKind, generator: Any, is_seeded: bool, frame: FrameType | None) -> None:
        """``generator`` has a state that is another one in every process."""
        made = self._counted_as(kind, is_seeded, frame)
        if made is not None and frame is not None:
            state = hashed_state(generator)
            self._follow(generator, lambda: state, made, seed_calls.place_of(frame))

    def _follow(
        self, generator: Any, at_birth: Callable[[], _State], counted: OwnGenerator, line: seed_calls.CodePlace
    ) -> None:
        identity = id(generator)
        may_hold_more = isinstance(generator, random.Random) and type(generator) is not random.Random
        weak = weakref.ref(generator, lambda _: self._leave(identity, has_drawn=True)) if may_hold_more else None
        self._followed[identity] = _Followed(weak or (lambda: generator), cache(at_birth), counted, line)
        if len(self._followed) > _KEPT:
            self._leave(next(iter(self._followed)), has_drawn=True)

    def _leave(self, identity: int, *, has_drawn: bool) -> None:
        """Follow a generator no more, which counts if it drew, or may have."""
        followed = self._followed.pop(identity, None)
        if followed is not None and has_drawn:
            self._counts[followed.counted] += 1

    def begins_anew(self, generator: Any, before: _State) -> None:
        """A generator has another state: what it began with counts if it drew before."""
        entry = self._followed.get(id(generator))
        if entry is not None and entry.alive() is generator:
            has_drawn = before != entry.at_birth()
            self._leave(id(generator), has_drawn=has_drawn)
            if not has_drawn:
                seed_calls.UNSEEDED_AT.discard(entry.line)

    def is_given_a_state(self, call: WatchedCall) -> None:
        """A generator is given a state, which may be that of one without a seed: it is copied, or restored."""
        if _is_global(call.first):
            return
        state = hashed_state(call.first)
        source = self.having(state[0])
        self.begins_anew(call.first, call.before)
        if source is not None:
            self._follow(call.first, lambda: state, source.counted, source.line)
        elif any(has(state[0]) for has in HAVE_UNSEEDED):
            is_pythons = isinstance(call.first, random.Random)
            kind = GeneratorKind.PYTHON_OBJECTS if is_pythons else GeneratorKind.NUMPY_OBJECTS
            self._starts(kind, call.first, False, _outside(call.frame))

    def having(self, table: int) -> _Followed | None:
        """A generator that is followed, and began with a state of this table."""
        return next((followed for followed in self._followed.values() if followed.at_birth()[0] == table), None)

    def numpy_took_entropy(self, call: WatchedCall) -> None:
        """NumPy asked the system for the number that a generator without a seed starts from."""
        self._entropy.note(call.result)

    def numpy_grows(self, call: WatchedCall) -> None:
        frame, seeds = _outside(call.frame), call.first
        number = getattr(seeds, "entropy", None)
        asking = call.frame.f_code.co_filename
        if frame is None or asking.endswith(_UNPICKLES) or asking.startswith(_OWN):  # its state is put back right after
            return
        is_seeded = not (isinstance(number, int) and number in self._entropy)
        if is_seeded and not seed_calls.takes_another_number(frame, number):
            return
        made = self._counted_as(GeneratorKind.NUMPY_OBJECTS, is_seeded, frame)
        bits = None if made is None or is_seeded else _growing_from(seeds)
        if made is not None and bits is not None:
            self._follow(bits, lambda: hashed_state(type(bits)(seeds)), made, seed_calls.place_of(frame))
        elif made is not None:
            self._counts[made] += 1

    def numpy_is_given_a_seed(self, call: WatchedCall) -> None:
        """``RandomState(seed)`` seeds a generator that it constructed from entropy; so does ``seed``."""
        if _is_global(call.first):
            return
        seed = call.args[1] if len(call.args) > 1 else call.kwargs.get("seed")
        self.is_seeded(GeneratorKind.NUMPY_OBJECTS, call.first, call.before, seed, _outside(call.frame))

    def _counted_as(self, kind: GeneratorKind, is_seeded: bool, frame: FrameType | None) -> OwnGenerator | None:
        if frame is None:
            return None
        if self._sites.kind_of(frame.f_code.co_filename) <= 0 or self._sites.is_import(frame):
            return None
        seed_calls.UNSEEDED_AT.add(seed_calls.place_of(frame))
        site, own = self._sites.innermost(frame), self._sites.users_own(frame)
        is_librarys, phase = site.kind == LIBRARY, self._events.phase()
        return OwnGenerator(**placed(site, own), kind=kind, is_seeded=is_seeded, phase=phase, by_library=is_librarys)


def _outside(frame: FrameType | None) -> FrameType | None:
    """The caller's frame, outside ``random``, NumPy's ``random`` and this package."""
    for caller in outwards(frame):
        file = caller.f_code.co_filename
        if file != _RANDOM and not file.startswith(_OWN) and _NUMPY_RANDOM not in file:
            return caller
    return None


def _is_global(generator: Any) -> bool:
    """Whether it is NumPy's global one, which is watched by itself."""
    hidden = getattr(getattr(sys.modules.get("numpy.random"), "mtrand", None), "_rand", None)
    return generator is getattr(hidden, "_bit_generator", None)


def hashed_state(generator: Any) -> _State:
    try:
        if isinstance(generator, random.Random):
            state: Any = generator.getstate()
        else:
            state = as_bytes(generator.state)
        return hash(table_of(state)), hash(state)
    except Exception:  # a subclass that keeps none
        return 0, 0


def table_of(state: Any) -> Any:
    """What a state of Python's or NumPy's has in common with those shortly before and after it: a Mersenne twister's
    table, which some 600 draws leave as it is, or the number that tells one stream from another."""
    if not isinstance(state, tuple):
        return state
    if isinstance(state[0], int):
        return state[1][:-1]
    numbers = dict(state)["state"]
    return next((value for name, value in numbers if name in ("key", "inc")), numbers)


def _growing_from(seeds: Any) -> Any:
    """The generator of NumPy's that is being constructed from ``seeds``: one of the youngest objects."""
    for generation in range(3):
        for bits in gc.get_objects(generation):
            if type(bits).__name__ in _NUMPY_BITS and getattr(bits, "_seed_seq", None) is seeds:
                return bits
    return None


def words_as_bytes(state: Any) -> Any:
    """A state of Python's in a form that compares, and that takes the same memory whichever numbers nobody chose: the
    program's objects then lie where they lie in other runs whose addresses are held."""
    version, words, gauss = state
    return version, array("Q", words).tobytes(), gauss


def as_bytes(state: Any) -> Any:
    """A state of NumPy's as ``words_as_bytes`` gives one of Python's: arrays as bytes."""
    if isinstance(state, dict):
        return tuple((key, as_bytes(value)) for key, value in state.items())
    return state.tobytes() if hasattr(state, "tobytes") else state


def look(call: WatchedCall) -> None:
    call.before = hashed_state(call.first)


def _functions() -> Iterator[WatchedFunction]:
    yield WatchedFunction([(random.Random, "seed")], look=look, after=OwnGenerators.python_is_seeded)
    yield WatchedFunction([(random.Random, "setstate")], look=look, after=OwnGenerators.is_given_a_state)
    yield WatchedFunction([(random.SystemRandom, "seed")], after=OwnGenerators.takes_from_the_system)
    seeds: Any = sys.modules.get("numpy.random.bit_generator")
    yield WatchedFunction([(seeds, "randbits")], after=OwnGenerators.numpy_took_entropy)
    yield WatchedFunction([(getattr(seeds, "SeedSequence", None), "generate_state")], after=OwnGenerators.numpy_grows)
    numpy: Any = sys.modules.get("numpy.random")
    yield WatchedFunction(
        [(getattr(numpy, "MT19937", None), "_legacy_seeding")], look=look, after=OwnGenerators.numpy_is_given_a_seed
    )
    states = [(getattr(numpy, name, None), "state") for name in sorted(_NUMPY_BITS)]
    yield WatchedFunction(states, look=look, after=OwnGenerators.is_given_a_state)


#: Each tells of a table whether a global generator has it that nobody seeded.
HAVE_UNSEEDED: list[Callable[[int], bool]] = []
#: The watch of this process.
WATCHERS: Watchers[OwnGenerators] = Watchers(_functions)
