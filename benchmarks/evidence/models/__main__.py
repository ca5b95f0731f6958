"""Are refusals of whole training steps predicted, and is no kernel that adds atomically called deterministic?

    python -m benchmarks.evidence.models --folder FOLDER                        # all lists on four builds: three hours
    python -m benchmarks.evidence.models --folder FOLDER --list second --torch 2.13.0
    python -m benchmarks.evidence.models --folder FOLDER --judge                # judge again what is in the folder

Each step of ``zoo.py`` is recorded under the tracer with the device hidden, and judged for CUDA and each release in
deterministic mode, with and without a workspace for cuBLAS. Held against it is what the build of that release did with
the same step. Counted are calls by step and op: of ``n`` calls predicted to be refused and ``m`` refused, the lesser
number is met, and what is left is invented or missed; a CPU's fused attention that two products stand for counts as
these. Steps with ``torchvision.ops.roi_align`` run with Triton beside the build as well, on which it depends. Then each
op's verdict is held against the kernels that it launched: one that adds floats atomically is not deterministic, unless
a rule names a fact of the call (no index twice), which is printed; one that holds no atomics is not nondeterministic.

Needed are gcc, binutils, the package with its extras ``test`` and ``bench``, the package index, and 8 GB of disk a
release. Builds and the libraries that the steps come from are fetched into ``--cache``, where a release that is there
is not fetched again. A step takes up to 120 seconds of the processor, most take one. What was recorded or run is left
alone, so that an interrupted run goes on where it stopped. The exit code is 0 where precision and recall are at least
0.99 in each release and verdicts agree with kernels.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from packaging.version import Version

from benchmarks.evidence.counts import Counts
from benchmarks.evidence.models.libraries import PACKAGES, RELEASES, TRITON, VISION, libraries_of, packages_of
from benchmarks.evidence.models.step import LISTS
from benchmarks.evidence.models.zoo import steps
from benchmarks.evidence.nullgpu.atomics import Atomics, cubins, kernels_of
from benchmarks.evidence.nullgpu.builds import Build, BuildError, cache_folder, prepare
from benchmarks.evidence.refusals import SETTINGS
from tracer.findings import Target
from tracer.judging import judge_calls
from tracer.judging.call_findings import JudgedCall
from tracer.names import Backend, Phase, Settings, Verdict
from tracer.tables.loading import load_tables
from tracer.tables.rules import load_translations
from tracer.trace.file import Trace

TARGET = 0.99
#: The release whose CPU kernels record.
RECORDS = "2.13.0"
#: ``bare`` is ``on`` without a workspace for cuBLAS; from 2.10 on none is asked for, and the two are one run.
MODES = ("off", "on", "bare", "triton")
#: What a refusal calls the op, where it does not name it.
REFUSED_AS = {"torchvision._deform_conv2d_backward.default": "compute_grad_input"}
#: What reads the machine code of kernels, and the library that is not fetched.
NEEDED = ("lz4", "zstandard", "transformers")
#: Two of these stand for a CPU's fused attention where no fused kernel takes it, and four for its backward.
PRODUCT = "aten.bmm.default"
ADDS = (Atomics.FLOAT, Atomics.SWAP)


VOUCHED = "called deterministic for a fact of the call, adds atomically"


class Disagreement(NamedTuple):
    """An op whose verdict and kernels disagree in a step."""

    what: str
    op: str
    step: str
    rules: str


@dataclass
class Score(Counts):
    """Calls of one release."""

    taken: int = 0
    """Steps that ran to their end on the build."""
    left_out: list[str] = field(default_factory=list)
    """Steps that ended with another error than a refusal, with it."""
    wrong: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    """What, mode and op -> calls."""
    where: defaultdict[tuple[str, str, str], set[str]] = field(default_factory=lambda: defaultdict(set))

    def add(self, step: str, mode: str, op: str, predicted: int, refused: int, total: int) -> None:
        """Count the calls of one op in one step."""
        met = min(predicted, refused)
        self.hits += met
        self.inventions += predicted - met
        self.misses += refused - met
        self.quiet += max(total - max(predicted, refused), 0)
        for what, calls in (("invented", predicted - met), ("missed", refused - met)):
            if calls:
                self.wrong[what, mode, op] += calls
                self.where[what, mode, op].add(step)


def run_on(build: Build, packages: Path, module: str, *arguments: object, **variables: str) -> None:
    """Run a module of this folder in a process of the build."""
    environment = build.environment()
    parts = environment["PYTHONPATH"].split(os.pathsep)
    folders = [build.folder / VISION, packages, *([build.folder / TRITON] if "triton" in arguments else [])]
    environment["PYTHONPATH"] = os.pathsep.join([parts[0], *map(str, folders), *parts[1:]])
    command = [sys.executable, "-m", f"benchmarks.evidence.models.{module}", *map(str, arguments)]
    subprocess.run(command, env={**environment, "HF_HUB_OFFLINE": "1", **variables}, check=True)


def outcomes(path: Path) -> dict[int, dict[str, Any]]:
    """What each step did, by number; the last word stands."""
    return {line["number"]: line for line in map(json.loads, path.read_text().splitlines())}


def judged(trace: Trace, torch: str, mode: str) -> tuple[JudgedCall, ...]:
    """Every group of calls with its ruling."""
    conditions = {**SETTINGS["bare" if mode == "bare" else "on"], "triton": "missing"}
    if mode == "triton":
        conditions["triton"] = "importable"
    if mode == "off":
        conditions["deterministic_mode"] = "off"
    word = Settings.DEFAULT if mode == "off" else Settings.DETERMINISTIC
    target = Target(backend=Backend.CUDA, torch=torch, settings=word, conditions=conditions)
    return judge_calls(trace, load_tables(), target, translations=load_translations())[1]


def names_of(call: JudgedCall) -> tuple[str, ...]:
    """Overloads that a group of calls may be on the target."""
    said = call.ruling.runs_as.split(" or ") if call.ruling.runs_as else [call.group.op]
    return tuple(name if name.count(".") > 1 else f"{name}.default" for name in said)


def refusals_of(trace: Trace, torch: str, mode: str, total: Counter[str]) -> Counter[str]:
    """Calls that are predicted to be refused, by the op that they are on the build, which dispatched ``total``."""
    predicted = Counter[str]()
    for call in judged(trace, torch, mode):
        if call.ruling.verdict is Verdict.RAISES:
            names = names_of(call)
            name = next((name for name in names if total[name]), names[0])
            is_split = name == PRODUCT != call.group.op
            factor = (4 if call.group.phase is Phase.BACKWARD else 2) if is_split else 1
            predicted[name] += factor * call.group.count
    return predicted


def score_of(torch: str, folder: Path, lists: Collection[str]) -> Score:
    """One release's score over all modes that were run."""
    score, named = Score(), steps()
    for mode in MODES[1:]:
        path = folder / f"{torch}-{mode}.jsonl"
        for number, line in outcomes(path if path.exists() else folder / f"{torch}-on.jsonl").items():
            step = named[number]
            if step.chosen.name not in lists or (mode == "triton" and not path.exists()):
                continue
            refused, total = Counter[str](), Counter[str]()
            for op, _, error, _, count in line["calls"]:
                total[op] += count
                refused[op] += count if error else 0
            if line["error"] and "eterministic" not in line["error"]:
                if mode == "on":
                    score.left_out.append(f"{step.name}: {line['error']}")
                continue
            predicted = refusals_of(Trace.load(folder / f"{number}.trace.json"), torch, mode, total)
            if line["error"]:  # a refusal that ended the step: nothing behind it is compared
                told = any(REFUSED_AS.get(op, op.split(".")[1].strip("_")) in line["error"] for op in predicted)
                score.add(step.name, mode, line["error"], int(told), 1, 1)
                continue
            score.taken += mode == "on"
            for op in {*predicted, *total}:
                score.add(step.name, mode, op, predicted[op], refused[op], total[op])
    return score


