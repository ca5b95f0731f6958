"""Numbers that differ in every process, with the lines that took them: entropy, clocks as seeds, unseeded generators.

Imports neither torch nor NumPy. What the standard library and torch take for themselves (a temporary file's name, a
key between processes) is not counted; what an installed package takes counts only if a generator is seeded with it. A
generator that is given a state before it is drawn from does not count.
"""

from __future__ import annotations

import gc
import os
import random
import sys
import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING, Any

from tracer.names import NumberSource, NumberUse, Phase
from tracer.recording.events import EventLog
from tracer.recording.origin.sites import LIBRARY, USER, Site, Sites, placed
from tracer.recording.patching import Call, original_of
from tracer.recording.watchers import Target, Watchers
from tracer.trace.records import MachineNumber

if TYPE_CHECKING:
    from tracer.recording.program_text.seed_sources import Candidate

_STANDARD = os.path.dirname(os.path.abspath(random.__file__))
#: Modules whose frames only pass the request on.
_PASSING_ON = tuple(os.path.join(_STANDARD, name) for name in ("random.py", "uuid.py", "secrets.py"))
_NUMPY_RANDOM = os.path.join("numpy", "random", "")
_OWN = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "")
_UNPICKLES = os.path.join("numpy", "random", "_pickle.py")
#: What a ``SeedSequence`` of NumPy asks the machine for.
_SEED_BITS = 128
_KEPT = 1024
#: NumPy's own bit generators, and how many without a seed are held to be looked at in the end.
_NUMPY_BITS = frozenset({"PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64"})
_MOST_FOLLOWED = 64

_Key = tuple[NumberSource, NumberUse, str, Site, Site, Phase, bool, bool]


