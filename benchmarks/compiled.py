"""What recording compiled code costs, and how many of its ops bear the line of the program.

    python benchmarks/compiled.py            # some minutes: it compiles a transformer
    python benchmarks/compiled.py --quick    # a smoke test: one layer, few calls

Three figures. Of a six-layer transformer step that is compiled whole, with a loss and its backward: the share of the
regions' ops that name a line of the program, and of the backward ones that name the line of their forward. A region's
call without the recorder, with its watch on it, and under an empty dispatch mode, in processor time of the thread: the
least of alternating rounds, as microseconds and as a ratio. And compiling the same function with and without the
recorder, in processor time of the whole process, its cache emptied before each. The least of several is told, as
neighbours on a machine only ever add to it.

A region of kernels of its own meets its target. One that hands work to a kernel of torch's (a product) has the
recorder's mode taken off the stack and put back, two calls into torch; it is held against the empty mode, which is
called for each such kernel.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn

if __package__ in (None, ""):  # run as a file
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.support.modes import EmptyMode
from tracer import DeterminismTracer, Trace
from tracer.names import Phase
from tracer.trace.records import CallGroup

ADDED_US = 3.0
"""What a region's call may cost more; where it calls kernels of torch's, it may cost as an empty mode does there."""
SHARE = 0.95
WIDTH = 32
_HERE = os.path.relpath(__file__)


class Empty(EmptyMode):
    """Does nothing, and lets compiled code stay compiled."""

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        """Run regions as they are."""
        return True


class Block(nn.Module):
    """One layer of a transformer, written out."""

    def __init__(self) -> None:
        super().__init__()
        self.before_attention, self.before_rest = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.projected, self.joined = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.rest = nn.Sequential(nn.Linear(WIDTH, 2 * WIDTH), nn.GELU(), nn.Linear(2 * WIDTH, WIDTH))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """``x``: batch, words, width."""
        batch, words, _ = x.shape
        q, k, v = self.projected(self.before_attention(x)).view(batch, words, 3, 2, WIDTH // 2).unbind(2)
        weights = torch.softmax(q.transpose(1, 2) @ k.transpose(1, 2).transpose(-1, -2) / 4.0, dim=-1)
        attended = (weights @ v.transpose(1, 2)).transpose(1, 2).reshape(batch, words, WIDTH)
        x = x + self.joined(attended)
        out: torch.Tensor = x + self.rest(self.before_rest(x))
        return out


class Transformer(nn.Module):
    """Words to a loss."""

    def __init__(self, layers: int) -> None:
        super().__init__()
        self.table = nn.Embedding(64, WIDTH)
        self.layers = nn.ModuleList(Block() for _ in range(layers))
        self.head = nn.Linear(WIDTH, 64)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        """The loss of each word as its own successor."""
        x = self.table(words)
        for layer in self.layers:
            x = layer(x)
        loss: torch.Tensor = nn.functional.cross_entropy(self.head(x).flatten(0, 1), words.flatten())
        return loss


def lines(layers: int) -> Trace:
    """A step, compiled whole while it is recorded."""
    torch.manual_seed(0)
    model = Transformer(layers)
    compiled = torch.compile(model, fullgraph=True)
    words = torch.randint(0, 64, (2, 8))
    tracer = DeterminismTracer(model)
    with tracer:
        compiled(words).backward()
    return tracer.trace


def share_with_line(trace: Trace, *, backward: bool) -> tuple[int, int]:
    """Calls of compiled ops that name a line of this file, and all of them; of backward regions, or of forward ones."""
    chosen = [one for one in trace.calls if one.region and (one.phase is not Phase.FORWARD) == backward]
    return sum(one.count for one in chosen if _is_named(one)), sum(one.count for one in chosen)


def _is_named(group: CallGroup) -> bool:
    """Is its line one inside a ``forward`` of this file, and not where a function begins or was called?"""
    return group.function.endswith("forward") and group.location.startswith(_HERE)


def call_cost(
    function: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor, calls: int, rounds: int
) -> tuple[float, float, float]:
    """Microseconds of one call of the region that ``function`` becomes: without, with the recorder, an empty mode."""
    compiled = torch.compile(function)
    tracer = DeterminismTracer()
    with tracer, torch.no_grad():
        compiled(x)
    region = _region_called_by(compiled, x)
    plain, recorded, empty = [], [], []
    for _ in range(rounds):
        plain.append(_timed(region, x, calls))
        with tracer:
            recorded.append(_timed(region, x, calls))
        with Empty():  # type: ignore[no-untyped-call]
            empty.append(_timed(region, x, calls))
    return min(plain), min(recorded), min(empty)


def _region_called_by(
    compiled: Callable[[torch.Tensor], object], x: torch.Tensor
) -> Callable[[list[torch.Tensor]], object]:
    """Inductor's own object for the function: what is called at each execution."""
    from torch._inductor.output_code import CompiledFxGraph

    met: list[Any] = []
    original = CompiledFxGraph.__call__

    def keep(self: Any, inputs: Any) -> Any:
        met.append(self)
        return original(self, inputs)

    CompiledFxGraph.__call__ = keep
    try:
        with torch.no_grad():
            compiled(x)
    finally:
        CompiledFxGraph.__call__ = original
    region: Callable[[list[torch.Tensor]], object] = met[-1]
    return region


