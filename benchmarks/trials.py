"""What trials, data facts and rows cost: a transformer's training step, plain and with each.

    python benchmarks/trials.py                # a minute or two
    python benchmarks/trials.py --quick        # a smoke test
    python benchmarks/trials.py --check        # exit with 1 where a target is missed

The step has what makes a transformer's calls risky on a CPU with two threads: positions and relative biases that are
looked up by index, whose backward adds at duplicate indices, and masked tokens that are written over. Each figure is
that of a recording's first step, in which every call at risk is tried as often as was asked: later calls of a group are
tried ever more rarely. Ways take turns within a round, each twice; a figure is the median over rounds of the ratio of
the quicker to the plain step's, by the processor time of all threads, the garbage collector off.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import statistics
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import torch
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table
from torch import nn

if __package__ in (None, ""):  # run as a file
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tracer import DeterminismTracer, Trace

TRIALS = 5
WIDTH, HEADS, LAYERS, WORDS, LENGTH, BATCH = 256, 8, 4, 2000, 128, 16
PLAIN, RECORDED, LOOKED, ROWS = "plain", "recorded", "data facts", "calls on a part of their rows"
TRIED = f"{TRIALS} trials of the calls at risk"
#: The most that a way may cost over the plain step.
TARGETS = {TRIED: 1.8, LOOKED: 1.2, ROWS: 3.0}


class Transformer(nn.Module):
    """An encoder whose positions and relative biases are looked up by index, as those of BERT and T5 are."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH)
        self.positions = nn.Parameter(torch.randn(LENGTH, WIDTH) * 0.02)
        self.bias = nn.Parameter(torch.zeros(2 * LENGTH, HEADS))
        self.mask = nn.Parameter(torch.randn(WIDTH) * 0.02)
        layer = nn.TransformerEncoderLayer(WIDTH, HEADS, dim_feedforward=4 * WIDTH, dropout=0.1, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, LAYERS, enable_nested_tensor=False)
        self.head = nn.Linear(WIDTH, WORDS)

    def forward(self, words: torch.Tensor, places: torch.Tensor, masked: torch.Tensor) -> torch.Tensor:
        hidden = self.words(words) + self.positions[places]
        hidden = hidden.clone()
        hidden[masked[0], masked[1]] = self.mask.expand(masked.shape[1], WIDTH)
        apart = torch.arange(LENGTH)[:, None] - torch.arange(LENGTH)[None, :] + LENGTH
        bias = self.bias[apart].permute(2, 0, 1).repeat(BATCH, 1, 1)
        result: torch.Tensor = self.head(self.encoder(hidden, mask=bias))
        return result


def make_step() -> tuple[nn.Module, Callable[[], None]]:
    """The model and one training step of it."""
    torch.manual_seed(0)
    model = Transformer()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, foreach=True)
    words = torch.randint(0, WORDS, (BATCH, LENGTH))
    places = torch.arange(LENGTH).expand(BATCH, LENGTH)
    masked = torch.stack([torch.randint(0, BATCH, (300,)), torch.randint(0, LENGTH, (300,))])
    loss_of = nn.CrossEntropyLoss()

    def step() -> None:
        optimizer.zero_grad()
        loss = loss_of(model(words, places, masked).flatten(0, 1), words.flatten())
        loss.backward()
        optimizer.step()

    return model, step


def ways(model: nn.Module) -> dict[str, Callable[[], AbstractContextManager[Any]]]:
    """Each way to make a step, begun anew each time."""
    return {
        PLAIN: contextlib.nullcontext,
        RECORDED: lambda: DeterminismTracer(model),
        TRIED: lambda: DeterminismTracer(model, trials=TRIALS),
        LOOKED: lambda: DeterminismTracer(model, data_facts=True),
        ROWS: lambda: DeterminismTracer(model, rows=True),
    }


def measure(rounds: int, threads: int = 2) -> tuple[dict[str, list[float]], Trace]:
    """Ratios to the plain step, and the trace of a recording with trials."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        model, step = make_step()
        trace = _warm(model, step)
        ratios: dict[str, list[float]] = {}
        for _ in range(rounds):
            turns = [{name: _timed(way, step) for name, way in ways(model).items()} for _ in range(2)]
            taken = {name: min(turn[name] for turn in turns) for name in turns[0]}
            for name, seconds in taken.items():
                ratios.setdefault(name, []).append(seconds / taken[PLAIN])
    finally:
        torch.set_num_threads(before)
    return ratios, trace


def _warm(model: nn.Module, step: Callable[[], None]) -> Trace:
    """What is loaded once: tables, digests."""
    step()
    for way in (ways(model)[LOOKED], ways(model)[TRIED]):
        with way() as tracer:
            step()
    trace: Trace = tracer.trace
    return trace


def _timed(way: Callable[[], AbstractContextManager[Any]], step: Callable[[], None]) -> float:
    with way():
        gc.collect()
        gc.disable()
        try:
            begun = time.process_time()
            step()
            return time.process_time() - begun
        finally:
            gc.enable()


def main(arguments: list[str] | None = None) -> int:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="two rounds: a smoke test")
    parser.add_argument("--check", action="store_true", help="exit with 1 where a target is missed")
    asked = parser.parse_args(arguments)
    ratios, trace = measure(2 if asked.quick else 15)
    table = Table(box=SIMPLE)
    for column in ("way", "times the plain step", "quickest", "at most"):
        table.add_column(column)
    missed = False
    for name, found in ratios.items():
        median = statistics.median(found)
        missed |= median > TARGETS.get(name, float("inf"))
        table.add_row(name, f"{median:.2f}", f"{min(found):.2f}", str(TARGETS.get(name, "")))
    Console().print(table)
    tried = [group for group in trace.calls if group.tried is not None]
    for group in tried:
        assert group.tried is not None
        print(f"{group.op} {group.phase}: {group.count} calls, {group.tried.trials} trials")
    print(f"torch {torch.__version__}, 2 threads, {sum(group.count for group in trace.calls)} calls a step")
    return 1 if missed and asked.check else 0


if __name__ == "__main__":
    sys.exit(main())