def atomics_of(
    torch: str, folder: Path, lists: Collection[str], kinds: Mapping[str, Atomics]
) -> Iterator[Disagreement]:
    """Where verdicts with the mode off and launched kernels disagree, by op and step. Which call of a step launched
    what is not known: an op disagrees where the calls with and without atomics are too many for its verdicts."""
    named = steps()
    for number, line in outcomes(folder / f"{torch}-off.jsonl").items():
        if line["error"] or named[number].chosen.name not in lists:
            continue
        adding, plain, total = Counter[str](), Counter[str](), Counter[str]()
        for op, _, _, kernels, count in line["calls"]:
            total[op] += count
            adding[op] += count if any(kinds.get(kernel) in ADDS for kernel in kernels) else 0
            plain[op] += count if kernels and all(kinds.get(kernel) is Atomics.NONE for kernel in kernels) else 0
        verdicts, rules = defaultdict[str, Counter[str]](Counter), defaultdict[str, set[str]](set)
        for call in judged(Trace.load(folder / f"{number}.trace.json"), torch, "off"):
            for name in names_of(call):
                verdict, rule = call.ruling.verdict, call.ruling.source
                # What a rule calls deterministic rests on facts of the call: no index twice, two addends onto zeros.
                is_vouched = verdict is Verdict.DETERMINISTIC and rule is not None
                verdicts[name]["vouched" if is_vouched else str(verdict)] += call.group.count
                if rule is not None:
                    rules[name].add(rule.id)
        for op, says in verdicts.items():
            most = max(says.total(), total[op])
            step, safe = named[number].name, says[str(Verdict.DETERMINISTIC)]
            if adding[op] + safe > most:
                yield Disagreement("called deterministic, adds atomically", op, step, "")
            elif adding[op] + safe + says["vouched"] > most:
                yield Disagreement(VOUCHED, op, step, ", ".join(sorted(rules[op])))
            if plain[op] + says[str(Verdict.NONDETERMINISTIC)] > most:
                yield Disagreement(
                    "called nondeterministic, adds nothing atomically", op, step, ", ".join(sorted(rules[op]))
                )


