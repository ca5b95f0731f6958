"""``tracer check``: a gate for continuous integration."""

from __future__ import annotations

import datetime
import os
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tracer.cli.options import files, option, target_options, verbosity
from tracer.cli.output import destinations, progress, render_report, show, write_rendered
from tracer.cli.report import PARTIAL
from tracer.errors import UsageError
from tracer.findings import Finding, Target
from tracer.names import Detail, Phase, Training, Verdict
from tracer.plain import one_line, say
from tracer.plan import PlanStep, step_of
from tracer.report.words import counted, phase_of, plural, said_of, statement_of
from tracer.trace.records import split_place

if TYPE_CHECKING:
    from tracer.gate import Accepted, Decision
    from tracer.trace import Trace

#: Annotations of one kind that GitHub shows for a step.
LIMIT = 10
_LONGEST_PROPERTY = 1_000


def annotated(findings: Iterable[Finding], root: str = "") -> Iterator[str]:
    """A line a finding, the first ``LIMIT`` of each kind; ``root`` is the working directory below the repository."""

    def data(text: str) -> str:
        text = one_line(text, _LONGEST_PROPERTY)
        return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")

    met: Counter[str] = Counter()
    for finding in findings:
        kind = "error" if finding.verdict in (Verdict.RAISES, Verdict.NONDETERMINISTIC) else "warning"
        met[kind] += 1
        if met[kind] > LIMIT:
            continue
        path, line = split_place(finding.called_from or finding.location)
        properties = {"file": os.path.join(root, path)} if path else {}
        properties |= {"line": str(line)} if path and line is not None else {}
        properties["title"] = finding.rule
        values = ((name, data(value).replace(":", "%3A").replace(",", "%2C")) for name, value in properties.items())
        parts = (counted(finding), phase_of(finding), f"under deterministic mode: {finding.deterministic_mode}")
        message = f"{statement_of(finding)} ({', '.join(filter(None, parts))}). {finding.remedy}".rstrip()
        yield f"::{kind} {','.join(f'{name}={value}' for name, value in values)}::{data(message)}"
    if left_out := sum(max(0, count - LIMIT) for count in met.values()):
        yield f"tracer: {left_out:,} more; GitHub shows {LIMIT} annotations of a kind for a step"


def inert(line: str) -> str:
    """``line`` such that GitHub Actions takes nothing in it for a command, in either of its notations."""
    text = line.replace("##[", "## [")
    return f"| {text}" if text.lstrip().startswith("::") else text


FAILED = 1
BASELINE = "determinism.lock"
#: Phases that no inference has.
_OF_TRAINING = frozenset({Phase.BACKWARD.value, Phase.RECOMPUTE.value, Phase.OPTIMIZER.value})
#: Failing findings that are printed unless all are asked for, and characters of a reason or a reference.
_SHOWN, _LONGEST = 50, 2_000

EXAMPLES = """\b
Examples:
  tracer check trace.json --backend cuda
  tracer check trace.json --baseline determinism.lock --update-baseline
  tracer check trace.json --baseline determinism.lock --fail-on new
  tracer check trace.json --ignore 'cuda-cublas' --ignore 'vendor/*'
  tracer check generation.json
  tracer check trace.json --require-training

A comment silences the findings of a rule at its line of code: # tracer: ignore[cuda-index-add] reason.
Options may stand in pyproject.toml under [tool.tracer]. In GitHub Actions, what fails is annotated at its line.
Exit code 0: nothing fails; 1: something does; 2: wrong usage or input; 3: nothing fails, and a trace is partial."""


