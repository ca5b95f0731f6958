"""How much of a step is ``unknown``, by backend, and which ops lead the list.

    python -m benchmarks.evidence.unknown      # the recorded steps, then torch's operator database: two minutes
    python -m benchmarks.evidence.unknown --golden         # the recorded steps alone: seconds
    python -m benchmarks.evidence.unknown --steps          # overload by overload, of 339 whole steps: seconds
    python -m benchmarks.evidence.unknown --backend npu --leading 40

Everything was recorded on a CPU and is judged for each backend under torch's default settings: what counts is calls,
not ops. A call is unknown here where the table has no answer with deterministic mode off or none with it on. The
recorded steps are the models of ``tests/golden/judgements``; of the operator database, the first samples of each entry
and dtype, forward and backward. The exit code is 1 unless every share is below its target.

``--steps`` counts the overloads of ``evidence/steps`` (``record_steps`` says how they were recorded) instead of calls,
with deterministic mode off: deterministic by a rule with its evidence, by what builds launched, or by neither; varying,
seeded or refused by a rule; unknown. An overload counts by the worst of its calls. The exit code is 1 unless every
target of a backend other than the CPU and CUDA is met.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from tracer.judging import judge_calls, make_target
from tracer.names import About, Backend, Verdict, Word
from tracer.tables.loading import existing_tables, load_tables
from tracer.tables.rules import Ruling, load_translations
from tracer.trace.file import Trace

STEPS = Path(__file__).resolve().parents[2] / "tests" / "golden" / "judgements"
WHOLE_STEPS = Path(__file__).parent / "steps" / "trace.json.gz"
#: The version that every table was reviewed for.
VERSION = "2.13"
SAMPLES = 2
#: Calls that may be unknown, in hundredths of all: of the recorded steps, and of the operator database.
AT_MOST: dict[Backend, tuple[float, float]] = {
    Backend.CPU: (0.1, 0.1),
    Backend.CUDA: (0.1, 0.1),
    Backend.ROCM: (6.0, 9.0),
    Backend.XPU: (2.0, 6.0),
    Backend.MPS: (10.0, 15.0),
    Backend.NPU: (1.0, 4.0),
}


#: Overloads of the whole steps that may be unknown; of those that no evidence speaks for there may be none. What is
#: left open on MPS is Apple's MPSGraph: its source is closed, and its documentation says nothing of repeating a result.
UNKNOWN_AT_MOST: dict[Backend, int] = {Backend.ROCM: 10, Backend.XPU: 11, Backend.MPS: 44, Backend.NPU: 18}


class Ground(Word):
    """What a backend's table says of an overload, and on what it rests, worst first."""

    UNKNOWN = "unknown"
    NOTHING = "deterministic by nothing"
    VARIES = "varying, seeded or refused by a rule"
    DISPATCHED = "deterministic by dispatch evidence"
    RULE = "deterministic by a rule"


class Share(NamedTuple):
    """What a backend's table leaves open of some traces."""

    calls: int
    unknown: int
    """Calls without an answer with the mode off, or with it on."""
    mode_on: int
    """Those of them that deterministic mode leaves without one."""
    ops: Counter[str]
    """The unknown calls by op."""

    @property
    def percent(self) -> float:
        """Hundredths of all calls that are unknown."""
        return 100.0 * self.unknown / self.calls


def golden_steps() -> dict[str, Trace]:
    """The recorded training steps, by model."""
    return {path.name.removesuffix(".json.gz"): Trace.load(path) for path in sorted(STEPS.glob("*.json.gz"))}


def operator_samples(count: int, only: str = "") -> Trace:
    """One recording of the first ``count`` samples of each dtype of each entry of torch's operator database."""
    from tests.support.samples import dtypes_of, operator_database, samples_of
    from tracer import DeterminismTracer

    tracer = DeterminismTracer()
    for op in operator_database():
        for dtype in dtypes_of(op, "cpu") if only in op.formatted_name else ():
            for sample in samples_of(op, "cpu", dtype, count):
                run = sample.prepared()
                with tracer, contextlib.suppress(Exception):  # some fail in themselves; what ran was recorded
                    run()
    return tracer.trace


def share_of(traces: Iterable[Trace], backend: Backend) -> Share:
    """What is unknown of all calls of ``traces`` when they are judged for ``backend``."""
    calls, on = 0, 0
    ops: Counter[str] = Counter()
    for trace in traces:
        target = make_target(trace.environment, backend=backend, torch=VERSION, settings="default")
        judgement = judge_calls(trace, load_tables(), target, translations=load_translations())[0]
        calls += judgement.tally.total
        on += judgement.tally.deterministic_mode.get(Verdict.UNKNOWN, 0)
        for finding in judgement.findings:
            if finding.about is About.CALL and Verdict.UNKNOWN in (finding.verdict, finding.deterministic_mode):
                ops[finding.op] += finding.count
    return Share(calls, ops.total(), on, ops)


