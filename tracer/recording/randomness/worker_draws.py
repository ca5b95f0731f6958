"""Do a loader's worker processes draw from the generators that torch seeds in each of them?

A forked worker looks at the three states after each sample or batch that it fetched, and sets a byte of memory that it
shares with the training process. What a program draws after it seeded a generator in the worker is its own affair.
Workers that are not forked cannot be watched: nothing of this process is in them.
"""

from __future__ import annotations

import functools
import mmap
import random
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import torch

from tracer.recording.randomness.generators import state_of

#: What workers may draw from, by the byte that says so.
NAMES = ("python", "numpy", "torch")


class WorkerMarks:
    """Which generators the workers of one group of loaders drew from. Workers write, the training process reads."""

    def __init__(self) -> None:
        self._shared = mmap.mmap(-1, len(NAMES))

    def drawn(self) -> tuple[str, ...]:
        """The generators that workers were seen to draw from so far."""
        return tuple(name for place, name in enumerate(NAMES) if self._shared[place])

    def watch_this_process(self) -> None:
        """In a worker, before it begins: look at the generators around each fetch."""
        kinds: Any = getattr(sys.modules.get("torch.utils.data"), "_DatasetKind", None)
        original = kinds.create_fetcher

        watched: list[_Watched] = []

        @functools.wraps(original)
        def create_fetcher(*args: Any, **kwargs: Any) -> Any:
            with suppress(Exception):
                if not watched:  # torch has seeded by now, and worker_init_fn ran; a worker that lives on comes again
                    watched.extend(_Watched(self._shared, place, state) for place, state in _states())
            fetcher = original(*args, **kwargs)
            with suppress(Exception):
                _look_after_each_fetch(fetcher, watched)
            return fetcher

        kinds.create_fetcher = staticmethod(create_fetcher)


class _Watched:
    """One generator of a worker."""

    def __init__(self, shared: mmap.mmap, place: int, state: Callable[[], Any]) -> None:
        self._shared = shared
        self._place = place
        self._state = state
        self._rest = state()
        """What torch, or the program's ``worker_init_fn``, seeded it with."""
        self._is_programs = False
        """Did the program seed it since?"""
        for owner, name in _seeders(place):
            setattr(owner, name, self._seeding(getattr(owner, name)))

    def look(self) -> None:
        """Set the mark if it has drawn."""
        if not self._is_programs and not self._shared[self._place] and self._state() != self._rest:
            self._shared[self._place] = 1

    def _seeding(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original, updated=())
        def seeded(*args: Any, **kwargs: Any) -> Any:
            with suppress(Exception):
                self.look()
            result = original(*args, **kwargs)
            with suppress(Exception):  # a state from before may be put back
                self._is_programs = self._state() != self._rest
            return result

        return seeded


def _look_after_each_fetch(fetcher: Any, watched: list[_Watched]) -> None:
    fetch = fetcher.fetch

    def fetch_and_look(*args: Any, **kwargs: Any) -> Any:
        try:
            return fetch(*args, **kwargs)
        finally:
            with suppress(Exception):
                for one in watched:
                    one.look()

    fetcher.fetch = fetch_and_look


def _seeders(place: int) -> list[tuple[Any, str]]:
    """The functions that give a generator a state."""
    if NAMES[place] == "python":
        return [(random, "seed"), (random, "setstate")]
    if NAMES[place] == "numpy":
        return [(sys.modules["numpy.random"], "seed"), (sys.modules["numpy.random"], "set_state")]
    return [
        (torch, "manual_seed"),
        (torch, "set_rng_state"),
        (torch.random, "manual_seed"),
        (torch.random, "set_rng_state"),
    ]


def _states() -> list[tuple[int, Callable[[], Any]]]:
    """The generators that are there, each with what reads its state."""
    found: list[tuple[int, Callable[[], Any]]] = [(0, random.getstate), (2, _torch_state)]
    numpy: Any = sys.modules.get("numpy.random")
    if numpy is not None:
        found.append((1, lambda: _numpy_state(numpy)))
    return found


def _numpy_state(numpy: Any) -> Any:
    state = numpy.get_state(legacy=False)
    numbers = [value.tobytes() if hasattr(value, "tobytes") else value for value in state["state"].values()]
    return [*numbers, state.get("has_gauss")]


def _torch_state() -> Any:
    return state_of(torch.default_generator)
