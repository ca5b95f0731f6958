"""``tracer check``: a gate for continuous integration."""

from __future__ import annotations

import datetime
import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tracer.cli import completing
from tracer.cli.decision_lines import printed_lines
from tracer.cli.destinations import destinations
from tracer.cli.output import show
from tracer.cli.progress import progress
from tracer.cli.report import PARTIAL
from tracer.cli.verbosity import detail_of, verbosity
from tracer.cli.writing import render_report, write_rendered
from tracer.errors import UsageError
from tracer.plain import say

if TYPE_CHECKING:
    from tracer.findings import Finding
    from tracer.gate.baseline import Accepted
    from tracer.gate.gating import Decision
    from tracer.gate.suppressions import Comment
    from tracer.trace import Trace

FAILED = 1
BASELINE = "determinism.lock"

EXAMPLES = """\b
Examples:
  tracer check trace.json --backend cuda
  tracer check trace.json --baseline determinism.lock --update-baseline
  tracer check trace.json --baseline determinism.lock --fail-on new
  tracer check trace.json --ignore 'cuda-cublas' --ignore 'vendor/*'
  tracer check inference.json --allow-no-training

A comment silences the findings of a rule at its line of code: # tracer: ignore[cuda-index-add] reason.
Options may stand in pyproject.toml under [tool.tracer]. In GitHub Actions, what fails is annotated at its line.
Exit code 0: nothing fails; 1: something does; 2: wrong usage or input; 3: nothing fails, and a trace is partial."""


@click.command("check", epilog=EXAMPLES, short_help="Fail when a trace holds findings that nobody accepted.")
@click.argument("traces", nargs=-1, required=True, metavar="TRACE...", shell_complete=completing.files)
@click.option(
    "--backend",
    metavar="B",
    shell_complete=completing.backend,
    help="Judge for this backend; by default each call's own device.",
)
@click.option(
    "--torch", "torch_version", metavar="V", shell_complete=completing.release, help="Judge for this version of torch."
)
@click.option(
    "--settings",
    metavar="S",
    shell_complete=completing.settings,
    help="Judge under recorded, default, warn or deterministic settings.",
)
@click.option(
    "--host",
    multiple=True,
    metavar="GLOB",
    help="Judge these files, lines, functions or modules for cpu: they run on the host.",
)
@click.option("--strict", is_flag=True, help="Call a torch newer than the tables unknown; guess nothing.")
@click.option(
    "--fail-on",
    metavar="V[,V]",
    shell_complete=completing.verdicts_and_new,
    help="Verdicts that fail, and `new`.  [default: raises,nondeterministic]",
)
@click.option(
    "--select",
    multiple=True,
    metavar="GLOB",
    shell_complete=completing.rules,
    help="Look at these rules, ops, modules or files only.",
)
@click.option(
    "--ignore",
    multiple=True,
    metavar="GLOB",
    shell_complete=completing.rules,
    help="Pass over these rules, ops, modules or files.",
)
@click.option(
    "--baseline",
    metavar="FILE",
    shell_complete=completing.files,
    help=f"Accept what this lock file accepts, such as {BASELINE}.",
)
@click.option("--allow-no-training", is_flag=True, help="Pass a recording in which no optimizer stepped.")
@click.option("--update-baseline", is_flag=True, help="Accept every finding; keep the reasons that stand there.")
@click.option(
    "--format",
    "formats",
    metavar="F[,F]",
    shell_complete=completing.formats,
    help="Write the report too: as for tracer report.",
)
@click.option(
    "-o",
    "--output",
    metavar="PATH",
    shell_complete=completing.files,
    help="Where the report goes: as for tracer report.",
)
@verbosity
def command(
    traces: tuple[str, ...],
    backend: str | None,
    torch_version: str | None,
    settings: str | None,
    host: tuple[str, ...],
    strict: bool,
    fail_on: str | None,
    select: tuple[str, ...],
    ignore: tuple[str, ...],
    baseline: str | None,
    allow_no_training: bool,
    update_baseline: bool,
    formats: str | None,
    output: str | None,
    quiet: bool,
    verbose: bool,
) -> int:
    """Judge TRACE and exit with 1 when the gate fails.

    A finding fails when its verdict is one of --fail-on and neither the baseline nor a comment at its line of code
    accepts it. A recording in which no optimizer stepped fails too: it says nothing of a training.
    """
    from tracer.gate.configuration import load_configuration
    from tracer.gate.gating import DEFAULT_FAIL_ON, Gate, acceptances, decide, parse_fail_on, places_of

    detail = detail_of(quiet=quiet, verbose=verbose)
    configured = load_configuration(Path.cwd())
    wanted = destinations(formats, output, inputs=traces) if formats or output else ()
    verdicts, new = parse_fail_on(fail_on or ",".join(configured.fail_on) or ",".join(DEFAULT_FAIL_ON))
    gate = Gate(verdicts, new, select or configured.select, ignore or configured.ignore)
    lock = baseline or configured.baseline
    if update_baseline and not lock:
        raise UsageError("--update-baseline needs a file to write", hint=f"add --baseline {BASELINE}")
    accepted = _accepted(lock, may_be_missing=update_baseline)
    with progress("judging"):
        from tracer.gate.suppressions import Suppressions, host_lines
        from tracer.session import findings_of_others, judge
        from tracer.trace import load_trace, merge_traces

        recordings = [load_trace(path) for path in traces]
        trace = merge_traces(recordings)
        target: dict[str, Any] = {
            "backend": backend or configured.backend,
            "torch": torch_version or configured.torch,
            "settings": settings or configured.settings,
            "strict": strict or configured.strict,
            "host": (*(host or configured.host), *host_lines(trace.calls, Path.cwd())),
        }
        report = judge(trace, **target)
        found = (*report.findings, *findings_of_others(report, recordings, **target))
        comments = Suppressions(Path.cwd())
        decision = decide(found, gate, accepted=accepted, is_silenced=comments.silences, today=datetime.date.today())
    report = replace(
        report,
        accepted=acceptances(report.findings, decision, accepted, lambda one: _reason(comments.comment_on(one))),
        failing=places_of(report.findings, decision.failing),
    )
    if wanted:
        write_rendered(report, render_report(report, wanted, detail=detail))
    if update_baseline:
        return _update(lock, decision, accepted)
    from tracer.report.files.annotations import annotated, folder_below

    if said := printed_lines(decision, detail):
        show(said)
    if os.environ.get("GITHUB_ACTIONS") == "true":
        for line in annotated(decision.failing, folder_below(os.environ.get("GITHUB_WORKSPACE"))):
            show(line)
    untrained = "" if allow_no_training or configured.allow_no_training else _untrained(trace)
    if report.judgement.nothing_computed:
        untrained = "nothing was computed, the step was recorded on meta tensors"
    show(summary(decision, untrained, is_partial=bool(trace.partial)))
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


