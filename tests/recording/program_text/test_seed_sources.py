"""A seed is called the machine's where the code or the number proves it, and a constant never is."""

from __future__ import annotations

import os
import random
import secrets
import sys
import time
import uuid
from collections.abc import Callable
from datetime import datetime
from time import time as now

import pytest

from tracer.names import NumberSource
from tracer.recording.program_text import seed_sources
from tracer.recording.program_text.seed_sources import source_of


def seed(number: object) -> NumberSource | None:
    return source_of(number, sys._getframe(1))


def set_seed(number: int | None = None) -> NumberSource | None:
    if number is None:
        number = int(time.time() * 1e6) % 2**31
    return seed(number)


def passed_on(number: int) -> NumberSource | None:
    return seed(number)


def fresh() -> int:
    return int(now() * 1000) % 100_000


def timed() -> NumberSource | None:
    started = time.time()
    number = 1234
    found = seed(number)
    assert time.time() >= started
    return found


def either(given: int | None) -> NumberSource | None:
    number = given if given is not None else secrets.randbelow(2**32)
    return seed(number)


class Config:
    """As programs keep a seed: given, or the process's."""

    def __init__(self, given: int | None = None) -> None:
        self.seed = given if given is not None else os.getpid()


def of_config(config: Config) -> NumberSource | None:
    return seed(config.seed)


LEFT_OUT: dict[str, int] = {"number": 7}


def set_late(number: int | None = None) -> NumberSource | None:
    if number is None:
        number = int(time.time() * 1e6) % 2**31
    time.sleep(0.15)  # longer than the number by itself bears the clock out
    return seed(number)


@pytest.mark.parametrize(
    ("call", "source"),
    [
        (lambda: of_config(Config()), "process-id"),
        (lambda: of_config(Config(3)), None),
        (lambda: set_late(), "clock"),
        (lambda: set_late(*[7]), None),
        (lambda: set_late(**LEFT_OUT), None),
        (lambda: seed(int.from_bytes(open("/dev/urandom", "rb").read(4), "big")), "entropy"),  # noqa: SIM115
        (lambda: seed(int(time.time() * 1e6) % 2**31), "clock"),
        (lambda: seed(int(now())), "clock"),
        (lambda: seed(datetime.now().microsecond), "clock"),
        (lambda: seed(fresh()), "clock"),
        (lambda: set_seed(), "clock"),
        (lambda: passed_on(time.time_ns() % 1000), "clock"),
        (lambda: seed(os.getpid()), "process-id"),
        (lambda: passed_on(os.getpid() + 1), "process-id"),
        (lambda: seed(int.from_bytes(os.urandom(4), "big")), "entropy"),
        (lambda: seed(uuid.uuid4().int % 2**32), "entropy"),
        (lambda: seed(random.SystemRandom().randint(0, 9)), "entropy"),
        (lambda: seed(id(seed) % 2**32), "address"),
        (lambda: seed(0), None),
        (lambda: seed(2**31 - 5), None),
        (lambda: seed("a text"), None),
        (lambda: set_seed(1234), None),
        (lambda: set_seed(0), None),
        (lambda: passed_on(42), None),
        (lambda: timed(), None),
        (lambda: either(7), None),
        (lambda: seed(hash((1, 2))), None),
        (lambda: seed(uuid.uuid5(uuid.NAMESPACE_URL, "x").int % 2**32), None),
    ],
)
def test_a_seed_is_the_machines_only_where_it_is(call: Callable[[], NumberSource | None], source: str | None) -> None:
    assert call() == source


def test_a_number_that_a_clock_shows_needs_no_code() -> None:
    assert source_of(int(time.time()), None) is NumberSource.CLOCK
    assert source_of(time.time_ns(), None) is NumberSource.CLOCK
    assert source_of(20_261_122, None) is None
    assert source_of(1_700_000_000, None) is None


def test_a_number_that_said_once_where_it_came_from_is_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    def either_way(number: int) -> NumberSource | None:
        if number == 0:
            number = time.time_ns() // 1000 % 2**31
        first = seed(number)
        monkeypatch.setattr(seed_sources, "_is_remainder_of_now", lambda value, constants: False)  # the clock went on
        return seed(number) if first is not None else None

    monkeypatch.setattr(seed_sources, "_is_remainder_of_now", lambda value, constants: value != 5)
    assert either_way(0) == "clock"
    assert either_way(5) is None
