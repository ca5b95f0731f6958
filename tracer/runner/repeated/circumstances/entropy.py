"""Random numbers of the system that are the same in each run, for what Python code asks of it.

Each line that asks has a stream of its own: how often another one asks does not matter. A forked process has streams
other than its parent's. ``SeedSequence``, ``default_rng()`` and ``RandomState()`` of NumPy ask ``secrets`` for their
seeds, and so are held with it.
"""

from __future__ import annotations

import atexit
import hashlib
import itertools
import os
import random
import sys
import tempfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import PurePath
from types import FrameType
from typing import Any

from tracer.runner.repeated.circumstances.replacing import Replacements, caller, caller_outside, is_of_library

#: Modules that ask for somebody else.
_PASSING = frozenset({"random", "secrets", "tempfile", "uuid", "threading", "contextlib", "functools"})
#: Modules of Python's that make a value for the program of what they ask.
_MAKING = frozenset({"email.utils"})
#: The first process id that a script sees; its forked children have the next ones, other processes blocks of their own.
_PROCESS, _BLOCK, _BLOCKS = 40_000, 1_000, 2_000


class _Streams:
    """The bytes that each asking line gets in this process."""

    def __init__(self, use: Callable[[FrameType | None], None], role: str) -> None:
        self._use = use
        self.is_noted = False
        """Whether it was recorded already that the program asks for random numbers."""
        self.lineage = f"0/{role}" if role else "0"
        self.process = os.getpid()
        self.number = _PROCESS + (_BLOCK * (1 + zlib.crc32(role.encode()) % _BLOCKS) if role else 0)
        self._forks = 0
        self._asked: dict[str, Iterator[int]] = {}

    def take(self, size: int, asker: str = "") -> bytes:
        """The next ``size`` bytes of the line that asks, or of a named ``asker``."""
        name = asker
        if not asker:
            frame = caller_outside(_PASSING)
            self._use(frame)
            name = "" if frame is None else f"{PurePath(frame.f_code.co_filename).name}:{frame.f_lineno}"
        turn = next(self._asked.setdefault(name, itertools.count()))
        return hashlib.shake_128(f"{self.lineage} {name} {turn}".encode()).digest(size)

    def used_by(self, frame: FrameType | None) -> None:
        """Somebody asked for what is held here."""
        self._use(frame)

    def about_to_fork(self) -> None:
        self._forks += 1
        self._use(caller_outside(_PASSING))  # a forked process has the generators' states, too

    def forked(self) -> None:
        self.lineage = f"{self.lineage}.{self._forks}"
        self.number += self._forks
        self.process, self._forks, self._asked = os.getpid(), 0, {}


def hold_entropy(replaced: Replacements, *, is_new_process: bool, role: str = "") -> None:
    """Answer with the same random numbers and process ids in each run.

    In a new process the generators that Python and NumPy made as they were imported are seeded, too. A child process
    that was not forked has streams of its ``role``.
    """
    streams = _Streams(lambda frame: replaced.use("entropy", frame), role)
    if role:  # it may end without saying whether it drew from those generators
        replaced.note("entropy")
        streams.is_noted = True
    if is_new_process and hasattr(os, "register_at_fork"):
        os.register_at_fork(before=streams.about_to_fork, after_in_child=streams.forked)
    replaced.put(os, "urandom", streams.take)
    replaced.put(os, "getrandom", lambda size, flags=0: streams.take(size))
    replaced.put(random, "_urandom", streams.take)
    _hold_python(replaced, streams)
    _hold_process_id(replaced, streams)
    replaced.when_imported("uuid", lambda: _hold_uuid(replaced, streams))
    replaced.when_imported("ssl", lambda: _hold_ssl(replaced, streams))
    if is_new_process:
        _seed_python(replaced, streams)
        replaced.when_imported("numpy.random", lambda: _seed_numpy(replaced, streams))
    replaced.when_imported("torch", lambda: _hold_torch(replaced, streams, is_new_process=is_new_process))


def _number(streams: _Streams, size: int = 8, asker: str = "") -> int:
    return int.from_bytes(streams.take(size, asker), "little")


