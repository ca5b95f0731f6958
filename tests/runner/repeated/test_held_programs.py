"""Planted programs whose runs part, and the circumstance that makes them agree when it is held."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.runner.repeated.planting import PROGRAMS
from tests.support.slow import slow_unless
from tracer.divergence.repeated import Repeated
from tracer.plain import json_text
from tracer.report.compared import repeated_json
from tracer.report.sections.runs import repeated_headline
from tracer.runner.repeated.declared import Circumstance
from tracer.runner.repeated.holding import MOST_RUNS
from tracer.runner.repeated.repeating import Asked, repeat_script
from tracer.runner.script import Task

HELD = {"index_put": "settings", "left_behind": "folder", "order_of_a_set": "hash-seed"}
#: The line at which the runs of a program begin to differ.
LINES = {
    "bytes_of_the_machine": 5,
    "learning_rate_of_the_clock": 7,
    "left_behind": 7,
    "loop_of_the_clock": 6,
    "numpy_generator": 4,
    "order_of_a_set": 4,
    "seed_of_uuid": 6,
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


@pytest.mark.parametrize("name", slow_unless(["order_of_a_set"], HELD))
def test_the_circumstance_that_decides_is_found(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (path,) = (path for path in PROGRAMS if path.stem == name)
    found = repeated(path.read_text(encoding="utf-8"), tmp_path, monkeypatch, hold=(Circumstance(HELD[name]),))
    assert found.cause is not None, found.held
    assert found.cause.circumstances == (HELD[name],)
    assert further_runs(found) <= MOST_RUNS
    told = json.loads(json_text(repeated_json(found)))["held"]
    assert (told[0]["circumstance"], told[0]["agrees"], told[0]["runs"]) == (HELD[name], True, 2)
    assert f"They agree when {found.cause.clause}: {found.cause.shows}" in repeated_headline(found)


@pytest.mark.slow
@pytest.mark.parametrize("name", LINES)
def test_the_line_at_which_runs_begin_to_differ_is_named(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (path,) = (path for path in PROGRAMS if path.stem == name)
    found = repeated(path.read_text(encoding="utf-8"), tmp_path, monkeypatch)
    assert found.sources[0].location == f"train.py:{LINES[name]}"
    assert found.sources[0].reaches


@pytest.mark.slow
def test_the_order_of_objects_in_a_set_is_that_of_their_addresses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = repeated(OBJECTS, tmp_path, monkeypatch, hold=(Circumstance.ADDRESSES,))
    assert found.cause is not None, found.held
    assert found.cause.circumstances == ("hash-seed", "addresses")


@pytest.mark.slow
def test_a_hold_under_which_the_script_fails_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTHONHASHSEED", raising=False)
    found = repeated(FAILS, tmp_path, monkeypatch, hold=(Circumstance.HASH_SEED,))
    assert found.cause is None
    assert found.held[0].no_proof == "the script ends with exit code 1 then"
    assert "proves nothing here: the script ends with exit code 1 then" in repeated_headline(found)
