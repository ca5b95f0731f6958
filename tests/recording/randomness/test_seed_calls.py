"""A seed is none where the call that takes it shows a number that differs in every process."""

from __future__ import annotations

import os
import random
import secrets
import sys
import time
import uuid
from collections.abc import Callable
from datetime import datetime
from time import time_ns as now
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tracer.recording.randomness import seed_calls
from tracer.recording.randomness.seed_calls import takes_another_number
from tracer.tables import sources

ARGS = SimpleNamespace(seed=3, begun=time.time())
CONFIG = {"seed": 7}
STARTED = time.time()
RANDOMIZED = pytest.mark.skipif(not sys.flags.hash_randomization, reason="the hash seed is fixed")


def seed(number: object) -> bool:
    return takes_another_number(sys._getframe(1))


def passed_on(number: int) -> bool:
    return seed(number)


def where_none_is_given(number: int | None = None) -> bool:
    if number is None:
        number = random.randrange(2**16)
    return seed(number)


def by_a_name() -> bool:
    number = int(time.time() * 1e6) % 2**31
    return seed(number)


def imports_for_itself() -> bool:
    import time as clock

    return seed(clock.time_ns() % 1000)


def timed() -> bool:
    began = time.time()
    found = seed(1234)
    assert time.time() >= began
    return found


@pytest.fixture
def unseeded(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The global generators that drew though nobody seeded them."""
    drew: set[str] = set()
    asked = {name: (lambda name=name: name in drew) for name in ("python", "numpy", "torch")}
    monkeypatch.setattr(seed_calls, "DREW_UNSEEDED", asked)
    return drew


@pytest.mark.parametrize(
    "call",
    [
        lambda: seed(int(time.time())),
        lambda: seed(now() % 1000),
        lambda: seed(datetime.now().microsecond),
        lambda: seed(os.getpid()),
        lambda: seed(int.from_bytes(os.urandom(4), "big")),
        lambda: seed(uuid.uuid4().int % 2**32),
        lambda: seed(secrets.randbits(32)),
        lambda: passed_on(os.getpid() + 1),
        lambda: seed(id(ARGS) % 2**32),
        pytest.param(lambda: seed(hash("run") % 2**32), marks=RANDOMIZED),
        pytest.param(lambda: seed(hash("run" + str(ARGS.seed)) & 0xFFFF), marks=RANDOMIZED),
        by_a_name,
        imports_for_itself,
    ],
)
def test_a_clock_a_process_id_and_entropy_in_the_call_are_no_seed(call: Callable[[], bool]) -> None:
    assert call()


@pytest.mark.parametrize(
    "call",
    [
        lambda: seed(0),
        lambda: seed(2**31 - 5),
        lambda: seed(ARGS.seed),
        lambda: seed(ARGS.seed + int(os.environ.get("RANK", "0"))),
        lambda: seed(CONFIG["seed"]),
        lambda: seed(CONFIG.get("seed", 0)),
        lambda: seed(hash((1, 2))),
        lambda: seed(hash(CONFIG["seed"])),
        lambda: seed(hash(CONFIG.get("seed"))),
        lambda: seed(hash(int("3"))),
        lambda: seed(len(repr(ARGS.seed))),
        lambda: seed(ARGS.seed if ARGS.seed is not None else time.time_ns()),
        lambda: seed(uuid.uuid5(uuid.NAMESPACE_URL, "x").int % 2**32),
        lambda: passed_on(42),
        lambda: where_none_is_given(7),
        timed,
    ],
)
def test_numbers_of_the_program_are_seeds(unseeded: set[str], call: Callable[[], bool]) -> None:
    assert not call()


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("python", lambda: seed(random.randint(0, 9))),
        ("python", lambda: seed(3 + int(random.random() * 100))),
        ("python", lambda: passed_on(random.getrandbits(16))),
        ("python", where_none_is_given),
        ("numpy", lambda: seed(int(np.random.randint(9999)) + 3)),
    ],
)
def test_a_draw_is_a_seed_where_its_generator_was_seeded(
    unseeded: set[str], name: str, call: Callable[[], Any]
) -> None:
    assert not call()
    unseeded.add(name)
    assert call()


def test_the_table_is_asked_of_what_gives_a_number_and_not_of_a_plain_one(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(sources, "source_of", asked.extend)
    seed(3)
    assert asked == []
    seed(time.time_ns())
    assert "time.time_ns" in asked
