"""What ``tracer run --fake`` costs for steps that fit no machine: time, and memory at most.

    python benchmarks/fake.py [--repeats N] [NAME ...]

Each step of ``benchmarks/fake_steps`` trains a model of ``transformers`` or ``diffusers`` once, with its own loop. It
runs in a process of its own, as an A100, recorded and, beside it, on the same fake tensors without the recorder. Times
are processor times of whole processes, imports and the trace's file included; memory is the largest resident size.
A step whose library is not installed is left out, and said to be.
"""

from __future__ import annotations

import argparse
import re
import statistics
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

if __package__ in (None, ""):  # run as a file
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.many_traces import COST

STEPS = Path(__file__).parent / "fake_steps"
#: Runs a script on fake tensors, unrecorded.
FLOOR = """
import runpy, sys
import torch
from tracer.recording.options import FakeMachine
from tracer.recording.fake import on_fake_tensors
with on_fake_tensors(FakeMachine.parse("cuda:8.0")):
    runpy.run_path(sys.argv[1], run_name="__main__")
"""


class Step(NamedTuple):
    """A step, and what it may cost: processor seconds and megabytes."""

    needs: str
    seconds: float
    megabytes: float


ALL = {
    "llama": Step("transformers", 60, 1000),
    "experts": Step("transformers", 60, 1000),
    "many_experts": Step("transformers", 300, 4000),
    "vision": Step("transformers", 60, 1000),
    "diffusion": Step("diffusers", 60, 1000),
}


class Cost(NamedTuple):
    """What a process cost."""

    seconds: float
    megabytes: float
    output: str


def cost(*command: str) -> Cost:
    """Run a command of this Python to its end."""
    full = [sys.executable, "-c", COST, sys.executable, *command]
    done = subprocess.run(full, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stderr[-2000:]}")
    output, _, figures = done.stdout.rpartition("cost ")
    seconds, kilobytes = figures.split()
    return Cost(float(seconds), float(kilobytes) / 1e3, output + done.stderr)


def measured(name: str, repeats: int, folder: Path) -> bool:
    """Print what a step costs; does its target hold?"""
    script, ratios, runs = str(STEPS / f"{name}.py"), [], []
    for _ in range(repeats):
        floor = cost("-c", FLOOR, script)
        run = cost("-m", "tracer", "run", "--fake", "--as", "cuda:8.0", "-o", str(folder / "trace.json"), script)
        ratios.append(run.seconds / floor.seconds)
        runs.append(run)
    parameters = int(run.output.split(maxsplit=1)[0]) / 1e9
    calls = re.search(r"([\d,]+ calls in [\d,]+ groups)", run.output)
    seconds, megabytes = statistics.median(run.seconds for run in runs), max(run.megabytes for run in runs)
    step = ALL[name]
    holds = seconds <= step.seconds and megabytes <= step.megabytes
    print(f"{name}: {parameters:.1f} billion parameters, {'' if calls is None else calls[1]}")
    print(
        f"  {seconds:.1f} s, {megabytes:.0f} MB, {statistics.median(ratios):.2f}x the step without the recorder"
        f" (target: {step.seconds} s, {step.megabytes} MB: {'met' if holds else 'MISSED'})"
    )
    return holds


def main() -> int:
    """Print what each step costs, and whether its target holds; 0 if all do."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(ALL))
    parser.add_argument("--repeats", type=int, default=1)
    options = parser.parse_args()
    if unknown := set(options.names) - set(ALL):
        parser.error(f"no such step: {', '.join(sorted(unknown))}")
    all_hold = True
    with tempfile.TemporaryDirectory() as folder:
        for name in options.names or ALL:
            if find_spec(ALL[name].needs) is None:
                print(f"{name}: left out, {ALL[name].needs} is not installed")
            else:
                all_hold = measured(name, options.repeats, Path(folder)) and all_hold
    return 0 if all_hold else 1


if __name__ == "__main__":
    sys.exit(main())
