"""What digests and magnitudes cost: a training step untouched, recorded, with values, with magnitudes, and under
torch's own hashes.

    python benchmarks/values.py                # some minutes
    python benchmarks/values.py --quick        # a smoke test
    python benchmarks/values.py --check        # exit with 1 where a target is missed

Transformers: the batch is made so large that the untouched step takes about 40 ms, and about a second. What an observer
costs goes by the number of calls and by the bytes, so that a step's time alone says little. The target at 40 ms was set
on a step that ``DebugMode`` makes 1.4 times as long without hashes, and 5 times with: ``40ms`` is such a step. Beside
it ``40ms-dense``, of a smaller batch, with dropout and AdamW, has three times the calls in the same time: no target was
set for it, but small models are like that.

Observers take turns within a round; a figure is the median over rounds of an observer's quickest step over the
untouched one's. Time is the thread's own processor time, on one thread, the garbage collector off. ``DebugMode`` with
hashes hashes every output, and misses swapped rows. What magnitudes add to the untouched step is to be at most 1.5
times what values add.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, NamedTuple

import torch
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table
from torch import nn

if __package__ in (None, ""):  # run as a file
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.overhead import count_ops
from benchmarks.workloads import Workload, encoder_workload
from tracer import DeterminismTracer
from tracer.trace.values import read_values


class Size(NamedTuple):
    """One transformer."""

    seconds: float
    """What an untouched step shall take."""
    width: int
    layers: int
    dropout: float
    optimizer: str
    """``SGD`` or ``AdamW``, which has a dozen calls on lists of all parameters."""
    most: float | None
    """What a step with values may cost over the untouched one; ``None``: no target."""


SIZES = {
    "40ms": Size(0.04, 128, 1, 0.0, "SGD", 1.6),
    "40ms-dense": Size(0.04, 128, 2, 0.1, "AdamW", None),
    "1s": Size(1.0, 256, 4, 0.1, "AdamW", 1.3),
}
MOST_BYTES = 64
WORDS = 512
LENGTH = 64
MOST_MAGNITUDES = 1.5
"""What magnitudes may add to the untouched step, as a multiple of what values add."""
UNTOUCHED, RECORDED, VALUES = "untouched", "recorded", "recorded with values"
MAGNITUDES = "recorded with magnitudes"
DEBUG, HASHES = "DebugMode", "DebugMode with hashes"


def make_workload(size: Size, batch: int) -> Workload:
    """A transformer encoder of that size, trained on ``batch`` rows of words."""
    torch.manual_seed(0)
    width, kind = size.width, getattr(torch.optim, size.optimizer)
    layer = nn.TransformerEncoderLayer(width, 4, dim_feedforward=4 * width, dropout=size.dropout, batch_first=True)
    shape = (batch, LENGTH)
    return encoder_workload(layer, size.layers, WORDS, shape, lambda net: kind(net.parameters(), lr=1e-4, foreach=True))


def calibrated(size: Size) -> Workload:
    """A workload whose untouched step takes as long as asked, or a tenth less: a noisy machine never comes closer."""
    seconds = size.seconds
    batch = 1
    while True:
        workload = make_workload(size, batch)
        workload.step()
        taken = min(timed(workload.step) for _ in range(3))
        if taken >= 0.9 * seconds or batch > 512:
            return workload
        batch = max(batch + 1, min(batch * 4, round(batch * seconds / taken)))


def timed(step: Callable[[], None]) -> float:
    """Processor seconds of this thread for one step."""
    begun = time.thread_time()
    step()
    return time.thread_time() - begun


@contextlib.contextmanager
def hashes() -> Iterator[Any]:
    """torch's own way to compare two runs."""
    from torch.utils._debug_mode import DebugMode

    with DebugMode() as mode, DebugMode.log_tensor_hashes():
        yield mode


