"""Another clock than the machine's, for what Python code reads: one that is ahead, and one that ticks when it is read.

``time``'s clocks and all that counts from them, ``date.today`` among it, and ``datetime``'s ``now`` and ``utcnow``. The
latter are written in C and ask the system itself, so a subclass stands in for ``datetime``; instances of the one pass
for the other.
"""

from __future__ import annotations

import copyreg
import datetime
import functools
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping
from importlib.machinery import ExtensionFileLoader
from types import FrameType
from typing import Any

from tracer.runner.repeated.circumstances.replacing import Replacements, caller

#: A day, an hour, a minute and a second: a seed made of any of them is another one.
AHEAD = 90_061
#: What a clock that is held goes on by when it is read, in nanoseconds: loops that wait for a moment end.
TICK = 10_000_000
#: What the clock of an event loop goes on by, in seconds, in a turn in which it does not wait.
_TURN = 1e-4
#: Where clocks stand that count from no date.
_START = 1_000 * 10**9

_CLOCKS = ("time", "monotonic", "perf_counter", "process_time", "thread_time")
#: The numbers by which ``time.clock_gettime`` knows them.
_NUMBERED = {
    "CLOCK_REALTIME": "time",
    "CLOCK_MONOTONIC": "monotonic",
    "CLOCK_MONOTONIC_RAW": "monotonic",
    "CLOCK_BOOTTIME": "monotonic",
    "CLOCK_PROCESS_CPUTIME_ID": "process_time",
    "CLOCK_THREAD_CPUTIME_ID": "thread_time",
}
#: Whoever waits by the clock reads the machine's, or would wait for ever: these packages, and the tracer itself.
_WAITS = frozenset(
    {
        *("asyncio", "concurrent", "multiprocessing", "queue", "sched", "select", "selectors", "signal"),
        *("socket", "socketserver", "ssl", "subprocess", "threading", "urllib", "tracer", "ray", "grpc", "aiohttp"),
    }
)
_WAITS_IN_TORCH = ("torch.distributed", "torch.multiprocessing", "torch.utils.data", "torch._inductor")

_Clock = Callable[[], int]
_Use = Callable[[FrameType], None]


def shift_clock(replaced: Replacements) -> None:
    """Put the day's clock ``AHEAD``."""
    read = time.time_ns
    _install(replaced, {"time": lambda: read() + AHEAD * 10**9}, lambda _: None)


def hold_clock(replaced: Replacements, began: int) -> None:
    """Let every clock begin at the same moment, ``began`` nanoseconds after 1970, and go on by ``TICK`` when read.

    Each thread has ticks of its own: what one reads does not hang on how far another has come. Sleeping still sleeps,
    and the clock goes on by as much.
    """
    ticks = threading.local()

    def use(frame: FrameType) -> None:
        replaced.use("clock", frame)

    def since(start: int) -> _Clock:
        def read() -> int:
            ticks.passed = getattr(ticks, "passed", 0) + TICK
            return start + int(ticks.passed)

        return read

    _install(replaced, {name: since(began if name == "time" else _START) for name in _CLOCKS}, use)
    _hold_usage(replaced, since(0), use)
    sleep = time.sleep

    def slept(seconds: float) -> None:
        sleep(seconds)
        ticks.passed = getattr(ticks, "passed", 0) + int(seconds * 10**9)

    replaced.put(time, "sleep", slept)
    replaced.when_imported("asyncio.selector_events", lambda: _hold_loops(replaced, use))


def _hold_loops(replaced: Replacements, use: _Use) -> None:
    """Let the clock of an event loop go on by what it waits for, by ``_TURN`` in a turn without a wait, and by ``TICK``
    when the program reads it: its timers fire in one order."""
    loops = sys.modules["asyncio.selector_events"].BaseSelectorEventLoop
    make: Callable[..., None] = loops.__init__
    machines: Callable[[Any], float] = loops.time

    @functools.wraps(make)
    def init(self: Any, *args: Any, **named: Any) -> None:
        make(self, *args, **named)
        select = self._selector.select

        def selected(timeout: float | None = None) -> Any:
            events = select(timeout)
            if timeout:
                replaced.note("clock")
            if not events:
                self._tracer_time += timeout or _TURN
            return events

        self._tracer_time = _START / 1e9
        self._selector.select = selected

    @functools.wraps(machines)
    def now(self: Any) -> float:
        if not hasattr(self, "_tracer_time"):  # it ran before
            return machines(self)
        frame = caller(sys._getframe(1))
        if not _waits(frame.f_globals.get("__name__") or ""):
            use(frame)
            self._tracer_time += TICK / 1e9
        return float(self._tracer_time)

    replaced.put(loops, "__init__", init)
    replaced.put(loops, "time", now)


def _hold_usage(replaced: Replacements, clock: _Clock, use: _Use) -> None:
    """Hold the processor time that the process has used; other resources read as if it had used nothing."""

    def times() -> Any:
        use(caller(sys._getframe(1)))
        seconds = clock() / 1e9
        return os.times_result((seconds, 0.0, 0.0, 0.0, seconds))

    replaced.put(os, "times", times)
    replaced.when_imported("resource", lambda: _hold_rusage(replaced, clock, use))


def _hold_rusage(replaced: Replacements, clock: _Clock, use: _Use) -> None:
    import resource

    def getrusage(who: int) -> Any:
        use(caller(sys._getframe(1)))
        return resource.struct_rusage((clock() / 1e9, *(0,) * 15))

    replaced.put(resource, "getrusage", getrusage)


