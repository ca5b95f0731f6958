"""Parameters that several processes change at once are found where they are shared, whoever follows the processes."""

from __future__ import annotations

import multiprocessing
import sys
import threading
from collections.abc import Callable

import pytest
import torch
from torch import nn

from tracer import DeterminismTracer, judge
from tracer.names import About, Overlap, Verdict

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="forks")
FORK = multiprocessing.get_context("fork") if sys.platform != "win32" else multiprocessing.get_context()


def train(model: nn.Module) -> None:
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 1.0


def through_data(model: nn.Module) -> None:
    for parameter in model.parameters():
        parameter.data.sub_(0.5)


def infer(model: nn.Module) -> None:
    with torch.no_grad():
        model(torch.ones(2, 4))


def start(work: Callable[[nn.Module], None], model: nn.Module) -> multiprocessing.process.BaseProcess:
    process = FORK.Process(target=work, args=(model,))
    process.start()
    return process


def side_by_side(work: Callable[[nn.Module], None], model: nn.Module) -> None:
    for process in [start(work, model) for _ in range(2)]:
        process.join()


def one_after_another(work: Callable[[nn.Module], None], model: nn.Module) -> None:
    for _ in range(2):
        start(work, model).join()


def one_alone(work: Callable[[nn.Module], None], model: nn.Module) -> None:
    start(work, model).join()


def on_a_thread(work: Callable[[nn.Module], None], model: nn.Module) -> None:
    thread = threading.Thread(target=side_by_side, args=(work, model))
    thread.start()
    thread.join()


def turns(work: Callable[[nn.Module], None], model: nn.Module, *, steps: int) -> None:
    """This process steps before and after the other one changes the parameters, which still runs then."""
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    worked, ends = FORK.Event(), FORK.Event()

    def in_turn(model: nn.Module) -> None:
        work(model)
        worked.set()
        ends.wait(60)

    process = start(in_turn, model)
    assert worked.wait(60)
    for _ in range(steps):
        model(torch.ones(2, 4)).sum().backward()
        optimizer.step()
    ends.set()
    process.join()


def beside_this_one(work: Callable[[nn.Module], None], model: nn.Module) -> None:
    turns(work, model, steps=2)


def beside_an_idle_one(work: Callable[[nn.Module], None], model: nn.Module) -> None:
    turns(work, model, steps=0)


def after_it_ended(work: Callable[[nn.Module], None], model: nn.Module) -> None:
    start(work, model).join()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()


Way = Callable[[Callable[[nn.Module], None], nn.Module], None]


def recorded(way: Way, work: Callable[[nn.Module], None], *, shares: str = "inside") -> DeterminismTracer:
    model = nn.Linear(4, 2)
    if shares == "before":
        model.share_memory()
    with DeterminismTracer() as tracer:
        if shares == "inside":
            model.share_memory()
        way(work, model)
    return tracer


@pytest.mark.parametrize("work", [train, through_data])
@pytest.mark.parametrize(("shares", "op"), [("inside", "Tensor.share_memory_"), ("before", "Process.start")])
def test_what_processes_change_side_by_side_is_found_where_it_is_shared(
    work: Callable[[nn.Module], None], shares: str, op: str
) -> None:
    tracer = recorded(side_by_side, work, shares=shares)
    (write,) = tracer.trace.overlaps
    assert (write.op, write.kind, write.count) == (op, Overlap.SHARED, 2)
    assert "test_shared_parameters.py:" in write.location
    for backend in ("recorded", "cuda"):
        made = judge(tracer.trace, backend=backend)
        (found,) = [finding for finding in made.findings if finding.about is About.OVERLAP]
        assert (found.verdict, found.deterministic_mode) == (Verdict.NONDETERMINISTIC, Verdict.NONDETERMINISTIC)
        assert found.location == write.location
        assert any(change.where == write.location for change in made.plan)


@pytest.mark.parametrize("work", [train, through_data])
def test_what_this_process_steps_while_another_one_changes_it_is_found(work: Callable[[nn.Module], None]) -> None:
    tracer = recorded(beside_this_one, work)
    assert [(write.kind, write.count) for write in tracer.trace.overlaps] == [(Overlap.SHARED, 2)]


def test_processes_that_another_thread_starts_count() -> None:
    assert [write.kind for write in recorded(on_a_thread, train).trace.overlaps] == [Overlap.SHARED]


@pytest.mark.parametrize(
    ("way", "work", "shares"),
    [
        (side_by_side, infer, "inside"),
        (side_by_side, train, "never"),
        (one_alone, train, "inside"),
        (one_after_another, train, "inside"),
        (beside_this_one, infer, "inside"),
        (beside_an_idle_one, train, "inside"),
        (after_it_ended, train, "inside"),
    ],
)
def test_what_no_two_processes_change_is_no_finding(way: Way, work: Callable[[nn.Module], None], shares: str) -> None:
    assert recorded(way, work, shares=shares).trace.overlaps == ()