@click.command("check", epilog=EXAMPLES)
@click.argument("traces", nargs=-1, required=True, metavar="TRACE...", shell_complete=files)
@target_options(
    backend="Judge for this backend; by default each call's own device.",
    torch="Judge for this version of torch.",
    settings="Judge under recorded, default, warn or deterministic settings.",
    default=None,
)
@option("--fail-on", "V[,V]", "Verdicts that fail, and `new`.  [default: raises,nondeterministic]")
@option("--select", "GLOB", "Look at these rules, ops, modules or files only.", multiple=True)
@option("--ignore", "GLOB", "Pass over these rules, ops, modules or files.", multiple=True)
@option("--baseline", "FILE", f"Accept what this lock file accepts, such as {BASELINE}.", shell_complete=files)
@click.option("--allow-no-training", is_flag=True, help="Pass any recording in which no optimizer stepped.")
@click.option("--require-training", is_flag=True, help="Fail an inference too: this job trains.")
@click.option("--update-baseline", is_flag=True, help="Accept every finding; keep the reasons that stand there.")
@option("--format formats", "F[,F]", "Write the report too: as for tracer report.")
@option("-o --output", "PATH", "Where the report goes: as for tracer report.", shell_complete=files)
@verbosity
def command(
    traces: tuple[str, ...],
    target: dict[str, Any],
    fail_on: str | None,
    select: tuple[str, ...],
    ignore: tuple[str, ...],
    baseline: str | None,
    allow_no_training: bool,
    require_training: bool,
    update_baseline: bool,
    formats: str | None,
    output: str | None,
    detail: Detail,
) -> int:
    """Judge TRACE and exit with 1 when the gate fails.

    A finding fails when its verdict is one of --fail-on and neither the baseline nor a comment at its line of code
    accepts it. A recording in which no optimizer stepped fails too: it says nothing of a training. An inference, in
    which nothing asked for a gradient, passes, unless the baseline was made of a training.
    """
    from tracer.gate import (
        DEFAULT_FAIL_ON,
        Gate,
        Suppressions,
        decide,
        host_lines,
        load_configuration,
        parse_fail_on,
        read_baseline,
    )

    if allow_no_training and require_training:
        raise UsageError("--allow-no-training and --require-training exclude each other", hint="leave one out")
    configured = load_configuration(Path.cwd())
    wanted = destinations(formats, output, inputs=traces) if formats or output else ()
    verdicts, new = parse_fail_on(fail_on or ",".join(configured.fail_on) or ",".join(DEFAULT_FAIL_ON))
    gate = Gate(verdicts, new, select or configured.select, ignore or configured.ignore)
    lock = baseline or configured.baseline
    if update_baseline and not lock:
        raise UsageError("--update-baseline needs a file to write", hint=f"add --baseline {BASELINE}")
    accepted = () if not lock or (update_baseline and not os.path.exists(lock)) else read_baseline(lock)
    with progress("judging"):
        from tracer.session import findings_of_others, judge
        from tracer.trace.file import load_families
        from tracer.trace.merging import merge_traces

        recordings = load_families(traces)
        trace = merge_traces(recordings)
        target = {name: value or getattr(configured, name) for name, value in target.items()}
        target["host"] = (*target["host"], *host_lines(trace.calls, Path.cwd()))
        report = judge(trace, **target)
        findings = (*report.findings, *findings_of_others(report, recordings, **target))
        reason_for = Suppressions(Path.cwd()).reason_for
        decision = decide(findings, gate, accepted=accepted, reason_for=reason_for, today=datetime.date.today())

    failing = set(map(id, decision.failing))
    report = replace(
        report,
        accepted=decision.acceptances(report.findings),
        failing=frozenset(place for place, finding in enumerate(report.findings) if id(finding) in failing),
    )
    if wanted:
        write_rendered(render_report(report, wanted, detail=detail))
    if update_baseline:
        show(_updated(lock, decision, accepted, report.target))
        return 0
    for line in printed_lines(decision, detail):
        show(line)
    if os.environ.get("GITHUB_ACTIONS") == "true":
        below = ""  # the working directory as seen from the repository's folder
        with suppress(OSError, ValueError):
            folder = Path.cwd().resolve().relative_to(Path(os.environ.get("GITHUB_WORKSPACE") or Path.cwd()).resolve())
            below = "" if folder == Path() else folder.as_posix()
        for line in annotated(decision.failing, below):
            show(line)
    required = require_training or (configured.require_training and not allow_no_training)
    allowed = allow_no_training or (configured.allow_no_training and not require_training)
    untrained = "" if allowed else _untrained(trace, accepted, required=required)
    if report.judgement.nothing_computed:
        untrained = "nothing was computed, the step was recorded on meta tensors"
    is_inference = trace.training is Training.INFERENCE
    show(summary(decision, untrained, report.target, is_partial=bool(trace.partial), is_inference=is_inference))
    if trace.differing_settings:
        names = ", ".join(trace.differing_settings)
        mixed = any(recording.differing_settings for recording in recordings)  # one file holds several recordings
        by = "the first recording's settings were judged" if mixed else "each was judged by its own settings"
        say(f"tracer: the recordings differ in {names}; {by}")
    if decision.failing or untrained:
        return FAILED
    if trace.partial:
        say(f"tracer: the trace is partial ({trace.partial}); the rest was not judged")
        return PARTIAL
    return 0


def _counted(findings: Iterable[Finding], target: Target) -> tuple[int, int]:
    """How many of ``findings`` a report counts, and how many are draws that repeat, which ask for nothing."""
    asks = [step_of(finding, target) is not PlanStep.NOTHING for finding in findings]
    return sum(asks), len(asks) - sum(asks)


