"""Generators of the program's own that were made without a fixed seed and drew, by the line that made each.

Imports neither torch nor NumPy. Of Python the two methods of ``random.Random`` that seed are watched, of NumPy its own
functions. A generator that is given a state before it is drawn from does not count.
"""

from __future__ import annotations

import gc
import mmap
import os
import random
import sys
import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from types import FrameType
from typing import Any, NamedTuple

from tracer.names import GeneratorKind, Phase
from tracer.recording.events import EventLog
from tracer.recording.origin.sites import LIBRARY, Site, Sites, placed
from tracer.recording.patching import Call
from tracer.recording.randomness import seed_calls
from tracer.recording.watchers import Target, Watchers
from tracer.trace.records import OwnGenerator

_RANDOM = os.path.abspath(random.__file__)
_NUMPY_RANDOM = os.path.join("numpy", "random", "")
_OWN = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "")
_UNPICKLES = os.path.join("numpy", "random", "_pickle.py")
_KEPT = 1024
#: More than can be followed at a time; memory that nobody writes to costs nothing.
_MOST_BYTES = 1 << 20
#: What such a byte says of copies in workers: one drew, or nobody sees whether it does.
_DREW, _UNSEEN = 1, 2
#: NumPy's own bit generators.
_NUMPY_BITS = frozenset({"PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64"})

_Key = tuple[GeneratorKind, bool, Site, Site, Phase, bool]


class _Followed(NamedTuple):
    """A generator without a seed, which is held to be looked at in the end."""

    alive: Callable[[], Any]
    at_birth: Callable[[], object]
    """Gives its initial state."""
    key: _Key
    """How it was counted."""
    line: tuple[str, int]
    """Where it was made."""
    byte: int
    """What a worker sets that drew from its copy."""


class OwnGenerators:
    """Those of one watch of the process."""

    def __init__(self, sites: Sites, events: EventLog) -> None:
        self._sites = sites
        self._events = events
        self._counts: Counter[_Key] = Counter()
        self._entropy: dict[int, None] = {}
        """The last numbers that NumPy took from the system for generators without a seed."""
        self._followed: dict[int, _Followed] = {}
        """By ``id``, the last ones."""
        self._in_workers = mmap.mmap(-1, _MOST_BYTES)
        """Shared with forked workers: a byte for each that was followed."""
        self._bytes = 0

    def start(self) -> None:
        """Begin to watch."""
        WATCHERS.add(self)

    def stop(self) -> None:
        """Watch no more."""
        WATCHERS.discard(self)

    def listed(self) -> tuple[OwnGenerator, ...]:
        """The generators, in order of first occurrence."""
        counts, unseen = Counter(self._counts), Counter[_Key]()
        for alive, at_birth, key, _, byte in tuple(self._followed.values()):
            generator = alive()
            never_drew = generator is not None and _state_of(generator) == at_birth()
            if never_drew and self._in_workers[byte] != _DREW:
                counts[key] -= 1
                unseen[key] += self._in_workers[byte] == _UNSEEN
        return tuple(
            OwnGenerator(
                **placed(site, own),
                kind=kind,
                is_seeded=is_seeded,
                drew=counted is counts,
                phase=phase,
                by_library=by_library,
                count=count,
            )
            for counted in (counts, unseen)
            for (kind, is_seeded, site, own, phase, by_library), count in counted.items()
            if count > 0
        )

    def may_draw_elsewhere(self) -> None:
        """A loader starts workers that are not forked: they may have copies."""
        for followed in self._followed.values():
            self._in_workers[followed.byte] = self._in_workers[followed.byte] or _UNSEEN

    def go_on_in_worker(self) -> Callable[[], None]:
        """In a forked worker: returns what tells the parent of generators that the worker drew from; the parent's own
        copies of them never move."""
        WATCHERS.add(self)  # the worker may seed them
        return partial(self._look_in_worker, tuple(self._followed.items()))

    def _look_in_worker(self, of_parent: Iterable[tuple[int, _Followed]]) -> None:
        for identity, followed in of_parent:
            is_open = self._followed.get(identity) is followed and self._in_workers[followed.byte] != _DREW
            if is_open and _state_of(followed.alive()) != followed.at_birth():
                self._in_workers[followed.byte] = _DREW

    def python_is_seeded(self, call: Call) -> None:
        """``seed`` of a ``random.Random``, which its construction calls too."""
        generator: Any = call.first
        is_made = call.frame.f_code.co_filename == _RANDOM and call.frame.f_code.co_name == "__init__"
        self.is_given_a_state(call)
        frame = _outside(call.frame) if is_made else call.frame
        seed = call.args[1] if len(call.args) > 1 else next(iter(call.kwargs.values()), None)
        if seed is not None and not seed_calls.takes_another_number(frame):
            return
        key = self._note(GeneratorKind.PYTHON_OBJECTS, seed is not None, frame)
        if key is not None and seed is None:
            state = _state_of(generator)
            self._follow(generator, lambda: state, key, frame)

    def _follow(self, generator: Any, at_birth: Callable[[], object], key: _Key, frame: Any) -> None:
        identity = id(generator)
        alive: Callable[[], Any] = partial(_itself, generator)
        if isinstance(generator, random.Random) and type(generator) is not random.Random:  # it may hold what is large
            alive = weakref.ref(generator, lambda _: self._followed.pop(identity, None))
        line, self._bytes = (frame.f_code.co_filename, frame.f_lineno), (self._bytes + 1) % _MOST_BYTES
        self._followed[identity] = _Followed(alive, at_birth, key, line, self._bytes)
        if len(self._followed) > _KEPT:
            del self._followed[next(iter(self._followed))]

    def is_given_a_state(self, call: Call) -> None:
        """A generator has another state: what it began with counts if it drew before."""
        entry = self._followed.get(id(call.first))
        if entry is not None and entry.alive() is call.first:
            del self._followed[id(call.first)]
            if call.before == entry.at_birth() and self._in_workers[entry.byte] != _DREW:
                self._counts[entry.key] -= 1
                seed_calls.UNSEEDED_AT.discard(entry.line)

    def numpy_took_entropy(self, call: Call) -> None:
        """NumPy asked the system for the number that a generator without a seed starts from."""
        self._entropy[call.result] = None
        if len(self._entropy) > _KEPT:
            del self._entropy[next(iter(self._entropy))]

    def numpy_grows(self, call: Call) -> None:
        """A NumPy generator is constructed from a ``SeedSequence``."""
        frame, seeds = _outside(call.frame), call.first
        number = getattr(seeds, "entropy", None)
        asking = call.frame.f_code.co_filename
        if frame is None or asking.endswith(_UNPICKLES) or asking.startswith(_OWN):  # its state is put back right after
            return
        is_seeded = not (isinstance(number, int) and number in self._entropy)
        if is_seeded and not seed_calls.takes_another_number(frame):
            return
        key = self._note(GeneratorKind.NUMPY_OBJECTS, is_seeded, frame)
        bits = None if key is None or is_seeded else _growing_from(seeds)
        if key is not None and bits is not None:
            self._follow(bits, lambda: _state_of(type(bits)(seeds)), key, frame)

    def numpy_is_given_a_seed(self, call: Call) -> None:
        """``RandomState(seed)`` seeds a generator that it constructed from entropy; so does ``seed``."""
        self.is_given_a_state(call)
        hidden = getattr(getattr(sys.modules.get("numpy.random"), "mtrand", None), "_rand", None)
        if call.first is getattr(hidden, "_bit_generator", None):
            return  # the global one, which is watched by itself
        frame = _outside(call.frame)
        seed = call.args[1] if len(call.args) > 1 else call.kwargs.get("seed")
        if seed is None or seed_calls.takes_another_number(frame):
            self._note(GeneratorKind.NUMPY_OBJECTS, seed is not None, frame)

    def _note(self, kind: GeneratorKind, is_seeded: bool, frame: FrameType | None) -> _Key | None:
        if frame is None:
            return None
        of_file = self._sites.kind_of(frame.f_code.co_filename)
        if of_file <= 0 or (of_file == LIBRARY and _is_import(frame)):
            return None
        site, own = self._sites.innermost(frame), self._sites.users_own(frame)
        key = (kind, is_seeded, site, own, self._events.phase(), site.kind == LIBRARY)
        self._counts[key] += 1
        seed_calls.UNSEEDED_AT.add((frame.f_code.co_filename, frame.f_lineno))
        return key


