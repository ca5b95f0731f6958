"""Are the refusals of deterministic mode on CUDA predicted? The tables held against recorded CUDA builds of torch.

    python -m benchmarks.evidence.refusals                        # every release and suite that is kept
    python -m benchmarks.evidence.refusals --torch 2.13.0 --suite calls
    python -m benchmarks.evidence.refusals --keep                 # and keep what this CPU recorded, for the tests
    python -m benchmarks.evidence.refusals --kept                 # judge what is kept instead of recording anew

Each sample is recorded on this CPU with the mode off, as a user without a GPU would, and judged for CUDA and each
release, in deterministic mode with and without a workspace for cuBLAS. Held against it is what the CUDA build of that
release did (``python -m benchmarks.evidence.nullgpu``): a sample that runs with the mode off and fails with it on was
refused. Precision is the share of predicted refusals that happened, recall the share of refusals that were predicted.
A refused call that was answered ``unknown`` counts as missed; how many of the missed these are is said beside, for the
others are the ones that were called safe. ``--help`` says what the exit code asks.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.evidence.counts import Counts, share
from benchmarks.evidence.made import SETS
from benchmarks.evidence.nullgpu.recorded import RecordedSuite, keep, kept_suites, load, record
from benchmarks.evidence.nullgpu.recording import FOLDER, Recording, Row, releases
from benchmarks.evidence.nullgpu.recording import load as load_recording
from tracer.names import Backend, Verdict
from tracer.tables.loading import load_tables
from tracer.tables.rules import load_translations
from tracer.tables.settings import DEFAULTS
from tracer.tables.target_tables import ForwardCalls, TargetTables
from tracer.trace.records import CallGroup, FactValue

TARGET = 0.995
#: What a run is asked for, as ``--help`` says it.
ASKED = f"""The exit code is 0 where all of this holds, else 1. In each of the two pools that are judged, torch's own
samples and all calls made up, precision and recall are at least {TARGET}; a refused call that was answered unknown
counts as missed. In each suite precision is at least {TARGET}, at least one refusal is predicted, and no more than
{1 - TARGET:.3f} of the refusals were called safe."""
#: Samples whose route in a build cannot be told without a device, and why; they are not compared.
UNTOLD: Mapping[str, str] = {
    "matrix_exp": "how many products it takes hangs on the matrix's norm, and no value of a build is real",
    "linalg_matrix_exp": "as matrix_exp",
    "cumprod": "its backward asks for the values, and in 2.4 and 2.5 takes a formula without them while it is watched",
    "cumprod of columns": "as cumprod",
    "masked_cumprod": "as cumprod",
    "linalg_vander": "as cumprod, which it is made of",
}
#: Suites of calls that no rule had seen; the others are samples that torch has, or that its database leaves out.
_UNSEEN = frozenset(made.suite for made in SETS if made.unseen)
#: What the empty libraries themselves answer where they cannot: no refusal of torch's.
_NOT_TORCHS = "null gpu error"
#: What each mode of a recording is, to the judge; the device that it was made on is an sm_90.
SETTINGS: Mapping[str, Mapping[str, FactValue]] = {
    mode: {**DEFAULTS, "deterministic_mode": "on", "cublas_workspace": workspace, "threads": "many", **device}
    for mode, workspace in (("on", "set"), ("bare", "unset"))
    for device in ({"nccl_nvls": "allowed", "capability": "9.x"},)
}


@dataclass(frozen=True)
class Prediction:
    """One sample for one release and mode: what was said and what was done."""

    torch: str
    mode: str
    entry: str
    rules: frozenset[str]
    """Rules that said that a call raises, each with the op that it spoke of."""
    unknown: frozenset[str]
    """Ops on which the answer was ``unknown``."""
    refused: bool
    error: str

    @property
    def is_right(self) -> bool:
        """Whether what was said is what was done."""
        return bool(self.rules) is self.refused


@dataclass
class Score(Counts):
    """Refusals predicted and refusals met, and where they disagree."""

    unknown: int = 0
    """Of the misses, those that were answered ``unknown``."""
    unpaired: int = 0
    """Samples of a release that this CPU did not run, or that have other inputs there."""
    wrong: list[Prediction] = field(default_factory=list)

    def add(self, one: Prediction) -> None:
        """Count one prediction."""
        predicted = bool(one.rules)
        self.count(predicted=predicted, refused=one.refused)
        self.unknown += one.refused and not predicted and bool(one.unknown)
        if not one.is_right:
            self.wrong.append(one)

    def add_all(self, other: Score) -> None:
        """Count what another score counted."""
        for name in ("hits", "misses", "unknown", "inventions", "quiet", "unpaired"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.wrong += other.wrong

    @property
    def called_safe(self) -> float:
        """Of the refusals that happened, the share on whose calls nothing was said, not even ``unknown``."""
        return 1 - share(self.hits + self.unknown, self.hits + self.misses)

    @property
    def accuses_nobody_and_calls_none_safe(self) -> bool:
        """What is asked of each suite, over at least one refusal."""
        return self.hits > 0 and self.precision >= TARGET and self.called_safe <= 1 - TARGET

    @property
    def reaches_the_target(self) -> bool:
        """What is asked of a pool of suites."""
        return self.precision >= TARGET and self.recall >= TARGET


def predictions(recorded: RecordedSuite, did: Recording) -> Iterator[Prediction | None]:
    """Each sample of a release in each mode; ``None`` for one that cannot be held against what was recorded."""
    known = {(one.entry, one.number, one.dtype): one for one in recorded.samples}
    under = {
        mode: TargetTables(load_tables(), Backend.CUDA, did.torch, settings, translations=load_translations())
        for mode, settings in SETTINGS.items()
    }
    for row in did.rows:
        if not row.is_usable:
            continue
        if row.entry in UNTOLD:
            yield None
            continue
        sample = known.get(row.key)
        if sample is None or sample.inputs != row.inputs:
            yield None
            continue
        groups = recorded.groups_of(sample)
        forward = ForwardCalls(groups, load_translations(), Backend.CUDA)
        for mode, tables in under.items():
            if _NOT_TORCHS in row.under(mode).error:
                yield None
                continue
            tables.look_ahead(forward)
            yield _prediction(groups, row, mode, tables, did.torch)


def _prediction(groups: tuple[CallGroup, ...], row: Row, mode: str, tables: TargetTables, torch: str) -> Prediction:
    raising, unknown = set(), set()
    for group in groups:
        ruling = tables.rule_on(group)
        if ruling.verdict is Verdict.RAISES:
            raising.add(f"{ruling.source} ({group.op})")
        elif ruling.verdict is Verdict.UNKNOWN:
            unknown.add(group.op)
    return Prediction(
        torch, mode, row.entry, frozenset(raising), frozenset(unknown), row.fails(mode), row.under(mode).error
    )


def score_of(recorded: RecordedSuite, did: Recording) -> Score:
    """One release's score."""
    score = Score()
    for one in predictions(recorded, did):
        if one is None:
            score.unpaired += 1
        else:
            score.add(one)
    return score