def _reason(comment: Comment | None) -> str:
    return comment.reason if comment is not None else ""


def _accepted(lock: str, *, may_be_missing: bool) -> tuple[Accepted, ...]:
    from tracer.gate.baseline import read_baseline

    if not lock or (may_be_missing and not os.path.exists(lock)):
        return ()
    return read_baseline(lock)


def _update(lock: str, decision: Decision, before: tuple[Accepted, ...]) -> int:
    """Write the baseline that accepts what stands, and say what changed in it."""
    from tracer.gate.baseline import risk_of, updated, write_baseline

    found = updated([*decision.failing, *decision.passing, *decision.compared.known], before)
    after = (*found, *decision.unlooked)
    write_baseline(lock, after)
    old, new = {line.risk for line in before}, {line.risk for line in after}
    past = {risk_of(finding) for finding in decision.compared.expired}
    ended = f", {len(past):,} of them past their day: give them another, or mend what they accept" if past else ""
    show(
        f"tracer check: {lock} accepts {len(after):,} findings: {len(new - old):,} added, {len(old - new):,} dropped,"
        f" {len(new & old):,} kept{ended}"
    )
    return 0


def _untrained(trace: Trace) -> str:
    """Why a whole recording without an optimizer's step says nothing of a training; empty where it holds one."""
    from tracer.names import Training

    if trace.partial:  # which has an exit code of its own
        return ""
    if trace.training not in (Training.NONE, Training.ELSEWHERE):
        return ""
    unfollowed = ", and processes were started that were not followed" if trace.training is Training.ELSEWHERE else ""
    return f"no optimizer step was recorded{unfollowed} (--allow-no-training accepts that)"


def summary(decision: Decision, untrained: str = "", *, is_partial: bool = False) -> str:
    """The one line that says how the gate ended, and what was let through."""
    compared = decision.compared
    failing: tuple[Finding, ...] = decision.failing
    failed = set(map(id, failing))
    parts = [
        (len([finding for finding in compared.new if id(finding) in failed]), "new"),
        (len([finding for finding in compared.worsened if id(finding) in failed]), "worsened"),
        (len([finding for finding in compared.expired if id(finding) in failed]), "expired"),
    ]
    counts = [f"{count:,} {what}" for count, what in parts if count]
    through = [
        (len(compared.known), "accepted"),
        (len(decision.silenced), "silenced by comments"),
        (len(decision.ignored), "not selected"),
        (len(decision.passing), "below the gate"),
    ]
    rest = [f"{count:,} {what}" for count, what in through if count]
    if compared.fixed:
        rest.append(f"{len(compared.fixed):,} accepted and found no longer: update the baseline")
    if untrained:
        counts.append(untrained)
    unfailed = "nothing fails in the part that was recorded" if is_partial else "passed"
    ending = f"failed: {', '.join(counts)}" if counts else unfailed
    return f"tracer check: {ending}{'; ' if rest else ''}{', '.join(rest)}"
