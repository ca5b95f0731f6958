"""One tracer and several threads, tasks and generators: recorded, or refused in one line; nothing stays behind."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch

from tests.support.lines import record
from tests.support.modes import EmptyMode
from tracer import DeterminismTracer
from tracer.errors import UsageError
from tracer.names import BlindSpotKind
from tracer.recording.torch_private import seams

Made = dict[str, int]


def counted(tracer: DeterminismTracer) -> Made:
    """Calls of ``neg``, ``abs`` and ``sin``, which stand for whose work was recorded."""
    names = {"aten.neg.default": "neg", "aten.abs.default": "abs", "aten.sin.default": "sin"}
    made: Made = {}
    for call in tracer.trace.calls:
        if call.op in names:
            made[names[call.op]] = made.get(names[call.op], 0) + call.count
    return made


@pytest.fixture(autouse=True)
def nothing_stays() -> Iterator[None]:
    before = seams.dispatch_mode_count()
    yield
    assert seams.dispatch_mode_count() == before


def on_a_thread(work: Callable[[], object]) -> object:
    """What ``work`` gives or raises on a thread of its own."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(work).result()


def test_a_decorated_function_is_recorded_on_every_thread_that_calls_it_in_turn() -> None:
    tracer = DeterminismTracer()
    step = tracer(torch.neg)
    for _ in range(3):
        on_a_thread(lambda: step(torch.ones(2)))
    step(torch.ones(2))
    assert counted(tracer) == {"neg": 4}


def test_a_second_thread_is_refused_while_the_first_is_recorded() -> None:
    tracer = DeterminismTracer()
    with tracer:
        with pytest.raises(UsageError, match=r"records thread \w+, and not \S+ at the same time; give each thread"):
            on_a_thread(tracer.__enter__)
        torch.neg(torch.ones(2))
    assert counted(tracer) == {"neg": 1}
    with tracer:
        torch.neg(torch.ones(2))
    assert counted(tracer) == {"neg": 2}


def test_leaving_on_another_thread_is_refused_and_the_recording_goes_on() -> None:
    tracer = DeterminismTracer()
    with tracer:
        with pytest.raises(UsageError, match="leave it on the thread that entered it"):
            on_a_thread(lambda: tracer.__exit__(None, None, None))
        torch.neg(torch.ones(2))
    assert counted(tracer) == {"neg": 1}


def test_an_error_that_passes_through_on_another_thread_stays_what_it_is() -> None:
    tracer = DeterminismTracer()
    with tracer:
        on_a_thread(lambda: tracer.__exit__(ZeroDivisionError, ZeroDivisionError(), None))


def test_a_thread_that_ends_inside_is_left_and_the_trace_says_so() -> None:
    tracer = DeterminismTracer()

    def work() -> None:
        tracer.__enter__()
        torch.neg(torch.ones(2))

    on_a_thread(work)
    assert counted(tracer) == {"neg": 1}
    assert tracer.trace.partial == "its thread ended before it was left"
    with pytest.raises(UsageError, match="left more often than entered"):
        tracer.__exit__(None, None, None)
    with tracer:
        torch.neg(torch.ones(2))
    assert counted(tracer) == {"neg": 2}


@pytest.mark.parametrize("make", [DeterminismTracer, EmptyMode])
def test_what_was_entered_first_may_be_left_first(make: Callable[[], Any]) -> None:
    tracer, other = DeterminismTracer(), make()
    tracer.__enter__()
    other.__enter__()
    torch.neg(torch.ones(2))
    tracer.__exit__(None, None, None)
    torch.abs(torch.ones(2))
    other.__exit__(None, None, None)
    torch.sin(torch.ones(2))
    assert counted(tracer) == {"neg": 1}
    if isinstance(other, DeterminismTracer):
        assert counted(other) == {"neg": 1, "abs": 1}


def a_generator() -> Iterator[int]:
    yield 1


async def a_coroutine() -> None:
    await asyncio.sleep(0)


async def an_asynchronous_generator() -> AsyncIterator[int]:
    yield 1


@pytest.mark.parametrize("function", [a_generator, a_coroutine, an_asynchronous_generator])
def test_what_runs_in_turns_is_refused_as_it_is_decorated(function: Callable[[], object]) -> None:
    with pytest.raises(UsageError, match="runs in turns"):
        DeterminismTracer()(function)


def test_the_interpreter_ends_as_it_should() -> None:
    done = subprocess.run([sys.executable, "-X", "dev", "-c", PROGRAM], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout, done.stderr) == (0, "UsageError\n" * 3, "")


def test_two_tracers_on_two_threads_record_each_its_own_calls() -> None:
    both = threading.Barrier(2, timeout=60)

    def work(function: Callable[[torch.Tensor], torch.Tensor]) -> Made:
        tracer = DeterminismTracer()
        with tracer:
            both.wait()
            for _ in range(5):
                function(torch.ones(2))
            both.wait()
        return counted(tracer)

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(work, [torch.neg, torch.abs])) == [{"neg": 5}, {"abs": 5}]


@pytest.mark.parametrize(("module", "is_noticed"), [("torch._inductor.select_algorithm", False), ("trainer", True)])
def test_a_thread_in_which_inductor_compiles_is_none_of_the_programs(module: str, is_noticed: bool) -> None:
    namespace: dict[str, Any] = {"__name__": module}
    exec("def submit(pool): return pool.submit(int).result()", namespace)
    with ThreadPoolExecutor(1) as pool:
        trace = record(lambda: namespace["submit"](pool)).trace
    assert any(spot.kind is BlindSpotKind.OTHER_THREAD for spot in trace.blind_spots) is is_noticed


#: Programs that once aborted the interpreter as it ended, and those beside them; the last one stays entered.
PROGRAM = """
import gc, threading, torch
from concurrent.futures import ThreadPoolExecutor
from tracer import DeterminismTracer

def on_a_thread(work):
    thread = threading.Thread(target=work)
    thread.start(); thread.join()

def name_of_error(work, *args):
    try:
        work(*args)
    except Exception as problem:
        print(type(problem).__name__)
        return True

def a_pool():
    started = threading.Barrier(2, timeout=60)
    inside = DeterminismTracer()(lambda: started.wait() and None)
    def second():
        if name_of_error(inside):
            started.wait()
    with ThreadPoolExecutor(2) as pool:
        for one in [pool.submit(second), pool.submit(second)]:
            one.result()

def a_thread_that_ends_inside(tracer):
    on_a_thread(tracer.__enter__)
    name_of_error(tracer.__exit__, None, None, None)

def a_tracer_that_is_dropped_inside():
    on_a_thread(lambda: DeterminismTracer().__enter__() and gc.collect())

def left_elsewhere(tracer):
    tracer.__enter__()
    on_a_thread(lambda: name_of_error(tracer.__exit__, None, None, None))

a_pool()
a_thread_that_ends_inside(DeterminismTracer())
a_tracer_that_is_dropped_inside()
kept = DeterminismTracer(values=True)
on_a_thread(kept.__enter__)
left_elsewhere(DeterminismTracer())
"""
