"""Processes of two runs correspond by their roles and tasks; replicas on several ranks by step and parameter."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.divergence.recorded import Recorder, Run, Tensor, d
from tests.runner.repeated.comparisons import root
from tests.support.build import trace
from tracer.divergence.causes import RootCause, Shows
from tracer.divergence.comparing import are_ranks, compare_recordings, compare_replicas
from tracer.divergence.families import compare_families, hang_on_workers, read_family
from tracer.divergence.model import Divergence, Recording
from tracer.names import ChildState, Phase, StartedBy
from tracer.report.sections.runs import divergence_headline
from tracer.trace.records import Child
from tracer.trace.values import ValueKind

Dealt = Mapping[str, Sequence[str]]
"""The tasks of each worker, in order."""


def ran(
    folder: Path,
    name: str,
    dealt: Dealt,
    bent: Mapping[str, object] | None = None,
    states: Mapping[str, str] | None = None,
) -> dict[str, Recording]:
    """A run whose workers train one model a task; ``bent``: what a task computes otherwise, by its name;
    ``states``: its generator's, where that is not its own."""
    states = states or {}
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
            weight = run.call("randn.default", line=2, generator=("cpu", states.get(task, task)))
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


def test_an_unseeded_draw_in_a_task_hangs_on_what_its_worker_did_before(tmp_path: Path) -> None:
    ours = ran(tmp_path, "one", DEALT)
    drawn = compared(ours, ran(tmp_path, "two", DEALT, states={"c": "of another worker"})).roots
    assert [root.cause for root in drawn] == [RootCause.DRAW]
    assert hang_on_workers(drawn)
    assert not hang_on_workers(compared(ours, ran(tmp_path, "three", DEALT, {"c": "race"})).roots)
    assert not hang_on_workers(())


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


# --- replicas ---


@pytest.fixture
def record(tmp_path: Path) -> Recorder:
    return Recorder(tmp_path)


def rank(run: Run, drifts: int | None = None, gradients: int | None = None, shard: int = 0) -> None:
    for step in range(5):
        run.writer.step(step)
        for name in ("a", "b"):
            drifted = name == "b" and drifts is not None and step >= drifts
            run.writer.moment(ValueKind.PARAMETER, name, d(name, step, shard, drifted))
            run.writer.moment(ValueKind.GRADIENT, name, d(name, step, "gradient", step == gradients and name == "b"))


def test_ranks_that_stay_together_do_not_drift(record: Recorder) -> None:
    found = compare_replicas(*(record(rank, header={"rank": n, "world_size": 3}) for n in (0, 2)))
    assert (found.ranks, found.steps, found.are_replicas, found.drift) == ((0, 2), 5, True, None)


@pytest.mark.parametrize(("gradients", "said"), [(2, True), (None, False)])
def test_a_rank_that_drifts_is_told_with_step_and_parameter(
    record: Recorder, gradients: int | None, said: bool
) -> None:
    drift = compare_replicas(record(rank), record(rank, drifts=3, gradients=gradients)).drift
    assert drift is not None
    assert (drift.step, drift.name, drift.parameters) == (3, "b", 1)
    assert drift.gradients_differ is said


@pytest.mark.parametrize(
    ("differs", "by"),
    [
        pytest.param(lambda step: False, {}, id="none"),
        pytest.param(lambda step: True, {"quantizer.proj": 0}, id="from the start"),
        pytest.param(lambda step: step > 1, {"quantizer.proj": 2}, id="later"),
        pytest.param(lambda step: step == 4, {"quantizer.proj": 4}, id="at the end"),
    ],
)
def test_buffers_of_replicas_are_compared_and_it_is_said_what_was(
    record: Recorder, differs: Callable[[int], bool], by: dict[str, int]
) -> None:
    def with_buffers(run: Run, me: int) -> None:
        rank(run)
        for step in range(5):
            run.writer.step(step)
            run.writer.moment(ValueKind.BUFFER, "norm.count", d(step))
            run.writer.moment(ValueKind.BUFFER, "quantizer.proj", d("proj", me if differs(step) else 0))
            run.writer.moment(ValueKind.BUFFER, f"of rank {me}", d(me))

    found = compare_recordings(*(record(with_buffers, me=n, header={"rank": n, "world_size": 2}) for n in range(2)))
    assert found.replicas is not None
    assert (found.replicas.drift, found.replicas.parameters, found.replicas.buffers) == (None, 2, 2)
    assert found.replicas.buffers_differ == by
    assert found.agrees == (not by)
    said = divergence_headline(found)
    assert "the same 2 parameters in all 5 compared steps" in said
    assert ("1 of 2 buffers differ: quantizer.proj" if by else "no buffer differs, of 2") in said


