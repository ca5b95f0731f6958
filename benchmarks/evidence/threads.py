"""Which CPU ops differ from run to run with several threads? Measured, and held against the CPU table.

    python -m benchmarks.evidence.threads                  # 60 runs of each input in each mode, about a minute
    python -m benchmarks.evidence.threads --runs 10        # a smoke test
    python -m benchmarks.evidence.threads --write          # and keep it: tracer/tables/measured/cpu-torch-2.13.json

Each input is large and made to provoke: few indices with many duplicates, values of very different size. It runs with
deterministic mode off and on. The exit code is 1 where the table and the measurement contradict each other.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import msgspec
import torch
from msgspec.structs import replace

from benchmarks.evidence.extra import left_out, provoking
from benchmarks.evidence.repeating import measure
from benchmarks.evidence.switching import Mode
from tests.support.measured import (
    FOLDER,
    Measurement,
    contradictions,
    load_measurement,
    verdicts_of,
)
from tests.support.samples import Sample
from tracer.names import Verdict
from tracer.tables.loading import load_tables

#: Small inputs that deterministic mode refuses, and neighbours that it lets pass.
SMALL = ("put_", "put", "max_unpool1d", "max_unpool2d", "max_unpool3d", "resize_", "resize_ quantized")
RISKS = (Verdict.RAISES, Verdict.NONDETERMINISTIC, Verdict.CONDITIONAL)


def inputs() -> Iterator[Sample]:
    """The provoking inputs, and the small ones whose refusal is worth measuring."""
    yield from provoking("cpu")
    yield from (sample for sample in left_out("cpu") if sample.entry in SMALL and sample.number in (0, 4))


def file_of(measurement: Measurement) -> Path:
    """Where a measurement is kept: by device and minor release."""
    device = "-".join(measurement.device.lower().split()) or str(measurement.backend)
    return FOLDER / f"{device}-torch-{measurement.torch.rpartition('.')[0]}.json"


def lines(measurement: Measurement) -> Iterator[str]:
    """What was seen, line by line, then the rules that are thereby measured."""
    threads = measurement.settings.get("threads", "unknown")
    yield f"torch {measurement.torch} on {measurement.device or measurement.backend}, {threads} threads"
    yield f"{measurement.samples} inputs tried; {measurement.alike} runs were quiet, as expected, and are not listed"
    tables = load_tables()
    rules: dict[str, None] = {}
    for run in measurement.run:
        seen = "refused" if run.refused else f"{run.distinct} distinct in {run.runs}"
        said = verdicts_of(run, measurement, tables)
        words = ", ".join(sorted({str(verdict) for verdict in said}))
        yield f"  {run.what:<32} {run.mode:<4} {seen:<20} {'warned, ' * run.warned}table: {words}"
        if run.refused or run.distinct > 1:
            risky = [call.op for call, verdict in zip(run.calls, said, strict=True) if verdict in RISKS]
            found = [tables[measurement.backend].find(op) for op in risky]
            rules.update({rule.id: None for rule in found if rule is not None})
    yield f"rules whose risk was seen: {', '.join(sorted(rules)) or 'none'}"


def conclude(measurement: Measurement) -> int:
    """Print what contradicts the tables, if anything does; the exit code."""
    faults = list(contradictions(measurement, load_tables()))
    for fault in faults:
        print(f"CONTRADICTION: {fault}")
    return 1 if faults else 0


def dump_measurement(measurement: Measurement) -> bytes:
    """The file's bytes: one line per field, and one per record of a list, so that changes can be reviewed."""
    fields = msgspec.json.decode(msgspec.json.encode(measurement), type=dict[str, msgspec.Raw])
    lines = (b' "%s": %s' % (name.encode(), _lines(value)) for name, value in fields.items())
    return b"{\n" + b",\n".join(lines) + b"\n}\n"


def _lines(value: msgspec.Raw) -> bytes:
    """JSON in one line; a list of records with one line per record."""
    text = bytes(value)
    if not text.startswith(b"[{"):
        return msgspec.json.format(text, indent=0)
    records = msgspec.json.decode(text, type=list[msgspec.Raw])
    return b"[\n" + b",\n".join(b"  " + msgspec.json.format(bytes(record), indent=0) for record in records) + b"\n ]"


def keep(measurement: Measurement, path: Path | None = None) -> Path:
    """Write a measurement, among the tables or at ``path``, with the explanations that stood in the file before."""
    path = path or file_of(measurement)
    if path.exists():
        measurement = replace(measurement, explained=load_measurement(path).explained)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(dump_measurement(measurement))
    return path


def main(arguments: list[str] | None = None) -> int:
    """Measure, print, and compare with the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--runs", type=int, default=60, help="of each input in each mode (default 60)")
    parser.add_argument("--threads", type=int, default=2, help="intra-op threads (default 2)")
    parser.add_argument("--write", action="store_true", help="keep the measurement among the tables")
    options = parser.parse_args(arguments)
    torch.set_num_threads(options.threads)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        measurement = measure(inputs(), "cpu", options.runs, (Mode.OFF, Mode.ON))
    print("\n".join(lines(measurement)))
    if options.write:
        print(f"written to {keep(measurement).name}")
    return conclude(measurement)


if __name__ == "__main__":
    sys.exit(main())
