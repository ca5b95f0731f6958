"""Python's ``random`` and NumPy's global generator: who seeded them, who drew, and whether anybody did. Imports neither
torch nor NumPy: watching begins before the program.

Both modules offer the methods of one hidden generator as functions; those are replaced while somebody watches. What was
taken from the module before (``from random import shuffle`` above), and what a library draws from the hidden generator
itself, is not seen; that it drew is told by the generator's state.
"""

from __future__ import annotations

import copy
import hashlib
import mmap
import os
import pkgutil
import random
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from types import FrameType
from typing import TYPE_CHECKING, Any, Protocol

from tracer.names import EventKind, SeedOrigin
from tracer.recording.randomness.provenance import MACHINE, UNSEEN, Newest, Origins, Provenance
from tracer.recording.sites import Sites, is_torchs_own

if TYPE_CHECKING:
    from tracer.recording.process.events import EventLog, Noted

PYTHON, NUMPY = "python", "numpy"
OBJECTS = "numpy-objects"
"""NumPy's ``Generator`` objects, each with a state of its own: what is drawn from them cannot be seen."""
_SEEDS = frozenset({"seed"})
_RESTORES = frozenset({"setstate", "set_state"})
_READS = frozenset({"getstate", "get_state"})
_MAKES = frozenset({"default_rng"})
#: What NumPy offers as functions that are not the hidden generator's methods themselves.
_NUMPY_FUNCTIONS = frozenset({"seed", "ranf", "sample", "default_rng"})


class HostListener(Protocol):
    """A recording that wants to know of the two generators."""

    def host_appeared(self, generator: HostGenerator) -> None:
        """``generator`` is watched from now on."""

    def host_drew(self, generator: HostGenerator, op: str, frame: FrameType) -> None:
        """``op`` draws from ``generator``."""

    def host_seeded(self, generator: HostGenerator, former: Provenance, before: str, events: list[Noted]) -> None:
        """``generator`` was seeded; its state was ``before`` and came from ``former``."""


class HostGenerator:
    """One of the two hidden generators."""

    def __init__(self, name: str, module: Any, hidden: Any, get_state: Callable[[], object]) -> None:
        self.name = name
        self.module = module
        self.hidden = hidden
        self._get_state = get_state
        self.provenance = UNSEEN

    def digest(self) -> str:
        """Sixteen hexadecimal digits that stand for its state; empty where it cannot be read."""
        try:
            return hashlib.blake2b(repr(self._get_state()).encode(), digest_size=8).hexdigest()
        except Exception:
            return ""


class _Function:
    """Stands for one function of the module: notes the call, and makes it.

    It is pickled, compared and looked into as the function would be.
    """

    def __init__(self, watch: HostWatch, generator: HostGenerator, name: str, original: Callable[..., Any]) -> None:
        self._watch = watch
        self._generator = generator
        self._name = name
        self._op = f"{generator.module.__name__}.{name}"
        self._original = original
        self.__doc__ = original.__doc__
        self.__module__ = getattr(original, "__module__", None)  # type: ignore[assignment]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        watch = self._watch
        if watch.recordings:
            watch.drew(self._generator, self._op, sys._getframe(1))
        return self._original(*args, **kwargs)

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        """``inspect`` asks ``isinstance``: it is to find the function's kind, and by it the signature."""
        return type(self._original)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._original, name)

    def __eq__(self, other: object) -> bool:
        return self is other or self._original == other

    def __hash__(self) -> int:
        return hash(self._original)

    def __repr__(self) -> str:
        return repr(self._original)

    def __reduce_ex__(self, protocol: Any) -> Any:
        """A method takes its generator along: whoever unpickles it draws from a copy."""
        reduced = self._original.__reduce_ex__(protocol)
        if isinstance(reduced, str):
            return pkgutil.resolve_name, (f"{self._generator.module.__name__}:{self._name}",)
        return reduced

    def __deepcopy__(self, memo: Any) -> Any:
        copied = copy.deepcopy(self._original, memo)
        return self if copied is self._original else copied


