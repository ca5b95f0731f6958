"""Random numbers of the system that are the same in each run, for what Python code asks of it.

Each line that asks has a stream of its own: how often another one asks does not matter. A forked process has streams
other than its parent's. ``SeedSequence``, ``default_rng()`` and ``RandomState()`` of NumPy ask ``secrets`` for their
seeds, and so are held with it.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import random
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Iterator
from pathlib import PurePath
from typing import Any

from tracer.runner.repeated.circumstances.replacing import Replacements, caller_outside

#: Modules that ask for somebody else.
_PASSING = frozenset({"random", "secrets", "tempfile", "uuid", "threading", "contextlib", "functools"})
#: The first process id that a script sees; its forked children have the next ones.
_PROCESS = 40_000
_LIBRARIES = (
    *{sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")},
    str(PurePath(__file__).parents[3]),
    "<frozen",
)


class _Streams:
    """The bytes that each asking line gets in this process."""

    def __init__(self) -> None:
        self.lineage = "0"
        self.process = os.getpid()
        self.number = _PROCESS
        self._forks = 0
        self._asked: dict[str, Iterator[int]] = {}

    def take(self, size: int, asker: str = "") -> bytes:
        """The next ``size`` bytes of the line that asks, or of a named ``asker``."""
        name = asker or _asking_line()
        turn = next(self._asked.setdefault(name, itertools.count()))
        return hashlib.shake_128(f"{self.lineage} {name} {turn}".encode()).digest(size)

    def about_to_fork(self) -> None:
        self._forks += 1

    def forked(self) -> None:
        self.lineage = f"{self.lineage}.{self._forks}"
        self.number += self._forks
        self.process, self._forks, self._asked = os.getpid(), 0, {}


def _asking_line() -> str:
    frame = caller_outside(_PASSING)
    return "" if frame is None else f"{PurePath(frame.f_code.co_filename).name}:{frame.f_lineno}"


def hold_entropy(replaced: Replacements) -> None:
    """Answer with the same random numbers and process ids in each run."""
    streams = _Streams()
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=streams.about_to_fork, after_in_child=streams.forked)
    replaced.put(os, "urandom", streams.take)
    replaced.put(os, "getrandom", lambda size, flags=0: streams.take(size))
    replaced.put(random, "_urandom", streams.take)
    _hold_python(replaced, streams)
    _hold_process_id(replaced, streams)
    replaced.when_imported("uuid", lambda: _hold_uuid(replaced, streams))
    replaced.when_imported("numpy.random", lambda: _seed_numpy(streams))
    replaced.when_imported("torch", lambda: _hold_torch(replaced, streams))


def _number(streams: _Streams, size: int = 8, asker: str = "") -> int:
    return int.from_bytes(streams.take(size, asker), "little")


def _hold_python(replaced: Replacements, streams: _Streams) -> None:
    """Generators that are made or seeded without a seed, the module's own and that of temporary names among them."""
    seed = random.Random.seed

    def seeded(self: random.Random, a: Any = None, version: int = 2) -> None:
        seed(self, _number(streams, 32) if a is None else a, version)

    module: Any = random
    module._inst.seed(_number(streams, 32, "random"))
    replaced.put(random.Random, "seed", seeded)
    replaced.put(random, "seed", module._inst.seed)
    names: Any = tempfile
    before = names._name_sequence
    names._name_sequence = _Names(streams)
    replaced.then(lambda: setattr(names, "_name_sequence", before))


class _Names(tempfile._RandomNameSequence):  # type: ignore[name-defined,misc]
    """Temporary names, alike in each run and others in each process."""

    def __init__(self, streams: _Streams) -> None:
        self._streams = streams
        self._of = -1

    @property
    def rng(self) -> random.Random:
        if self._of != self._streams.number:
            self._of = self._streams.number
            self._drawn = random.Random(_number(self._streams, 32, "tempfile"))
        return self._drawn


def _hold_process_id(replaced: Replacements, streams: _Streams) -> None:
    """The script sees another number; libraries see the real one, by which they find processes."""
    getpid, getppid, kill = os.getpid, os.getppid, os.kill

    def for_scripts(real: Callable[[], int], seen: Callable[[], int]) -> Callable[[], int]:
        def read() -> int:
            name = sys._getframe(1).f_code.co_filename
            return real() if name.startswith(_LIBRARIES) or "site-packages" in name else seen()

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


def _seed_numpy(streams: _Streams) -> None:
    sys.modules["numpy.random"].seed(_number(streams, 4, "numpy.random"))


def _hold_torch(replaced: Replacements, streams: _Streams) -> None:
    import torch

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
