"""Which circumstance decides: what is held, in how few runs, what each outcome shows; which runs are one program."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from msgspec.structs import replace

from tests.runner.repeated.planting import PROGRAMS
from tests.support.build import call
from tests.support.slow import slow_unless
from tracer.divergence.causes import RootCause
from tracer.divergence.model import Family, Root
from tracer.divergence.repeated import Repeated
from tracer.findings import Finding
from tracer.names import Backend, Phase, Verdict
from tracer.plain import json_text
from tracer.report.compared import repeated_json
from tracer.report.sections.runs import repeated_headline
from tracer.runner.repeated.declared import Circumstance
from tracer.runner.repeated.holding import (
    MOST_RUNS,
    ComparedRuns,
    HeldRun,
    Holds,
    find_circumstance,
    hangs_on_settings_alone,
    makes_calls_of,
    suspects,
)
from tracer.runner.repeated.repeating import Asked, repeat_script
from tracer.runner.script import Task
from tracer.trace.values import Values

HASH, MEMORY, FOLDER, THREADS = Circumstance.HASH_SEED, Circumstance.MEMORY, Circumstance.FOLDER, Circumstance.THREADS


class Laboratory:
    """Runs agree if all that ``decides`` is held; else each is another one."""

    def __init__(self, decides: Iterable[Circumstance], *, fails: bool = False) -> None:
        self.decides, self.fails = frozenset(decides), fails
        self.runs: list[Holds] = []

    def run(self, held: Holds) -> HeldRun:
        """Note what was held."""
        self.runs.append(held)
        return HeldRun(held, {str(len(self.runs)): None}, "it fails" if self.fails else "")  # type: ignore[dict-item]

    def compare(self, first: Family, second: Family) -> ComparedRuns:
        """Return whether both runs held what decides."""
        (one,), (two,) = first, second
        return ComparedRuns(agrees=all(self.decides <= self.runs[int(run) - 1] for run in (one, two)))


def root(cause: RootCause) -> Root:
    """A root with this cause."""
    return Root(cause=cause, step=0, call=0, op="aten.add.Tensor", phase=Phase.FORWARD)


@pytest.mark.parametrize("decides", [HASH, MEMORY])
def test_a_suspect_that_decides_is_the_cause(decides: Circumstance) -> None:
    laboratory = Laboratory([decides])
    held = find_circumstance(laboratory, [HASH, MEMORY, FOLDER], [HASH, MEMORY])
    assert [each.is_cause for each in held] == [False] * (decides is MEMORY) + [True]
    assert held[-1].circumstances == (decides.value,)
    assert held[-1].remedy
    assert len(laboratory.runs) <= MOST_RUNS


def test_without_a_suspect_all_are_held_and_then_single_ones() -> None:
    laboratory = Laboratory([MEMORY])
    held = find_circumstance(laboratory, [HASH, MEMORY, THREADS], [])
    assert [(each.circumstances, each.agrees, each.is_cause) for each in held] == [
        ((HASH.value, MEMORY.value), True, False),
        ((HASH.value,), False, False),
        ((MEMORY.value,), True, True),
    ]
    assert len(laboratory.runs) == MOST_RUNS


def test_what_nothing_explains_costs_two_runs() -> None:
    laboratory = Laboratory([Circumstance.SETTINGS])
    held = find_circumstance(laboratory, [HASH, MEMORY, FOLDER], [])
    assert [each.agrees for each in held] == [False]
    assert len(laboratory.runs) == 2


def test_what_a_user_names_is_held_together_first() -> None:
    laboratory = Laboratory([THREADS])
    held = find_circumstance(laboratory, [HASH, THREADS], [HASH], are_named=True)
    assert [each.is_all for each in held] == [True, False, False]
    assert held[-1].circumstances == (THREADS.value,)


def test_a_run_that_fails_proves_nothing() -> None:
    (held,) = find_circumstance(Laboratory([], fails=True), [HASH], [HASH])
    assert (held.is_cause, held.no_proof, held.runs) == (False, "it fails", 1)


def test_addresses_are_held_with_the_hash_seed() -> None:
    laboratory = Laboratory([Circumstance.ADDRESSES])
    (held,) = find_circumstance(laboratory, [Circumstance.ADDRESSES], [Circumstance.ADDRESSES])
    assert laboratory.runs[0] == {HASH, Circumstance.ADDRESSES}
    assert held.is_cause


@pytest.mark.parametrize(
    ("decides", "shown"),
    [
        ([Circumstance.ADDRESSES], [("hash-seed", "addresses"), ("hash-seed",)]),
        ([HASH], [("hash-seed",), ("hash-seed", "addresses")]),
    ],
    ids=["addresses", "hash seed"],
)
def test_of_addresses_and_the_hash_seed_that_they_need_the_one_that_decides_is_the_cause(
    decides: list[Circumstance], shown: list[tuple[str, ...]]
) -> None:
    laboratory = Laboratory(decides)
    held = find_circumstance(laboratory, [HASH, Circumstance.ADDRESSES], [], are_named=True)
    assert [each.circumstances for each in sorted(held, key=lambda each: not each.is_cause)] == shown
    assert [each.is_cause for each in held].count(True) == 1
    assert len(laboratory.runs) == 3


@pytest.mark.parametrize(
    ("cause", "suspected"),
    [
        (RootCause.KERNEL, [Circumstance.SETTINGS, THREADS]),
        (RootCause.STRUCTURE, [HASH, FOLDER]),
        (RootCause.UNWRITTEN_MEMORY, [MEMORY]),
        (RootCause.COLLECTIVE, []),
    ],
)
def test_the_first_roots_cause_suggests_circumstances(cause: RootCause, suspected: list[Circumstance]) -> None:
    assert suspects([root(cause)], [*Circumstance]) == suspected


@pytest.mark.parametrize(
    ("cause", "backend", "holds"),
    [
        (RootCause.KERNEL, Backend.CUDA, True),
        (RootCause.KERNEL, Backend.CPU, False),
        (RootCause.STRUCTURE, Backend.CUDA, False),
    ],
)
def test_threads_of_a_process_explain_no_kernel_of_a_device(cause: RootCause, backend: Backend, holds: bool) -> None:
    verdict = Verdict.NONDETERMINISTIC
    given: Any = {"rule": "r", "verdict": verdict, "deterministic_mode": verdict, "backend": backend}
    found = Finding(**given, op="aten.add.Tensor", phase=Phase.BACKWARD)
    assert hangs_on_settings_alone([replace(root(cause), rule="r")], [found]) is holds
    assert not hangs_on_settings_alone([root(cause)], [found])


HELD = {"index_put": "settings", "left_behind": "folder", "order_of_a_set": "hash-seed"}


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
def test_the_order_of_objects_in_a_set_is_by_their_addresses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


def values(ops: str) -> Values:
    """The values of a run whose calls are of these ops, a letter each; an upper one stands at the line of the lower."""
    groups = [call(op=f"aten.{letter}.default", location=f"{letter.lower()}.py:1") for letter in sorted(set(ops))]
    numbers = np.array([sorted(set(ops)).index(letter) for letter in ops])
    return cast(Values, cast(Any, SimpleNamespace(groups=groups, group=numbers)))


@pytest.mark.parametrize(
    ("held", "unheld", "is_same"),
    [
        ("abc", ("abc", "abc"), True),
        ("acb", ("abc", "abc"), True),
        ("abbbc", ("abc", "abbc"), True),
        ("ab", ("abc", "abc"), False),
        ("abcd", ("abc", "abc"), False),
        ("abe", ("abc", "abd"), True),
        ("aBe", ("abc", "abd"), True),
        ("ae", ("abc", "abd"), False),
    ],
    ids=["same", "reordered", "other counts", "fewer", "more", "kinds vary", "others at their lines", "lacks"],
)
def test_a_run_makes_the_calls_of_others(held: str, unheld: tuple[str, ...], is_same: bool) -> None:
    assert makes_calls_of(values(held), [values(ops) for ops in unheld]) is is_same
