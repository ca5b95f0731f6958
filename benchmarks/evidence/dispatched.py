"""What the recorded builds of torch say of the CUDA table: evidence for its rules, and for ops that no rule names.

    python -m benchmarks.evidence.dispatched            # print what would be written, and in short what it comes to
    python -m benchmarks.evidence.dispatched --check    # 1 where the file says otherwise
    python -m benchmarks.evidence.dispatched --write    # write tracer/tables/cuda_dispatched.toml; read the difference

A rule is confirmed where every sample that it alone says is refused was refused, and where ops that it calls atomic
launch kernels whose code adds atomically. An op that no rule names is vouched for in a release where all its recorded
calls, in every mode, launched kernels of known code without atomic additions or scans, and called into no library of
CUDA's: what those do inside is not seen. All else is listed with what stands against it.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path

from benchmarks.evidence.nullgpu import atomics, recorded
from benchmarks.evidence.nullgpu.atomics import Atomics
from benchmarks.evidence.nullgpu.recording import FOLDER, MODES, Recording, Row, family, load, releases
from benchmarks.evidence.refusals import predictions
from tracer.names import Backend, Cause, Verdict
from tracer.tables.loading import load_table
from tracer.tables.rules import Rule, RuleTable, load_translations
from tracer.trace.file import Trace

SCHEMA = 1
FILE = Path(__file__).resolve().parents[2] / "tracer" / "tables" / "cuda_dispatched.toml"
STEPS = Path(__file__).resolve().parents[2] / "tests" / "golden" / "judgements"
DEVICE = f"sm_{atomics.ARCHITECTURE}"
_LIBRARY = re.compile(r"(cublasLt|cublas|cudnn|cufft|curand|cusolver|cusparseLt|cusparse|nccl)")
_LIBRARY_NAMES = {
    "cublasLt": "cuBLAS",
    "cublas": "cuBLAS",
    "cudnn": "cuDNN",
    "cufft": "cuFFT",
    "curand": "cuRAND",
    "cusolver": "cuSOLVER",
    "cusparseLt": "cuSPARSE",
    "cusparse": "cuSPARSE",
    "nccl": "NCCL",
}
_SCAN = re.compile(r"scan", re.IGNORECASE)
_NOT_READ = "launches a kernel whose code was not read"
_ADDS = "launches a kernel whose code adds floats atomically or swaps"
_COUNTS = "launches a kernel that counts atomically, whose source was not read"
_SCANS = "launches a parallel scan"
_UNSEEN = "called by a model's step, and by no sample that was recorded"

#: Kernels that count with whole numbers alone, and why who comes first decides nothing; read, not run.
COUNTED: tuple[tuple[tuple[str, ...], str, str], ...] = (
    (
        ("reduce_kernel",),
        "Blocks count themselves done; the last one adds the partial results in the order of the blocks.",
        "aten/src/ATen/native/cuda/Reduce.cuh, ReduceOp::global_reduce, 2.6.0",
    ),
    (
        ("batch_norm_collect_statistics_channels_last_kernel", "batch_norm_backward_reduce_channels_last_kernel"),
        "Blocks count themselves done; the last one merges the staged partial results in the order of the blocks.",
        "aten/src/ATen/native/cuda/Normalization.cuh, batch_norm_collect_statistics_channels_last_kernel, 2.6.0",
    ),
    (
        ("cuLaunchKernel",),
        "Compiled while it runs from templates that the library ships: elementwise ones hold no atomics, and reductions"
        " count blocks done as `reduce_kernel` does.",
        "aten/src/ATen/native/cuda/jit_utils.cpp and reduction_template.cuh, as 2.4.1, 2.13.0 and 2.15.0 ship them",
    ),
)
_COUNTED = {kernel for kernels, _, _ in COUNTED for kernel in kernels}


@dataclass
class Seen:
    """What every recorded call of one op launched."""

    releases: set[str] = field(default_factory=set)
    against: defaultdict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    """What stands against it -> the releases."""


@dataclass
class Builds:
    """Everything that is kept of the builds."""

    recordings: dict[str, list[Recording]]
    kinds: dict[str, Mapping[str, Atomics]]

    @property
    def releases(self) -> list[str]:
        """Releases of which the kernels' code was read too, oldest first."""
        return [torch for torch in self.recordings if torch in self.kinds]


def kept_builds(folder: Path = FOLDER) -> Builds:
    """Read all recordings and kernels."""
    suites = [path.name.split("-", 2)[2].removesuffix(".json.xz") for path in folder.glob("torch-*.json.xz")]
    found: defaultdict[str, list[Recording]] = defaultdict(list)
    for suite in sorted(set(suites)):
        for torch, path in releases(suite, folder).items():
            found[torch].append(load(path))
    ordered = dict(sorted(found.items(), key=lambda item: tuple(map(int, item[0].split(".")))))
    paths = {torch: atomics.file_of(torch, folder) for torch in ordered}
    return Builds(ordered, {torch: atomics.load(path).kind_of() for torch, path in paths.items() if path.is_file()})


