"""How long ``tracer report`` takes for the traces of 1,024 ranks, against ``json.load`` of the same files.

    python benchmarks/many_traces.py [--ranks 1024] [--ranks-with-values 64] [--repeats N]

Records one step of a transformer encoder (about 1,490 call groups) and writes it once for each rank: first ranks that
ran the same program, each with its own number and generator states; then ranks of which a tenth of the groups differ,
in how often they were called and in a fact. Times are processor times of whole processes, ``tracer report`` and one
that loads the same files with ``json.load``, in turn; memory is the largest resident size of ``tracer report``.

Then two runs of a job of 64 ranks with values: ``tracer diff`` of both, where all agree and where the last rank's data
differ, against a process that reads the same files (``json.load`` of traces, bytes of values).
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from msgspec.structs import replace
from torch import manual_seed, nn, optim

if __package__ in (None, ""):  # run as a file
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.workloads import encoder_workload
from tracer import DeterminismTracer, Trace

RANKS = 1024
LAYERS = 12
#: Of the processor time of ``json.load``, and megabytes; twice that where a tenth of the groups differ.
TIME_AT_MOST, MEMORY_AT_MOST = 0.5, 150
FLOOR = "import json, sys\nfor path in sys.argv[1:]:\n    json.load(open(path))"
READ = """
import json, sys
for path in sys.argv[1:]:
    json.load(open(path))
    open(path.replace(".json", ".values"), "rb").read()
"""
#: Runs a command and says what it cost: processor seconds, and kilobytes at most.
COST = """
import os, resource, sys
process = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ)
code = os.waitpid(process, 0)[1]
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print("cost", used.ru_utime + used.ru_stime, used.ru_maxrss)
sys.exit(os.waitstatus_to_exitcode(code))
"""


def recorded(seed: int = 0, *, values: bool = False) -> DeterminismTracer:
    """A step of a transformer encoder."""
    manual_seed(seed)
    layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
    model, step = encoder_workload(layer, LAYERS, 128, (2, 8), lambda net: optim.AdamW(net.parameters(), foreach=False))
    with DeterminismTracer(model, name="train.py", values=values) as tracer:
        step()
    return tracer


def of_rank(trace: Trace, rank: int, world: int, *, differs: bool) -> Trace:
    """``trace`` as ``rank`` would have recorded it; where it ``differs``, a tenth of its groups do."""
    (source,) = trace.sources
    states = tuple(replace(generator, after=f"{rank:016x}") for generator in trace.generators)
    calls = tuple(
        replace(call, count=call.count + rank, facts={**call.facts, "shape.numel": rank % 8})
        if differs and not number % 10
        else call
        for number, call in enumerate(trace.calls)
    )
    return replace(trace, sources=(replace(source, rank=rank, world_size=world),), generators=states, calls=calls)


def cost(command: list[str]) -> tuple[float, float]:
    """Processor seconds of a process, and the megabytes that it held at most."""
    done = subprocess.run([sys.executable, "-c", COST, *command], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command[:6])} ... failed:\n{done.stderr[-2000:]}")
    _, seconds, kilobytes = done.stdout.rpartition("cost ")[2].join(("cost ", "")).split()
    return float(seconds), float(kilobytes) / 1e3


def print_values(folder: Path, ranks: int, repeats: int) -> None:
    """Print what comparing two runs of a job with values takes."""
    steps = [recorded(seed, values=True) for seed in (0, 0, 1)]
    for name, last in (("first", 0), ("second", 1), ("other", 2)):
        for rank in range(ranks):
            path = folder / f"{name}.rank{rank}.json"
            step = steps[last if rank == ranks - 1 or last < 2 else 1]
            step.save(path)
            of_rank(step.trace, rank, ranks, differs=False).save(path)
    for name, what in (("second", "all agree"), ("other", "one rank differs")):
        files = [str(folder / f"{run}.rank{rank}.json") for run in ("first", name) for rank in range(ranks)]
        compare = [sys.executable, "-m", "tracer", "diff", str(folder / "first.json"), str(folder / f"{name}.json")]
        floors = [cost([sys.executable, "-c", READ, *files])[0] for _ in range(repeats)]
        taken = [cost(compare) for _ in range(repeats)]
        seconds, megabytes = statistics.median(time for time, _ in taken), max(size for _, size in taken)
        print(f"values of {ranks} ranks in two runs, {what}:")
        print(f"  {seconds / statistics.median(floors):.2f}x reading the files, {seconds:.2f} s, {megabytes:.0f} MB")


def measured(files: list[str], repeats: int) -> tuple[float, float, float]:
    """``tracer report`` over ``json.load``, in processor time; its own seconds; its megabytes."""
    ratios, times, sizes = [], [], []
    for _ in range(repeats):
        floor, _ = cost([sys.executable, "-c", FLOOR, *files])
        seconds, megabytes = cost([sys.executable, "-m", "tracer", "report", *files])
        ratios.append(seconds / floor)
        times.append(seconds)
        sizes.append(megabytes)
    return statistics.median(ratios), statistics.median(times), max(sizes)


def main() -> int:
    """Print both figures and whether their targets hold; 0 if they do."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--ranks", type=int, default=RANKS)
    parser.add_argument("--ranks-with-values", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    trace = recorded().trace
    all_hold = True
    with tempfile.TemporaryDirectory() as folder:
        files = [f"{folder}/trace.rank{rank}.json" for rank in range(options.ranks)]
        for name, differs in (("all alike", False), ("a tenth of the groups differ", True)):
            for rank, path in enumerate(files):
                of_rank(trace, rank, options.ranks, differs=differs).save(path)
            ratio, seconds, megabytes = measured(files, options.repeats)
            times = 2 if differs else 1
            holds = ratio <= times * TIME_AT_MOST and megabytes <= times * MEMORY_AT_MOST
            all_hold = all_hold and holds
            kilobytes = Path(files[0]).stat().st_size / 1e3
            target = f"{times * TIME_AT_MOST}x, {times * MEMORY_AT_MOST} MB: {'met' if holds else 'MISSED'}"
            print(f"{options.ranks:,} traces of {kilobytes:.0f} kB, {len(trace.calls):,} groups, {name}:")
            print(f"  {ratio:.2f}x json.load, {seconds:.2f} s, {megabytes:.0f} MB (target: {target})")
    if options.ranks_with_values:
        with tempfile.TemporaryDirectory() as folder:
            print_values(Path(folder), options.ranks_with_values, options.repeats)
    return 0 if all_hold else 1


if __name__ == "__main__":
    sys.exit(main())
