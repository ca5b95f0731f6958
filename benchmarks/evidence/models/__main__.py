"""Are refusals of whole training steps predicted, and is no kernel that adds atomically called deterministic?

    python -m benchmarks.evidence.models --folder FOLDER --packages FOLDER      # half an hour of two cores
    python -m benchmarks.evidence.models --folder FOLDER --judge                # judge again what is in the folder

Each step of ``zoo.py`` is recorded under the tracer with the device hidden, and judged for CUDA and each release in
deterministic mode, with and without a workspace for cuBLAS. Held against it is what the build of that release did with
the same step. Counted are calls by step and op: of ``n`` calls predicted to be refused and ``m`` refused, the lesser
number is met, and what is left is invented or missed; a CPU's fused attention that two products stand for counts as
these. Then each op's verdict is held against the kernels that it
launched: one that adds floats atomically is not deterministic. ``--packages``: where ``transformers``, ``timm``,
``diffusers``, ``torch_geometric`` and what they need lie; each build's ``torchvision`` lies in its ``vision`` folder.
The exit code is 0 where precision and recall are at least 0.99 in each release and no such kernel is called
deterministic.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.evidence.counts import Counts
from benchmarks.evidence.models.zoo import steps
from benchmarks.evidence.nullgpu.atomics import Atomics, cubins, kernels_of
from benchmarks.evidence.nullgpu.builds import Build, cache_folder, prepare
from benchmarks.evidence.refusals import SETTINGS
from tracer.findings import Target
from tracer.judging import judge_calls
from tracer.judging.call_findings import JudgedCall
from tracer.names import Backend, Phase, Settings, Verdict
from tracer.tables.loading import load_tables
from tracer.tables.translation import load_translations
from tracer.trace.file import Trace

TARGET = 0.99
RELEASES = ("2.6.0", "2.9.1", "2.13.0", "2.15.0")
#: The release whose CPU kernels record.
RECORDS = "2.13.0"
MODES = ("off", "on", "bare")
#: Two of these stand for a CPU's fused attention where no fused kernel takes it, and four for its backward.
PRODUCT = "aten.bmm.default"
ADDS = (Atomics.FLOAT, Atomics.SWAP)


@dataclass
class Score(Counts):
    """Calls of one release."""

    taken: int = 0
    """Steps that ran to their end on the build."""
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
    environment["PYTHONPATH"] = os.pathsep.join([parts[0], str(build.folder / "vision"), str(packages), *parts[1:]])
    command = [sys.executable, "-m", f"benchmarks.evidence.models.{module}", *map(str, arguments)]
    subprocess.run(command, env={**environment, "HF_HUB_OFFLINE": "1", **variables}, check=True)


def outcomes(path: Path) -> dict[int, dict[str, Any]]:
    """What each step did, by number; the last word stands."""
    return {line["number"]: line for line in map(json.loads, path.read_text().splitlines())}


def judged(trace: Trace, torch: str, mode: str) -> tuple[JudgedCall, ...]:
    """Every group of calls with its ruling."""
    conditions = {**SETTINGS["on"], "deterministic_mode": "off"} if mode == "off" else SETTINGS[mode]
    word = Settings.DEFAULT if mode == "off" else Settings.DETERMINISTIC
    target = Target(backend=Backend.CUDA, torch=torch, settings=word, conditions=dict(conditions))
    return judge_calls(trace, load_tables(), target, translations=load_translations())[1]


def names_of(call: JudgedCall) -> tuple[str, ...]:
    """Overloads that a group of calls may be on the target."""
    said = call.ruling.runs_as.split(" or ") if call.ruling.runs_as else [call.group.op]
    return tuple(name if name.count(".") > 1 else f"{name}.default" for name in said)


def score_of(torch: str, folder: Path) -> Score:
    """One release's score over all modes that were run."""
    score, named = Score(), steps()
    for mode in SETTINGS:
        path = folder / f"{torch}-{mode}.jsonl"
        did = outcomes(path if path.exists() else folder / f"{torch}-on.jsonl")
        for number, line in did.items():
            if "eterministic" in line["error"] or "does not have a dete" in line["error"]:
                score.add(named[number].name, mode, line["error"], 0, 1, 1)
            if line["error"]:
                continue
            score.taken += mode == "on"
            refused, total, predicted = Counter[str](), Counter[str](), Counter[str]()
            for op, _, error, _, count in line["calls"]:
                total[op] += count
                refused[op] += count if error else 0
            for call in judged(Trace.load(folder / f"{number}.trace.json"), torch, mode):
                if call.ruling.verdict is Verdict.RAISES:
                    names = names_of(call)
                    name = next((name for name in names if total[name]), names[0])
                    is_split = name == PRODUCT != call.group.op
                    factor = (4 if call.group.phase is Phase.BACKWARD else 2) if is_split else 1
                    predicted[name] += factor * call.group.count
            for op in {*predicted, *total}:
                score.add(named[number].name, mode, op, predicted[op], refused[op], total[op])
    return score