class NumberLog:
    """The numbers recorded by one watch of the process."""

    def __init__(self, sites: Sites, events: EventLog) -> None:
        self._sites = sites
        self._events = events
        self._counts: Counter[_Key] = Counter()
        self._entropy: dict[int, None] = {}
        """The last numbers of ``SystemRandom``: NumPy seeds its generators with one."""
        self._last_numpy: tuple[object, _Key] | None = None
        """The place that constructed the last generator of NumPy's, and the key that counted it."""
        self._unseeded: dict[int, tuple[Callable[[], random.Random | None], int, _Key]] = {}
        """By ``id``: each ``random.Random`` without a seed, its initial state, and how it was counted."""
        self._of_numpy: list[tuple[Any, Any, _Key]] = []
        """NumPy's generators without a seed: what each grew from, the generator itself, and how it was counted."""
        self._lines: set[tuple[str, int]] = set()

    def start(self) -> None:
        """Begin to watch."""
        WATCHERS.add(self)

    def stop(self) -> None:
        """Watch no more."""
        WATCHERS.discard(self)

    def listed(self) -> tuple[MachineNumber, ...]:
        """The numbers, in order of first occurrence."""
        counts = Counter(self._counts)
        for alive, state, key in tuple(self._unseeded.values()):
            generator = alive()
            counts[key] -= generator is not None and _state_of(generator) == state  # nothing was drawn from it so far
        for seeds, bits, key in self._of_numpy:
            counts[key] -= counts[key] > 0 and _never_drew(seeds, bits)
        return tuple(
            MachineNumber(
                source=source,
                use=use,
                what=what,
                **placed(site, own),
                phase=phase,
                is_aside=is_aside,
                by_library=by_library,
                count=count,
            )
            for (source, use, what, site, own, phase, is_aside, by_library), count in counts.items()
            if count > 0
        )

    def source_of(self, value: object, frame: FrameType | None, position: int | str = 0) -> NumberSource | None:
        """Return what the seed ``value`` was derived from, if it differs in every process."""
        if isinstance(value, int) and value in self._entropy:
            return NumberSource.ENTROPY
        from tracer.recording.program_text.seed_sources import source_of  # here: not every program seeds anything

        return source_of(value, frame, position, was_taken=self._was_taken, was_drawn=was_drawn)

    def seeded(self, source: NumberSource, generator: str, frame: FrameType | None) -> None:
        """``generator`` was seeded with such a number."""
        if frame is None:
            return
        self._note(source, NumberUse.SEED, generator, frame)
        site = self._sites.innermost(frame)
        for key, count in self._counts.items():  # the number that became the seed is counted once
            if key[3] == site and count and key[1] in (NumberUse.VALUE, NumberUse.SYSTEM_OBJECT):
                self._counts[key] -= 1
                break

    def _was_taken(self, file: str, first: int, last: int) -> bool:
        return any((file, line) in self._lines for line in range(first, last + 1))

    def took_entropy(self, call: Call) -> None:
        """``os.urandom`` was called, by the program or a library."""
        frame: FrameType | None = call.frame
        entropy = call.result
        use, what = NumberUse.VALUE, "os.urandom"
        while frame is not None and frame.f_code.co_filename in _PASSING_ON:
            name = frame.f_code.co_name
            if os.path.basename(frame.f_code.co_filename) == "random.py":
                if name == "getrandbits" and isinstance(entropy, bytes) and frame.f_locals["k"] == _SEED_BITS:
                    self._remember(int.from_bytes(entropy, "big"))
                use, what = NumberUse.SYSTEM_OBJECT, "random.SystemRandom"
                if frame.f_locals.get("self") is getattr(sys.modules.get("secrets"), "_sysrand", frame):
                    use, what = NumberUse.VALUE, "secrets"
            else:
                module = os.path.basename(frame.f_code.co_filename).removesuffix(".py")
                use, what = NumberUse.VALUE, f"{module}.{name}"
            frame = frame.f_back
        self._take(use, what, frame, call.frame)

    def took(self, what: str, call: Call) -> None:
        """The function ``what`` gave a number that differs in every process."""
        self._take(NumberUse.VALUE, what, _outside(call.frame), call.frame)

    def _take(self, use: NumberUse, what: str, frame: FrameType | None, innermost: FrameType) -> None:
        if frame is None or _is_numpys(innermost):
            return  # counted where its generator is seeded with it
        self._lines.add((frame.f_code.co_filename, frame.f_lineno))
        if self._sites.kind_of(frame.f_code.co_filename) == USER:
            self._note(NumberSource.ENTROPY, use, what, frame)

    def _remember(self, number: int) -> None:
        self._entropy[number] = None
        if len(self._entropy) > _KEPT:
            del self._entropy[next(iter(self._entropy))]

    def made_python_object(self, call: Call) -> None:
        """A ``random.Random`` was constructed."""
        generator: Any = call.first
        frame = _outside(call.frame)
        if frame is None or isinstance(generator, random.SystemRandom):
            return
        seed = call.args[1] if len(call.args) > 1 else call.kwargs.get("x")
        source = self.source_of(seed, frame, 0) if seed is not None else NumberSource.ENTROPY
        key = self._object(source, NumberUse.PYTHON_OBJECT, "random.Random", frame)
        if key is not None and seed is None:
            identity = id(generator)
            alive: Callable[[], random.Random | None] = partial(_itself, generator)
            if type(generator) is not random.Random or len(self._unseeded) >= _KEPT:  # may hold what is large
                alive = weakref.ref(generator, lambda _: self._unseeded.pop(identity, None))
            self._unseeded[identity] = (alive, _state_of(generator), key)

    def gave_python_object_a_state(self, call: Call) -> None:
        """``seed`` or ``setstate`` of a ``random.Random``: its first state counts if it drew before."""
        entry = self._unseeded.get(id(call.first))
        if entry is not None and entry[0]() is call.first:
            _, state, key = self._unseeded.pop(id(call.first))
            self._counts[key] -= call.before == state

    def numpy_grows(self, call: Call) -> None:
        """A NumPy generator is constructed from a ``SeedSequence``."""
        frame = _outside(call.frame)
        number = getattr(call.first, "entropy", None)
        self._last_numpy = None
        if frame is None or call.frame.f_code.co_filename.endswith(_UNPICKLES):  # its state is put back right after
            return
        source = NumberSource.ENTROPY if isinstance(number, int) and number in self._entropy else None
        if source is None:
            source = self.source_of(number, frame)
        else:
            from tracer.recording.program_text.source_tree import is_given_a_state

            if is_given_a_state(frame):
                return
        key = self._object(source, NumberUse.NUMPY_OBJECT, "numpy.random", frame)
        if key is not None:
            self._last_numpy = ((frame.f_code, frame.f_lasti, id(frame)), key)
            if source is NumberSource.ENTROPY and len(self._of_numpy) < _MOST_FOLLOWED:
                bits = _growing_from(call.first)
                if bits is not None:
                    self._of_numpy.append((call.first, bits, key))

    def numpy_is_given_a_seed(self, call: Call) -> None:
        """``RandomState(seed)`` seeds a generator that it constructed from entropy; so does ``seed``."""
        frame = _outside(call.frame)
        if frame is None:
            return
        if self._last_numpy is not None and self._last_numpy[0] == (frame.f_code, frame.f_lasti, id(frame)):
            self._counts[self._last_numpy[1]] -= 1
        self._last_numpy = None
        hidden = getattr(getattr(sys.modules.get("numpy.random"), "mtrand", None), "_rand", None)
        seed = call.args[1] if len(call.args) > 1 else call.kwargs.get("seed")
        if call.first is getattr(hidden, "_bit_generator", None):
            return  # the global one, which is watched by itself
        source = self.source_of(seed, frame) if seed is not None else NumberSource.ENTROPY
        self._object(source, NumberUse.NUMPY_OBJECT, "numpy.random.RandomState", frame)

    def _object(self, source: NumberSource | None, use: NumberUse, what: str, frame: FrameType) -> _Key | None:
        kind = self._sites.kind_of(frame.f_code.co_filename)
        if source is None or kind <= 0 or (kind == LIBRARY and _is_import(frame)):
            return None
        return self._note(source, use, what, frame)

    def _note(self, source: NumberSource, use: NumberUse, what: str, frame: FrameType) -> _Key:
        site, own = self._sites.innermost(frame), self._sites.users_own(frame)
        from tracer.recording.program_text.sinks import ends_aside

        is_aside = use is not NumberUse.SEED and ends_aside(frame)
        key = (source, use, what, site, own, self._events.phase(), is_aside, site.kind == LIBRARY)
        self._counts[key] += 1
        return key


