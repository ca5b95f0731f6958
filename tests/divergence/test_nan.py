"""States that hold NaN in both runs when they end: that they agree says nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from tracer import DeterminismTracer
from tracer.divergence.comparing import compare_recordings
from tracer.divergence.model import Divergence
from tracer.divergence.recordings import read_recording
from tracer.report.sections.runs import nan_at_end


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
