"""What stands first: the headline, what was judged, and the questions with their answers.

No whole step is called deterministic: at best "no risk found", on what evidence, and what was not judged.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from tracer.findings import Finding, Judgement
from tracer.names import (
    AT_RISK,
    SEVERITY,
    VARYING,
    About,
    BlindSpotKind,
    EvidenceKind,
    Gradients,
    Phase,
    RegionInside,
    Training,
    Verdict,
)
from tracer.plain import one_line
from tracer.plan import PlanStep, is_mode_on, is_settled, place_of, step_of
from tracer.report import Report
from tracer.report import blocks as said
from tracer.report.blocks import Reader, Section
from tracer.report.sections.calls import tally_of
from tracer.report.sections.plan import asks_for_mode
from tracer.report.words import (
    GUARANTEE,
    calls_behind,
    conditions_of,
    first_sentence,
    is_call,
    joined,
    of_the_process,
    plural,
    sites_of,
    some,
    steps_in_words,
    subject_of,
    target_words,
)
from tracer.tables.settings import MODE
from tracer.tables.versions import reviewed_in_words

#: Where no optimizer stepped: the headline if nothing else is at risk.
WITHOUT_TRAINING = {
    Training.NONE: "No optimizer step was recorded: nothing is known of a training",
    Training.ELSEWHERE: "No optimizer step was recorded, and processes were started that were not followed:"
    " nothing is known of a training",
}

#: Characters from which a path is shortened in a sentence.
_LONG = 40

_NOTHING = "Nothing was recorded, so nothing can be said."


def head_of(report: Report) -> said.Head:
    """Return the text above all sections."""
    judgement = report.judgement
    verdict, line, caveats = _headline(report)
    inference = ""
    if judgement.training is Training.INFERENCE:
        left_on = any(source.gradients is Gradients.EVALUATING for source in judgement.trace.sources)
        inference = "inference in evaluation mode, with gradients left on" if left_on else "inference without gradients"
    judged = f"{inference.capitalize()}. " if inference else ""
    backend, settings = target_words(judgement)
    reviewed = (
        (f"Table {name}, reviewed for", f"torch {reviewed_in_words(versions)}")
        for name, versions in sorted(judgement.tables.items())
    )
    head = said.Head(
        verdict=verdict,
        headline=line,
        caveats=caveats,
        kicker="Determinism report",
        traced=" · ".join(filter(None, _traced(report, inference))),
        judged=f"{judged}Judged for {backend}, torch {report.target.torch}, settings {settings}.",
        target=(("Backend", backend), ("torch", report.target.torch), ("Settings", settings), *reviewed),
        tally=tally_of(report),
        conditions=conditions_of(filter(is_call, report.findings)),
        in_mode=_mode_figures(report, "fixed", "raises", "no effect"),
        findings=len(report.open_findings),
        guarantee=GUARANTEE,
        banners=report.banners,
    )
    if report.repeated is None:
        return head
    from tracer.report.sections.runs import head_of_runs

    return head_of_runs(head, report.repeated)


def _traced(report: Report, inference: str) -> Iterator[str]:
    """Yield what the recording is made of: names, recordings, ranks, optimizer steps, calls."""
    sources = report.judgement.trace.sources
    yield some(list(dict.fromkeys(source.name for source in sources if source.name)), 3)
    yield plural(len(sources), "recording") if len(sources) > 1 else ""
    ranks = len({source.rank for source in sources if source.rank is not None})
    yield plural(ranks, "rank") if ranks else ""
    steps = max((source.optimizer_steps for source in sources), default=0)
    by_hand = max((source.steps_by_hand for source in sources), default=0)
    yield inference or steps_in_words(steps, by_hand, report.judgement.training)
    yield plural(report.tally.total, "call")


def _program(report: Report) -> str:
    """Return the name of the program that was run."""
    return "inference" if report.judgement.training is Training.INFERENCE else "step"


def headline(report: Report) -> tuple[Verdict, str]:
    """The whole report in one sentence, its caveats included, and the verdict whose colour it bears."""
    verdict, line, caveats = _headline(report)
    return verdict, "; ".join((line, *caveats))


def _headline(report: Report) -> tuple[Verdict, str, tuple[str, ...]]:
    """The verdict in a few words, and the caveats without which it would say too much."""
    verdict, line, caveats = _of_tables(report)
    sources = report.judgement.trace.sources
    if fake := sum(source.fake_calls for source in sources):
        calls = sum(source.calls for source in sources)
        share = "" if fake >= 0.9 * calls else f" in {fake:,} of {calls:,} calls"
        limits = "ops, shapes, modules, lines and settings are real; values, memory and kernels picked by data are not"
        caveats = (f"recorded on fake tensors{share}: {limits}", *caveats)
    return verdict, line, (*_shared_parameters(report), *caveats, *_at_this_size(report))


def _at_this_size(report: Report) -> Iterator[str]:
    """Yield for each op what repeats at the recorded sizes alone, how it varies at others, and what to do about it."""
    bounds = report.judgement.at_this_size
    for bound in bounds[:2]:
        count, why = sum(bound.calls.values()), first_sentence(bound.why).removesuffix(".")
        advice = "if the real run is larger, record it too"
        if bound.is_settled_by_mode and asks_for_mode(report):
            advice = "deterministic mode, which the plan turns on, settles that too"
        yield (
            f"at this size only, {plural(count, 'call')} of {bound.op} ({some(list(bound.calls), 2)})"
            f" repeat{'s' * (count == 1)}: {why[:1].lower()}{why[1:]}; {advice}"
        )
    if more := [bound.op for bound in bounds[2:]]:
        yield f"at this size only, calls of {some(more, 2)} repeat too"


def _shared_parameters(report: Report) -> Iterator[str]:
    """Yield where parameters were put into memory that processes share: what races there is in no call."""
    shared = dict.fromkeys(spot.location for spot in report.blind_spots if spot.kind is BlindSpotKind.SHARED_MEMORY)
    stepping = (group for group in report.judgement.trace.calls if group.phase is Phase.OPTIMIZER)
    steps = list(dict.fromkeys(group.called_from or group.location for group in stepping))
    if shared:
        yield (
            f"parameters lie in memory that processes share ({some(list(shared), 2)}): if several of them write there"
            f" without a lock{f' (optimizer steps at {some(steps, 2)})' if steps else ''}, runs differ whatever the"
            " settings; let one process write, or give each a model of its own and average"
        )


def _of_tables(report: Report) -> tuple[Verdict, str, tuple[str, ...]]:
    judgement, verdicts = report.judgement, met(report)
    untrained = WITHOUT_TRAINING.get(judgement.training, "")
    if not verdicts:
        elsewhere = ("processes were started that were not followed",)
        return Verdict.UNKNOWN, "Nothing was recorded", elsewhere * (judgement.training is Training.ELSEWHERE)
    verdict = Verdict.CONDITIONAL if set_up_alone(report) else min(verdicts, key=SEVERITY.index)
    if verdict in AT_RISK:
        risk = {
            Verdict.RAISES: f"The {_program(report)} would stop with an error",
            Verdict.NONDETERMINISTIC: f"Two runs of this {_program(report)} can differ",
            Verdict.CONDITIONAL: f"Two runs can differ {condition(report)}",
        }
        return verdict, risk[verdict], ("no optimizer step was recorded",) if untrained else ()
    if report.diverged:
        return Verdict.NONDETERMINISTIC, "Runs differed where the tables know of no risk", ()
    if judgement.nothing_computed:
        return Verdict.UNKNOWN, "Nothing was computed: the step was recorded on meta tensors", ()
    if untrained:
        return Verdict.UNKNOWN, untrained, ()
    if judgement.meta_calls:  # also where these count as deterministic, being judged for their own device
        verdict = Verdict.UNKNOWN
    calls = plural(report.tally.total, "call")
    data = " for the data of this run" if judgement.observed else ""
    scope = f" in what is known of {calls}" if verdict is Verdict.UNKNOWN else f" in {calls}"
    drawing = (finding for finding in report.findings if finding.verdict is Verdict.SEEDED)
    repeat = all(step_of(finding, report.target) in (PlanStep.NOTHING, PlanStep.EVALUATION) for finding in drawing)
    scope += " once seeded" if verdict is Verdict.SEEDED and not repeat else ""
    raising = calls_behind(report.mode_effect.raises)
    missing = ", ".join(unseen(report))
    memory = ""
    if judgement.fill is not None and judgement.fill.unfollowed:
        calls = plural(judgement.fill.unfollowed, "call")
        memory = f"whether memory that {calls} left unwritten is read before it is written, "
    # Files and clocks differ between processes and show in no op.
    judges = f"files and clocks that Python reads; `tracer repeat` judges {'both' if missing else 'that'}"
    caveats = (
        f"{plural(raising, 'call')} would raise in deterministic mode" if raising else "",
        f"not seen: {missing}" if missing else "",
        f"not judged: {memory}{judges}",
        "draws that were seen are seeded" if verdict is Verdict.SEEDED and repeat else "",
    )
    return verdict, f"No risk found{data}{scope}", tuple(filter(None, caveats))


def unseen(report: Report) -> tuple[str, ...]:
    """Return the parts of the program that were not seen, a few words each: a seed may lie in them, or a whole step."""
    kinds = {spot.kind for spot in report.blind_spots}
    hidden = (RegionInside.UNSEEN, RegionInside.KERNELS)  # their calls are in no tally
    if any(region.executions and region.inside in hidden for region in report.judgement.trace.regions):
        kinds.add(BlindSpotKind.COMPILED)
    before = ("what ran before recording",) if report.judgement.watched_from_start is False else ()
    return (*before, *dict.fromkeys(kind.headline for kind in BlindSpotKind if kind.headline and kind in kinds))


def met(report: Report) -> set[Verdict]:
    """The verdicts that hold as the settings stand, of calls and of the process; empty where nothing was recorded."""
    of_process = {finding.verdict for finding in report.findings if not is_call(finding)}
    return of_process | {verdict for verdict, count in report.tally.as_is.items() if count}


def condition(report: Report) -> str:
    """Return the conditions that conditional findings depend on, in a few words."""
    if set_up := set_up_alone(report):
        places = list(dict.fromkeys(finding.called_from or finding.location for finding in set_up))
        return f"if {some(places, 2, ' and ')} run{'s' * (len(places) == 1)} on the device, not on the host"
    conditional = [finding for finding in report.findings if finding.verdict is Verdict.CONDITIONAL]
    if all(finding.about is About.GENERATOR for finding in conditional):
        is_inference = report.judgement.training is Training.INFERENCE
        return f"if numbers of the machine's reach the {'inference' if is_inference else 'training'}"
    return conditions_of(conditional) or "under some conditions"


def set_up_alone(report: Report) -> list[Finding]:
    """Return the findings at risk if all of them may stay on the host, or are settings that matter for these alone."""
    risky = [finding for finding in report.findings if finding.verdict in AT_RISK]
    set_up = [finding for finding in risky if finding.may_be_host]
    ops = {finding.op for finding in set_up}
    of_them = (one.may_be_host or (one.about is About.SETTING and one.ops and ops.issuperset(one.ops)) for one in risky)
    return set_up if all(of_them) else []


# --- the questions ----------------------------------------------------------------------------------------


def questions(report: Report, reader: Reader) -> Section | None:
    """Whether runs can differ, and what the mode does; what to change is the plan's. One screen adds to the plan."""
    if reader.is_one_screen:
        does = said.paragraphs(_mode_where_it_matters(report))
        return Section(anchor="answers", title="", label="Answers", blocks=does) if does else None
    has_calls = bool(met(report))
    mode = said.Card(
        "If I switch deterministic mode on, what becomes deterministic, and what raises?",
        _mode_sentence(report) if has_calls else _NOTHING,
        _mode_figures(report, "become deterministic", "raise", "stay at risk or unknown"),
    )
    can_differ = said.Card(
        f"Can two runs of my {_program(report)} differ, and because of which lines of mine?",
        _can_differ(report) if has_calls or report.diverged else _NOTHING,
        tuple(_risk_figures(report)),
    )
    cards = said.Cards((can_differ, mode))
    blocks = (cards, said.quiet(GUARANTEE)) if reader.is_whole else (cards,)
    return Section(anchor="answers", title="", label="Answers", blocks=blocks)


