"""Losses of two runs, compared bit for bit, and NaN in them and in what both leave."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.runner.repeated.comparisons import divergence, repeated, root
from tests.support.build import report
from tracer import DeterminismTracer
from tracer.divergence.comparing import compare_recordings
from tracer.divergence.model import Divergence, Loss, read_recording
from tracer.report.sections.runs import losses_sentence, nan_at_end, repeated_headline

NAN = math.nan


def trained(path: Path, scale: Callable[[int], float]) -> None:
    """Four steps, whose losses are a scale of one another."""
    weight = torch.nn.Parameter(torch.ones(3))
    optimizer = torch.optim.SGD([weight], lr=0.0)
    with DeterminismTracer(values=str(path.with_suffix(".values"))) as tracer:
        for step in range(4):
            (weight.sum() * scale(step)).backward()
            optimizer.step()
    tracer.trace.save(path)


def compared(folder: Path, second: Callable[[int], float]) -> tuple[Loss, ...]:
    trained(folder / "one.json", float)
    trained(folder / "two.json", second)
    one, two = (read_recording(folder / f"{name}.json") for name in ("one", "two"))
    return compare_recordings(one, two, may_resume=False).losses


def test_the_loss_of_each_step_is_recorded(tmp_path: Path) -> None:
    losses = compared(tmp_path, float)
    assert [(loss.step, loss.first, loss.second, loss.differs) for loss in losses] == [
        (step, 3.0 * step, 3.0 * step, False) for step in range(4)
    ]


def test_what_another_thread_differentiates_is_no_loss_of_the_step(tmp_path: Path) -> None:
    weight = torch.nn.Parameter(torch.ones(3))
    with DeterminismTracer(values=str(tmp_path / "one.values")):
        thread = threading.Thread(target=lambda: (weight.sum() * 7).backward())
        thread.start()
        thread.join()
        weight.sum().backward()
        torch.optim.SGD([weight], lr=0.0).step()
    run = read_recording(tmp_path / "one.values")
    assert [loss.first for loss in compare_recordings(run, run).losses] == [3.0]


def test_the_step_at_which_losses_part_is_named(tmp_path: Path) -> None:
    losses = compared(tmp_path, lambda step: step + (step > 1))
    assert [loss.differs for loss in losses] == [False, False, True, True]
    assert losses_sentence(losses, "run 2").startswith("The losses diverge at step 2: 6 in run 1, 9 in run 2")


@pytest.mark.parametrize(
    ("numbers", "said"), [([NAN, NAN], "NaN in every step"), ([1.0, NAN], "NaN from step 1 on"), ([NAN, 1.0], "")]
)
def test_runs_that_agree_in_nan_say_so(numbers: list[float], said: str) -> None:
    losses = tuple(Loss(step=at, first=one, second=one, differs=False) for at, one in enumerate(numbers))
    headline = repeated_headline(repeated(divergence(losses=losses)))
    assert ("NaN" in headline) is bool(said)
    assert said in headline


def test_the_page_says_where_the_losses_part() -> None:
    losses = tuple(Loss(step=at, first=float(at), second=at + (at > 4) / 2, differs=at > 4) for at in range(9))
    html = replace(report(), repeated=repeated(divergence(root(), losses=losses))).to_html()
    assert "The losses diverge at step 5" in html


def test_a_loss_that_is_no_number_is_said_so() -> None:
    losses = tuple(Loss(step=at, first=NAN if at == 1 else 1.0, second=None, differs=True) for at in range(3))
    html = replace(report(), repeated=repeated(divergence(root(), losses=losses))).to_html()
    assert "none in run 2" in html


# --- NaN in what both leave ---


def runs(folder: Path, poison: Any) -> Divergence:
    """Two runs of one step; ``poison(run, model, optimizer)`` comes after it."""
    for run in range(2):
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        with DeterminismTracer(model, values=True) as tracer:
            model(torch.ones(4, 3)).sum().backward()
            optimizer.step()
            with torch.no_grad():
                poison(run, model, optimizer)
        tracer.save(folder / f"{run}.trace.json")
    return compare_recordings(*(read_recording(folder / f"{run}.trace.json") for run in range(2)))


def a_parameter(run: int, model: Any, optimizer: Any) -> None:
    model[0].weight[0, 1] = float("nan")


def a_buffer(run: int, model: Any, optimizer: Any) -> None:
    model[1].running_mean[0] = float("nan")


def an_optimizers_state(run: int, model: Any, optimizer: Any) -> None:
    optimizer.state[model[0].bias]["momentum_buffer"][0] = float("nan")


def one_run_alone(run: int, model: Any, optimizer: Any) -> None:
    model[0].weight[0, 1] = float("nan") if run else 1.0


def nothing(run: int, model: Any, optimizer: Any) -> None:
    model[0].weight[0, 1] = float("inf")


@pytest.mark.parametrize(
    ("poison", "nan"),
    [
        (a_parameter, ("parameter 0.weight",)),
        (a_buffer, ("buffer 1.running_mean",)),
        (an_optimizers_state, ("optimizer state momentum_buffer of 0.bias",)),
        (one_run_alone, ()),
        (nothing, ()),
    ],
)
def test_what_ends_in_nan_in_both_runs_is_named(tmp_path: Path, poison: Any, nan: tuple[str, ...]) -> None:
    divergence = runs(tmp_path, poison)
    assert tuple(name.replace("Sequential.", "") for name in divergence.nan) == nan
    assert divergence.differs is (poison is one_run_alone)


@pytest.mark.parametrize(
    ("states", "words"),
    [
        ((), ""),
        (("parameter fc.weight",), "parameter fc.weight holds NaN at the end"),
        (("parameter a", "buffer b", "buffer c"), "parameter a and 2 more states hold NaN at the end"),
    ],
)
def test_the_sentence_counts_them(states: tuple[str, ...], words: str) -> None:
    assert nan_at_end(states) == words
