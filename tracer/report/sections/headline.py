"""What stands above all: the whole report in one short sentence, what was judged, and for what.

The sentence never calls a step deterministic, and says what it does not rest on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracer.names import SEVERITY, About, BlindSpotKind, Cause, RegionInside, Training, Verdict
from tracer.plan import Step, step_of
from tracer.report import blocks as said
from tracer.report.naming import is_call
from tracer.report.sections.targets import mode_effect
from tracer.report.words import GUARANTEE, by_severity, plural, target_words
from tracer.tables.versions import reviewed_in_words

if TYPE_CHECKING:
    from tracer.report.view import ReportView

#: Causes by which a conditional call hangs on its data; by others it hangs on the machine or its settings.
_DATA = (Cause.ATOMIC_ACCUMULATION, Cause.TIE_ORDER, Cause.WRITE_RACE, None)

_NO_RISK = "No risk found"
_RISK = (Verdict.RAISES, Verdict.NONDETERMINISTIC, Verdict.CONDITIONAL)

#: Where no optimizer stepped: the headline if nothing else is at risk.
WITHOUT_TRAINING = {
    Training.NONE: "No optimizer step was recorded: nothing is known of a training",
    Training.ELSEWHERE: "No optimizer step was recorded, and processes were started that were not followed:"
    " nothing is known of a training",
}

#: What went by unseen, in the fewest words; what a backward call came from is no part of it.
_UNSEEN = {
    BlindSpotKind.OTHER_PROCESS: "other processes",
    BlindSpotKind.OTHER_THREAD: "other threads",
    BlindSpotKind.DATALOADER: "loader workers",
    BlindSpotKind.COMPILED: "compiled code",
    BlindSpotKind.COMPILE_FELL_BACK: "compiled code",
    BlindSpotKind.SCRIPTED: "scripted functions",
    BlindSpotKind.TRITON: "Triton kernels",
    BlindSpotKind.CUDA_GRAPH: "CUDA graphs",
    BlindSpotKind.HIGHER_ORDER: "bodies of higher-order ops",
    BlindSpotKind.SUBCLASS: "tensor subclasses",
}


#: What differs between processes and shows in no op.
_NOT_JUDGED = "orders of sets and hashes"

#: Regions whose calls are in no tally.
_NOT_SEEN = (RegionInside.UNSEEN, RegionInside.KERNELS)


NOTHING_COMPUTED = "Nothing was computed: the step was recorded on meta tensors"

#: Of this many percent of the calls on fake tensors, a recording is called one on fake tensors.
_NEARLY_ALL = 90


def head_of(report: ReportView) -> said.Head:
    """What stands above all sections."""
    judgement = report.judgement
    verdict, line = headline(report)
    backend, settings = target_words(judgement)
    effect = mode_effect(report.findings)
    effects = (
        ("fixed", Verdict.DETERMINISTIC, effect.fixed),
        ("raises", Verdict.RAISES, effect.raises),
        ("no effect", Verdict.UNKNOWN, effect.no_effect),
    )
    head = said.Head(
        verdict=verdict,
        headline=line,
        kicker="Determinism report",
        traced=_traced(report),
        judged=f"Judged for {backend}, torch {report.target.torch}, settings {settings}.",
        target=(
            ("Backend", backend),
            ("torch", report.target.torch),
            ("Settings", settings),
            *(
                (f"Table {name}, reviewed for", f"torch {reviewed_in_words(versions)}")
                for name, versions in sorted(judgement.tables.items())
            ),
        ),
        tally=tally_of(report),
        in_mode=tuple(said.Figure(counts.calls, label, verdict, counts.sites) for label, verdict, counts in effects),
        findings=len(report.findings),
        guarantee=GUARANTEE,
        banners=report.banners,
    )
    if report.repeated is None:
        return head
    from tracer.report.sections.runs import head_of_runs

    return head_of_runs(head, report.repeated)


def tally_of(report: ReportView) -> said.Tally:
    """Every recorded call, counted once."""
    return said.Tally(tuple(by_severity(report.tally.as_is)), report.tally.total)


def _traced(report: ReportView) -> str:
    """What was recorded, in one line: recordings, ranks, optimizer steps, calls."""
    sources = report.judgement.sources
    names = list(dict.fromkeys(source.name for source in sources if source.name))
    ranks = len({source.rank for source in sources if source.rank is not None})
    steps = max((source.optimizer_steps for source in sources), default=0)
    rest = f" and {len(names) - 3} more" if len(names) > 3 else ""
    parts = [", ".join(names[:3]) + rest] if names else []
    if len(sources) > 1:
        parts.append(plural(len(sources), "recording"))
    if ranks:
        parts.append(plural(ranks, "rank"))
    parts.append(plural(steps, "optimizer step"))
    parts.append(plural(report.tally.total, "call"))
    return " · ".join(parts)


def headline(report: ReportView) -> tuple[Verdict, str]:
    """The whole report in one short sentence, and the verdict whose colour it bears.

    What holds for the process weighs as much as what holds for a call. Where no risk was found, it names what was not
    seen or judged; where no optimizer stepped, that comes first. A recording on fake tensors is always called one.
    """
    verdict, line = _headline(report)
    fake = sum(source.fake_calls for source in report.judgement.sources)
    if not fake:
        return verdict, line
    calls = sum(source.calls for source in report.judgement.sources)
    told = "" if fake * 100 >= calls * _NEARLY_ALL else f" in {fake:,} of {calls:,} calls"
    return verdict, f"{line}; recorded on fake tensors{told}"


def _headline(report: ReportView) -> tuple[Verdict, str]:
    found = met(report)
    untrained = WITHOUT_TRAINING.get(report.judgement.training, "")
    if not found:
        nothing = "Nothing was recorded"
        if report.judgement.training is Training.ELSEWHERE:
            nothing += ", and processes were started that were not followed"
        return Verdict.UNKNOWN, nothing
    verdict = min(found, key=SEVERITY.index)
    if verdict in _RISK:
        said = {
            Verdict.RAISES: "The step would stop with an error",
            Verdict.NONDETERMINISTIC: "Two runs of this step can differ",
            Verdict.CONDITIONAL: f"Two runs can differ {condition(report)}",
        }
        return verdict, f"{said[verdict]}{'; no optimizer step was recorded' if untrained else ''}"
    if report.judgement.nothing_computed:
        return Verdict.UNKNOWN, NOTHING_COMPUTED
    if untrained:
        return Verdict.UNKNOWN, untrained
    if report.judgement.meta_calls:  # also where these count as deterministic, being judged for their own device
        verdict = Verdict.UNKNOWN
    said = {
        Verdict.UNKNOWN: f"{_NO_RISK} in what is known",
        Verdict.SEEDED: f"{_NO_RISK} once seeded",
        Verdict.DETERMINISTIC: _NO_RISK,
    }
    if verdict is Verdict.SEEDED and draws_repeat(report):
        said[verdict] = f"{_NO_RISK}; the random draws that were seen are seeded"
    if report.judgement.observed:
        said[verdict] = said[verdict].replace(_NO_RISK, f"{_NO_RISK} for the data of this run")
    missing = ", ".join(unseen(report))
    return verdict, f"{said[verdict]} ({f'not seen: {missing}; ' if missing else ''}not judged: {_NOT_JUDGED})"


def unseen(report: ReportView) -> tuple[str, ...]:
    """What of the program went by unseen, a few words each: a seed may lie in it, or a whole step."""
    kinds = {spot.kind for spot in report.blind_spots}
    if any(region.executions and region.inside in _NOT_SEEN for region in report.judgement.regions):
        kinds.add(BlindSpotKind.COMPILED)
    before = ("what ran before recording",) if report.judgement.watched_from_start is False else ()
    return (*before, *dict.fromkeys(words for kind, words in _UNSEEN.items() if kind in kinds))


def met(report: ReportView) -> set[Verdict]:
    """The verdicts that hold as the settings stand, of calls and of the process; empty where nothing was recorded."""
    of_process = {finding.verdict for finding in report.findings if not is_call(finding)}
    return of_process | {verdict for verdict, count in report.tally.as_is.items() if count}


def draws_repeat(report: ReportView) -> bool:
    """Is nothing left to seed: does every generator that was seen to be drawn from start alike in every run?"""
    drawing = (finding for finding in report.findings if finding.verdict is Verdict.SEEDED)
    return all(step_of(finding, report.target) is Step.NOTHING for finding in drawing)


def condition(report: ReportView) -> str:
    """What conditional findings hang on, in a few words."""
    conditional = [finding for finding in report.findings if finding.verdict is Verdict.CONDITIONAL]
    if all(finding.about is About.GENERATOR for finding in conditional):
        return "if numbers of the machine's reach the training"
    return "for some data" if all(finding.cause in _DATA for finding in conditional) else "under some conditions"