def _can_differ(report: Report) -> str:
    """The headline, then what of the calls and of the process it rests on."""
    if report.diverged and report.repeated is not None:
        from tracer.report.sections.runs import repeated_headline

        return f"Yes, runs of it did. {repeated_headline(report.repeated)}."
    parts = [headline(report)[1]]
    by_state = ("Raising", Verdict.RAISES), ("At risk", *VARYING), ("Unknown", Verdict.UNKNOWN)
    for state, *verdicts in by_state:
        if found := [finding for finding in report.findings if finding.verdict in verdicts]:
            parts.append(f"{state}: {_calls_and_things(found, sites=True)}")
    if settled := sum(finding.count for finding in report.judgement.observed):
        parts.append(f"For {plural(settled, 'call')} that rests on the data of this run")
    return f"{'. '.join(parts)}."


def _risk_figures(report: Report) -> Iterator[said.Figure]:
    """Yield calls by each verdict that is none to leave alone, and what is at risk of the process."""
    for verdict in (Verdict.RAISES, *VARYING, Verdict.UNKNOWN):
        if verdict is not Verdict.RAISES or report.tally[verdict]:
            sites = sites_of(finding for finding in report.findings if finding.verdict is verdict)
            yield said.Figure(report.tally[verdict], verdict.value, verdict, sites)
    risky = [one.verdict for one in report.findings if one.verdict in AT_RISK and not is_call(one)]
    if risky:
        yield said.Figure(len(risky), "of the process", min(risky, key=SEVERITY.index))


