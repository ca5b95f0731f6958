"""A seed is none where the call that takes it shows a number that differs in every process."""

from __future__ import annotations

import asyncio
import io
import os
import random
import secrets
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from datetime import datetime
from itertools import product
from time import time_ns as now
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tracer.recording.origin import Sites
from tracer.recording.randomness import seed_calls
from tracer.recording.randomness.seed_calls import takes_another_number
from tracer.tables import sources

ARGS = SimpleNamespace(seed=3, begun=time.time())
CONFIG = {"seed": 7}
RANDOMIZED = pytest.mark.skipif(not seed_calls._HASHES_DIFFER, reason="the hash seed is fixed")


def seed(number: object) -> bool:
    return takes_another_number(sys._getframe(1), number)


def passed_on(number: int) -> bool:
    return seed(number)


def where_none_is_given(number: int | None = None) -> bool:
    if number is None:
        number = random.randrange(2**16)
    return seed(number)


async def resumed(number: int) -> bool:
    await asyncio.sleep(0)
    return seed(number)


async def gathered(number: int) -> bool:
    return any(await asyncio.gather(*(resumed(number + each) for each in range(3))))


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
        lambda: seed(int.from_bytes(os.urandom(4), "big")),
        lambda: seed(uuid.uuid4().int % 2**32),
        lambda: seed(secrets.randbits(32)),
        lambda: passed_on(os.getpid() + 1),
        lambda: seed(id(ARGS) % 2**32),
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
        lambda: seed(2**31 - 5),
        lambda: seed(ARGS.seed + int(os.environ.get("RANK", "0"))),
        lambda: seed(CONFIG["seed"]),
        lambda: seed(hash((1, 2))),
        lambda: seed(hash(CONFIG.get("seed"))),
        lambda: seed(hash(int("3"))),
        lambda: seed(len(repr(ARGS.seed))),
        lambda: seed(ARGS.seed if ARGS.seed is not None else time.time_ns()),
        lambda: seed(uuid.uuid5(uuid.NAMESPACE_URL, "x").int % 2**32),
        lambda: passed_on(42),
        lambda: where_none_is_given(7),
        lambda: asyncio.run(gathered(42)),
        timed,
    ],
)
def test_numbers_of_the_program_are_seeds(unseeded: set[str], call: Callable[[], bool]) -> None:
    assert not call()


def test_what_resumes_a_coroutine_is_not_searched_for_its_parameters(monkeypatch: pytest.MonkeyPatch) -> None:
    searched: list[object] = []
    monkeypatch.setattr(
        seed_calls,
        "_named",
        lambda *asked, _named=seed_calls._named, **more: searched.append(0) or _named(*asked, **more),
    )
    assert not asyncio.run(gathered(42))
    assert 3 <= len(searched) < 100  # a task's frames lead to a thousand times as many


def test_what_iterates_a_generator_passed_its_parameters() -> None:
    def seeds(number: int) -> Iterator[bool]:
        yield seed(number)

    assert next(seeds(os.getpid() % 7))


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("python", lambda: seed(3 + int(random.random() * 100))),
        ("python", lambda: passed_on(random.getrandbits(16))),
        ("python", where_none_is_given),
        ("numpy", lambda: seed(int(np.random.randint(9999)) + 3)),
    ],
)
def test_a_draw_is_a_seed_if_its_generator_was_seeded(unseeded: set[str], name: str, call: Callable[[], Any]) -> None:
    assert not call()
    unseeded.add(name)
    assert call()