def kinds_of(build: Build) -> dict[str, Atomics]:
    """Every kernel of a build and of its torchvision, by what it holds."""
    libraries = [*(build.package / "lib").glob("*.so*"), *(build.folder / VISION / "torchvision").glob("_C*.so")]
    return {name: kind for one in libraries for code in cubins(one) for name, kind in kernels_of(code)}


def run(torch: str, options: argparse.Namespace, build: Build) -> None:
    """Take the recorded steps in each mode on one build."""
    for mode in MODES:
        if mode == "bare" and Version(torch) >= Version("2.10"):
            continue
        out = options.folder / f"{torch}-{mode}.jsonl"
        run_on(build, options.cache / PACKAGES, "worker", out, mode, options.folder)


def main() -> int:
    """Record, run, judge, print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    names = [chosen.name for chosen in LISTS]
    parser.add_argument("--torch", nargs="+", choices=RELEASES, default=RELEASES, metavar="RELEASE")
    parser.add_argument("--list", nargs="+", choices=names, default=names, help="steps of these lists; default: all")
    parser.add_argument("--folder", type=Path, required=True, help="where traces and outcomes are kept")
    parser.add_argument("--cache", type=Path, default=cache_folder(), help=f"default: {cache_folder()}")
    parser.add_argument("--judge", action="store_true", help="run nothing; judge what is in the folder")
    options = parser.parse_args()
    if missing := [name for name in NEEDED if find_spec(name) is None]:
        print(f"not installed: {', '.join(missing)}; pip install -e '.[test,bench]'", file=sys.stderr)
        return 1
    options.folder.mkdir(parents=True, exist_ok=True)
    try:
        builds = {torch: prepare(torch, options.cache) for torch in options.torch}
        if not options.judge:
            record(options)
            for torch, build in builds.items():
                libraries_of(build)
                run(torch, options, build)
    except BuildError as problem:
        print(problem, file=sys.stderr)
        return 1
    reached = [report(torch, options, build) for torch, build in builds.items()]
    return 0 if all(reached) else 1


def record(options: argparse.Namespace) -> None:
    """Record the steps on the CPU of one build."""
    recorder = prepare(RECORDS, options.cache)
    packages = packages_of(options.cache)
    libraries_of(recorder)
    run_on(recorder, packages, "recording", options.folder, *options.list, CUDA_VISIBLE_DEVICES="")


def report(torch: str, options: argparse.Namespace, build: Build) -> bool:
    """Print one release's figures; whether they reach the target."""
    score = score_of(torch, options.folder, options.list)
    print(
        f"torch {torch}: {score.taken} steps, {score.hits + score.quiet:,} calls as predicted, {score.hits:,}"
        f" refused; {score.inventions:,} invented, {score.misses:,} missed;"
        f" precision {score.precision:.4f}, recall {score.recall:.4f}"
    )
    for (what, mode, op), calls in score.wrong.most_common():
        where = sorted(score.where[what, mode, op])
        print(f"  {what}, {mode}: {op}, {calls} calls in {len(where)} steps: {', '.join(where[:4])}")
    for line in score.left_out:
        print(f"  left out: {line}")
    where_disagreeing = defaultdict[tuple[str, str, str], list[str]](list)
    for what, op, step, rules in atomics_of(torch, options.folder, options.list, kinds_of(build)):
        where_disagreeing[what, op, rules].append(step)
    for (what, op, rules), named in sorted(where_disagreeing.items()):
        rule = f" ({rules})" if rules else ""
        print(f"  {what}: {op}{rule} in {len(named)} steps: {', '.join(sorted(named)[:3])}")
    is_false = any(what != VOUCHED for what, _, _ in where_disagreeing)
    return score.precision >= TARGET and score.recall >= TARGET and not is_false


if __name__ == "__main__":
    sys.exit(main())
