"""``tracer.repeat``: a step from the same state each time, and what is put back between."""

from __future__ import annotations

import itertools
import os
import random
import time
from collections.abc import Callable
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch

import tracer
from tracer.divergence.causes import RootCause
from tracer.errors import UsageError


def trained() -> tuple[Any, Any, Any]:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4), torch.nn.Dropout(0.5))
    optimizer = torch.optim.Adam(model.parameters(), foreach=False)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)
    return model, optimizer, scheduler


def test_a_step_that_changes_its_model_optimizer_scheduler_and_generators_agrees_with_itself() -> None:
    model, optimizer, scheduler = trained()
    own, of_numpy, of_python = torch.Generator().manual_seed(3), numpy.random.default_rng(4), random.Random(5)

    def step() -> None:
        x = torch.randn(8, 4) + torch.rand(8, 4, generator=own) + torch.from_numpy(of_numpy.random((8, 4))).float()
        loss = model(x * random.random() * of_python.random() * float(numpy.random.rand())).pow(2).mean()
        loss.backward()  # gradients add up: they are put back as well
        optimizer.step()
        scheduler.step()

    found = tracer.repeat(step, runs=3)
    assert found.agrees, found.first
    assert found.calls_compared > 50
    assert len(found.runs) == 3
    assert scheduler.last_epoch == 1  # as one step leaves it


def test_a_step_that_leaves_the_state_behind_parts_where_it_is_read() -> None:
    counter = itertools.count(1)

    def step() -> None:
        x = torch.ones(4)
        x * next(counter)  # line of the root

    found = tracer.repeat(step, runs=2)
    assert not found.agrees
    assert found.first is not None
    assert found.first.cause is RootCause.ARGUMENT
    assert found.first.location.endswith(f"{os.path.basename(__file__)}:{step.__code__.co_firstlineno + 2}")
    assert found.not_restored == ("the count, which goes on where it stood",)


def test_what_is_named_as_state_is_put_back_and_nothing_else() -> None:
    kept, left = torch.zeros(3), torch.zeros(3)

    def step() -> None:
        kept.add_(1)
        left.add_(1)

    found = tracer.repeat(step, runs=2, state=[kept], hold=False)
    assert kept.tolist() == [1.0, 1.0, 1.0]
    assert left.tolist() == [2.0, 2.0, 2.0]
    assert [root.op for root in found.roots] == ["aten.add_.Tensor"]


def test_the_process_generators_stand_as_one_call_leaves_them() -> None:
    torch.manual_seed(1)
    torch.rand(3)
    expected = torch.get_rng_state()
    torch.manual_seed(1)
    assert tracer.repeat(lambda: torch.rand(3), runs=4).agrees
    assert torch.equal(torch.get_rng_state(), expected)


@pytest.mark.parametrize(("step", "runs"), [(3, 2), (print, 1), (print, "2")])
def test_what_cannot_be_repeated_is_refused(step: Any, runs: Any) -> None:
    with pytest.raises(UsageError):
        tracer.repeat(step, runs)


def test_processes_that_a_step_starts_are_counted_whether_or_not_its_calls_agree() -> None:
    def step() -> None:
        child = get_context("fork").Process(target=print)
        child.start()
        child.join()
        torch.ones(2) * 2

    found = tracer.repeat(step, runs=2)
    assert found.agrees
    assert found.not_followed == 1


def of_the_clock() -> None:
    torch.ones(4) * time.time()


def of_a_generator() -> None:
    own = random.Random()
    torch.ones(4) * own.random()


@pytest.mark.parametrize(
    ("step", "row"), [(of_the_clock, "clock"), (of_a_generator, "own-generator")], ids=["clock", "generator"]
)
def test_the_line_where_calls_part_is_told(step: Callable[[], None], row: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(__file__).parent)
    found = tracer.repeat(step, runs=4)
    assert not found.agrees
    first = found.sources[0]
    assert (first.location.rpartition(":")[2], first.source) == (str(step.__code__.co_firstlineno + 1), row)
    assert first.reaches


def test_a_line_is_proven_by_giving_another_call_its_values(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(__file__).parent)
    found = tracer.repeat(of_a_generator, runs=2)
    assert [(held.lines, held.agrees) for held in found.held_lines] == [((found.sources[0].location,), True)]


def test_no_further_call_is_made_where_none_is_wanted() -> None:
    calls = itertools.count()

    def step() -> None:
        next(calls)
        torch.ones(4) * time.time()

    assert not tracer.repeat(step, runs=2, hold=False, state=()).sources
    assert next(calls) == 2


@pytest.mark.skipif(not torch.set_flush_denormal(False), reason="this processor cannot flush denormal numbers")
def test_no_kernel_is_blamed_that_the_tables_call_deterministic() -> None:
    flushes = itertools.cycle([False, True])

    def step() -> torch.Tensor:
        torch.set_flush_denormal(next(flushes))
        return torch.full((3,), 2e-38).mul(1e-2)

    try:
        repeated = tracer.repeat(step, hold=False)
    finally:
        torch.set_flush_denormal(False)
    assert repeated.first is not None
    assert repeated.first.op == "aten.mul.Tensor"
    assert repeated.first.cause is RootCause.UNKNOWN


def evaluated(give: Callable[[torch.Tensor], Any]) -> Callable[[], Any]:
    """A function that evaluates a model, and returns what ``give`` makes of the output."""
    torch.manual_seed(0)
    model, x = torch.nn.Linear(4, 3).eval(), torch.ones(2, 4)

    def evaluate() -> Any:
        with torch.no_grad():
            return give(model(x))

    return evaluate


@pytest.mark.parametrize(
    ("give", "returned"),
    [
        (lambda output: {"logits": output, "names": ["a", "b"], "took": 0.25}, 3),
        (lambda output: output.tolist(), 1),
        (lambda output: ("took 3 seconds", object()), 2),
    ],
    ids=["tensor and texts", "floating-point numbers alone", "an object and a duration"],
)
def test_what_an_inference_returns_is_compared(give: Callable[[torch.Tensor], Any], returned: int) -> None:
    found = tracer.repeat(evaluated(give), runs=2)
    assert found.agrees, found.ends
    assert found.divergence.is_inference
    assert found.divergence.outputs.returned == returned


def test_a_function_that_returns_something_else_diverges_though_its_calls_agree() -> None:
    counter = itertools.count()
    found = tracer.repeat(evaluated(lambda output: (output, next(counter))), runs=2, hold=False)
    assert not found.agrees
    assert found.first is None
    assert [(end.kind.value, end.name) for end in found.ends] == [
        ("returned", "text and numbers that the function returns")
    ]


def test_a_step_that_trains_is_no_inference() -> None:
    model, optimizer, _ = trained()

    def step() -> float:
        loss = model(torch.ones(2, 4)).sum()
        loss.backward()
        optimizer.step()
        return float(loss)

    assert not tracer.repeat(step, runs=2).divergence.is_inference