def observers(workload: Workload, path: Path) -> dict[str, Callable[[], AbstractContextManager[Any]]]:
    """Each way to watch a step that this torch has."""
    recorded, values = DeterminismTracer(workload.model), DeterminismTracer(workload.model, values=path)
    magnitudes = DeterminismTracer(workload.model, magnitudes=path.with_name("magnitudes.values"))
    found: dict[str, Callable[[], AbstractContextManager[Any]]] = {
        UNTOUCHED: contextlib.nullcontext,
        RECORDED: lambda: recorded,
        VALUES: lambda: values,
        MAGNITUDES: lambda: magnitudes,
    }
    try:
        from torch.utils._debug_mode import DebugMode
    except ImportError:  # torch before 2.9
        return found
    found[DEBUG] = DebugMode
    if hasattr(DebugMode, "log_tensor_hashes"):
        found[HASHES] = hashes
    return found


def measure(workload: Workload, path: Path, rounds: int, steps: int) -> dict[str, list[float]]:
    """Ratios to the untouched step, a list an observer, one a round."""
    ratios: dict[str, list[float]] = {}
    found = observers(workload, path)
    for _ in range(rounds):
        quickest: dict[str, float] = {}
        for name, observe in found.items():
            with observe():
                workload.step()
                gc.collect()
                gc.disable()
                try:
                    quickest[name] = min(timed(workload.step) for _ in range(steps))
                finally:
                    gc.enable()
        for name, taken in quickest.items():
            ratios.setdefault(name, []).append(taken / quickest[UNTOUCHED])
    return ratios


def bytes_a_call(path: Path) -> tuple[float, float]:
    """Bytes of the file for a call: before compression, and on the disk."""
    values = read_values(path)
    calls = max(1, len(values.group))
    return values.raw_bytes / calls, os.path.getsize(path) / calls


def main(arguments: list[str] | None = None) -> int:
    """Measure and print; the exit code is 1 when ``--check`` was asked for and a target is missed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7, help="how often every observer takes its turn")
    parser.add_argument("--steps", type=int, default=3, help="timed steps a turn; the quickest stands")
    parser.add_argument("--quick", action="store_true", help="one round of one small step: does it run at all?")
    parser.add_argument("--only", choices=SIZES, help="one of them alone")
    parser.add_argument("--check", action="store_true", help="exit with 1 where a target is missed")
    given = parser.parse_args(arguments)
    rounds, steps = (1, 1) if given.quick else (given.rounds, given.steps)

    torch.set_num_threads(1)
    console = Console(soft_wrap=True)
    console.print(f"torch {torch.__version__}, Python {sys.version.split()[0]}, one thread")
    holds = True
    for name, size in SIZES.items():
        if given.only not in (None, name) or (given.quick and name != "40ms"):
            continue
        workload = make_workload(size, 1) if given.quick else calibrated(size)
        ops = count_ops(workload.step)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "step.values")
            ratios = measure(workload, path, rounds, steps)
            raw, stored = bytes_a_call(path)
        table = Table("observer", title=f"{name}: {ops} ops", box=SIMPLE, pad_edge=False)
        for column in ("times the untouched step", "lowest", "highest"):
            table.add_column(column, justify="right", no_wrap=True)
        for observer, found in ratios.items():
            table.add_row(observer, *(f"{one:.2f}" for one in (statistics.median(found), min(found), max(found))))
        console.print(table)
        cost = statistics.median(ratios[VALUES])
        is_held = (size.most is None or cost <= size.most) and raw <= MOST_BYTES
        holds = holds and is_held
        target = "no target" if size.most is None else f"target {size.most}"
        console.print(
            f"A step with values costs {cost:.2f} times the untouched one ({target}), {raw:.1f} bytes a call"
            f" (target {MOST_BYTES}), {stored:.1f} on the disk: {'holds' if is_held else 'is missed'}.",
            soft_wrap=True,
        )
        of_magnitudes = statistics.median(ratios[MAGNITUDES])
        multiple = (of_magnitudes - 1) / max(cost - 1, 1e-9)
        is_within = multiple <= MOST_MAGNITUDES
        holds = holds and is_within
        console.print(
            f"A step with magnitudes costs {of_magnitudes:.2f} times the untouched one, {multiple:.2f} times what"
            f" values add (target {MOST_MAGNITUDES}): {'holds' if is_within else 'is missed'}.",
            soft_wrap=True,
        )
    return 1 if given.check and not holds else 0


if __name__ == "__main__":
    sys.exit(main())