def _hold_python(replaced: Replacements, streams: _Streams) -> None:
    """Generators that are made or seeded without a seed, the module's own and that of temporary names among them."""
    seed = random.Random.seed

    def seeded(self: random.Random, a: Any = None, version: int = 2) -> None:
        seed(self, _number(streams, 32) if a is None else a, version)

    module: Any = random
    replaced.put(random.Random, "seed", seeded)
    replaced.put(random, "seed", module._inst.seed)
    names: Any = tempfile
    before = names._name_sequence
    names._name_sequence = _Names(streams)
    replaced.then(lambda: setattr(names, "_name_sequence", before))


def _seed_python(replaced: Replacements, streams: _Streams) -> None:
    """The module's own generator; whether the program drew from it shows as the process ends."""
    random.seed(_number(streams, 32, "random"))
    state = random.getstate()
    _note_at_exit(replaced, streams, lambda: random.getstate() != state)


class _Names(tempfile._RandomNameSequence):  # type: ignore[name-defined,misc]
    """Temporary names, alike in each run and others in each process."""

    def __init__(self, streams: _Streams) -> None:
        self._streams = streams
        self._of = -1

    @property
    def rng(self) -> random.Random:
        self._streams.used_by(caller_outside(_PASSING))
        if self._of != self._streams.number:
            self._of = self._streams.number
            self._drawn = random.Random(_number(self._streams, 32, "tempfile"))
        return self._drawn


def _hold_process_id(replaced: Replacements, streams: _Streams) -> None:
    """The script sees another number; libraries see the real one, by which they find processes."""
    getpid, getppid, kill = os.getpid, os.getppid, os.kill

    def for_scripts(real: Callable[[], int], held: Callable[[], int]) -> Callable[[], int]:
        def read() -> int:
            frame = caller(sys._getframe(1))
            if frame.f_globals.get("__name__") in _MAKING and frame.f_back is not None:
                frame = caller(frame.f_back)
            if is_of_library(frame.f_code.co_filename):
                return real()
            streams.used_by(frame)
            return held()

        return read

    replaced.put(os, "getpid", for_scripts(getpid, lambda: streams.number))
    replaced.put(os, "getppid", for_scripts(getppid, lambda: _PROCESS - 1))
    replaced.put(os, "kill", lambda pid, number: kill(getpid() if pid == streams.number else pid, number))


def _hold_uuid(replaced: Replacements, streams: _Streams) -> None:
    """``uuid4`` asks ``os.urandom``; ``uuid1`` is made of the clock and the machine."""
    import uuid

    def uuid1(node: int | None = None, clock_seq: int | None = None) -> uuid.UUID:
        return uuid.UUID(bytes=streams.take(16), version=1)

    replaced.put(uuid, "uuid1", uuid1)


def _hold_ssl(replaced: Replacements, streams: _Streams) -> None:
    """OpenSSL draws by itself."""
    replaced.put(sys.modules["ssl"], "RAND_bytes", streams.take)


def _seed_numpy(replaced: Replacements, streams: _Streams) -> None:
    generators = sys.modules["numpy.random"]
    generators.seed(_number(streams, 4, "numpy.random"))
    state = _state_of(generators)
    _note_at_exit(replaced, streams, lambda: _state_of(generators) != state)


def _note_at_exit(replaced: Replacements, streams: _Streams, drew: Callable[[], bool]) -> None:
    """Note as the process ends whether the program ``drew`` from a generator that is seeded here."""
    if not streams.is_noted:
        atexit.register(lambda: replaced.note("entropy") if drew() else None)


def _state_of(generators: Any) -> tuple[Any, ...]:
    _, key, position, *_ = generators.get_state()
    return (key.tobytes(), position)


def _hold_torch(replaced: Replacements, streams: _Streams, *, is_new_process: bool) -> None:
    import torch

    if is_new_process:  # torch seeds its default generator from the system as it is loaded
        generator = torch.default_generator
        generator.manual_seed(_number(streams, asker="torch") >> 1)
        state = generator.get_state()
        _note_at_exit(replaced, streams, lambda: not torch.equal(generator.get_state(), state))

    def seeded(seed: Callable[[int], object]) -> Callable[[], int]:
        def draw() -> int:
            number = _number(streams) >> 1
            seed(number)
            return number

        return draw

    for owner in (torch, torch.random):
        replaced.put(owner, "seed", seeded(torch.manual_seed))
    for name, manual in (("seed", torch.cuda.manual_seed), ("seed_all", torch.cuda.manual_seed_all)):
        for owner in (torch.cuda, torch.cuda.random):
            replaced.put(owner, name, seeded(manual))
