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


@pytest.mark.parametrize(
    ("call", "source"),
    [
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