def seen_ops(builds: Builds) -> dict[str, Seen]:
    """Op -> what its recorded calls launched, over all releases, suites and modes."""
    found: defaultdict[str, Seen] = defaultdict(Seen)
    for torch in builds.releases:
        faults: dict[str, str] = {}
        for recording in builds.recordings[torch]:
            used: set[int] = set()
            for row in recording.rows:
                if row.is_usable:
                    used.update(*_launches_of(row))
            for launch in used:
                seen = found[recording.op_of(launch)]
                seen.releases.add(torch)
                for kernel in recording.kernels_of(launch):
                    fault = faults.get(kernel)
                    if fault is None:
                        fault = faults[kernel] = against(kernel, builds.kinds[torch])
                    if fault:
                        seen.against[fault].add(torch)
    return found


def _launches_of(row: Row) -> Iterator[tuple[int, ...]]:
    """In forward and in backward, in each mode; one that changed nothing has no outcome of its own."""
    for mode in MODES:
        outcome = getattr(row, mode)
        if outcome is not None:
            yield outcome.forward
            yield outcome.backward


def against(kernel: str, kinds: Mapping[str, Atomics]) -> str:
    """Why a launch vouches for nothing; empty where it does."""
    library = _LIBRARY.match(kernel)
    if library is not None:
        return f"calls into {_LIBRARY_NAMES[library[1]]}, whose inside is not seen"
    if not kernel.startswith("_Z") and kernel in _COUNTED:
        return ""
    kind = kinds.get(kernel)
    if kind is None:
        return _NOT_READ
    if kind in (Atomics.FLOAT, Atomics.SWAP):
        return _ADDS
    if _SCAN.search(family(kernel)):
        return _SCANS
    return _COUNTS if kind is Atomics.INTEGER and family(kernel) not in _COUNTED else ""


def vouched(seen: Mapping[str, Seen], table: RuleTable, kept: list[str]) -> dict[tuple[str, str], list[str]]:
    """First and last minor release -> ops that nothing stands against in any build between the two."""
    spans: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for op, one in sorted(seen.items()):
        if not _is_unnamed(op, table):
            continue
        bad = set().union(*one.against.values())
        for is_clear, run in groupby(kept, key=lambda torch: torch in one.releases and torch not in bad):
            if is_clear:
                span = list(run)
                spans[_minor(span[0]), _minor(span[-1])].append(op)
    return dict(sorted(spans.items(), key=lambda item: tuple(_numbers(part) for part in item[0])))