def _one_kernel(x: torch.Tensor) -> torch.Tensor:
    return x.sin() + 1


def _with_product(x: torch.Tensor) -> torch.Tensor:
    return (x.sin() @ x).cos()


def _timed(region: Callable[[list[torch.Tensor]], object], x: torch.Tensor, calls: int) -> float:
    best = float("inf")
    for _ in range(5):
        inputs = [[x] for _ in range(calls)]
        began = time.thread_time_ns()
        for one in inputs:
            region(one)
        best = min(best, (time.thread_time_ns() - began) / calls / 1000)
    return best


def compile_cost(rounds: int) -> tuple[list[float], list[float]]:
    """Processor seconds of compiling one layer with its backward, without and with the recorder, in turns."""
    costs: tuple[list[float], list[float]] = ([], [])
    for _ in range(rounds):
        for recorded, found in enumerate(costs):
            folder = tempfile.mkdtemp()
            os.environ["TORCHINDUCTOR_CACHE_DIR"] = folder
            torch._dynamo.reset()
            torch.manual_seed(0)
            model = Transformer(1)
            words = torch.randint(0, 64, (2, 8))
            compiled = torch.compile(model)
            tracer = DeterminismTracer(model)
            began = time.process_time()
            if recorded:
                with tracer:
                    compiled(words).backward()
            else:
                compiled(words).backward()
            found.append(time.process_time() - began)
            shutil.rmtree(folder, ignore_errors=True)
    return costs


def main() -> None:
    """Print the figures; exit with 1 where one misses its target."""
    parser = argparse.ArgumentParser(description="What recording compiled code costs, and what it sees.")
    parser.add_argument("--quick", action="store_true", help="a smoke test")
    quick = parser.parse_args().quick
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = folder
        trace = lines(1 if quick else 6)
        missed = False
        for name, backward in (("forward", False), ("backward", True)):
            named, counted = share_with_line(trace, backward=backward)
            missed |= named < SHARE * counted
            print(f"compiled {name} ops with the line of the program: {named} of {counted}, {named / counted:.1%}")
        square = torch.ones(16, 16)
        for kind, function in (("one kernel", _one_kernel), ("a product of torch's own beside it", _with_product)):
            plain, recorded, empty = call_cost(function, square, 200 if quick else 2000, 3 if quick else 15)
            missed |= not quick and recorded - plain > max(ADDED_US, empty - plain)
            print(
                f"a call of a region with {kind}: {plain:.2f} us, recorded {recorded:.2f} us, "
                f"{recorded - plain:.2f} us more, ratio {recorded / plain:.2f}; "
                f"under an empty mode ratio {empty / plain:.2f}"
            )
    if not quick:
        without, with_recorder = compile_cost(5)
        print(
            f"compiling one layer, least of {len(without)}: {min(without):.2f} s of processor time, "
            f"recorded {min(with_recorder):.2f} s, ratio {min(with_recorder) / min(without):.2f} "
            f"(from {min(without):.2f} to {max(without):.2f} s without, "
            f"from {min(with_recorder):.2f} to {max(with_recorder):.2f} s recorded)"
        )
    sys.exit(int(missed))


if __name__ == "__main__":
    main()
