"""Real training steps with and without the recorder, its digests, trials and rows: the same bits, nothing kept."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.models.workloads import IN_EVERY_RUN, MAKERS, RECOMPUTES, Training, make
from tests.recording.values.reading import moments, rows
from tests.support.bits import bits, random_state
from tests.support.modes import CountingMode
from tests.support.rows import otherwise
from tests.support.slow import slow_unless
from tracer import DeterminismTracer, Trace, Trials
from tracer.names import Phase, RowOutcome, Untried
from tracer.trace.values import Mark, read_values

STEPS = 3

#: Modules that a model makes while it runs, and which ``named_modules()`` cannot know: they bear their class's name.
MADE_ON_THE_WAY = {"whisper": {"CrossEntropyLoss"}}

#: A hook on a parameter that reaches the parameter is a cycle that Python does not see.
KEPT_BY_THEMSELVES = {"optimizer in backward"}

every_workload = pytest.mark.parametrize("name", slow_unless(IN_EVERY_RUN, MAKERS))


def left_behind(training: Training, observer: AbstractContextManager[Any]) -> dict[str, Any]:
    """Train under ``observer``; everything that a later step or a reader could tell apart."""
    with observer:
        losses = [training.step() for _ in range(STEPS)]
    state = training.optimizer.state_dict()["state"]
    return {
        "losses": [bits(loss) for loss in losses],
        "parameters": {name: bits(value) for name, value in training.model.state_dict().items()},
        "gradients": {name: bits(value.grad) for name, value in training.model.named_parameters()},
        "optimizer": {(key, name): _bits_of(value) for key, held in state.items() for name, value in held.items()},
        "random": random_state(),
    }


def _bits_of(value: Any) -> Any:
    return bits(value) if isinstance(value, torch.Tensor) else value


@cache
def untouched(name: str) -> dict[str, Any]:
    """What a training leaves that nobody observes."""
    return left_behind(make(name), nullcontext())


def observed(name: str, **options: Any) -> DeterminismTracer:
    """The recorder of a training, which left every bit as it was."""
    training = make(name)
    tracer = DeterminismTracer(model=training.model, **options)
    found = left_behind(training, tracer)
    assert [part for part, value in untouched(name).items() if found[part] != value] == []
    return tracer


@every_workload
def test_recording_leaves_every_bit_as_it_was(name: str) -> None:
    assert observed(name).trace.calls


@cache
def recorded(name: str) -> tuple[Training, Trace]:
    """A training and the trace of its first two steps."""
    training = make(name)
    with DeterminismTracer(model=training.model) as tracer:
        for _ in range(2):
            training.step()
    return training, tracer.trace


@every_workload
def test_every_call_is_counted(name: str) -> None:
    _, trace = recorded(name)
    counted = make(name)
    with CountingMode() as plain:
        for _ in range(2):
            counted.step()
    found: dict[str, int] = {}
    for group in trace.calls:
        found[group.op] = found.get(group.op, 0) + group.count
    assert found == dict(plain.counts)


@every_workload
def test_phases_and_module_paths_are_those_of_the_model(name: str) -> None:
    training, trace = recorded(name)
    phases = {group.phase for group in trace.calls}
    assert {Phase.FORWARD, Phase.BACKWARD, Phase.OPTIMIZER} <= phases
    assert (Phase.RECOMPUTE in phases) == (name in RECOMPUTES)
    paths = dict(training.model.named_modules(remove_duplicate=False))
    assert {group.module for group in trace.calls} - set(paths) == MADE_ON_THE_WAY.get(name, set())
    ran = {path for path, module in training.model.named_modules() if list(module.parameters(recurse=False))}
    assert ran - {group.module for group in trace.calls if group.phase is Phase.FORWARD} <= never_called(name)
    assert all(group.module == "" for group in trace.calls if group.phase is Phase.OPTIMIZER)
    assert trace.sources[0].optimizer_steps == 2 * training.optimizer_steps


def never_called(name: str) -> set[str]:
    """Modules with parameters that a model holds and does not call: it reads their weights."""
    training = make(name)
    called: set[int] = set()
    for module in training.model.modules():
        module.register_forward_hook(lambda module, inputs, output: called.add(id(module)))
    training.step()
    return {path for path, module in training.model.named_modules() if id(module) not in called}


@every_workload
def test_groups_stop_growing_after_the_second_step(name: str) -> None:
    training = make(name)
    tracer = DeterminismTracer(model=training.model)
    groups, calls = [], []
    for _ in range(STEPS):
        with tracer:
            training.step()
        groups.append(len(tracer.trace.calls))
        calls.append(tracer.trace.call_count)
    assert groups[2] == groups[1]
    assert calls[2] - calls[1] == calls[1] - calls[0]


def survivors(name: str, observe: Callable[[torch.nn.Module], AbstractContextManager[Any]]) -> int:
    """How many of a training's tensors are alive when it is gone and what observed it is not."""
    training = make(name)
    watched: list[weakref.ref[torch.Tensor]] = []

    def watch(module: Any, inputs: Any, output: Any) -> None:
        watched.extend(weakref.ref(value) for value in (*inputs, output) if isinstance(value, torch.Tensor))

    for module in training.model.modules():
        module.register_forward_hook(watch)
    observer = observe(training.model)
    with observer:
        for _ in range(2):
            training.step()
    trace = observer.trace if isinstance(observer, DeterminismTracer) else None
    for parameter in training.model.parameters():
        watched.append(weakref.ref(parameter))
        if parameter.grad is not None:
            watched.append(weakref.ref(parameter.grad))
        for value in training.optimizer.state[parameter].values():
            if isinstance(value, torch.Tensor):
                watched.append(weakref.ref(value))
    assert len(watched) > 20
    del training, module, parameter, value
    gc.collect()
    assert trace is None or trace.calls
    return sum(ref() is not None for ref in watched)


