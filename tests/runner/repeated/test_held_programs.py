"""Planted programs whose runs part, and the circumstance that makes them agree when it is held."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.runner.repeated.planting import PROGRAMS
from tests.support.slow import slow_unless
from tracer.divergence.repeated import Repeated
from tracer.plain import json_text
from tracer.report.files.compared import repeated_json
from tracer.report.sections.runs import repeated_headline
from tracer.runner.repeated.holding import MOST_RUNS
from tracer.runner.repeated.repeating import Asked, repeat_script
from tracer.runner.repeated.task import Task

HELD = {
    "bytes_of_the_machine": "entropy",
    "draw_too_many": "folder",
    "dropout": "entropy",
    "index_put": "settings",
    "learning_rate_of_the_clock": "clock",
    "left_behind": "folder",
    "loop_of_the_clock": "clock",
    "numpy_generator": "entropy",
    "order_of_a_set": "hash-seed",
    "pointer_writes": "entropy",
    "python_generator": "entropy",
    "seed_of_process": "entropy",
    "seed_of_time": "clock",
    "seed_of_uuid": "entropy",
}
OBJECTS = """\
import torch

class Node:
    def __init__(self, value):
        self.value = value

nodes = {Node(value) for value in range(40)}
x = torch.tensor([node.value for node in nodes])
y = x * 2
"""
THREADS = """\
import os, queue, threading, time
import torch

jobs, done = queue.Queue(), queue.Queue()

def work():
    while (job := jobs.get()) is not None:
        time.sleep(os.urandom(1)[0] / 5000)
        done.put(job)

workers = [threading.Thread(target=work) for _ in range(3)]
for worker in workers:
    worker.start()
for job in [*range(8), None, None, None]:
    jobs.put(job)
x = torch.tensor([done.get() for _ in range(8)])
y = x * 2
"""
TWO = """\
import time
import torch

x = torch.ones(4) * (time.time_ns() % 9973)
torch.seed()
y = torch.rand(4) * 2
"""
OUTSIDE = """\
import os
import torch

path = os.path.join(os.environ["HOME"], "seen.txt")
x = torch.ones(4) * (2 if os.path.exists(path) else 1)
open(path, "w").close()
"""
FAILS = """\
import os
import torch

assert "PYTHONHASHSEED" not in os.environ
x = torch.ones(4) * hash("a word")
"""


def repeated(text: str, folder: Path, monkeypatch: pytest.MonkeyPatch, **asked: object) -> Repeated:
    (folder / "train.py").write_text(text, encoding="utf-8")
    monkeypatch.chdir(folder)
    monkeypatch.setenv("HOME", str(folder.parent))
    task = Task(target="train.py")
    return repeat_script(Asked(task=task, folder=folder / "repeat", **asked)).repeated  # type: ignore[arg-type]


def further_runs(found: Repeated) -> int:
    return sum(bool(run.held) or run.name.startswith("held") for run in found.runs)


@pytest.mark.parametrize(
    "path",
    slow_unless(lambda path: path.stem == "order_of_a_set", [path for path in PROGRAMS if path.stem in HELD]),
    ids=lambda path: path.stem,
)
def test_the_circumstance_that_decides_is_found(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = repeated(path.read_text(encoding="utf-8"), tmp_path, monkeypatch)
    assert found.cause is not None, found.held
    assert found.cause.circumstances == (HELD[path.stem],)
    assert further_runs(found) <= MOST_RUNS
    told = json.loads(json_text(repeated_json(found)))["held"]
    named = {"circumstance": HELD[path.stem], "agrees": True}.items()
    assert max(one["runs"] for one in told if named <= one.items()) >= 2
    assert f"They agree when {found.cause.clause}: {found.cause.shows}" in repeated_headline(found)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "cause"),
    [(OBJECTS, ("hash-seed", "addresses")), (THREADS, ("order",)), (TWO, ("clock", "entropy"))],
    ids=["objects", "threads", "two"],
)
def test_what_no_single_variable_holds_is_found_too(
    text: str, cause: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = repeated(text, tmp_path, monkeypatch)
    assert found.cause is not None, found.held
    assert found.cause.circumstances == cause


@pytest.mark.slow
def test_what_the_first_run_left_where_nothing_is_held_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "here").mkdir()
    found = repeated(OUTSIDE, tmp_path / "here", monkeypatch)
    assert found.cause is None
    assert "Every further run agrees with run 2" in repeated_headline(found)


@pytest.mark.slow
def test_a_hold_under_which_the_script_fails_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTHONHASHSEED", raising=False)
    found = repeated(FAILS, tmp_path, monkeypatch)
    assert found.cause is None
    assert found.held[0].no_proof == "the script ends with exit code 1 then"
    assert "proves nothing here: the script ends with exit code 1 then" in repeated_headline(found)
