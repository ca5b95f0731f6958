"""Dynamo meets nothing of the recorder's: it breaks graphs, warns and raises where it would without it."""

from __future__ import annotations

import os
import random
import threading
import types
import warnings
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from tests.support.slow import slow_unless
from tracer import DeterminismTracer
from tracer.recording.patching import Watch, place

LAYER = nn.Linear(2, 2)
OPTIMIZER = torch.optim.SGD(LAYER.parameters(), lr=0.1)
LOADER = DataLoader(TensorDataset(torch.ones(4, 2)), batch_size=2)


def steps(x: torch.Tensor) -> torch.Tensor:
    y = LAYER(x)
    OPTIMIZER.step()
    return y + 1


def starts_a_thread(x: torch.Tensor) -> torch.Tensor:
    thread = threading.Thread(target=int)
    thread.start()
    thread.join()
    return x + 1


def iterates_a_loader(x: torch.Tensor) -> torch.Tensor:
    for (batch,) in LOADER:
        x = x + batch.sum()
    return x


def shuffles(x: torch.Tensor) -> torch.Tensor:
    numbers = [1, 2, 3]
    random.shuffle(numbers)
    return x + len(numbers)


def draws(x: torch.Tensor) -> torch.Tensor:
    return x + random.random() * 0 + np.random.rand() * 0


def seeds_a_generator(x: torch.Tensor) -> torch.Tensor:
    return x + torch.rand(2, generator=torch.Generator().manual_seed(0))


def sets_a_variable(x: torch.Tensor) -> torch.Tensor:
    x = x + 1
    os.environ["A_VARIABLE_OF_THIS_TEST"] = "1"
    return x + 1


def switches_the_mode_on(x: torch.Tensor) -> torch.Tensor:
    torch.use_deterministic_algorithms(True)
    y = x + 1
    torch.use_deterministic_algorithms(False)
    return y


CASES: tuple[Callable[[torch.Tensor], torch.Tensor], ...] = (
    steps,
    starts_a_thread,
    iterates_a_loader,
    shuffles,
    draws,
    seeds_a_generator,
    sets_a_variable,
    lambda x: sets_a_variable(x) * 2,
    lambda x: x + (x.data_ptr() != 0),
    switches_the_mode_on,
)


@pytest.fixture(autouse=True)
def _nothing_compiled(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv("A_VARIABLE_OF_THIS_TEST", raising=False)
    yield
    torch._dynamo.reset()


def seen_of(function: Callable[[torch.Tensor], torch.Tensor], block: Any) -> dict[str, object]:
    """What shows of compiling and running ``function`` twice inside ``block``."""
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    cache = getattr(torch._dynamo.utils, "warn_once_cache", None)
    if cache is not None:
        cache.clear()
    for parameter in LAYER.parameters():
        parameter.grad = torch.ones_like(parameter)
    compiled = torch.compile(function, backend="eager")
    error = ""
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            with block:
                for _ in range(2):
                    compiled(torch.ones(3, 2))
        except Exception as raised:
            error = f"{type(raised).__name__}: {raised}"
    return {
        "breaks": {text.splitlines()[0]: count for text, count in torch._dynamo.utils.counters["graph_break"].items()},
        "warnings": sorted(str(one.message) for one in warned if "script_method" not in str(one.message)),
        "error": error,
    }


@pytest.mark.parametrize("nested", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("function", slow_unless({steps, draws, sets_a_variable, switches_the_mode_on}, CASES))
def test_dynamo_breaks_warns_and_raises_as_it_would_without(function: Any, nested: bool) -> None:
    if nested and not hasattr(torch._dynamo.config, "nested_graph_breaks"):
        pytest.skip("this torch has no such setting")
    with torch._dynamo.config.patch(nested_graph_breaks=True) if nested else nullcontext():
        seen_of(function, nullcontext())  # what dynamo says once a process is said
        assert seen_of(function, DeterminismTracer()) == seen_of(function, nullcontext())


def test_a_compiled_optimizer_step_is_counted_and_what_runs_between_graphs_is_still_seen() -> None:
    stepping, shuffling = (torch.compile(function, backend="eager") for function in (steps, shuffles))
    with DeterminismTracer() as tracer:
        for _ in range(2):
            stepping(torch.ones(3, 2))
            shuffling(torch.ones(2))
    assert tracer.trace.sources[0].optimizer_steps == 2
    assert [made.drew for made in tracer.trace.generators if made.name == "python"] == [True]


def test_a_replaced_function_with_defaults_is_traced_as_itself() -> None:
    def with_a_default(x: torch.Tensor, y: int = 2) -> torch.Tensor:
        return x + y

    module: Any = types.ModuleType("somebody_elses")
    module.add = with_a_default
    lift = place([(module, "add")], Watch())
    assert lift is not None
    try:
        compiled = torch.compile(lambda x: module.add(x), backend="eager", fullgraph=True)
        assert compiled(torch.ones(2)).tolist() == [3, 3]
    finally:
        lift()