def evidence_counts(findings: Iterable[Finding]) -> list[tuple[str, int]]:
    """Return the number of findings by their best kind of evidence, strongest first; those without evidence last."""
    kinds = list(EvidenceKind)
    best = Counter(max([kinds.index(e.kind) for e in finding.evidence], default=-1) for finding in findings)
    named = [(kinds[i].says, best[i]) for i in reversed(range(len(kinds))) if best[i]]
    return named + ([("without evidence", best[-1])] if best[-1] else [])


def unnamed_sentence(judgement: Judgement) -> str:
    """Return the basis of "deterministic" for calls of ops that no rule names; empty if there are none."""
    launched, documented = map(judgement.unnamed.get, (EvidenceKind.DISPATCHED, EvidenceKind.DOCUMENTED), (0, 0))
    if not launched:
        documents = "The evidence is the tables' rules and, for ops that no rule names, the vendor's documentation"
        return f"{documents}: {plural(documented, 'call')}." if documented else ""
    alone = f"; for {documented:,} the vendor's documentation alone speaks" if documented else ""
    return (
        f"Of the {plural(launched + documented, 'call')} that no rule names, {launched:,} are of ops that builds of"
        f" torch were seen to run without an atomic addition{alone}."
    )


def _mode_figures(report: Report, *labels: str) -> tuple[said.Figure, ...]:
    """The calls, and places, that deterministic mode settles, raises at, and does nothing for."""
    verdicts = (Verdict.DETERMINISTIC, Verdict.RAISES, Verdict.UNKNOWN)
    each = zip(report.mode_effect, labels, verdicts, strict=True)
    return tuple(said.Figure(calls_behind(group), label, verdict, sites_of(group)) for group, label, verdict in each)