def _frames(frame: FrameType | None) -> Iterator[tuple[FrameType, str]]:
    """``frame`` and its callers, each with its file."""
    while frame is not None:
        yield frame, frame.f_code.co_filename
        frame = frame.f_back


def _outside(frame: FrameType | None) -> FrameType | None:
    """The caller's frame, outside ``random``, NumPy's ``random`` and this package."""
    for caller, file in _frames(frame):
        if file != _RANDOM and not file.startswith(_OWN) and _NUMPY_RANDOM not in file:
            return caller
    return None


def _is_import(frame: FrameType | None) -> bool:
    """Whether a module is being imported."""
    return any(file.startswith("<frozen importlib") for _, file in _frames(frame))


def _state_of(generator: Any) -> object:
    try:
        is_pythons = isinstance(generator, random.Random)
        return hash(generator.getstate()) if is_pythons else as_bytes(generator.state)
    except Exception:  # a subclass that keeps none
        return 0


def _itself(generator: Any) -> Any:
    return generator


def _growing_from(seeds: Any) -> Any:
    """The generator of NumPy's that is being constructed from ``seeds``: one of the youngest objects."""
    for generation in range(3):
        for bits in gc.get_objects(generation):
            if type(bits).__name__ in _NUMPY_BITS and getattr(bits, "_seed_seq", None) is seeds:
                return bits
    return None


def as_bytes(state: Any) -> Any:
    """A state of NumPy's in a form that compares, and that ``repr`` shows in full: arrays as bytes."""
    if isinstance(state, dict):
        return [(key, as_bytes(value)) for key, value in state.items()]
    return state.tobytes() if hasattr(state, "tobytes") else state


def _look(call: Call) -> None:
    call.before = _state_of(call.first)


def _functions() -> Iterator[Target]:
    yield Target([(random.Random, "seed")], look=_look, after=OwnGenerators.python_is_seeded)
    yield Target([(random.Random, "setstate")], look=_look, after=OwnGenerators.is_given_a_state)
    seeds: Any = sys.modules.get("numpy.random.bit_generator")
    yield Target([(seeds, "randbits")], after=OwnGenerators.numpy_took_entropy)
    yield Target([(getattr(seeds, "SeedSequence", None), "generate_state")], after=OwnGenerators.numpy_grows)
    mersenne: Any = getattr(sys.modules.get("numpy.random"), "MT19937", None)
    yield Target([(mersenne, "_legacy_seeding")], look=_look, after=OwnGenerators.numpy_is_given_a_seed)


#: The watch of this process.
WATCHERS: Watchers[OwnGenerators] = Watchers(_functions)
