"""What comparing costs: two recordings with values, read and compared.

    python benchmarks/comparing.py              # about a minute: two recordings of 1,000,000 calls
    python benchmarks/comparing.py --calls 20000

Each comparison runs in a process of its own, whose whole peak memory is told. Its time is also told as a multiple of
reading the same columns as plain arrays, since a busy machine slows both. Fails where a comparison of a million calls
takes ten seconds or 500 MB, or a call more than 64 bytes before compression.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from tracer.divergence.comparing import compare_recordings
from tracer.divergence.model import read_recording
from tracer.names import Phase
from tracer.trace.values import Group, Header, ValueKind, ValuesWriter, read_values

CALLS = 1_000_000
#: Calls of a step: about what a transformer of twelve layers makes.
STEP = 4_000
MOST_SECONDS, MOST_MB, MOST_BYTES = 10.0, 500.0, 64.0
_MASK = (1 << 64) - 1
_MIX = 0x9E3779B97F4A7C15

CASES = {
    "same": "they agree in every call",
    "parts": "one call differs at 1 %, and all others follow",
    "longer": "a call too many in each step",
}


def record(path: Path, calls: int, case: str) -> float:
    """Write a recording; the result is its bytes a call before compression."""
    writer = ValuesWriter(path, Header(name=case))
    groups = [
        writer.group(
            Group(
                op=f"aten.op{at % 40}.default",
                phase=Phase.BACKWARD if at % 2 else Phase.FORWARD,
                module=f"layers.{at * 12 // STEP}",
                location=f"model.py:{at % 97}",
            )
        )
        for at in range(STEP)
    ]
    extra = writer.group(Group(op="aten.extra.default"))
    weight = writer.entry(ValueKind.PARAMETER, "weight", 1)
    numbers = writer.numbers("alpha=1")
    parts = calls // 100 if case == "parts" else calls
    last = weight
    for at in range(calls):
        if not at % STEP:
            writer.step(at // STEP)
            if case == "longer":
                writer.call(extra, 1, 1)
        noise = at * _MIX & _MASK
        read, wrote = (noise, noise ^ 77) if at < parts else (noise ^ (at > parts), noise ^ 78)
        last = writer.call(groups[at % STEP], read, wrote, (last, weight), numbers)
    writer.close()
    return writer.raw_bytes / calls


def plain(path: Path, folder: Path) -> None:
    """The columns of a recording as plain arrays, the yardstick."""
    values = read_values(path)
    for name in ("group", "inputs", "outputs", "numbers", "mark_bits", "origins"):
        np.save(folder / f"{path.stem}.{name}.npy", getattr(values, name))


def measure(first: Path, second: Path) -> None:
    """Compare, in this process; prints seconds, the yardstick's seconds and the peak in MB."""
    began = time.perf_counter()
    found = compare_recordings(read_recording(first), read_recording(second))
    took = time.perf_counter() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    began = time.perf_counter()
    arrays = [np.load(path).sum() for path in (*first.parent.glob("*.npy"), *first.parent.glob("*.npy"))]
    yardstick = time.perf_counter() - began
    assert arrays
    print(took, yardstick, peak, len(found.roots), found.follows)


def rows(calls: int, folder: Path) -> Iterator[tuple[str, list[str], bool]]:
    first = folder / "first.values"
    size = record(first, calls, "same")
    plain(first, folder)
    disk = first.stat().st_size / calls
    yield "a file", [f"{size:.1f} bytes a call before compression, {disk:.1f} after"], size <= MOST_BYTES
    for case, what in CASES.items():
        second = folder / f"{case}.values"
        record(second, calls, case)
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.comparing", "--measure", first, second],
            capture_output=True,
            text=True,
            check=True,
            cwd=Path(__file__).parent.parent,
        )
        took, yardstick, peak, roots, follows = map(float, done.stdout.split())
        told = f"{took:.1f} s, {took / yardstick:.0f} times plain arrays; {peak:.0f} MB"
        told += f"; {roots:.0f} roots, {follows:,.0f} follow"
        yield what, [told], took < MOST_SECONDS and peak < MOST_MB
        second.unlink()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=CALLS)
    parser.add_argument("--measure", nargs=2, type=Path, metavar="FILE", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        measure(*options.measure)
        return 0
    table = Table(title=f"Two recordings of {options.calls:,} calls, read and compared")
    table.add_column("case")
    table.add_column("measured")
    good = True
    with tempfile.TemporaryDirectory() as folder:
        for case, told, holds in rows(options.calls, Path(folder)):
            table.add_row(case, *told, style="" if holds else "red")
            good = good and holds
    Console().print(table)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
