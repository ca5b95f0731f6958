"""Processes of two runs correspond by their roles, workers of a pool task by task, whichever worker ran which."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.divergence.recorded import Recorder, Run, d
from tests.runner.repeated.comparisons import root
from tests.support.build import trace
from tracer.divergence.causes import RootCause, Shows
from tracer.divergence.comparing import compare_recordings
from tracer.divergence.families import compare_families
from tracer.divergence.model import Divergence, Recording
from tracer.names import ChildState, Phase, StartedBy
from tracer.trace.records import Child
from tracer.trace.values import ValueKind

Dealt = Mapping[str, Sequence[str]]
"""The tasks of each worker, in order."""


def ran(folder: Path, name: str, dealt: Dealt, bent: Mapping[str, object] | None = None) -> dict[str, Recording]:
    """A run whose workers train one model a task; ``bent``: what a task computes otherwise, by its name."""
    children = tuple(
        Child(role=role, started_by=StartedBy.POOL, location="pool.py:9", state=ChildState.RECORDED, calls=8)
        for role in dealt
    )
    first = Run(folder / f"{name}.values")
    family = {"": Recording(name=name, values=first.values(), trace=trace(children=children))}
    for role, tasks in dealt.items():
        run = Run(folder / f"{name}-{role}.values")
        shared = run.call("ones.default", line=1)
        step = 0
        for task in tasks:
            run.writer.moment(ValueKind.TASK, "", d(task))
            weight = run.call("randn.default", line=2, generator=("cpu", task))
            for _ in range(2):
                loss = run.call("mm.default", weight, shared, line=3, noise=(bent or {}).get(task))
                weight = run.call("add_.Tensor", weight, loss, line=4, phase=Phase.OPTIMIZER, keeps=weight)
                step += 1
                run.writer.step(step)
        run.writer.moment(ValueKind.PARAMETER, f"weight of {len(tasks)}", d(tasks))
        family[role] = Recording(name=f"{name}, child {role}", values=run.values(), trace=trace())
    return family


def compared(first: Mapping[str, Recording], second: Mapping[str, Recording]) -> Divergence:
    return compare_families(first, second, lambda ours, theirs: compare_recordings(ours, theirs, may_resume=False))


DEALT: Dealt = {"1": ["a", "b", "c"], "2": ["d"]}
OTHERWISE: list[Dealt] = [
    DEALT,
    {"1": ["d"], "2": ["a", "b", "c"]},
    {"1": ["c", "a"], "2": ["d", "b"]},
    {"1": ["a", "d"], "2": ["b", "c"]},
]


@pytest.mark.parametrize("dealt", OTHERWISE)
def test_tasks_that_other_workers_ran_agree(tmp_path: Path, dealt: Dealt) -> None:
    found = compared(ran(tmp_path, "one", DEALT), ran(tmp_path, "two", dealt))
    assert (found.agrees, found.roots, found.partial) == (True, (), ("", ""))
    assert found.calls_compared == 4 * 5 + 2


@pytest.mark.parametrize("dealt", OTHERWISE)
@pytest.mark.parametrize("task", ["a", "c", "d"])
def test_a_task_that_computes_otherwise_is_found_with_its_step(tmp_path: Path, dealt: Dealt, task: str) -> None:
    found = compared(ran(tmp_path, "one", DEALT), ran(tmp_path, "two", dealt, {task: "race"}))
    assert not found.agrees
    (root,) = found.roots
    assert (root.op, root.location, root.step, root.cause) == ("aten.mm.default", "train.py:3", 0, RootCause.KERNEL)
    number = ["a", "b", "c"].index(task) + 1 if task != "d" else 1
    assert root.process == f"child {2 if task == 'd' else 1}, task {number}"


@pytest.mark.parametrize("second", [{"1": ["a", "b"], "2": ["d", "e"]}, {"1": ["a", "b", "c"], "2": []}])
def test_other_tasks_are_not_compared_and_it_is_said(tmp_path: Path, second: Dealt) -> None:
    found = compared(ran(tmp_path, "one", DEALT), ran(tmp_path, "two", second))
    assert found.roots == ()
    assert "sent other tasks" in found.partial[0]


def test_the_same_task_twice_is_compared_twice(tmp_path: Path) -> None:
    found = compared(ran(tmp_path, "one", {"1": ["a", "a"]}), ran(tmp_path, "two", {"1": ["a"], "2": ["a"]}))
    assert found.roots == ()
    assert found.calls_compared >= 2 * 5


def test_what_a_worker_did_before_its_first_task_counts(tmp_path: Path) -> None:
    first, second = ran(tmp_path, "one", DEALT), ran(tmp_path, "two", DEALT)
    run = Run(tmp_path / "other.values")
    run.call("ones.default", line=1, noise="race")
    run.writer.moment(ValueKind.TASK, "", d("d"))
    weight = run.call("randn.default", line=2, generator=("cpu", "d"))
    del weight
    second["2"] = msgspec.structs.replace(second["2"], values=run.values())
    assert not compared(first, second).agrees


# --- which processes correspond ---


STARTED = Child(role="1", started_by=StartedBy.FORK, location="start.py:20", state=ChildState.RECORDED, calls=4)


@pytest.mark.parametrize(
    ("fields", "cause", "names_them"),
    [
        ({"contradicts": True}, RootCause.UNKNOWN, True),
        ({}, RootCause.KERNEL, False),
        ({"cause": RootCause.UNKNOWN, "shows": Shows.REPLAYED}, RootCause.UNKNOWN, True),
        ({"cause": RootCause.OUTSIDE_CHANGE, "shows": Shows.CHANGED_OUTSIDE}, None, True),
    ],
    ids=["table-says-deterministic", "table-says-it-varies", "replayed", "changed-outside"],
)
def test_what_a_process_beside_may_have_written_is_no_kernels_fault(
    tmp_path: Path, fields: dict[str, Any], cause: RootCause | None, names_them: bool
) -> None:
    record = Recorder(tmp_path)
    whole = msgspec.structs.replace(record(), trace=trace(children=(STARTED,)))
    child = msgspec.structs.replace(record(), trace=trace())
    differing = root(**fields)

    def compare(ours: Recording, theirs: Recording) -> Divergence:
        return msgspec.structs.replace(compare_recordings(ours, theirs), roots=(differing,), agrees=False)

    joined = compare_families({"": whole, "1": child}, {"": whole, "1": child}, compare)
    own = next(each for each in joined.roots if not each.process.startswith("child"))
    assert own.cause is (cause or differing.cause)
    assert not own.contradicts
    assert ("processes that were started at start.py:20" in own.why) == names_them


def test_a_process_whose_input_differs_received_what_another_drew(tmp_path: Path) -> None:
    record = Recorder(tmp_path)
    drawn = root(37, RootCause.DRAW, shows=Shows.DRAW)
    own = root(20, RootCause.INPUT_DATA, shows=Shows.ENTERED)
    whole = msgspec.structs.replace(record(), trace=trace(children=(STARTED,)))
    child = msgspec.structs.replace(record(), trace=trace())

    def compare(ours: Recording, theirs: Recording) -> Divergence:
        roots = (drawn,) if ours is whole else (own,)
        return msgspec.structs.replace(compare_recordings(ours, theirs), roots=roots, follows=7, agrees=False)

    joined = compare_families({"": whole, "1": child}, {"": whole, "1": child}, compare)
    assert [(each.process, each.location) for each in joined.roots] == [("", "train.py:37")]
    assert joined.follows == 15
