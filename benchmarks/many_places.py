"""What it costs to compare two configurations of many places, with a yardstick: seconds and peak memory.

    python benchmarks/many_places.py [--places 100000]

Three recordings of magnitudes are made up: two that differ by noise and a shaken one, each place a tensor of 64 x 64.
The comparison runs in a process of its own, with one thread. Beside it stands what it takes to read the three files.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SECONDS, MEGABYTES = 10.0, 500.0
_MODULES = 1000

COMPARE = """
import resource, sys, time
from tracer.divergence.magnitudes import compared
from tracer.trace.values import read_magnitudes
begin = time.process_time()
first, second, shaken = map(read_magnitudes, sys.argv[1:])
read = time.process_time() - begin
answer = compared(first, second, [shaken])
total = time.process_time() - begin
assert answer.places == answer.differing, (answer.places, answer.differing)
print(answer.verdict.value, answer.places, read, total, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3)
"""


def write(path: Path, places: int, seed: int, shaken: int | None) -> None:
    """Make up a recording of ``places`` places."""
    import numpy as np
    import torch

    from tracer.names import Phase, PlaceKind
    from tracer.recording.magnitudes import sketched
    from tracer.trace.values import Form, Header, PlaceName, ValuesWriter

    writer = ValuesWriter(path, Header(magnitudes=True, digests=False, shaken=shaken))
    noise = torch.Generator().manual_seed(seed)
    base = torch.randn(4096, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    form = Form("float32", (64, 64))
    for place in range(places):
        turn, module = divmod(place, _MODULES)
        if not module:
            sketch = sketched(base * (1 + 1e-7 * torch.randn(4096, generator=noise, dtype=torch.float64)))
        name = PlaceName(kind=PlaceKind.OUTPUT, module=f"model.layers.{module}", phase=Phase.FORWARD)
        digest = _MODULES * seed + turn + 1
        writer.place(name, form, turn, sums=np.asarray(sketch.sums).tobytes(), magnitudes=(*sketch.extent, digest))
    writer.close()


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--places", type=int, default=100_000)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder, f"{name}.values") for name in ("first", "second", "shaken")]
        for number, file in enumerate(files):
            write(file, asked.places, number + 1, 1 if file is files[-1] else None)
        done = subprocess.run(
            [sys.executable, "-c", COMPARE, *map(str, files)],
            cwd=ROOT,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
    verdict, places, read, total, peak = done.stdout.split()
    met = "met" if float(total) <= SECONDS and float(peak) <= MEGABYTES else "MISSED"
    print(
        f"{int(places):,} places of two configurations and a yardstick ({verdict}): {float(total):.1f} s of processor"
        f" time, {float(total) / float(read):.1f} times what reading takes, {float(peak):.0f} MB"
        f" (target {SECONDS:.0f} s, {MEGABYTES:.0f} MB: {met})"
    )


if __name__ == "__main__":
    main()