def rest(seen: Mapping[str, Seen], table: RuleTable, kept: list[str]) -> dict[str, list[str]]:
    """What stands against vouching -> ops that are vouched for in no release, or not in the newest one."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    for op, one in sorted(seen.items()):
        bad = set().union(*one.against.values())
        if _is_unnamed(op, table) and (kept[-1] in bad or not one.releases - bad):
            found["; ".join(sorted(one.against))].append(op)
    told = {op for ops in found.values() for op in ops}
    found[_UNSEEN] = sorted(op for op in model_ops() if op not in told and not seen.get(op) and _is_unnamed(op, table))
    return {why: ops for why, ops in sorted(found.items()) if ops}


def model_ops() -> set[str]:
    """Ops of the model steps that are kept as golden files, but those that become others on CUDA."""
    moved = {op for row in load_translations().translation if Backend.CUDA in row.to for op in row.ops}
    calls = {group.op for path in STEPS.glob("*.json.gz") for group in Trace.load(path).calls}
    return {op for op in calls if op not in moved and op.rpartition(".")[0] not in moved}


def _is_unnamed(op: str, table: RuleTable) -> bool:
    return op.partition(".")[0] in ("aten", "prims") and table.find(op) is None


def confirmed(builds: Builds, table: RuleTable, folder: Path = FOLDER) -> dict[str, str]:
    """Rule -> what the builds showed of it, in words; rules of which nothing was seen are left out."""
    refused, invented = _refusals(builds, folder)
    told = {}
    for rule in table.rule:
        facts = []
        if refused[rule.id] and not invented[rule.id]:
            samples = sum(refused[rule.id].values())
            facts.append(f"all {samples:,} refusals that it predicted of samples happened ({_span(refused[rule.id])})")
        if _is_atomic(rule):
            facts += _launches(rule, builds, table)
        if facts:
            told[rule.id] = f"CUDA builds of torch, run without a device as {DEVICE}: {'; '.join(facts)}"
    return told


def _is_atomic(rule: Rule) -> bool:
    causes = {case.cause or rule.cause for case in rule.case if case.verdict in _VARIES}
    return Cause.ATOMIC_ACCUMULATION in causes


_VARIES = (Verdict.NONDETERMINISTIC, Verdict.CONDITIONAL)


def _refusals(builds: Builds, folder: Path) -> tuple[dict[str, Counter[str]], Counter[str]]:
    """By rule: refusals that it alone predicted and that happened, by release; and those that did not happen."""
    hits: defaultdict[str, Counter[str]] = defaultdict(Counter)
    inventions: Counter[str] = Counter()
    suites = {suite: recorded.load(suite, folder) for suite in recorded.kept_suites(folder)}
    for torch in builds.releases:
        for recording in builds.recordings[torch]:
            if recording.suite not in suites:
                continue
            for one in predictions(suites[recording.suite], recording):
                if one is None or not one.rules:
                    continue
                named = {rule.partition(" ")[0] for rule in one.rules}
                if not one.refused:
                    inventions.update(named)
                elif len(named) == 1:
                    hits[named.pop()][torch] += 1
    return hits, inventions


def _launches(rule: Rule, builds: Builds, table: RuleTable) -> Iterator[str]:
    """Which kernels that add atomically the rule's ops launch, and whether deterministic mode leaves any."""
    families: dict[str, Counter[str]] = {"off": Counter(), "on": Counter()}
    met: dict[str, Counter[str]] = {"off": Counter(), "on": Counter()}
    for torch in builds.releases:
        kinds = builds.kinds[torch]
        for recording in builds.recordings[torch]:
            ours = {place for place, op in enumerate(recording.ops) if table.find(op) is rule}
            for row in recording.rows if ours else ():
                for mode in ("off", "on") if row.is_usable else ():
                    outcome = row.under(mode)
                    for launch in (*outcome.forward, *outcome.backward):
                        if recording.launches[launch].op not in ours or outcome.error:
                            continue
                        adding = {family(k) for k in recording.kernels_of(launch) if kinds.get(k) in _ADDING}
                        families[mode].update(adding)
                        met[mode].update([torch] if adding or mode == "on" else [])
    if families["off"]:
        names = ", ".join(sorted(families["off"]))
        yield f"its ops launch {names}, whose code adds floats atomically or swaps ({_span(met['off'])})"
        if met["on"] and not families["on"]:
            yield "in deterministic mode they launch none that does"


_ADDING = (Atomics.FLOAT, Atomics.SWAP)


def _span(times: Iterable[str]) -> str:
    found = sorted({_minor(torch) for torch in times}, key=_numbers)
    return f"torch {found[0]} to {found[-1]}" if len(found) > 1 else f"torch {found[0]}"


def _minor(torch: str) -> str:
    return torch.rpartition(".")[0]


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def made(folder: Path = FOLDER) -> str:
    """The file, whole."""
    table, builds = load_table(Backend.CUDA), kept_builds(folder)
    kept = builds.releases
    seen = seen_ops(builds)
    return "\n".join(
        lines_of(kept, confirmed(builds, table, folder), vouched(seen, table, kept), rest(seen, table, kept))
    )


def lines_of(
    kept: list[str],
    rules: Mapping[str, str],
    spans: Mapping[tuple[str, str], list[str]],
    others: Mapping[str, list[str]],
) -> Iterator[str]:
    """The file's lines."""
    yield "# Made from tests/data/dispatched by `python -m benchmarks.evidence.dispatched --write`."
    yield f'schema = {SCHEMA}\nbackend = "cuda"\nbuilds = {json.dumps(kept)}\ndevice = "{DEVICE}"\n'
    yield "[rules]"
    for id, ref in sorted(rules.items()):
        yield f"{id} = {json.dumps(ref)}"
    for kernels, why, ref in COUNTED:
        yield f"\n[[counted]]\nkernels = {json.dumps(kernels)}\nwhy = {json.dumps(why)}\nref = {json.dumps(ref)}"
    for (first, last), ops in spans.items():
        yield f'\n[[vouched]]\nfirst = "{first}"\nlast = "{last}"\nops = [\n{_listed(ops)}]'
    for why, ops in others.items():
        yield f"\n[[rest]]\nwhy = {json.dumps(why)}\nops = [\n{_listed(ops)}]"
    yield ""


def _listed(ops: list[str]) -> str:
    return "".join(f'  "{op}",\n' for op in ops)


def main() -> int:
    """Print or write the file, and what it comes to."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--write", action="store_true", help=f"write {FILE.name}")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where recordings are (default: tests/data)")
    parser.add_argument("--check", action="store_true", help=f"exit code 1 where {FILE.name} says otherwise")
    options = parser.parse_args()
    text = made(options.folder)
    if options.check:
        return int(FILE.read_text(encoding="utf-8") != text)
    if options.write:
        FILE.write_text(text, encoding="utf-8")
    else:
        print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