def _frames(frame: FrameType | None) -> Iterator[tuple[FrameType, str]]:
    """``frame`` and its callers, each with its file."""
    while frame is not None:
        yield frame, frame.f_code.co_filename
        frame = frame.f_back


def _outside(frame: FrameType | None) -> FrameType | None:
    """The caller's frame, outside ``random``, ``uuid``, ``secrets``, NumPy's ``random`` and this package."""
    for caller, file in _frames(frame):
        if file not in _PASSING_ON and not file.startswith(_OWN) and _NUMPY_RANDOM not in file:
            return caller
    return None


def _is_numpys(frame: FrameType) -> bool:
    """Whether NumPy asks, for a ``SeedSequence``: its code has no frames, so the line calls no such name."""
    if frame.f_code.co_name != "getrandbits" or frame.f_locals.get("k") != _SEED_BITS or frame.f_back is None:
        return False
    from tracer.recording.program_text.source_tree import call_of, called_name

    call = call_of(frame.f_back)
    asked = None if call is None else called_name(call)
    return "numpy.random" in sys.modules and asked not in ("getrandbits", "randbits")


def _is_import(frame: FrameType | None) -> bool:
    """Whether a module is being imported."""
    return any(file.startswith("<frozen importlib") for _, file in _frames(frame))


