"""What a recording's start, ``tracer repeat`` and its answer to a divergence cost, against plain runs of the script.

    python benchmarks/repeat.py            # about five minutes
    python benchmarks/repeat.py --quick    # a smoke test

Every figure is a ratio of processor time, user and system, of a command with all that it starts: a busy machine
disturbs it less than wall time. Modules are compiled to bytecode first, as an
installation has them. The commands take turns; the least of a few rounds stands for each, as what disturbs a command
only adds to it. ``repeat`` of N runs is held against N plain runs.

The runs of ``repeat`` share no imports. A fork of a process that has loaded torch would give each the hash seed and the
addresses of that process, so that runs would agree in which a set's order or an ``id`` reaches the step; and it would
have read variables that a script sets in its first lines (``OMP_NUM_THREADS``).
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
REPEAT_TARGET, START_TARGET, ANSWER_TARGET = 1.20, 1.03, 6.0

TRAINS = """\
import torch

torch.manual_seed(0)
model = torch.nn.Linear(8, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    optimizer.zero_grad()
    model(torch.randn(16, 8)).square().mean().backward()
    optimizer.step()
"""
#: The same, whose batches hang on the clock: no seed that is missing explains it, so lines are followed and held.
DIVERGES = "import time\n" + TRAINS.replace("torch.randn(16, 8)", "(torch.randn(16, 8) * (time.time_ns() % 999))")


class Figure(NamedTuple):
    """One line of the answer."""

    name: str
    command: tuple[str, ...]
    against: tuple[str, ...]
    runs: int
    target: float
    code: int = 0
    """The exit code of ``command``."""


_TRACER = ("-m", "tracer")
FIGURES = (
    Figure("starting a recording", (*_TRACER, "run", "imports.py"), ("imports.py",), 1, START_TARGET),
    Figure("tracer run --values", (*_TRACER, "run", "--values", "trains.py"), ("trains.py",), 1, REPEAT_TARGET),
    Figure("repeat, 2 runs", (*_TRACER, "repeat", "trains.py"), ("trains.py",), 2, REPEAT_TARGET),
    Figure("repeat, 4 runs", (*_TRACER, "repeat", "--runs", "4", "trains.py"), ("trains.py",), 4, REPEAT_TARGET),
    Figure("a divergence, answered", (*_TRACER, "repeat", "diverges.py"), ("diverges.py",), 1, ANSWER_TARGET, 1),
)


def processor_seconds(command: Sequence[str], folder: Path, code: int) -> float:
    """User and system time of ``python COMMAND`` in ``folder``, and of all its children; an error unless it exits by
    ``code``."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environ = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONPYCACHEPREFIX": str(folder / "bytecode")}
    environ.pop("PYTHONDONTWRITEBYTECODE", None)  # an installation has its modules compiled
    ended = subprocess.run([sys.executable, *command], cwd=folder, env=environ, capture_output=True)
    if ended.returncode != code:
        raise subprocess.CalledProcessError(ended.returncode, command, ended.stdout, ended.stderr)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def measured(rounds: int, folder: Path) -> dict[tuple[str, ...], float]:
    """The least time of each command; the first round only fills caches."""
    commands = {figure.against: 0 for figure in FIGURES} | {figure.command: figure.code for figure in FIGURES}
    least: dict[tuple[str, ...], float] = {}
    for turn in range(rounds + 1):
        for command, code in commands.items():
            seconds = processor_seconds(command, folder, code)
            if turn:
                least[command] = min(seconds, least.get(command, seconds))
    return least


def main(args: Sequence[str] | None = None) -> int:
    """Measure and print; 1 where a ratio misses its target."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one round: a smoke test")
    asked = parser.parse_args(args)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        (place / "imports.py").write_text("import torch\n", encoding="utf-8")
        (place / "trains.py").write_text(TRAINS, encoding="utf-8")
        (place / "diverges.py").write_text(DIVERGES, encoding="utf-8")
        least = measured(1 if asked.quick else 5, place)
    missed = False
    print(f"{'':24}{'seconds':>9}{'plain':>9}{'ratio':>8}{'target':>8}")
    for figure in FIGURES:
        plain = least[figure.against] * figure.runs
        ratio = least[figure.command] / plain
        missed |= ratio > figure.target
        print(f"{figure.name:24}{least[figure.command]:9.2f}{plain:9.2f}{ratio:8.2f}{figure.target:8.2f}")
    return int(missed and not asked.quick)


if __name__ == "__main__":
    sys.exit(main())
