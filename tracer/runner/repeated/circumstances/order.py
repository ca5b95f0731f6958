"""Threads, processes, pools and loaders that answer in the order in which they were asked.

A pool has one worker. Threads that a script starts itself run one after another: the thread that starts one, or puts
something into a queue that they read, waits until each of them has ended or waits at a queue; likewise for processes,
until they have ended. The waits are bounded, so that programs whose threads wait for each other go on.
"""

from __future__ import annotations

import concurrent.futures
import functools
import itertools
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from tracer.runner.repeated.circumstances.replacing import Replacements, caller, caller_outside, is_of_library

#: Seconds to wait for a thread or a process, and for all of them in one process.
_MOST_OF_ONE, _MOST_OF_ALL = 5.0, 20.0
_TICK = 0.001
#: Modules that ask on behalf of others.
_PASSING = frozenset({"multiprocessing.context", "concurrent.futures.thread", "torch.utils.data.dataloader"})


def answer_in_order(replaced: Replacements, *, is_new_process: bool = False) -> None:
    """Make pools, threads and loaders answer in the order in which they were asked.

    A task that a task submits to its own pool runs at once, in place. ``as_completed`` yields results in the order of
    submission, a loader its batches in the order of its sampler. Torch's pool of threads cannot be put back, so it has
    one thread in a new process alone.
    """
    replaced.when_imported("concurrent.futures", lambda: _ask_in_order(replaced))
    replaced.when_imported("concurrent.futures.thread", lambda: _one_thread(replaced))
    replaced.when_imported("asyncio.tasks", lambda: _await_in_order(replaced))
    for module, pool, count in (
        ("concurrent.futures.process", "ProcessPoolExecutor", "max_workers"),
        ("multiprocessing.pool", "Pool", "processes"),
    ):
        replaced.when_imported(module, functools.partial(_one_process, replaced, module, pool, count))
    replaced.when_imported("torch.utils.data.dataloader", lambda: _load_in_order(replaced))
    if is_new_process:
        replaced.when_imported("torch", lambda: _fork_in_order(replaced))
    _children_in_order(replaced)
    turns = _Turns()
    _threads_in_turn(replaced, turns)
    replaced.when_imported("queue", lambda: _queues_in_turn(replaced, turns))
    replaced.when_imported("multiprocessing.process", lambda: _processes_in_turn(replaced, turns))


def _ask_in_order(replaced: Replacements) -> None:
    import concurrent.futures as futures
    from concurrent.futures import _base

    numbers = itertools.count()
    make = _base.Future.__init__

    @functools.wraps(make)
    def numbered(self: Any, *args: Any, **named: Any) -> None:
        make(self, *args, **named)
        self._tracer_number = next(numbers)

    def as_completed(fs: Iterable[Any], timeout: float | None = None) -> Iterator[Any]:
        until = None if timeout is None else time.monotonic() + timeout
        asked = sorted(dict.fromkeys(fs), key=lambda future: future._tracer_number)
        for number, future in enumerate(asked):
            left = None if until is None else max(0.0, until - time.monotonic())
            if not futures.wait([future], left).done:
                raise futures.TimeoutError(f"{len(asked) - number} (of {len(asked)}) futures unfinished")
            yield future

    replaced.put(_base.Future, "__init__", numbered)
    for owner in (_base, futures):
        replaced.put(owner, "as_completed", as_completed)


def _await_in_order(replaced: Replacements) -> None:
    import asyncio
    from asyncio import tasks

    def as_completed(fs: Iterable[Any], *, timeout: float | None = None) -> Iterator[Any]:
        replaced.use("order", caller(sys._getframe(1)))
        asked = [asyncio.ensure_future(awaitable) for awaitable in fs]
        return iter([asyncio.wait_for(future, timeout) for future in asked])

    if sys.version_info < (3, 13):  # from then on what it gives is awaited in two ways
        for owner in (asyncio, tasks):
            replaced.put(owner, "as_completed", as_completed)


def _one_thread(replaced: Replacements) -> None:
    import concurrent.futures.thread as pool

    make: Callable[..., Any] = pool.ThreadPoolExecutor.__init__
    submit: Callable[..., Any] = pool.ThreadPoolExecutor.submit

    @functools.wraps(make)
    def init_with_one_worker(self: Any, max_workers: int | None = None, *args: Any, **named: Any) -> None:
        replaced.use("order", caller_outside(_PASSING))
        make(self, max_workers, *args, **named)
        self._max_workers = 1

    @functools.wraps(submit)
    def submitted(self: Any, function: Callable[..., Any], /, *args: Any, **named: Any) -> Any:
        if threading.current_thread() not in self._threads:
            return submit(self, function, *args, **named)
        future: Any = concurrent.futures.Future()
        try:
            future.set_result(function(*args, **named))
        except BaseException as problem:
            future.set_exception(problem)
        return future

    replaced.put(pool.ThreadPoolExecutor, "__init__", init_with_one_worker)
    replaced.put(pool.ThreadPoolExecutor, "submit", submitted)