class _Seeder(_Function):
    """Stands for a function that seeds the generator or gives it a state."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        watch = self._watch
        if watch.is_asleep():
            return self._original(*args, **kwargs)
        generator = self._generator
        before = generator.digest()
        result = self._original(*args, **kwargs)
        with suppress(Exception):
            watch.seeded(generator, self._name, (*args, *kwargs.values()), before, sys._getframe(1))
        return result


class _Reader(_Function):
    """Stands for the function that reads the state, which may be put back later."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        result = self._original(*args, **kwargs)
        if not self._watch.is_asleep():
            with suppress(Exception):
                self._watch.saved.note((self._generator.name, self._generator.digest()), self._generator.provenance)
        return result


class _Maker(_Function):
    """Stands for the function that makes a ``Generator``: notes those that it makes without a seed."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        result = self._original(*args, **kwargs)
        if not self._watch.is_asleep() and all(given is None for given in (*args, *kwargs.values())):
            with suppress(Exception):
                self._watch.made_unseeded(sys._getframe(1))
        return result


class HostWatch:
    """The watch of this process; recorders and a runner start and stop it, each with its own log."""

    def __init__(self) -> None:
        self._sites = Sites()
        self._origins = Origins()
        self._logs: list[EventLog] = []
        self._undo: list[Callable[[], None]] = []
        self._kept: dict[str, dict[str, _Function]] = {}
        self.generators: dict[str, HostGenerator] = {}
        self.saved = Newest()
        """Digest of a state that was read -> where it came from."""
        self.recordings: list[HostListener] = []
        self._marks: mmap.mmap | None = None
        self._is_child = False
        self._process = os.getpid()

    # --- who listens ---

    def start(self, log: EventLog, *, from_process_start: bool = False) -> None:
        """Note in ``log`` what seeds the two generators. ``from_process_start``: nobody can have seeded one before."""
        if os.getpid() != self._process or self._is_child:  # a forked child that records for itself
            self._process, self._is_child = os.getpid(), False
            self._logs.clear()
            self.recordings.clear()
        if self._marks is None:
            self._marks = mmap.mmap(-1, 2)
            if hasattr(os, "register_at_fork"):
                os.register_at_fork(after_in_child=self._forked)
        is_first = not self._logs
        self._logs.append(log)
        if is_first:
            self.generators.clear()
        self.look_again()
        if is_first and from_process_start:
            self.generators[PYTHON].provenance = MACHINE

    def stop(self, log: EventLog) -> None:
        """End what ``start`` with this log began; the last one puts the functions back."""
        if log in self._logs:
            self._logs.remove(log)
        if not self._logs:
            while self._undo:
                self._undo.pop()()
            self.saved.clear()

    def look_again(self, *, nobody_seeded: bool = False) -> None:
        """Watch NumPy's generator too, if NumPy was loaded since; ``nobody_seeded``: just now."""
        if self.is_asleep():
            return
        for generator in self._loaded():
            if generator.name not in self.generators:
                generator.provenance = MACHINE if nobody_seeded else UNSEEN
                self.generators[generator.name] = generator
                self._replace(generator)
                for recording in tuple(self.recordings):
                    recording.host_appeared(generator)

    def is_asleep(self) -> bool:
        """Does nobody watch, or is this a forked child?"""
        return self._is_child or not self._logs

    def drawn_in_children(self) -> tuple[str, ...]:
        """Generators that forked children drew from since this was asked last."""
        marks = self._marks
        if marks is None:
            return ()
        found = tuple(name for place, name in enumerate((PYTHON, NUMPY)) if marks[place])
        marks[:] = bytes(2)
        return found

    def _forked(self) -> None:
        self._is_child = True

    # --- what is noted ---

    def drew(self, generator: HostGenerator, op: str, frame: FrameType) -> None:
        """A function drew."""
        if self._is_child:
            marks = self._marks
            if marks is not None:
                marks[generator.name == NUMPY] = 1
            return
        with suppress(Exception):
            for recording in tuple(self.recordings):
                recording.host_drew(generator, op, frame)

    def seeded(self, generator: HostGenerator, name: str, args: tuple[Any, ...], before: str, frame: FrameType) -> None:
        """A generator was seeded, or given a state."""
        former, is_restored = generator.provenance, name in _RESTORES
        known = self.saved.get((generator.name, generator.digest())) if is_restored else None
        if known is not None and before == generator.digest():
            return  # torch's compiler does so in the program's own frame, whenever it comes upon one
        site = self._sites.innermost(frame)
        if is_restored:
            generator.provenance = known or self._origins.at(SeedOrigin.RESTORED, site)
        elif not args or args[0] is None:
            generator.provenance = self._origins.at(SeedOrigin.MACHINE, site)
        else:
            generator.provenance = self._origins.at(SeedOrigin.PROGRAM, site)
        value = str(SeedOrigin.RESTORED if is_restored else generator.provenance.origin)
        is_torchs = is_restored and is_torchs_own(frame.f_code.co_filename)  # what it compiled may have drawn
        logs = {} if is_torchs else {id(log): log for log in self._logs}
        noted = (log.note(EventKind.SEED, generator.name, frame=frame, value=value) for log in logs.values())
        events = [one for one in noted if one is not None]
        for recording in tuple(self.recordings):
            recording.host_seeded(generator, former, before, events)

    def made_unseeded(self, frame: FrameType) -> None:
        """A ``Generator`` of NumPy was made that starts from the machine's entropy."""
        for log in {id(log): log for log in self._logs}.values():
            log.note(EventKind.SEED, OBJECTS, frame=frame, value=str(SeedOrigin.MACHINE))

    # --- the functions ---

    def _loaded(self) -> Iterator[HostGenerator]:
        inst = getattr(random, "_inst", None)
        if inst is not None:
            yield HostGenerator(PYTHON, random, inst, inst.getstate)
        numpy: Any = sys.modules.get("numpy.random")
        hidden = getattr(getattr(numpy, "mtrand", None), "_rand", None)
        if hidden is not None and hasattr(numpy, "set_state"):
            yield HostGenerator(NUMPY, numpy, hidden, lambda: _as_bytes(hidden.get_state(legacy=False)))

    def _replace(self, generator: HostGenerator) -> None:
        module, hidden = generator.module, generator.hidden
        for name, original in list(vars(module).items()):
            if name.startswith("_") or not callable(original) or isinstance(original, _Function):
                continue
            is_own = getattr(original, "__self__", None) is hidden
            if not is_own and not (generator.name == NUMPY and name in _NUMPY_FUNCTIONS):
                continue
            kept = self._kept.setdefault(generator.name, {})
            placed = kept.get(name)
            if placed is None or placed._original != original:
                placed = kept[name] = _kind(name)(self, generator, name, original)
            placed._generator = generator
            setattr(module, name, placed)
            self._undo.append(lambda name=name, placed=placed: _put_back(module, name, placed))  # type: ignore[misc]


def _kind(name: str) -> type[_Function]:
    if name in _SEEDS or name in _RESTORES:
        return _Seeder
    if name in _MAKES:
        return _Maker
    return _Reader if name in _READS else _Function


def _put_back(module: Any, name: str, placed: _Function) -> None:
    if getattr(module, name, None) is placed:
        setattr(module, name, placed._original)


def _as_bytes(state: Any) -> Any:
    """What ``repr`` shows whole: an array is shortened in print, its bytes are not."""
    if isinstance(state, dict):
        return [(key, _as_bytes(value)) for key, value in state.items()]
    return state.tobytes() if hasattr(state, "tobytes") else state


#: The watch of this process.
HOST = HostWatch()