def test_shards_are_not_replicas(record: Recorder) -> None:
    found = compare_replicas(*(record(rank, shard=n) for n in range(2)))
    assert (found.are_replicas, found.drift) == (False, None)


def test_ranks_without_parameters_are_not_compared(record: Recorder) -> None:
    assert compare_replicas(record(no_parameters), record(no_parameters)).steps == 0


def no_parameters(run: Run) -> None:
    run.call("ones.default", line=1)


def data_parallel(run: Run, me: int, forgotten: int = -1) -> None:
    """A step of data-parallel training: other batches, gradients brought together, but for one step."""
    weight = run.enter(ValueKind.PARAMETER, "fc.weight", "w")
    for step in range(4):
        run.writer.step(step)
        batch = run.enter(ValueKind.BATCH, "loader", ("batch", me, step), step)
        grad = run.call("mm.default", batch, weight, line=10)
        if step != forgotten:
            reduced = d("reduced", step)
            grad = Tensor(reduced, run.enter(ValueKind.OUTSIDE, "", 0).origin)
        run.writer.moment(ValueKind.PARAMETER, "fc.weight", weight.digest)
        run.writer.moment(ValueKind.GRADIENT, "fc.weight", grad.digest)
        weight = run.call("add_.Tensor", weight, grad, line=20, phase=Phase.OPTIMIZER)


@pytest.mark.parametrize("forgotten", [-1, 1])
def test_two_ranks_are_held_against_each_other_by_their_parameters(record: Recorder, forgotten: int) -> None:
    one, two = (
        record(data_parallel, me=me, forgotten=forgotten, header={"rank": me, "world_size": 2}) for me in range(2)
    )
    found = compare_recordings(one, two)
    assert found.replicas is not None
    assert found.replicas.are_replicas
    assert found.agrees == (forgotten < 0)
    if forgotten >= 0:
        assert found.replicas.drift is not None
        assert (found.replicas.drift.step, found.replicas.drift.gradients_differ) == (2, True)
        (root,) = found.roots
        assert (root.cause, root.step, root.location) == (RootCause.COLLECTIVE, 1, "train.py:20")
    else:
        assert found.roots == ()


def test_ranks_of_one_job_are_not_two_runs(record: Recorder) -> None:
    one, two = (record(rank, header={"rank": n, "world_size": 2}) for n in range(2))
    alone = record(rank)
    assert are_ranks(one, two)
    assert not are_ranks(one, one)
    assert not are_ranks(one, alone)


@pytest.mark.parametrize(("world_size", "roots"), [(2, ["train.py:1"]), (None, ["train.py:1", "train.py:2"])])
def test_what_a_reducer_in_c_writes_into_gradients_comes_of_the_backward_before_it(
    tmp_path: Path, world_size: int | None, roots: list[str]
) -> None:
    recordings = []
    for noise in (1, 2):
        run = Run(tmp_path / f"{noise}.values", world_size=world_size)
        run.call("mm.default", run.enter(ValueKind.PARAMETER, "w", 0), line=1, phase=Phase.BACKWARD, noise=noise)
        reduced = run.enter(ValueKind.OUTSIDE_CHANGE, "w.grad", ("reduced", noise))
        run.call("add_.Tensor", reduced, line=2, phase=Phase.OPTIMIZER)
        recordings.append(Recording(name=str(noise), values=run.values()))
    found = compare_recordings(recordings[0], recordings[1], may_resume=False)
    assert [root.location for root in found.roots] == roots


def test_a_trace_with_children_and_without_a_source_is_read(tmp_path: Path) -> None:
    child = Child(role="1", started_by=StartedBy.SPAWN, state=ChildState.RECORDED)
    trace(children=(child,), sources=()).save(tmp_path / "t.json")
    Run(tmp_path / "t.values").values()
    assert list(read_family(tmp_path / "t.json")) == [""]
