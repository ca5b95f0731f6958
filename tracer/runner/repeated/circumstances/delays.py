"""Another order of arrival: workers of a ``DataLoader``, threads and processes of Python's pools are held up.

Each waits before some of its tasks, by a seeded rule, the first worker longest: who was first is no longer. What a
program does with answers in the order in which it asked is untouched.
"""

from __future__ import annotations

import functools
import os
import random
import time
from collections.abc import Callable
from typing import Any

from tracer.runner.repeated.circumstances.replacing import Replacements

#: Seconds that the first task waits, and that others may; what one process waits in all.
_FIRST = 0.25
_LATER = 0.03
_MOST = 3.0


class _Delays:
    """The waits of one process: half of its tasks, drawn by a generator of their own."""

    def __init__(self) -> None:
        self._process = 0
        self._drawn = random.Random(0)
        self._left = _MOST
        self._first = True

    def wait(self, number: int) -> None:
        """Wait as worker ``number`` does before a task."""
        if os.getpid() != self._process:  # forked: a worker of its own
            self._process, self._left, self._first = os.getpid(), _MOST, True
            self._drawn = random.Random(number)
        first, self._first = self._first, False
        seconds = _FIRST if first and number == 0 else _LATER * self._drawn.randint(0, 1)
        if seconds and self._left > 0:
            self._left -= seconds
            time.sleep(seconds)


_DELAYS = _Delays()


def hold_up_workers(replaced: Replacements) -> None:
    """Make whatever works beside the script's own thread answer in another order."""
    replaced.when_imported("torch.utils.data._utils.fetch", lambda: _hold_up_loaders(replaced))
    replaced.when_imported("concurrent.futures.thread", lambda: _hold_up_threads(replaced))
    replaced.when_imported("multiprocessing.pool", lambda: _hold_up_processes(replaced))


def _hold_up_loaders(replaced: Replacements) -> None:
    import torch.utils.data
    from torch.utils.data._utils import fetch

    for name in ("_MapDatasetFetcher", "_IterableDatasetFetcher"):
        fetcher = getattr(fetch, name, None)
        if fetcher is not None:
            replaced.put(fetcher, "fetch", _after_a_wait(fetcher.fetch, lambda: torch.utils.data.get_worker_info()))


def _after_a_wait(fetch: Callable[..., Any], worker: Callable[[], Any]) -> Callable[..., Any]:
    @functools.wraps(fetch)
    def delayed_fetch(*args: Any, **named: Any) -> Any:
        info = worker()
        if info is not None:
            _DELAYS.wait(info.id)
        return fetch(*args, **named)

    return delayed_fetch


def _hold_up_threads(replaced: Replacements) -> None:
    import concurrent.futures.thread as pool

    submit: Callable[..., Any] = pool.ThreadPoolExecutor.submit

    @functools.wraps(submit)
    def submitted(self: Any, function: Callable[..., Any], /, *args: Any, **named: Any) -> Any:
        task = getattr(self, "_tracer_tasks", 0)
        self._tracer_tasks = task + 1
        seconds = _FIRST if task == 0 else _LATER * random.Random(task).randint(0, 1) if task < _MOST / _LATER else 0
        return submit(self, _slept(function, seconds), *args, **named)

    replaced.put(pool.ThreadPoolExecutor, "submit", submitted)


def _slept(function: Callable[..., Any], seconds: float) -> Callable[..., Any]:
    @functools.wraps(function)
    def delayed_call(*args: Any, **named: Any) -> Any:
        time.sleep(seconds)
        return function(*args, **named)

    return delayed_call if seconds else function


def _hold_up_processes(replaced: Replacements) -> None:
    import multiprocessing.pool as pool

    work = pool.worker  # type: ignore[attr-defined]

    @functools.wraps(work)
    def held_up(inqueue: Any, *args: Any, **named: Any) -> Any:
        return work(_Slow(inqueue), *args, **named)

    replaced.put(pool, "worker", held_up)


class _Slow:
    """A queue of tasks whose taker waits before each."""

    def __init__(self, queue: Any) -> None:
        self._queue = queue

    def __getattr__(self, name: str) -> Any:
        return getattr(self._queue, name)

    def get(self, *args: Any, **named: Any) -> Any:
        import multiprocessing

        task = self._queue.get(*args, **named)
        _DELAYS.wait(0 if multiprocessing.current_process().name.endswith("-1") else 1)
        return task