def ground_of(ruling: Ruling) -> Ground:
    """What ``ruling`` rests on as things stand."""
    if ruling.verdict is Verdict.UNKNOWN:
        return Ground.UNKNOWN
    if ruling.verdict is not Verdict.DETERMINISTIC:
        return Ground.VARIES
    if not ruling.evidence:
        return Ground.NOTHING
    return Ground.DISPATCHED if ruling.source is None else Ground.RULE


def overloads_by_ground(trace: Trace, backend: Backend, torch: str = VERSION) -> dict[str, Ground]:
    """Each overload of ``trace`` by the worst ground of its calls, judged for ``backend`` and a version of torch."""
    target = make_target(trace.environment, backend=backend, torch=torch, settings="default")
    order = list(Ground)
    grounds: dict[str, Ground] = {}
    for group, ruling in judge_calls(trace, load_tables(), target, translations=load_translations())[1]:
        grounds[group.op] = min(grounds.get(group.op, Ground.RULE), ground_of(ruling), key=order.index)
    return grounds


def meets_its_target(grounds: Mapping[str, Ground], backend: Backend) -> bool:
    """Is nothing deterministic by nothing, and no more unknown than may be? True for a backend without a target."""
    counts = Counter(grounds.values())
    at_most = UNKNOWN_AT_MOST.get(backend)
    return at_most is None or (counts[Ground.UNKNOWN] <= at_most and not counts[Ground.NOTHING])


def overload_rows(grounds: Mapping[str, Ground], backend: Backend, leading: int) -> Iterator[str]:
    """One line a backend, and the overloads that nothing speaks for."""
    counts = Counter(grounds.values())
    figures = ", ".join(f"{counts[ground]} {ground}" for ground in reversed(Ground))
    target = ""
    if backend in UNKNOWN_AT_MOST:
        met = "met" if meets_its_target(grounds, backend) else "MISSED"
        target = f"; target: at most {UNKNOWN_AT_MOST[backend]} unknown and none by nothing, {met}"
    yield f"  {backend!s:5} of {len(grounds)}: {figures}{target}"
    lacking = [op for op, ground in sorted(grounds.items()) if ground in (Ground.UNKNOWN, Ground.NOTHING)]
    yield from (f"        {op}: {grounds[op]}" for op in lacking[:leading])
    if (rest := len(lacking) - leading) > 0:
        yield f"        and {rest:,} overload{'' if rest == 1 else 's'} more"


def rows(shares: Mapping[Backend, Share], targets: Mapping[Backend, float], leading: int) -> Iterator[str]:
    """One line a backend, and the ops that lead its list."""
    for backend, share in shares.items():
        target = targets.get(backend, 100.0)
        held = f"target: under {target:g} %, {'met' if share.percent < target else 'MISSED'}" if target < 100 else ""
        yield (
            f"  {backend!s:5} {share.percent:5.1f} % of {share.calls:,} calls ({share.unknown:,}),"
            f" {100.0 * share.mode_on / share.calls:.1f} % in deterministic mode; {held}".rstrip("; ")
        )
        for op, count in share.ops.most_common(leading):
            yield f"        {count:6,}  {op}"
        if (rest := len(share.ops) - leading) > 0:
            yield f"        and {rest:,} op{'' if rest == 1 else 's'} more"


def main(arguments: list[str] | None = None) -> int:
    """Print the shares and whether the targets hold; 0 if they do."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--golden", action="store_true", help="the recorded steps alone")
    parser.add_argument("--samples", type=int, default=SAMPLES, help="of each dtype of each entry (default 2)")
    parser.add_argument("--only", default="", help="entries of the operator database whose name holds this text")
    parser.add_argument("--leading", type=int, default=8, help="ops to list for each backend (default 8)")
    parser.add_argument("--backend", choices=[str(b) for b in existing_tables()], help="default: every one")
    parser.add_argument("--steps", action="store_true", help="overload by overload, of the whole steps")
    parser.add_argument("--torch", default=VERSION, help=f"the version that the whole steps are judged for ({VERSION})")
    options = parser.parse_args(arguments)
    backends = (Backend(options.backend),) if options.backend else existing_tables()
    if options.steps:
        trace = Trace.load(WHOLE_STEPS)
        by_backend = {backend: overloads_by_ground(trace, backend, options.torch) for backend in backends}
        print(f"overloads of whole training steps, torch {options.torch}, mode off:")
        for backend, grounds in by_backend.items():
            print("\n".join(overload_rows(grounds, backend, options.leading)))
        return int(not all(meets_its_target(grounds, backend) for backend, grounds in by_backend.items()))
    parts = {"the recorded steps": list(golden_steps().values())}
    if not options.golden:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            parts["torch's operator database"] = [operator_samples(options.samples, options.only)]
    missed = False
    for number, (name, traces) in enumerate(parts.items()):
        shares = {backend: share_of(traces, backend) for backend in backends}
        targets = {backend: AT_MOST[backend][number] for backend in backends if backend in AT_MOST}
        print(f"unknown calls of {name}, torch {VERSION}:")
        print("\n".join(rows(shares, targets, options.leading)))
        missed |= any(shares[backend].percent >= target for backend, target in targets.items())
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
