"""How recording grows: flat in the number of steps, linear in the number of distinct calls.

    python benchmarks/scaling.py            # about three minutes
    python benchmarks/scaling.py --long     # up to 100,000 steps: a quarter of an hour
    python benchmarks/scaling.py --quick    # a smoke test

Memory is what ``tracemalloc`` sees held by the tracer's own files after a collection, so that torch's and the model's
does not blur it; the tables that it loads once are left out. Time is the thread's own processor time, over an
untouched run's in the same minute.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import os
import random
import sys
import time
import tracemalloc
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, TensorDataset

import tracer
from tracer import DeterminismTracer

#: Where the tracer allocates what a recording holds.
_RECORDING = os.path.join(os.path.dirname(os.path.abspath(tracer.__file__)), "recording", "*")
#: Frames that are kept of each allocation: it may be made by a module that the tracer called.
_FRAMES = 6
#: A long run may hold this much more than one of 100 steps: the links of the last few steps come and go.
FLAT = 1.1
#: One more group may cost this much more among many than among few.
LINEAR = 1.5

Step = Callable[[], None]


@dataclass
class Point:
    """One recording, looked at."""

    size: int
    """Steps recorded, or lines of code that they came from."""
    groups: int
    """Distinct calls in its trace."""
    memory: int
    """Bytes that the recording holds."""
    time: float
    """Processor time of a recorded step over an untouched one's."""


def make_step() -> tuple[nn.Module, Step]:
    """A tiny training step that makes what is easily kept: a fresh loss module, fresh tensors."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 2))
    inputs, labels = torch.randn(3, 4), torch.tensor([0, 1, 0])
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)

    def step() -> None:
        optimizer.zero_grad()
        loss = nn.CrossEntropyLoss()(model(inputs), labels)
        loss.backward()
        optimizer.step()

    return model, step


def make_lines(count: int) -> Step:
    """A step of ``count`` lines, each of which calls one op forward and one or two backward."""
    body = "\n".join("    x = x * 1.0" for _ in range(count))
    scope: dict[str, Any] = {}
    exec(compile(f"def lines(x):\n{body}\n    return x", f"{count}_lines.py", "exec"), scope)
    lines: Callable[[Tensor], Tensor] = scope["lines"]
    inputs = torch.ones(3, requires_grad=True)
    return lambda: torch.autograd.backward(lines(inputs).sum())


def make_habits() -> dict[str, Step]:
    """Steps that give the recorder something new to remember each time, unless it forgets."""
    weight = nn.Parameter(torch.ones(3))
    optimizer = torch.optim.SGD([weight], lr=1e-3)
    data = TensorDataset(torch.arange(4.0))
    number = itertools.count()

    def reseed() -> None:
        torch.manual_seed(seed := next(number))
        random.seed(seed)
        torch.rand(1)
        torch.rand(1, generator=torch.Generator().manual_seed(seed))
        random.random()

    def checkpoints() -> None:
        with torch.random.fork_rng():
            torch.rand(1)
        checkpoint(lambda x: torch.dropout(x, 0.5, True), weight, use_reentrant=False).sum().backward()
        optimizer.step()

    def empties() -> None:
        kept = torch.empty(5 + next(number) % 50)
        kept[:2] = 0.0
        kept[0].item()

    def toggle() -> None:
        is_odd = bool(next(number) % 2)
        torch.use_deterministic_algorithms(is_odd)
        torch.backends.cudnn.benchmark = is_odd
        torch.ones(2)

    def load() -> None:
        for _ in DataLoader(data, 2, shuffle=True):
            pass

    return {
        "reseeding": reseed,
        "checkpoints and forks": checkpoints,
        "empties": empties,
        "toggling settings": toggle,
        "a DataLoader": load,
    }


def growth_of(step: Step, few: int, many: int) -> float:
    """What a recording of ``many`` steps holds over what it held after ``few``, by whatever code it was allocated."""
    tracemalloc.start(_FRAMES)
    with DeterminismTracer():
        sizes = []
        for count in (few, many - few):
            for _ in range(count):
                step()
            sizes.append(held())
    tracemalloc.stop()
    return sizes[1] / sizes[0]


def held() -> int:
    """Bytes allocated by the recorder's files, or by what they called, and not freed."""
    gc.collect()
    snapshot = tracemalloc.take_snapshot().filter_traces([tracemalloc.Filter(True, _RECORDING, all_frames=True)])
    return sum(statistic.size for statistic in snapshot.statistics("filename"))