def atomics_of(torch: str, folder: Path, kinds: Mapping[str, Atomics]) -> Iterator[str]:
    """Ops whose calls launched a kernel that adds atomically and are called deterministic for want of a rule, and ops
    that are called nondeterministic and launched none."""
    told: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
    named = steps()
    for number, line in outcomes(folder / f"{torch}-off.jsonl").items():
        if line["error"]:
            continue
        adding, launching, verdicts = Counter[str](), Counter[str](), defaultdict[str, Counter[Verdict]](Counter)
        for op, _, _, kernels, count in line["calls"]:
            adding[op] += count if any(kinds.get(kernel) in ADDS for kernel in kernels) else 0
            plain = all(kinds.get(kernel) is Atomics.NONE for kernel in kernels)
            launching[op] += count if kernels and plain else 0
        trace = Trace.load(folder / f"{number}.trace.json")
        for call in judged(trace, torch, "off"):
            for name in names_of(call):
                # What a rule calls deterministic rests on facts of the call: no index twice, two addends onto zeros.
                is_vouched = call.ruling.verdict is Verdict.DETERMINISTIC and call.ruling.rule is not None
                verdicts[name][Verdict.CONDITIONAL if is_vouched else call.ruling.verdict] += call.group.count
        for op, says in verdicts.items():
            safe, every = says[Verdict.DETERMINISTIC], sum(says.values())
            if adding[op] > every - safe:
                told["called deterministic, adds atomically", op].add(named[number].name)
            if launching[op] == every and says[Verdict.NONDETERMINISTIC] == every:
                told["called nondeterministic, adds nothing atomically", op].add(named[number].name)
    for (what, op), where in sorted(told.items()):
        yield f"  {what}: {op} in {len(where)} steps: {', '.join(sorted(where)[:3])}"


def kinds_of(build: Build) -> dict[str, Atomics]:
    """Every kernel of a build and of its torchvision, by what it holds."""
    libraries = [*(build.package / "lib").glob("*.so*"), *(build.folder / "vision" / "torchvision").glob("_C*.so")]
    return {name: kind for one in libraries for code in cubins(one) for name, kind in kernels_of(code)}


def main() -> int:
    """Record, run, judge, print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--torch", nargs="+", default=RELEASES, metavar="RELEASE")
    parser.add_argument("--folder", type=Path, required=True, help="where traces and outcomes are kept")
    parser.add_argument("--packages", type=Path, default=Path("packages"), help="where the libraries lie")
    parser.add_argument("--cache", type=Path, default=cache_folder(), help=f"default: {cache_folder()}")
    parser.add_argument("--judge", action="store_true", help="run nothing; judge what is in the folder")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    if not options.judge:
        run_on(prepare(RECORDS, options.cache), options.packages, "recording", options.folder, CUDA_VISIBLE_DEVICES="")
    holds = True
    for torch in options.torch:
        build = prepare(torch, options.cache)
        for mode in () if options.judge else MODES:
            run_on(build, options.packages, "worker", options.folder / f"{torch}-{mode}.jsonl", mode, options.folder)
        score = score_of(torch, options.folder)
        print(
            f"torch {torch}: {score.taken} steps, {score.hits + score.quiet:,} calls as predicted, {score.hits:,}"
            f" refused; {score.inventions:,} invented, {score.misses:,} missed;"
            f" precision {score.precision:.4f}, recall {score.recall:.4f}"
        )
        for (what, mode, op), calls in score.wrong.most_common():
            where = sorted(score.where[what, mode, op])
            print(f"  {what}, {mode}: {op}, {calls} calls in {len(where)} steps: {', '.join(where[:4])}")
        told = list(atomics_of(torch, options.folder, kinds_of(build)))
        print("\n".join(told))
        holds = holds and score.precision >= TARGET and score.recall >= TARGET and not told
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