@every_workload
def test_no_tensor_outlives_its_training(name: str) -> None:
    kept_anyway = survivors(name, lambda model: nullcontext()) if name in KEPT_BY_THEMSELVES else 0
    assert survivors(name, lambda model: DeterminismTracer(model=model)) == kept_anyway


#: Quick, and between them: dropout, checkpointing, autocast, hooks on parameters, functions of the user's own.
QUICK = ("mixed precision", "optimizer in backward", "custom function")


@pytest.mark.parametrize("name", slow_unless(QUICK, MAKERS))
def test_trials_leave_every_bit_as_it_was_and_nothing_varies_on_one_thread(name: str) -> None:
    tracer = observed(name, trials=Trials(2, all=True))
    tried = [(group.op, group.tried) for group in tracer.trace.calls if group.tried is not None]
    assert [op for op, one in tried if one.varied or Untried.FAILED in one.untried] == []
    assert sum(one.trials for _, one in tried) > 100


@every_workload
def test_digests_leave_every_bit_as_it_was_and_agree_in_a_second_run(name: str, tmp_path: Path) -> None:
    found = []
    for run in range(2):
        tracer = observed(name, values=tmp_path / f"{run}.values")
        assert tracer._session.recorder.values is not None
        assert tracer._session.recorder.values.calls.failures == 0
        found.append(read_values(tmp_path / f"{run}.values"))
    first, second = found
    assert not first.partial
    for one, other in zip(rows(first), rows(second), strict=True):
        assert one == other
    assert moments(first) == moments(second)
    lost = [row for row in rows(first) if row.mark_bits & (Mark.INPUT_NOT_DIGESTED | Mark.OUTPUT_NOT_DIGESTED)]
    assert not lost


@every_workload
def test_rows_leave_every_bit_as_it_was(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found = otherwise(monkeypatch)
    tracer = observed(name, rows=True)
    assert not found
    counts = {outcome: sum(one.count for one in tracer.trace.rows if one.outcome is outcome) for outcome in RowOutcome}
    assert counts[RowOutcome.EQUAL] > counts[RowOutcome.UNKNOWN]