def time_per_step(observer: AbstractContextManager[Any], step: Step, count: int) -> float:
    """Processor time of one of ``count`` steps, in seconds."""
    with observer:
        step()
        begun: float = time.thread_time()
        for _ in range(count):
            step()
        taken: float = time.thread_time() - begun
    return taken / count


def measure(model: nn.Module | None, step: Step, size: int, steps: int) -> Point:
    """Record ``steps`` steps twice: once for the memory (which slows allocation), once for the time."""
    tracemalloc.start()
    recorder = DeterminismTracer(model=model)
    with recorder:
        for _ in range(steps):
            step()
    memory = held()
    tracemalloc.stop()
    timed = max(10, min(steps, 2_000))
    recorded = time_per_step(DeterminismTracer(model=model), step, timed)
    return Point(size, len(recorder.trace.calls), memory, recorded / time_per_step(nullcontext(), step, timed))


def make_table(title: str, points: list[Point]) -> Table:
    """A row a recording, its memory as a ratio to the first's."""
    table = Table(title=title)
    for name in ("size", "groups", "memory", "ratio", "a group", "recorded / untouched"):
        table.add_column(name, justify="right")
    for point in points:
        memory = point.memory
        table.add_row(
            f"{point.size:,}",
            f"{point.groups:,}",
            f"{memory / 1e3:,.0f} kB",
            f"{memory / points[0].memory:.2f}",
            f"{memory / point.groups:,.0f} B",
            f"{point.time:.2f}",
        )
    return table


def added_per_group(fewer: Point, more: Point) -> float:
    """Bytes that one more group costs."""
    return (more.memory - fewer.memory) / (more.groups - fewer.groups)


def main(arguments: list[str] | None = None) -> int:
    """Measure and print; the exit code is 1 when ``--check`` was asked for and something grows."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--long", action="store_true", help="up to 100,000 steps")
    parser.add_argument("--quick", action="store_true", help="few steps: does it run at all?")
    parser.add_argument("--check", action="store_true", help="exit with 1 when memory is not flat, or not linear")
    given = parser.parse_args(arguments)
    steps = [10, 100, 300] if given.quick else [10, 100, 1_000, 5_000]
    lines = [10, 100, 300] if given.quick else [10, 100, 1_000, 5_000]
    if given.long:
        steps.append(100_000)

    torch.set_num_threads(1)
    console = Console()
    model, step = make_step()
    measure(model, step, 1, 1)  # what is loaded and cached once
    by_steps = [measure(model, step, count, count) for count in steps]
    console.print(make_table("memory and time by steps", by_steps))
    by_lines = [measure(None, make_lines(count), count, 3) for count in lines]
    console.print(make_table("memory and time by distinct calls", by_lines))

    # The last few hundred seeds of each line are remembered: only past that can growth be told from filling up.
    few = 100 if given.quick else 1_000
    many = 20 * few if given.long else 4 * few
    growths = {name: growth_of(habit, few, many) for name, habit in make_habits().items()}
    torch.use_deterministic_algorithms(False)
    for name, one in growths.items():
        verdict = "flat" if one <= FLAT else "NOT FLAT"
        told = f"{name} in each step: {many:,} steps hold {one:.2f} times what {few:,} hold: {verdict}"
        console.print(told, soft_wrap=True)

    growth = by_steps[-1].memory / next(point.memory for point in by_steps if point.size == 100)
    slope = added_per_group(by_lines[-2], by_lines[-1]) / added_per_group(by_lines[-3], by_lines[-2])
    is_flat, is_linear = growth <= FLAT, slope <= LINEAR
    flat, linear = "flat" if is_flat else "NOT FLAT", "linear" if is_linear else "NOT LINEAR"
    console.print(
        f"{steps[-1]:,} steps hold {growth:.2f} times what 100 hold: {flat} (up to {FLAT}).",
        f"The last {by_lines[-1].groups - by_lines[-2].groups:,} groups cost {slope:.2f} times as much each as the",
        f"{by_lines[-2].groups - by_lines[-3].groups:,} before them: {linear} (up to {LINEAR}).",
        soft_wrap=True,
    )
    holds = is_flat and is_linear and max(growths.values()) <= FLAT
    return 1 if given.check and not holds else 0


if __name__ == "__main__":
    sys.exit(main())
