"""What noting what comes from outside costs a recorded step, and a program that only imports.

    python benchmarks/outside.py            # about a minute
    python benchmarks/outside.py --quick    # a smoke test

The step of a small transformer reads its batch from a file, an environment variable and two clocks. It is recorded with
the watch of what comes from outside and without, in turns; the figure is the median over rounds of the quickest step
with it over the quickest without. The import is that of ``torch`` in a process of its own, under ``tracer run``, in
turns too. Time is processor time.
"""

from __future__ import annotations

import argparse
import gc
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from unittest.mock import patch

import torch
from torch import nn

if __package__ in (None, ""):  # run as a file
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.workloads import encoder_workload
from tracer import DeterminismTracer
from tracer.recording.process.outside import OutsideLog

TARGET = 1.02
_WITHOUT = """
from tracer.recording.process.outside import OutsideLog
OutsideLog.start = OutsideLog.stop = lambda self: None
"""
_RUN = """
import sys
from tracer.cli.main import main
sys.argv = ["tracer", "run", "-o", {output!r}, {script!r}]
main(sys.argv[1:])
"""


def step_ratio(rounds: int, steps: int) -> float:
    """A recorded step with the watch over one without."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    layer = nn.TransformerEncoderLayer(256, nhead=4, dim_feedforward=512, batch_first=True)
    workload = encoder_workload(layer, 2, 64, (8, 32), lambda model: torch.optim.SGD(model.parameters(), lr=1e-4))
    os.environ["BENCHMARK_SCALE"] = "1"
    with tempfile.TemporaryDirectory() as folder:
        batch = Path(folder, "batch.bin")
        batch.write_bytes(os.urandom(1 << 16))

        def step() -> None:
            time.perf_counter()
            batch.read_bytes()
            os.environ.get("BENCHMARK_SCALE")
            workload.step()
            time.perf_counter()

        def quickest() -> float:
            taken = []
            with DeterminismTracer(workload.model):
                step()
                for _ in range(steps):
                    began = time.thread_time()
                    step()
                    taken.append(time.thread_time() - began)
            return min(taken)

        step()
        ratios = []
        gc.disable()
        for _ in range(rounds):
            watched = quickest()
            with (
                patch.object(OutsideLog, "start", lambda self: None),
                patch.object(OutsideLog, "stop", lambda self: None),
            ):
                ratios.append(watched / quickest())
        gc.enable()
    return statistics.median(ratios)


def import_ratio(rounds: int) -> float:
    """``tracer run`` of a script that only imports torch, with the watch over without."""
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder, "imports.py")
        script.write_text("import torch\n")
        run = _RUN.format(output=str(Path(folder, "trace.json")), script=str(script))

        def seconds(code: str) -> float:
            before = os.times()
            subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
            after = os.times()
            return after.children_user - before.children_user + after.children_system - before.children_system

        seconds(run)
        pairs = [(seconds(run), seconds(_WITHOUT + run)) for _ in range(rounds)]
    return statistics.median(watched for watched, _ in pairs) / statistics.median(without for _, without in pairs)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a smoke test")
    quick = parser.parse_args().quick
    step = step_ratio(*((2, 3) if quick else (15, 12)))
    started = import_ratio(1 if quick else 9)
    print(f"recorded step, with what comes from outside over without: {step:.3f} (target {TARGET})")
    print(f"tracer run of a script that imports torch, the same: {started:.3f} (target {TARGET})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