def _updated(lock: str, decision: Decision, before: tuple[Accepted, ...], target: Target) -> str:
    """Write the lock file anew; returns what became of its lines."""
    from tracer.gate import risk_of, updated, write_baseline

    findings = [*decision.failing, *decision.passing, *decision.compared.accepted]
    count, draws = _counted(findings, target)
    more = f" and {plural(draws, 'draw')} that repeat{'s' * (draws == 1)}" if draws else ""
    after = (*updated(findings, before), *decision.unlooked)
    write_baseline(lock, after)
    old, new = {line.risk for line in before}, {line.risk for line in after}
    past = {risk_of(finding) for finding in decision.compared.expired}
    ended = f", {len(past):,} of them past their day: give them another, or mend what they accept" if past else ""
    return (
        f"tracer check: {lock} accepts {plural(count, 'finding')}{more}; of its lines {len(new - old):,} added,"
        f" {len(old - new):,} dropped, {len(new & old):,} kept{ended}"
    )


def _untrained(trace: Trace, accepted: Iterable[Accepted], *, required: bool) -> str:
    """Return why a whole recording without an optimizer's step fails; empty if it has one, or is an inference.

    Where a training is ``required``, or the baseline accepts calls of one, an inference does not pass.
    """
    why = ""
    if trace.training is Training.INFERENCE:
        if required:
            return "no optimizer step was recorded, and --require-training asks for one"
        if not any(line.risk.phase in _OF_TRAINING for line in accepted):
            return ""
        why = ", and the baseline is a training's"
    elif trace.partial or trace.training not in (Training.NONE, Training.ELSEWHERE):  # a part has its own exit code
        return ""
    elif trace.training is Training.ELSEWHERE:
        why = ", and processes were started that were not followed"
    return f"no optimizer step was recorded{why} (--allow-no-training accepts that)"


def summary(
    decision: Decision, untrained: str, target: Target, *, is_partial: bool = False, is_inference: bool = False
) -> str:
    """The one line that says how the gate ended, and what was let through."""
    compared = decision.compared
    failing = set(map(id, decision.failing))
    grades = ((compared.new, "new"), (compared.worsened, "worsened"), (compared.expired, "expired"))
    parts = [(sum(id(finding) in failing for finding in findings), grade) for findings, grade in grades]
    counts = [f"{count:,} {grade}" for count, grade in parts if count]
    groups = {
        "accepted": compared.accepted,
        "silenced by comments": decision.silenced,
        "not selected": decision.ignored,
        "below the gate": decision.passing,
    }
    through = [(_counted(findings, target)[0], what) for what, findings in groups.items()]
    through.append((_counted((f for findings in groups.values() for f in findings), target)[1], "draws that repeat"))
    rest = [f"{count:,} {what}" for count, what in through if count]
    if compared.fixed:
        rest.append(f"{len(compared.fixed):,} accepted and found no longer: update the baseline")
    if untrained:
        counts.append(untrained)
    passed = "passed, an inference" if is_inference else "passed"
    unfailed = "nothing fails in the part that was recorded" if is_partial else passed
    ending = f"failed: {', '.join(counts)}" if counts else unfailed
    return f"tracer check: {ending}{'; ' if rest else ''}{', '.join(rest)}"


def printed_lines(decision: Decision, detail: Detail) -> Iterator[str]:
    """Yield the lines before the summary, a finding each as compilers print theirs; none in brief."""
    compared, failing = decision.compared, decision.failing
    state = dict.fromkeys(map(id, compared.worsened), ", worse than was accepted")
    state |= dict.fromkeys(map(id, compared.expired), ", accepted no longer")
    if detail is Detail.BRIEF:
        return

    def plain(text: str) -> str:
        return inert(one_line(text, _LONGEST))

    is_whole = detail is Detail.WHOLE
    for finding in failing if is_whole else failing[:_SHOWN]:
        remedy = f": {finding.remedy}" if finding.remedy else ""
        yield plain(f"{said_of(finding)}{state.get(id(finding), '')}{remedy}")
        if is_whole:
            why = [f"why: {finding.why}"] if finding.why else []
            yield from (f"  {plain(reason)}" for reason in (*why, *(f"evidence, {row}" for row in finding.evidence)))
    if not is_whole:
        if len(failing) > _SHOWN:
            yield f"and {len(failing) - _SHOWN:,} more; --verbose prints all"
        return
    for label, findings in (
        ("accepted", compared.accepted),
        ("silenced by a comment", decision.silenced),
        ("not selected", decision.ignored),
        ("below the gate", decision.passing),
    ):
        yield from (plain(f"{label}: {said_of(finding)}") for finding in findings)
