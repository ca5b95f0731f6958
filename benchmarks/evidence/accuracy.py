"""Is the CPU table right? Every sample of torch's operator database, judged and then tried.

    python -m benchmarks.evidence.accuracy            # every entry, up to 40 samples of each dtype: about three minutes
    python -m benchmarks.evidence.accuracy --samples 3  # a smoke test
    python -m benchmarks.evidence.accuracy --only index_put

Each sample runs twice, forward and backward. First with deterministic mode off, recorded, and judged for the CPU with
the mode on: does the table say that some call raises? Then with ``torch.use_deterministic_algorithms(True)``, not
recorded: does torch raise? Precision is the share of predicted refusals that happened, recall the share of refusals
that were predicted. The exit code is 1 unless both are 1.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import torch

from benchmarks.evidence.counts import Counts
from benchmarks.evidence.extra import left_out
from benchmarks.evidence.switching import Mode, deterministic_mode, is_refusal
from tests.support.samples import Sample, dtypes_of, operator_database, samples_of
from tracer import DeterminismTracer
from tracer.judging import judge_calls, make_target
from tracer.names import Backend, Settings, Verdict
from tracer.tables.loading import load_tables


@dataclass(frozen=True)
class Trial:
    """What the table said of a sample, and what torch did."""

    sample: Sample
    predicted: frozenset[str]
    """Rules by which some call raises; none where it is expected to run."""
    unknown: frozenset[str]
    """Ops of which the table says nothing."""
    refused: bool
    fails: bool
    """The sample fails in itself, with the mode off."""


@dataclass
class Score(Counts):
    """Refusals predicted and refusals met, and where they disagree."""

    failing: int = 0
    disagreements: list[Trial] = field(default_factory=list)
    refused: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Entry and rule, for refusals that were predicted."""
    unknown: Counter[str] = field(default_factory=Counter)

    def add(self, trial: Trial) -> None:
        """Count one trial."""
        predicted = bool(trial.predicted)
        self.count(predicted=predicted, refused=trial.refused)
        self.failing += trial.fails
        if predicted is not trial.refused:
            self.disagreements.append(trial)
        elif predicted:
            self.refused.update((trial.sample.entry, rule) for rule in trial.predicted)
        self.unknown.update(trial.unknown)

    @property
    def is_perfect(self) -> bool:
        """Every refusal predicted, none invented, and at least one met."""
        return self.hits > 0 and not self.disagreements


def every_sample(count: int, only: str = "") -> Iterator[Sample]:
    """Up to ``count`` samples of each dtype of each entry, then what the database leaves out."""
    for op in operator_database():
        if only in op.formatted_name:
            for dtype in dtypes_of(op, "cpu"):
                yield from samples_of(op, "cpu", dtype, count)
    yield from (sample for sample in left_out("cpu") if only in sample.entry)


def tried(sample: Sample) -> Trial:
    """Judge one sample, then run it in deterministic mode."""
    tracer = DeterminismTracer()
    fails = False
    run = sample.prepared()
    with tracer:
        try:
            run()
        except Exception:
            fails = True
    trace = tracer.trace
    target = make_target(trace.environment, backend=Backend.CPU, settings=Settings.DETERMINISTIC)
    findings = judge_calls(trace, load_tables(), target)[0].findings
    run = sample.prepared()
    refused = False
    with deterministic_mode(Mode.ON):
        try:
            run()
        except Exception as error:
            refused = is_refusal(error)
    return Trial(
        sample,
        frozenset(f.rule for f in findings if f.verdict is Verdict.RAISES),
        frozenset(f.op for f in findings if f.verdict is Verdict.UNKNOWN),
        refused,
        fails,
    )


def score_of(samples: Iterable[Sample]) -> Score:
    """Try every sample."""
    score = Score()
    for sample in samples:
        score.add(tried(sample))
    return score


def report_on(score: Score) -> Iterator[str]:
    """What was found, line by line."""
    yield f"torch {torch.__version__}, {torch.get_num_threads()} threads, {score.total:,} samples"
    yield f"refused as predicted {score.hits:,}, ran as predicted {score.quiet:,}; {score.failing:,} fail in any mode"
    yield f"refused but not predicted {score.misses:,}, predicted but not refused {score.inventions:,}"
    yield f"precision {score.precision:.4g}, recall {score.recall:.4g}"
    yield "entries that torch refused, and the rule that said so:"
    for (entry, rule), times in sorted(score.refused.items()):
        yield f"  {entry}: {rule} ({times:,})"
    by_entry: Counter[tuple[str, str]] = Counter()
    for trial in score.disagreements:
        said = ", ".join(sorted(trial.predicted)) or "nothing"
        by_entry[trial.sample.entry, f"the table said {said}, torch {'refused' if trial.refused else 'ran'}"] += 1
    yield f"disagreements: {len(score.disagreements)}"
    for (entry, what), times in sorted(by_entry.items()):
        yield f"  {entry}: {what} ({times:,})"
    if score.unknown:
        yield "ops of which the table says nothing:"
        yield from (f"  {op} ({times:,})" for op, times in sorted(score.unknown.items()))


def main(arguments: list[str] | None = None) -> int:
    """Run the benchmark; the exit code is 0 only where precision and recall are both 1."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--samples", type=int, default=40, help="of each dtype of each entry (default 40)")
    parser.add_argument("--only", default="", help="entries whose name holds this text")
    options = parser.parse_args(arguments)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        score = score_of(every_sample(options.samples, options.only))
    print("\n".join(report_on(score)))
    return 0 if score.is_perfect else 1


if __name__ == "__main__":
    sys.exit(main())