def _mode_where_it_matters(report: Report) -> str:
    """What deterministic mode does where it is on or raises unasked; empty where the plan says as much."""
    refused = list(filter(is_call, report.mode_effect.raises))
    if is_mode_on(report.target):
        return f"Deterministic mode: {_mode_sentence(report)}" if report.plan else ""
    if not refused or asks_for_mode(report):
        return ""
    more = f" and {len(refused) - 1} more" if len(refused) > 1 else ""
    return (
        f"Nothing here asks for deterministic mode: it would stop the {_program(report)} with an error at"
        f" {_where(refused[0])} ({subject_of(refused[0])}){more}."
    )


def _mode_sentence(report: Report) -> str:
    fixed, raising, stays = report.mode_effect
    blocks = [finding for finding in report.findings if MODE in finding.settings]
    if is_mode_on(report.target) and not blocks:
        if not raising and not stays:
            return "It is on for this target already; no call that was recorded raises."
        beside = joined(of_the_process([*raising, *stays]))
        also = f"; beside them stand {beside}" if beside else ""
        raises = plural(calls_behind(raising), "call raises", "calls raise")
        stay = plural(calls_behind(stays), "call stays", "calls stay")
        return f"It is on for this target already: {raises} and {stay} at risk or unknown{also}."
    if not fixed and not raising and not stays:
        return "It changes no verdict: nothing that was recorded needs it, and nothing raises."
    parts = [f"it is on, but for {plural(calls_behind(blocks), 'call')} here"] if is_mode_on(report.target) else []
    named = [finding for finding in fixed if finding.about not in (About.SETTING, About.COMPILED)]
    if fixed := named or ([] if raising or stays else fixed):
        parts.append(f"it settles {_calls_and_things(fixed, sites=True)}")
    if calls_behind(raising):
        sites = sites_of(raising)
        where = _where(next(filter(is_call, raising)))
        at = f"at {where}, until that is" if sites == 1 else f"at {sites:,} places, first {where}, until they are"
        parts.append(f"it stops the {_program(report)} with an error {at} changed as planned")
    elif raising:
        parts.append(f"it stops the {_program(report)} with an error because of {joined(of_the_process(raising))}")
    helped = [finding for finding in stays if is_call(finding) and MODE in finding.sets and is_settled(finding)]
    if helped:
        parts.append(f"for {_calls_and_things(helped)} it needs the plan's other settings too")
    if stays := [finding for finding in stays if finding not in helped]:
        parts.append(f"it does nothing known for {_calls_and_things(stays)}")
    text = "; ".join(parts)
    return f"{text[0].upper()}{text[1:]}."


def _calls_and_things(findings: list[Finding], *, sites: bool = False) -> str:
    """The calls behind ``findings``, then what they say of the process: ``3 calls at 1 place and 1 setting``."""
    at = f" at {plural(sites_of(findings), 'place')}" if sites else ""
    calls = [f"{plural(calls_behind(findings), 'call')}{at}"] if any(map(is_call, findings)) else []
    return joined([*calls, *of_the_process(findings)])


def _where(finding: Finding) -> str:
    """The place as a sentence can bear it: of a long path, the file alone."""
    place = finding.location or place_of(finding)
    _, slash, file = place.rpartition("/")
    return one_line(f"…/{file}" if slash and len(place) > _LONG else place, 2 * _LONG)
