"""Whether a loader's workers draw from the generators that torch seeds in each of them.

A forked worker compares the three states after each fetch, and sets a byte in memory shared with the training
process. Draws after the program seeded a generator in the worker do not count. Only forked workers can be watched.
They look at the program's own generators too, at copies of the parent's and those that they make, and at what the
program seeds there with a number that is another one in every process.
"""

from __future__ import annotations

import importlib
import mmap
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from types import FrameType
from typing import Any

import torch

from tracer.names import GeneratorKind
from tracer.recording.origin.sites import is_torchs_own
from tracer.recording.patching import Call, Watch, place
from tracer.recording.randomness import own_generators
from tracer.recording.randomness.generators import seed_caller, state_of
from tracer.recording.randomness.host_generators import libraries

#: What workers may draw from, by the byte that says so.
NAMES = ("python", "numpy", "torch")


class WorkerMarks:
    """The generators that the workers of one group of loaders drew from. Workers write, the training process reads."""

    def __init__(self) -> None:
        self._shared = mmap.mmap(-1, len(NAMES))
        self._own = own_generators.WATCHERS.listeners

    def drawn(self) -> tuple[str, ...]:
        """The generators that workers have drawn from so far."""
        return tuple(name for byte, name in enumerate(NAMES) if self._shared[byte])

    def watch_this_process(self) -> None:
        """In a worker, before it starts: compare the generators around each fetch."""
        if "numpy" in sys.modules:
            importlib.import_module("numpy.random")  # which torch seeds in a moment
        for library in libraries():
            generator = getattr(library.hidden, "_bit_generator", library.hidden)
            after = partial(self._host_is_seeded, library.name, generator)
            place([(library.module, "seed")], Watch(partial(_look, generator), after))
        for name in ("manual_seed", "seed"):
            place([(torch._C.Generator, name)], Watch(own_generators.look, self._torchs_is_seeded))
        kinds = getattr(sys.modules.get("torch.utils.data"), "_DatasetKind", None)
        of_own = [own.go_on_in_worker() for own in self._own]
        looks: list[Callable[[], None]] = []

        def begins(_: Call) -> None:
            if not looks:  # torch has seeded by now, and worker_init_fn ran; a worker that lives on comes again
                looks.extend(_WorkerGenerator(self._shared, *generator).look for generator in _generators())
                looks.extend(of_own)

        place([(kinds, "create_fetcher")], Watch(begins, lambda call: _look_after_each_fetch(call.result, looks)))

    def _host_is_seeded(self, name: str, generator: Any, call: Call) -> None:
        self._is_seeded(GeneratorKind(name), generator, call, (*call.args, *call.kwargs.values()), call.frame)

    def _torchs_is_seeded(self, call: Call) -> None:
        kind = GeneratorKind.TORCH if call.first is torch.default_generator else GeneratorKind.PASSED
        self._is_seeded(kind, call.first, call, call.args[1:], seed_caller(call.frame).frame)

    def _is_seeded(self, kind: GeneratorKind, generator: Any, call: Call, seed: Any, frame: FrameType | None) -> None:
        if frame is not None and not is_torchs_own(frame.f_code.co_filename):
            for own in self._own:
                own.is_seeded(kind, generator, call.before, next(iter(seed), None), frame)


class _WorkerGenerator:
    """One generator of a worker."""

    def __init__(self, shared: mmap.mmap, byte: int, state: Callable[[], Any], seeders: list[tuple[Any, str]]) -> None:
        self._shared = shared
        self._byte = byte
        self._state = state
        self._rest = state()
        """The state after torch, or the program's ``worker_init_fn``, seeded it."""
        self._is_programs = False
        """Whether the program seeded it since."""
        place(seeders, Watch(lambda _: self.look(), self._was_seeded))

    def look(self) -> None:
        """Set the mark if the generator was drawn from."""
        if not self._is_programs and not self._shared[self._byte] and self._state() != self._rest:
            self._shared[self._byte] = 1

    def _was_seeded(self, _: Call) -> None:
        self._is_programs = self._state() != self._rest  # a state from before may be put back


def _look(generator: Any, call: Call) -> None:
    call.before = own_generators.hashed_state(generator)


def _look_after_each_fetch(fetcher: Any, looks: list[Callable[[], None]]) -> None:
    fetch = fetcher.fetch

    def fetch_and_look(*args: Any, **kwargs: Any) -> Any:
        try:
            return fetch(*args, **kwargs)
        finally:
            with suppress(Exception):
                for look in looks:
                    look()

    fetcher.fetch = fetch_and_look


def _generators() -> Iterator[tuple[int, Callable[[], Any], list[tuple[Any, str]]]]:
    """Yield for each loaded generator its byte, what reads its state, and the functions that seed it."""
    for library in libraries():
        seeders = [(library.module, name) for name in ("seed", library.restores)]
        yield NAMES.index(library.name), library.state, seeders
    seeders = [(owner, name) for name in ("manual_seed", "set_rng_state") for owner in (torch, torch.random)]
    yield NAMES.index("torch"), partial(state_of, torch.default_generator), seeders
