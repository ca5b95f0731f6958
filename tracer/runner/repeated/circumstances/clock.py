"""A clock that is ahead: what Python code reads of the day's time, shifted for the whole process.

``time.time`` and all that counts from it, ``date.today`` among it, and ``datetime``'s ``now`` and ``utcnow``. The
latter are written in C and ask the system itself, so a subclass stands in for ``datetime``; instances of the one pass
for the other.
"""

from __future__ import annotations

import copyreg
import datetime
import time
from collections.abc import Callable
from typing import Any

#: A day, an hour, a minute and a second: a seed made of any of them is another one.
AHEAD = 90_061


def shift_clock(seconds: int = AHEAD) -> None:
    """Put the clock ``seconds`` ahead, for good."""
    _shift_time(seconds)
    _shift_datetime(seconds)


def _shift_time(seconds: int) -> None:
    read, read_ns, clock_gettime = time.time, time.time_ns, getattr(time, "clock_gettime", None)
    time.time = lambda: read() + seconds
    time.time_ns = lambda: read_ns() + seconds * 10**9
    for name in ("localtime", "gmtime", "ctime"):
        setattr(time, name, _of_seconds(getattr(time, name), lambda: read() + seconds))
    asctime, strftime, localtime = time.asctime, time.strftime, time.localtime
    time.asctime = lambda moment=None: asctime(localtime() if moment is None else moment)
    time.strftime = lambda form, moment=None: strftime(form, localtime() if moment is None else moment)
    if clock_gettime is not None:
        realtime = time.CLOCK_REALTIME

        def shifted(clock: int) -> float:
            return float(clock_gettime(clock)) + (seconds if clock == realtime else 0)

        time.clock_gettime = shifted


def _of_seconds(function: Callable[..., Any], now: Callable[[], float]) -> Callable[..., Any]:
    return lambda moment=None: function(now() if moment is None else moment)


def _shift_datetime(seconds: int) -> None:
    real = datetime.datetime
    ahead = datetime.timedelta(seconds=seconds)

    class Passing(type):
        """What the C code makes is an instance too."""

        def __instancecheck__(cls, one: object) -> bool:
            return isinstance(one, vars(cls)["_stands_for"])

        def __subclasscheck__(cls, one: type) -> bool:
            return issubclass(one, vars(cls)["_stands_for"])

    class Moment(real, metaclass=Passing):  # type: ignore[misc,valid-type]
        """``datetime.datetime``, ahead."""

        _stands_for = real

        @classmethod
        def now(cls, tz: datetime.tzinfo | None = None) -> Any:
            return cls._of(real.now(tz) + ahead)

        @classmethod
        def utcnow(cls) -> Any:
            return cls._of(real.now(datetime.timezone.utc).replace(tzinfo=None) + ahead)

        @classmethod
        def _of(cls, one: datetime.datetime) -> Any:
            return cls.combine(one.date(), one.timetz())

    Moment.__name__ = Moment.__qualname__ = real.__name__
    Moment.__module__ = "datetime"
    copyreg.pickle(real, _pickled_as(Moment))
    datetime.datetime = Moment  # type: ignore[misc]


def _pickled_as(ours: type) -> Callable[[Any], tuple[Any, ...]]:
    """What the C code makes is pickled under the name that now means ``ours``."""
    return lambda one: (ours, one.__reduce_ex__(2)[1])
