"""Does recording change the outcome of somebody else's tests?

Runs the test suites of packages from pip six times: plain (twice), with each test's body inside an empty dispatch mode,
inside the recorder, inside one that keeps values, and inside one that makes trials. Lists each test whose outcome,
warnings or random generators are others than plain, and says whether an empty mode changes it too. What a recorder
alone changes is a defect of ours: the exit code says so.

    python -m benchmarks.evidence.others_suites [--tests N] [--blocks B[,B]] [--jobs N] [--folder FOLDER] [PACKAGE ...]

The packages are installed below FOLDER, beside this environment's torch; einops brings its tests in its wheel, the
others in their source distribution.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tarfile
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[2]
#: What a test's body runs in, beside nothing at all and an empty mode.
RECORDERS = ("recorder", "values", "trials")
#: What is compared of a test.
PARTS = ("outcome", "warnings", "generators")


class Suite(NamedTuple):
    """Where a package's tests are, and what it needs beside torch."""

    needs: tuple[str, ...]
    tests: str
    """Folder below the installed package, or below its unpacked source."""
    from_source: bool
    but: str = ""
    """Tests that are left out, as pytest's ``-k`` takes it: what compiles takes minutes on few cores."""


SUITES = {
    "einops": Suite((), "einops/tests", from_source=False, but="not compile"),
    "gpytorch": Suite(
        ("linear_operator", "jaxtyping", "wadler_lindig", "scikit-learn", "scipy", "joblib", "threadpoolctl"),
        "test",
        from_source=True,
    ),
    "linear_operator": Suite(("jaxtyping", "wadler_lindig", "scipy", "mpmath"), "test", from_source=True),
}


def install(package: str, folder: Path) -> tuple[Path, Path]:
    """Where ``package`` is importable from, and where its tests are."""
    suite = SUITES[package]
    site = folder.absolute() / package / "site"
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    if not site.is_dir():
        subprocess.run([*pip, "install", "--no-deps", "--target", str(site), package, *suite.needs], check=True)
    if not suite.from_source:
        return site, site / suite.tests
    source = folder.absolute() / package / "source"
    if not source.is_dir():
        options: list[str] = ["--no-deps", "--no-build-isolation", "--no-binary", package, "--dest", str(source)]
        subprocess.run([*pip, "download", *options, package], check=True)
        (archive,) = source.glob("*.tar.gz")
        with tarfile.open(archive) as packed:
            packed.extractall(source, filter="data")
    (tests,) = source.glob(f"*/{suite.tests}")
    return site, tests


def results_of(site: Path, tests: Path, block: str, most: int, but: str = "") -> dict[str, dict[str, Any]]:
    """What became of each test in ``block``."""
    with tempfile.TemporaryDirectory() as folder:
        results = Path(folder) / "results.json"
        environment = os.environ | {
            "OTHERS_BLOCK": block,
            "OTHERS_TESTS": str(most),
            "OTHERS_RESULTS": str(results),
            "EINOPS_TEST_BACKENDS": "numpy,torch",
            "PYTHONPATH": os.pathsep.join((str(ROOT), str(site))),
            "PYTHONHASHSEED": "0",
            "OMP_NUM_THREADS": "1",
        }
        options = [
            "-q",
            "-p",
            "benchmarks.evidence.inside_a_block",
            "-p",
            "no:cacheprovider",
            "-o",
            "addopts=",
            "-k",
            but,
        ]
        command = [sys.executable, "-m", "pytest", *options, "--rootdir", str(tests), str(tests)]
        done = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True)
        if not results.is_file():
            raise SystemExit(f"{tests}: pytest wrote no results\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
        found: dict[str, dict[str, Any]] = json.loads(results.read_text(encoding="utf-8"))
        return found


def differing(plain: dict[str, Any], other: dict[str, Any]) -> dict[str, list[str]]:
    """Tests that ended otherwise, each with the parts that differ."""
    found = {}
    for test in sorted(plain.keys() | other.keys()):
        one, two = plain.get(test, {}), other.get(test, {})
        parts = [part for part in PARTS if one.get(part) != two.get(part)]
        if parts:
            found[test] = parts
    return found


def main() -> int:
    """Run what was asked for; 1 where a recorder alone changed a test."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("packages", nargs="*", default=list(SUITES), metavar="PACKAGE", help=", ".join(SUITES))
    parser.add_argument("--tests", type=int, default=600, help="at most so many of each suite (default: 600)")
    parser.add_argument("--blocks", default=",".join(RECORDERS), help="recorders to try (default: all three)")
    parser.add_argument("--jobs", type=int, default=1, help="runs side by side (default: 1)")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "others-suites")
    asked = parser.parse_args()
    blocks = asked.blocks.split(",")
    tests, alone = 0, dict.fromkeys(blocks, 0)
    for package in asked.packages:
        site, folder = install(package, asked.folder)

        def run(block: str, site: Path = site, folder: Path = folder, package: str = package) -> dict[str, Any]:
            return results_of(site, folder, block, asked.tests, SUITES[package].but)

        with ThreadPoolExecutor(asked.jobs) as pool:
            plain, again, empty, *recorded = pool.map(run, ("plain", "plain", "empty", *blocks))
        unsteady, by_mode = differing(plain, again), differing(plain, empty)
        passed = sum(result.get("outcome") == "passed" for result in plain.values())
        tests += len(plain)
        print(
            f"{package}: {len(plain)} tests, {passed} pass plain; {len(unsteady)} differ between two plain runs; "
            f"an empty mode changes {len(by_mode)}"
        )
        for block, results in zip(blocks, recorded, strict=True):
            changed = differing(plain, results)
            mine = [test for test, parts in changed.items() if parts != by_mode.get(test) and test not in unsteady]
            alone[block] += len(mine)
            print(f"  {block}: changes {len(changed)}, {len(mine)} of them alone", flush=True)
            for test in mine:
                result = results.get(test, {})
                known = plain.get(test, {}).get("warnings", [])
                added = [text for text in result.get("warnings", []) if text not in known]
                what = " | ".join([result.get("error", ""), *added])
                print(f"    {', '.join(changed[test])}: {test}: {what[:300]}", flush=True)
    print(f"all: {tests} tests; changed by a recorder alone: {', '.join(f'{b} {n}' for b, n in alone.items())}")
    return any(alone.values())


if __name__ == "__main__":
    sys.exit(main())