def _one_process(replaced: Replacements, module: str, pool: str, count: str) -> None:
    """Give a pool of processes one worker; ``count`` is the parameter for their number."""
    owner = getattr(sys.modules[module], pool)
    make: Callable[..., Any] = owner.__init__

    @functools.wraps(make)
    def init_with_one_worker(self: Any, *args: Any, **named: Any) -> None:
        replaced.use("order", caller_outside(_PASSING))
        named.pop(count, None)
        make(self, 1, *args[1:], **named)

    replaced.put(owner, "__init__", init_with_one_worker)


def _children_in_order(replaced: Replacements) -> None:
    """Whoever waits for any child process gets them in the order in which they were started."""
    if not hasattr(os, "fork"):
        return
    fork, wait, waitpid = os.fork, os.wait, os.waitpid
    children: list[int] = []

    @functools.wraps(fork)
    def forked() -> int:
        process = fork()
        if process:
            children.append(process)
        else:
            children.clear()
        return process

    @functools.wraps(waitpid)
    def waited(process: int, options: int, /) -> tuple[int, int]:
        if process != -1:
            return waitpid(process, options)
        replaced.use("order", caller(sys._getframe(1)))
        for child in tuple(children):
            try:
                ended = waitpid(child, options)
            except ChildProcessError:  # somebody waited for this one by its id
                children.remove(child)
                continue
            if ended[0]:
                children.remove(child)
            return ended
        return waitpid(process, options)

    @functools.wraps(wait)
    def waited_for_any() -> tuple[int, int]:
        return waited(-1, 0)

    replaced.put(os, "fork", forked)
    replaced.put(os, "waitpid", waited)
    replaced.put(os, "wait", waited_for_any)
    replaced.when_imported("subprocess", lambda: _programs_in_order(replaced, children))


def _programs_in_order(replaced: Replacements, children: list[int]) -> None:
    import subprocess

    make = subprocess.Popen.__init__

    @functools.wraps(make)
    def started(self: Any, *args: Any, **named: Any) -> None:
        make(self, *args, **named)
        children.append(self.pid)

    replaced.put(subprocess.Popen, "__init__", started)


def _fork_in_order(replaced: Replacements) -> None:
    """Branches of ``torch.jit.fork`` run on one thread."""
    import torch

    with suppress(RuntimeError):
        torch.set_num_interop_threads(1)
        replaced.put(torch, "set_num_interop_threads", lambda _: None)


