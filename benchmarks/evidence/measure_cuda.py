"""What a GPU really does: which calls it refuses, which it warns of, and which results differ in bits.

    python -m benchmarks.evidence.measure_cuda                         # every entry, 20 runs a mode: nine minutes
    python -m benchmarks.evidence.measure_cuda --samples 1 --runs 5    # a smoke test
    python -m benchmarks.evidence.measure_cuda --device cpu --only put  # the same code where no GPU is
    python -m benchmarks.evidence.measure_cuda --write                 # and keep it among the tables, for the lint

Inputs made to provoke come first (many duplicates of few indices, long reductions, ties), while a second stream keeps
the device busy; then torch's own operator database. Each runs with deterministic mode off, as a warning, and on. The
exit code is 1 where a table and the measurement contradict each other, and 0 with a line that says so where there is
no GPU. ``--write`` makes ``tracer/tables/measured/<device>-torch-<version>.json``.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Iterator
from itertools import chain, takewhile
from pathlib import Path

import torch

from benchmarks.evidence.extra import left_out, provoking
from benchmarks.evidence.repeating import measure
from benchmarks.evidence.switching import Mode
from benchmarks.evidence.threads import conclude, file_of, keep, lines
from tests.support.samples import Sample, dtypes_of, operator_database, samples_of


def inputs(device: str, count: int, only: str) -> Iterator[Sample]:
    """Provoking inputs, what the database leaves out, and ``count`` samples of each entry's first dtype."""
    for sample in chain(provoking(device), left_out(device)):
        if only in sample.entry:
            yield sample
    for op in operator_database():
        if only not in op.formatted_name:
            continue
        for dtype in dtypes_of(op, device)[:1]:
            try:
                yield from samples_of(op, device, dtype, count)
            except Exception as problem:  # an entry whose samples this device cannot even make
                print(f"skipped {op.formatted_name}: {type(problem).__name__}")


def main(arguments: list[str] | None = None) -> int:
    """Measure, print, keep if asked, and compare with the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--device", default="cuda", help="where to run (default cuda)")
    parser.add_argument("--runs", type=int, default=20, help="of each input in each mode (default 20)")
    parser.add_argument("--samples", type=int, default=2, help="of each entry (default 2)")
    parser.add_argument("--only", default="", help="entries whose name holds this text")
    parser.add_argument("--minutes", type=float, default=9.0, help="stop taking new inputs after so long (default 9)")
    parser.add_argument("--write", action="store_true", help="keep the measurement among the tables")
    parser.add_argument("--to", metavar="FOLDER", type=Path, help="keep it in this folder instead")
    options = parser.parse_args(arguments)
    if torch.device(options.device).type == "cuda" and not torch.cuda.is_available():
        print("no GPU is here: nothing was measured")
        return 0
    end = time.monotonic() + 60 * options.minutes
    wanted = inputs(options.device, options.samples, options.only)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        measurement = measure(
            takewhile(lambda _: time.monotonic() < end, wanted), options.device, options.runs, tuple(Mode)
        )
    print("\n".join(lines(measurement)))
    if next(wanted, None) is not None:
        print("time was up before every input was tried")
    if options.to is not None:
        print(f"written to {keep(measurement, options.to / file_of(measurement).name)}")
    elif options.write:
        print(f"written to {keep(measurement)}")
    return conclude(measurement)


if __name__ == "__main__":
    sys.exit(main())