def test_the_table_is_asked_of_what_gives_a_number_and_not_of_a_plain_one(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(sources, "source_of", asked.extend)
    seed(3)
    assert asked == []
    seed(time.time_ns() % 1000)
    assert "time.time_ns" in asked


#: Each round has new types, which msgspec reads; threads that seed at once ask for the same ones.
ASKED_AT_ONCE = """
import sys, threading
sys.setswitchinterval(1e-5)
found = []
def ask(barrier):
    barrier.wait()
    from tracer.tables.sources import source_of
    found.append(source_of(["time.time"]).id)
for _ in range(12):
    sys.modules.pop("tracer.tables.sources", None)
    barrier = threading.Barrier(6)
    threads = [threading.Thread(target=ask, args=(barrier,)) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
print(len(found))
"""


def test_threads_that_ask_the_table_first_at_once_crash_nothing() -> None:
    done = subprocess.run([sys.executable, "-c", ASKED_AT_ONCE], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "72\n"), done.stderr


#: A script's way from a number to a seed, without the number.
KEPT = {
    "attribute": "args = SimpleNamespace()\nargs.seed = {}\nfound = seed(args.seed)",
    "attribute of an object": """
class Trainer:
    def __init__(self):
        self.number = {}
    def begin(self):
        return seed(self.number)
found = Trainer().begin()""",
    "entry": "state = dict()\nstate['s'] = {}\nfound = seed(state['s'])",
    "option": """
def options():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default={})
    return parser.parse_args()
args = options()
found = seed(args.seed)""",
    "option that was not given": """
parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int, default=None)
args = parser.parse_args()
if args.seed is None:
    args.seed = {}
found = seed(args.seed)""",
    "field": """
@dataclass
class Config:
    seed: int = field(default_factory=lambda: {})
found = seed(Config().seed)""",
    "file": "json.dump({{'seed': {}}}, file)\nfile.seek(0)\nfound = seed(json.load(file)['seed'])",
}
#: What only the code tells: any number could be the rest of a time, or be drawn.
BY_CODE = ("attribute", "attribute of an object", "entry", "option", "option that was not given")


def found_in(way: str, number: str, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> bool:
    monkeypatch.setattr(sys, "argv", ["script.py", *arguments])
    code = "import argparse, hashlib, json, os, random, time\nfrom dataclasses import dataclass, field\n"
    names = {"seed": seed, "SimpleNamespace": SimpleNamespace, "file": io.StringIO(), "__name__": "script"}
    monkeypatch.setitem(sys.modules, "script", ModuleType("script"))
    exec(compile(code + KEPT[way].format(number), "script.py", "exec"), names)
    return bool(names["found"])


TIMES = ("int(time.time())", "int(time.time() * 1000) + 3", "time.time_ns()", "os.getpid()")
CONSTANTS = ("42", "20240101", "1700000000", "int(hashlib.md5(b'train').hexdigest(), 16) % 2**32")


@pytest.mark.parametrize(
    ("way", "number", "differs"),
    [
        *product(KEPT, TIMES, [True]),
        *product(KEPT, CONSTANTS, [False]),
        *product(BY_CODE, ["int(time.time()) % 1000"], [True]),
        ("file", "int(time.time()) - 10**6", False),  # before this process began
    ],
)
def test_a_time_or_number_of_this_process_is_no_seed_whatever_its_way_and_a_constant_is(
    way: str, number: str, differs: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "getpid", lambda: 40_961)
    assert found_in(way, number, monkeypatch) is differs


@pytest.mark.parametrize("way", BY_CODE)
def test_a_kept_draw_is_a_seed_if_its_generator_was_seeded(
    unseeded: set[str], way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not found_in(way, "random.randint(1, 999)", monkeypatch)
    unseeded.add("python")
    assert found_in(way, "random.randint(1, 999)", monkeypatch)


@pytest.mark.parametrize(("way", "line"), [("attribute", 4), ("option", 6), ("option that was not given", 8)])
def test_the_line_that_drew_is_named(unseeded: set[str], way: str, line: int, monkeypatch: pytest.MonkeyPatch) -> None:
    unseeded.add("python")
    found: list[Any] = []
    monkeypatch.setattr(seed_calls, "takes_another_number", lambda *asked: found.append(seed_calls.drawn_at(*asked)))
    monkeypatch.setitem(globals(), "takes_another_number", seed_calls.takes_another_number)
    found_in(way, "random.randint(1, 999)", monkeypatch)
    code, instruction = found[0]
    assert (code.co_filename, Sites().resolve(code, instruction).line) == ("script.py", line)


def test_an_option_that_is_given_has_not_its_default(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not found_in("option", "int(time.time()) % 1000", monkeypatch, "--seed", "123")


@pytest.mark.parametrize(
    "script",
    [
        "args.seed = 3\nargs.begun = time.time()",
        "args.seed = 3\nif args.seed is None:\n    args.seed = int(time.time()) % 1000",
        "vars(args).update(json.loads('{\"seed\": 3}'))\nif args.seed is None:\n    args.seed = time.time_ns() % 99",
    ],
)
def test_a_time_beside_a_constant_says_nothing_of_it(script: str) -> None:
    names = {"seed": seed, "args": SimpleNamespace()}
    exec(compile(f"import json, time\n{script}\nfound = seed(args.seed)", "script.py", "exec"), names)
    assert not names["found"]


def text_hash(text: str) -> int:
    return abs(hash(text)) % 2**32


@RANDOMIZED
def test_the_hash_of_a_text_in_a_variable_is_no_seed_and_a_fixed_one_is(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "a name of this test" if ARGS.begun else ""
    assert seed(text_hash(name))
    monkeypatch.setattr(seed_calls, "_HASHES_DIFFER", False)
    assert not seed(text_hash(name))