def _load_in_order(replaced: Replacements) -> None:
    """A loader's workers load and return their batches one after another, in the order in which they are asked."""
    import torch.utils.data
    from torch.utils.data import dataloader
    from torch.utils.data._utils import fetch

    make: Callable[..., Any] = dataloader._MultiProcessingDataLoaderIter.__init__
    rings: list[_Ring] = []

    @functools.wraps(make)
    def init_in_order(self: Any, loader: Any) -> None:
        replaced.use("order", caller_outside(_PASSING))
        rings[:] = [_Ring(loader.num_workers)]  # the workers are forked in here, and have it
        in_order = getattr(loader, "in_order", True)
        if not in_order:
            loader.in_order = True
        try:
            make(self, loader)
        finally:
            rings.clear()
            if not in_order:
                loader.in_order = False

    def in_turn(load: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(load)
        def loaded(*args: Any, **named: Any) -> Any:
            info = torch.utils.data.get_worker_info()
            if info is None or not rings or rings[0].size != info.num_workers:
                return load(*args, **named)
            with rings[0].turn_of(info.id):
                return load(*args, **named)

        return loaded

    replaced.put(dataloader._MultiProcessingDataLoaderIter, "__init__", init_in_order)
    for name in ("_MapDatasetFetcher", "_IterableDatasetFetcher"):
        fetcher = getattr(fetch, name, None)
        if fetcher is not None:
            replaced.put(fetcher, "fetch", in_turn(fetcher.fetch))


class _Ring:
    """The loader's workers in turn, without those that have ended."""

    def __init__(self, size: int) -> None:
        import multiprocessing

        context = multiprocessing.get_context("fork")
        self.size = size
        self._turns = [context.Semaphore(int(number == 0)) for number in range(size)]
        self._ended = context.Array("b", size)
        self._left = _MOST_OF_ALL

    @contextmanager
    def turn_of(self, number: int) -> Iterator[None]:
        """Wait for the turn of worker ``number``, within the time limit, and pass it on."""
        began = time.monotonic()
        self._turns[number].acquire(timeout=max(0.0, min(self._left, _MOST_OF_ONE)))
        self._left -= time.monotonic() - began
        try:
            yield
        except StopIteration:
            self._ended[number] = 1
            raise
        finally:
            following = (*range(number + 1, self.size), *range(number + 1))
            self._turns[next((worker for worker in following if not self._ended[worker]), number)].release()


class _Turns:
    """The threads that a script started, and how much longer to wait for them."""

    def __init__(self) -> None:
        self._at_a_queue: dict[threading.Thread, tuple[int, Any] | None] = {}
        """The queue at which a thread waits, and the how manieth wait this is."""
        self._at_a_full_one: dict[threading.Thread, Any] = {}
        """The queue that a thread puts into, if it was full."""
        self._waits = itertools.count()
        self._left = _MOST_OF_ALL

    def starts(self, thread: threading.Thread) -> None:
        """A script starts ``thread``."""
        self._at_a_queue[thread] = None

    def has(self, thread: threading.Thread) -> bool:
        """Return whether a script started ``thread``."""
        return thread in self._at_a_queue

    def waits(self, thread: threading.Thread, queue: Any) -> None:
        """``thread`` waits at ``queue`` from now on; no longer at any if it is ``None``."""
        if thread in self._at_a_queue:
            self._at_a_queue[thread] = None if queue is None else (next(self._waits), queue)

    @contextmanager
    def putting(self, thread: threading.Thread, queue: Any) -> Iterator[None]:
        """``thread`` puts something into ``queue``, and waits for as long as that is full."""
        self._at_a_full_one[thread] = queue
        try:
            yield
        finally:
            del self._at_a_full_one[thread]

    def _runs(self, thread: threading.Thread) -> bool:
        full = self._at_a_full_one.get(thread)
        return thread.is_alive() and not self._at_a_queue[thread] and not (full is not None and full.full())

    def waiting_at(self, queue: Any) -> set[int]:
        """The waits of threads at ``queue``."""
        return {place[0] for place in list(self._at_a_queue.values()) if place is not None and place[1] is queue}

    def let_all_go(self) -> None:
        """Wait until all threads have ended or wait at a queue, an empty or a full one, within the time limit."""
        self.wait_for(lambda: not any(map(self._runs, list(self._at_a_queue))))

    def wait_for(self, is_done: Callable[[], bool]) -> None:
        """Wait until ``is_done``, within the time limit."""
        began = time.monotonic()
        while not is_done() and time.monotonic() - began < min(self._left, _MOST_OF_ONE):
            time.sleep(_TICK)
        self._left -= time.monotonic() - began


def _is_scripts() -> bool:
    """Return whether the caller is the script, not a library."""
    return not is_of_library(caller(sys._getframe(2)).f_code.co_filename)


def _threads_in_turn(replaced: Replacements, turns: _Turns) -> None:
    start = threading.Thread.start

    @functools.wraps(start)
    def started(self: threading.Thread) -> None:
        if not _is_scripts():
            start(self)
            return
        replaced.use("order", sys._getframe(1))
        turns.starts(self)
        start(self)
        if not turns.has(threading.current_thread()):
            turns.let_all_go()

    replaced.put(threading.Thread, "start", started)


def _queues_in_turn(replaced: Replacements, turns: _Turns) -> None:
    import queue

    get, put = queue.Queue.get, queue.Queue.put

    @functools.wraps(get)
    def gets(self: Any, *args: Any, **named: Any) -> Any:
        thread = threading.current_thread()
        turns.waits(thread, self if self.empty() else None)
        try:
            return get(self, *args, **named)
        finally:
            turns.waits(thread, None)
            if not turns.has(thread):  # who waited until it was no longer full goes first
                turns.let_all_go()

    @functools.wraps(put)
    def puts(self: Any, *args: Any, **named: Any) -> None:
        waiting = turns.waiting_at(self)
        with turns.putting(threading.current_thread(), self):
            put(self, *args, **named)
        if not turns.has(threading.current_thread()):
            turns.wait_for(lambda: not waiting or not waiting <= turns.waiting_at(self))  # one of them has it
            turns.let_all_go()

    replaced.put(queue.Queue, "get", gets)
    replaced.put(queue.Queue, "put", puts)


def _processes_in_turn(replaced: Replacements, turns: _Turns) -> None:
    import multiprocessing.process as process

    start = process.BaseProcess.start

    @functools.wraps(start)
    def started(self: Any) -> None:
        start(self)
        if _is_scripts():
            replaced.use("order", sys._getframe(1))
            turns.wait_for(lambda: not self.is_alive())

    replaced.put(process.BaseProcess, "start", started)
