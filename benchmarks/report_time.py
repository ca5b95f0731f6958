"""How long ``tracer report`` takes as a whole process, as a multiple of importing pandas and jinja2.

    python benchmarks/report_time.py [--repeats N] [--groups 1000,10000,100000]

Makes traces of distinct call groups that all become findings, and times a fresh process that judges one and writes the
HTML report against a fresh process that runs ``import pandas, jinja2`` and nothing else. The processes alternate,
so that a busy machine slows both alike; each figure is the median of the ratios of neighbours, with their range. The
text, as a terminal shows it and with ``--verbose``, is held against the page of the same trace.
"""

from __future__ import annotations

import argparse
import random
import statistics
import subprocess
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path

from tracer.names import Phase
from tracer.trace.file import Trace
from tracer.trace.records import CallGroup, Environment, TraceSource

FLOOR = [sys.executable, "-c", "import pandas, jinja2"]
#: (op, phase) pairs that the CUDA table calls nondeterministic, so that each group is a finding.
RISKY = (
    ("aten.index_add_.default", Phase.FORWARD),
    ("aten.cumsum.default", Phase.FORWARD),
    ("aten.upsample_bilinear2d_backward.default", Phase.BACKWARD),
    ("aten.embedding_dense_backward.default", Phase.BACKWARD),
    ("aten.scatter_add_.default", Phase.OPTIMIZER),
)
#: At 10,000 groups: what importing may cost, times this, plus what rendering costs a row.
AT_MOST = 1.5
TARGET_GROUPS = 10_000


def make_trace(groups: int) -> Trace:
    """A trace of ``groups`` distinct groups, each a finding on CUDA, spread over modules and lines as real ones are."""
    draw = random.Random(groups)
    calls = []
    for number in range(groups):
        op, phase = RISKY[number % len(RISKY)]
        layer = number // len(RISKY)
        calls.append(
            CallGroup(
                op=op,
                phase=phase,
                module=f"model.layers.{layer % 96}.block.{layer // 96}",
                location=f"src/model/part_{layer % 60}.py:{10 + layer // 60}",
                function="Block.forward",
                called_from=f"train.py:{40 + layer % 9}",
                count=draw.randint(1, 200),
                facts={"device": "cuda", "dtype": "float32", "layout": "strided", "ndim": 3},
            )
        )
    total = sum(call.count for call in calls)
    return Trace(
        environment=Environment(python="3.11", platform="Linux-x86_64", torch="2.13.0"),
        calls=tuple(calls),
        sources=(TraceSource(name="train.py", optimizer_steps=1, calls=total),),
    )


def seconds(command: list[str]) -> float:
    """Wall time of a process, from its start to its end."""
    start = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stderr[-2000:]}")
    return time.perf_counter() - start


def spread(values: list[float], unit: str) -> str:
    """Median and range of ``values``."""
    return f"{statistics.median(values):.2f}{unit} ({min(values):.2f} to {max(values):.2f})"


def main() -> int:
    """Print the ratios and whether the target holds; 0 if it does."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--groups", default="1000,10000,100000", help="sizes, separated by commas")
    options = parser.parse_args()
    sizes = [int(size) for size in options.groups.split(",")]
    medians: dict[int, float] = {}
    texts: dict[str, list[float]] = {"text": [], "text --verbose": []}
    with tempfile.TemporaryDirectory() as folder:
        seconds(FLOOR)
        print("`tracer report --format html` as a process, against `import pandas, jinja2` (= 1.00):\n")
        for size in sizes:
            trace, page = Path(folder) / f"{size}.json", Path(folder) / f"{size}.html"
            make_trace(size).save(trace)
            command = [sys.executable, "-m", "tracer", "report", str(trace)]
            command += ["--backend", "cuda", "--settings", "default", "--format", "html", "-o", str(page)]
            seconds(command)
            ratios, times, floors = [], [], []
            for _ in range(options.repeats):
                floors.append(seconds(FLOOR))
                times.append(seconds(command))
                ratios.append(times[-1] / floors[-1])
            medians[size] = statistics.median(ratios)
            megabytes = page.stat().st_size / 1e6
            print(f"{size:>9,} groups: {spread(ratios, 'x')}, {spread(times, ' s')}, page {megabytes:.2f} MB")
            for name, against_page in texts.items() if size == TARGET_GROUPS else ():
                drawn = [*command[: command.index("--format")], "--format", *name.split()]
                against_page += [seconds(drawn) / seconds(command) for _ in range(options.repeats)]
    for name, against_page in texts.items():
        if against_page:
            print(f"`--format {name}` of {TARGET_GROUPS:,} groups: {spread(against_page, 'x')} of the page")
    return verdict(medians)


def verdict(medians: dict[int, float]) -> int:
    """Say what a row costs, whether that is linear, and whether the target holds."""
    sizes = sorted(medians)
    if len(sizes) < 2:
        return 0
    slopes = [(medians[b] - medians[a]) / (b - a) * 1_000 for a, b in pairwise(sizes)]
    print("\neach further 1,000 groups: " + ", ".join(f"{slope:.3f}x" for slope in slopes))
    linear = len(slopes) < 2 or slopes[-1] <= 2 * max(slopes[0], 0.02)
    rows = slopes[-1] * TARGET_GROUPS / 1_000
    start = medians.get(TARGET_GROUPS, medians[sizes[0]]) - rows
    held = linear and start <= AT_MOST
    print(
        f"at {TARGET_GROUPS:,} groups: {start:.2f}x without its rows (target: at most {AT_MOST}x) plus {rows:.2f}x for "
        f"rows, linear: {'yes' if linear else 'no'}. Target {'met' if held else 'MISSED'}."
    )
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