def disagreements(wrong: Iterable[Prediction]) -> Iterator[str]:
    """What was said wrongly, a line for each entry, mode and reason, with the releases."""
    seen: defaultdict[tuple[str, str, str, str], Counter[str]] = defaultdict(Counter)
    for one in wrong:
        kind = "predicted but not refused" if one.rules else "refused but not predicted"
        why = ", ".join(sorted(one.rules)) or one.error
        if not one.rules and one.unknown:
            why = f"{why} [unknown: {', '.join(sorted(one.unknown))}]"
        seen[kind, one.entry, one.mode, why].update([one.torch])
    for (kind, entry, mode, why), times in sorted(seen.items()):
        yield f"  {kind}, {mode}: {entry} ({sum(times.values())} in torch {', '.join(times)}): {why}"


def main(arguments: list[str] | None = None) -> int:
    """Record or load, judge, print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0], epilog=ASKED)
    parser.add_argument("--torch", nargs="+", metavar="RELEASE", help="default: every one that is kept")
    parser.add_argument("--suite", nargs="+", help="default: every one that is kept")
    parser.add_argument("--only", default="", help="entries whose name holds this text")
    parser.add_argument("--kept", action="store_true", help="judge what is kept instead of recording on this CPU")
    parser.add_argument("--keep", action="store_true", help="keep what this CPU records, for the tests")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where recordings are (default: tests/data)")
    parser.add_argument("--brief", action="store_true", help="figures alone")
    options = parser.parse_args(arguments)
    holds = True
    pools: defaultdict[str, Score] = defaultdict(Score)
    for suite in options.suite or _suites(options.folder):
        recorded = load(suite, options.folder) if options.kept else _recorded(suite, options.only)
        if options.keep:
            print(f"kept {keep(recorded, options.folder).name}")
        whole = Score()
        for torch, path in releases(suite, options.folder).items():
            if options.torch and torch not in options.torch:
                continue
            score = score_of(recorded, load_recording(path))
            print(_line(f"{suite}, torch {torch}", score))
            whole.add_all(score)
        if whole.total:
            print(_line(f"{suite}, all", whole))
            holds = holds and whole.accuses_nobody_and_calls_none_safe
            pools["calls made up" if suite in _UNSEEN else "torch's own samples"].add_all(whole)
        if not options.brief:
            print("\n".join(disagreements(whole.wrong)))
    for name, pool in pools.items():
        print(_line(name, pool))
        holds = holds and pool.reaches_the_target
    return 0 if holds else 1


def _suites(folder: Path) -> list[str]:
    kept = {path.name.removesuffix(".json.xz").rpartition("-")[2] for path in folder.glob("torch-*.json.xz")}
    return sorted(kept.union(kept_suites(folder)))


def _recorded(suite: str, only: str) -> RecordedSuite:
    from benchmarks.evidence.nullgpu.suites import suite_of

    return record(suite, (sample for sample in suite_of(suite) if only in sample.entry))


def _line(name: str, score: Score) -> str:
    return (
        f"{name}: {score.total:,} predictions, {score.hits:,} refusals predicted and met,"
        f" {score.inventions:,} invented and {score.misses:,} missed, {score.unknown:,} of them answered unknown;"
        f" precision {score.precision:.4f}, recall {score.recall:.4f}; {score.unpaired:,} samples not compared"
    )


if __name__ == "__main__":
    sys.exit(main())