def _state_of(generator: random.Random) -> int:
    try:
        return hash(generator.getstate())
    except Exception:  # a subclass that keeps none
        return 0


def _itself(generator: random.Random) -> random.Random:
    return generator


def _growing_from(seeds: Any) -> Any:
    """The generator of NumPy's that is being constructed from ``seeds``: one of the youngest objects."""
    for generation in range(3):
        for bits in gc.get_objects(generation):
            if type(bits).__name__ in _NUMPY_BITS and getattr(bits, "_seed_seq", None) is seeds:
                return bits
    return None


def _never_drew(seeds: Any, bits: Any) -> bool:
    """Return whether ``bits``, a generator of NumPy's that grew from ``seeds``, is in its first state."""
    return bool(as_bytes(type(bits)(seeds).state) == as_bytes(bits.state))


def as_bytes(state: Any) -> Any:
    """A state of NumPy's in a form that compares, and that ``repr`` shows in full: arrays as bytes."""
    if isinstance(state, dict):
        return [(key, as_bytes(value)) for key, value in state.items()]
    return state.tobytes() if hasattr(state, "tobytes") else state


def _look(call: Call) -> None:
    call.before = _state_of(call.first)


#: Functions that hand out such numbers: their modules, their names, and how they are called.
_TAKES = (
    ("uuid", "_generate_time_safe", "uuid.uuid1"),  # of the clock and the network's address
    ("os", "getrandom", "os.getrandom"),
    ("ssl", "RAND_bytes", "ssl.RAND_bytes"),
)


def _took(what: str, log: NumberLog, call: Call) -> None:
    log.took(what, call)


def _functions() -> Iterator[Target]:
    yield Target([(random, "_urandom"), (os, "urandom")], after=NumberLog.took_entropy)
    for module, name, what in _TAKES:
        if hasattr(owner := sys.modules.get(module), name):
            yield Target([(owner, name)], after=partial(_took, what))
    yield Target([(random.Random, "__init__")], after=NumberLog.made_python_object)
    for name in ("seed", "setstate"):
        yield Target([(random.Random, name)], look=_look, after=NumberLog.gave_python_object_a_state)
    seeds: Any = sys.modules.get("numpy.random.bit_generator")
    yield Target([(getattr(seeds, "SeedSequence", None), "generate_state")], after=NumberLog.numpy_grows)
    mersenne: Any = getattr(sys.modules.get("numpy.random"), "MT19937", None)
    yield Target([(mersenne, "_legacy_seeding")], after=NumberLog.numpy_is_given_a_seed)


#: By generator: tells whether draws at lines of a file, first to last, came from a state that nobody chose; ``None`` if
#: no draw was seen there. With the last, whether its state is such a one now.
GENERATORS: dict[str, tuple[Callable[[str, int, int], bool | None], Callable[[], bool]]] = {}


def was_drawn(candidate: Candidate, *, is_here: bool = True) -> bool:
    """Return whether ``candidate`` drew from a generator that nobody seeded. ``is_here``: in this very process."""
    drew_at, is_unseeded = GENERATORS.get(candidate.generator, (None, None))
    if drew_at is None or is_unseeded is None:
        return False
    drew = drew_at(candidate.file, *candidate.lines)
    return candidate.is_certain and is_here and is_unseeded() if drew is None else drew


#: The watch of this process.
WATCHERS: Watchers[NumberLog] = Watchers(_functions)


def sees_numpy() -> bool:
    """Whether NumPy's generators are observed when constructed: not in a build whose classes cannot be patched."""
    seeds: Any = sys.modules.get("numpy.random.bit_generator")
    method = vars(getattr(seeds, "SeedSequence", object)).get("generate_state")
    return method is not None and original_of(method) is not method


def seed_source(value: object, frame: FrameType | None) -> NumberSource | None:
    """Return what the seed at ``frame`` was derived from, if it differs in every process."""
    return next((log.source_of(value, frame) for log in WATCHERS.listeners), None)
