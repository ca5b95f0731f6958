"""How long it takes to load a table and to judge a large trace, as multiples of ``json.loads`` of the same data.

    python benchmarks/judging.py [--repeats N] [--groups 100000] [--backend cuda]

A table is read, checked and compiled: its file, the libraries' file, every rule bound to one version and its settings.
The trace is the recorded steps of ``tests/golden/judgements`` repeated under other module paths until it has as many
groups as asked for; reading it is timed apart, and judging comes on top. Each figure is the median of ratios to a
``json.loads`` run right before it, with the range, so that a busy machine slows both alike.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from itertools import cycle, islice
from pathlib import Path

import msgspec

from tracer.files import toml_values
from tracer.judging import judge_calls, make_target
from tracer.names import Backend
from tracer.tables import loading
from tracer.tables.rules import load_translations
from tracer.tables.target_tables import BoundTable
from tracer.trace.file import Trace
from tracer.trace.records import Environment

STEPS = Path(__file__).parent.parent / "tests" / "golden" / "judgements"
#: Milliseconds for one table, seconds for 100,000 groups on top of reading them.
TABLE_AT_MOST = 30.0
JUDGING_AT_MOST = 1.0
GROUPS = 100_000


def large_trace(groups: int) -> Trace:
    """The recorded steps one after the other, again and again, each time in another module."""
    steps = [Trace.load(path) for path in sorted(STEPS.glob("*.json.gz"))]
    recorded = [group for step in steps for group in step.calls]
    calls = tuple(
        msgspec.structs.replace(group, module=f"copy{number // len(recorded)}.{group.module}")
        for number, group in enumerate(islice(cycle(recorded), groups))
    )
    return Trace(environment=Environment(python="3.11", platform="Linux-x86_64", torch="2.13.0"), calls=calls)


def compiled(backend: Backend) -> BoundTable:
    """The backend's table as if for the first time: read, checked, and every rule bound."""
    for cached in (loading.load_table, loading._own_rules, loading.load_libraries, loading.load_classes):
        cached.cache_clear()
    table = loading.load_table(backend)
    conditions = make_target(Environment(python="", platform="", torch="2.13.0"), settings="default").conditions
    bound = BoundTable(table, "2.13.0", conditions)
    for rule in table.rule:
        for op in rule.ops:
            bound.outcome(op, {})
    return bound


def table_as_json(backend: Backend) -> bytes:
    """The files that ``compiled`` reads, with their content as JSON."""
    files = [loading.table_file(backend), loading.table_file(backend).with_name("libraries.toml")]
    files += [loading.table_file(backend).with_name("classes.toml")] if loading.load_table(backend).classes else []
    inherited = loading.load_table(backend).inherits
    files += [loading.table_file(inherited)] if inherited is not None else []
    return json.dumps([toml_values(path.read_text(encoding="utf-8")) for path in files]).encode()


def seconds(work: Callable[[], object]) -> float:
    """Processor time of one call: the work has one thread, and other processes' turns are none of its cost."""
    start = time.process_time()
    work()
    return time.process_time() - start


def measure(work: Callable[[], object], data: bytes, repeats: int) -> tuple[list[float], list[float]]:
    """Seconds of ``work``, and its ratios to ``json.loads(data)``, after one run of each that is not counted."""
    seconds(work), seconds(lambda: json.loads(data))
    floors, times = [], []
    for _ in range(repeats):
        floors.append(seconds(lambda: json.loads(data)))
        times.append(seconds(work))
    return times, [spent / floor for spent, floor in zip(times, floors, strict=True)]


def spread(values: list[float], unit: str, scale: float = 1.0) -> str:
    """Median and range of ``values``."""
    shown = sorted(value * scale for value in values)
    return f"{statistics.median(shown):.2f}{unit} ({shown[0]:.2f} to {shown[-1]:.2f})"


def main() -> int:
    """Print both figures and whether their targets hold; 0 if they do."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--groups", type=int, default=GROUPS)
    parser.add_argument("--backend", choices=[str(b) for b in loading.existing_tables()], help="default: every one")
    options = parser.parse_args()
    backends = [Backend(options.backend)] if options.backend else list(loading.existing_tables())
    print("against json.loads of the same data (= 1.00)\n\nloading and compiling one backend's table:")
    slowest = 0.0
    for backend in backends:
        data = table_as_json(backend)
        times, ratios = measure(lambda name=backend: compiled(name), data, options.repeats)  # type: ignore[misc]
        slowest = max(slowest, statistics.median(times) * 1e3)
        size = f"{len(data) / 1e3:.0f} kB"
        print(f"  {backend!s:5} {size:>7}: {spread(ratios, 'x')}, {spread(times, ' ms', 1e3)}")
    trace = large_trace(options.groups)
    data = msgspec.json.encode(trace)
    reading, read_ratios = measure(lambda: msgspec.json.decode(data, type=Trace), data, options.repeats)
    print(f"\n{options.groups:,} groups, {len(data) / 1e6:.1f} MB:")
    print(f"  reading {spread(read_ratios, 'x')}, {spread(reading, ' s')}")
    tables, rows = loading.load_tables(), load_translations()
    worst = 0.0
    for backend in backends:
        target = make_target(trace.environment, backend=backend, torch="2.13", settings="default")
        work = lambda to=target: judge_calls(trace, tables, to, translations=rows)[0]  # noqa: E731
        times, ratios = measure(work, data, max(3, options.repeats // 3))
        worst = max(worst, statistics.median(times))
        print(f"  judging for {backend!s:5} {spread(ratios, 'x')}, {spread(times, ' s')} on top")
    held = slowest < TABLE_AT_MOST and worst < JUDGING_AT_MOST * options.groups / GROUPS
    print(
        f"\na table: {slowest:.1f} ms (target: under {TABLE_AT_MOST:.0f} ms); judging: {worst:.2f} s on top of reading"
        f" (target: under {JUDGING_AT_MOST * options.groups / GROUPS:.1f} s). Targets {'met' if held else 'MISSED'}."
    )
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
