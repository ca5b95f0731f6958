"""Records what a CUDA build of torch does, without a GPU, and prints what changed against the release before.

    python -m benchmarks.evidence.nullgpu --torch 2.13.0                    # sets it up, records, keeps, compares
    python -m benchmarks.evidence.nullgpu --torch 2.14.1 2.15.0             # one after the other
    python -m benchmarks.evidence.nullgpu --torch 2.13.0 --suite calls      # one suite alone
    python -m benchmarks.evidence.nullgpu --torch 2.15.0 --compare          # print the changes between what is kept

The wheel comes from the package index (0.5 to 1 GB) and is unpacked into a cache folder with empty CUDA libraries
beside it; a release takes a few minutes of one core. Which ops are dispatched, what is refused and which kernels are
launched is real; no value is, and what cuBLAS, cuDNN and their like do inside is not seen.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.evidence.made import SETS
from benchmarks.evidence.nullgpu.builds import REPOSITORY, Build, BuildError, cache_folder, prepare
from benchmarks.evidence.nullgpu.changes import changes
from benchmarks.evidence.nullgpu.recording import FOLDER, Compiler, Recording, file_of, keep, load, releases

SUITES = ("opinfo", "extra", *(made.suite for made in SETS))


def record(build: Build, suite: str, only: str = "") -> Recording:
    """Run a suite on a build; ``BuildError`` where the build does not run."""
    with tempfile.TemporaryDirectory() as folder:
        lines = Path(folder) / f"{suite}.jsonl"
        command = [sys.executable, "-m", "benchmarks.evidence.nullgpu.worker", str(lines), suite, "--only", only]
        done = subprocess.run(
            command, env=build.environment(), cwd=REPOSITORY, capture_output=True, text=True, errors="replace"
        )
        if "FINISHED" not in done.stdout:
            said = done.stderr.strip().splitlines()
            raise BuildError(f"torch {build.torch} does not run here: {said[-1] if said else done.returncode}")
        finished = dict(part.split("=") for part in done.stdout.split() if "=" in part)
        bare = lines.with_suffix(".bare.jsonl")
        without = {tuple(one["key"]): one for one in _read(bare)} if bare.exists() else {}
        head = {"torch": build.torch, "cuda": finished["cuda"], "capability": "9.0", "suite": suite}
        return Compiler().compiled(head, ({**without.get(tuple(one["key"]), {}), **one} for one in _read(lines)))


def _read(lines: Path) -> Iterator[dict[str, Any]]:
    with lines.open() as stream:
        yield from map(json.loads, stream)


def compare(torch: str, suite: str, folder: Path) -> None:
    """Print what changed between the release before and this one."""
    kept = releases(suite, folder)
    place = list(kept).index(torch)
    if place == 0:
        print(f"{suite}: nothing older than {torch} is kept to compare with")
        return
    older = list(kept)[place - 1]
    print(f"{suite}: torch {older} to {torch}")
    for line in changes(load(kept[older]), load(kept[torch])):
        print(f"  {line}")


def main() -> int:
    """Set up, record, keep and compare; 1 where a release cannot be had or does not run."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--torch", nargs="+", required=True, metavar="RELEASE", help="whole releases: 2.13.0")
    parser.add_argument("--suite", choices=SUITES, action="append", help="default: every one")
    parser.add_argument("--only", default="", help="entries whose name holds this text; nothing is kept")
    parser.add_argument("--cache", type=Path, default=cache_folder(), help=f"default: {cache_folder()}")
    parser.add_argument("--to", type=Path, default=FOLDER, help="where recordings are kept (default: tests/data)")
    parser.add_argument("--discard", action="store_true", help="delete each build when it is done")
    parser.add_argument("--setup", action="store_true", help="make the build and stop")
    parser.add_argument("--compare", action="store_true", help="record nothing; print the changes between what is kept")
    options = parser.parse_args()
    failed = False
    for torch in options.torch:
        try:
            build = None if options.compare else prepare(torch, options.cache)
            for suite in () if options.setup else options.suite or SUITES:
                if build is not None:
                    made = record(build, suite, options.only)
                    died = sum(row.crashed for row in made.rows)
                    print(f"torch {torch}, {suite}: {len(made.rows):,} samples, {died} of which end the process")
                    if options.only:
                        continue
                    keep(made, file_of(torch, suite, options.to))
                compare(torch, suite, options.to)
            if build is not None and options.discard:
                shutil.rmtree(build.folder)
        except BuildError as problem:
            print(f"torch {torch}: {problem}", file=sys.stderr)
            failed = True
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