def _install(replaced: Replacements, clocks: Mapping[str, _Clock], use: _Use) -> None:
    """Make ``clocks``, which answer in nanoseconds, read wherever ``time`` and ``datetime`` are asked.

    ``use`` is told who asked.
    """
    machines = {name: getattr(time, name) for name in _CLOCKS if hasattr(time, name)}
    machines_ns = {name: getattr(time, f"{name}_ns") for name in _CLOCKS if hasattr(time, f"{name}_ns")}
    for name, clock in clocks.items():
        replaced.put(time, name, _read_by(clock, machines.get(name), 1e9, use))
        replaced.put(time, f"{name}_ns", _read_by(clock, machines_ns.get(name), 1, use))
    _replace_numbered(replaced, clocks, use)
    _replace_calendar(replaced, clocks["time"], use)
    _replace_datetime(replaced, clocks["time"], use)


def _read_by(clock: _Clock, machines: Any, unit: float, use: _Use) -> Callable[[], float]:
    def read() -> float:
        frame = caller(sys._getframe(1))
        if _waits(frame.f_globals.get("__name__") or ""):
            return machines()  # type: ignore[no-any-return]
        use(frame)
        return clock() if unit == 1 else clock() / unit

    return read


def _waits(module: str) -> bool:
    return module.partition(".")[0] in _WAITS or module.startswith(_WAITS_IN_TORCH)


def _replace_numbered(replaced: Replacements, clocks: Mapping[str, _Clock], use: _Use) -> None:
    numbers = {getattr(time, name): clock for name, clock in _NUMBERED.items() if hasattr(time, name)}
    for name, unit in (("clock_gettime", 1e9), ("clock_gettime_ns", 1)):
        machines = getattr(time, name, None)
        if machines is None:
            continue
        reads = {
            number: _read_by(clocks[clock], functools.partial(machines, number), unit, use)
            for number, clock in numbers.items()
            if clock in clocks
        }
        replaced.put(time, name, functools.partial(_read_numbered, reads, machines))


def _read_numbered(reads: Mapping[int, Callable[[], float]], machines: Callable[[int], float], number: int) -> float:
    return reads[number]() if number in reads else machines(number)


def _replace_calendar(replaced: Replacements, clock: _Clock, use: _Use) -> None:
    def now() -> float:
        use(caller(sys._getframe(2)))
        return clock() / 1e9

    for name in ("localtime", "gmtime", "ctime"):
        replaced.put(time, name, _of_seconds(getattr(time, name), now))
    asctime, strftime, localtime = time.asctime, time.strftime, time.localtime
    replaced.put(time, "asctime", lambda moment=None: asctime(localtime() if moment is None else moment))
    replaced.put(time, "strftime", lambda form, moment=None: strftime(form, localtime() if moment is None else moment))


def _of_seconds(function: Callable[..., Any], now: Callable[[], float]) -> Callable[..., Any]:
    return lambda moment=None: function(now() if moment is None else moment)


def _replace_datetime(replaced: Replacements, clock: _Clock, use: _Use) -> None:
    real = datetime.datetime
    epoch = real(1970, 1, 1, tzinfo=datetime.timezone.utc)

    class Passing(type):
        """Counts what the C code makes as an instance too."""

        def __instancecheck__(cls, instance: object) -> bool:
            return isinstance(instance, vars(cls)["_stands_for"])

        def __subclasscheck__(cls, subclass: type) -> bool:
            return issubclass(subclass, vars(cls)["_stands_for"])

    class Moment(real, metaclass=Passing):  # type: ignore[misc,valid-type]
        """``datetime.datetime`` by another clock, and of the same size: compiled code reads its fields in place."""

        __slots__ = ()
        _stands_for = real

        @classmethod
        def now(cls, tz: datetime.tzinfo | None = None) -> Any:
            use(caller(sys._getframe(1)))
            moment = (epoch + datetime.timedelta(microseconds=clock() // 1000)).astimezone(tz)
            return cls._of(moment if tz is not None else moment.replace(tzinfo=None))

        @classmethod
        def utcnow(cls) -> Any:
            use(caller(sys._getframe(1)))
            return cls._of((epoch + datetime.timedelta(microseconds=clock() // 1000)).replace(tzinfo=None))

        @classmethod
        def _of(cls, moment: datetime.datetime) -> Any:
            return cls.combine(moment.date(), moment.timetz())

    Moment.__name__ = Moment.__qualname__ = real.__name__
    Moment.__module__ = "datetime"
    was = copyreg.dispatch_table.get(real)
    copyreg.pickle(real, _pickled_as(Moment))
    replaced.then(lambda: copyreg.dispatch_table.pop(real) if was is None else copyreg.pickle(real, was))
    replaced.put(datetime, "datetime", Moment)
    for name in ("create_module", "exec_module"):
        replaced.put(ExtensionFileLoader, name, _with_its_own(real, getattr(ExtensionFileLoader, name)))


def _with_its_own(real: type, load: Callable[..., Any]) -> Callable[..., Any]:
    """Compiled modules derive classes from ``datetime.datetime`` as they are loaded, and get the one written in C."""

    @functools.wraps(load)
    def loaded(*args: Any) -> Any:
        stands_there: Any = datetime.datetime
        datetime.datetime = real  # type: ignore[misc,assignment]
        try:
            return load(*args)
        finally:
            datetime.datetime = stands_there  # type: ignore[misc]

    return loaded


def _pickled_as(ours: type) -> Callable[[Any], tuple[Any, ...]]:
    """Return a reducer that pickles what the C code makes under the name that now means ``ours``."""
    return lambda moment: (ours, moment.__reduce_ex__(2)[1])
