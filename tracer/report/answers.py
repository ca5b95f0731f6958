"""The three questions that a report answers first, each in figures and one plain sentence.

The wording never calls a whole step deterministic: at best it says "no risk found", and on what evidence.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from tracer.findings import Finding, Target
from tracer.names import Cause, EvidenceKind, Verdict
from tracer.plan import Step, is_mode_on, name_of, place_of, step_of
from tracer.report.plain import one_line
from tracer.report.words import EVIDENCE_STRENGTH, plural

if TYPE_CHECKING:
    from tracer.report.report import Report

#: Characters from which a path is shortened in a sentence.
_LONG = 40

_NOTHING = "Nothing was recorded, so nothing can be said."

#: Kinds of evidence by how much they weigh.
_STRENGTH = {kind: weight for weight, kind in enumerate(EvidenceKind)}

_RISK = (Verdict.NONDETERMINISTIC, Verdict.CONDITIONAL)

#: Causes by which a conditional call hangs on its data; by others it hangs on the machine or its settings.
_DATA = (Cause.ATOMIC_ACCUMULATION, Cause.TIE_ORDER, Cause.WRITE_RACE, None)


class Figure(NamedTuple):
    """One number of an answer."""

    value: int
    label: str
    verdict: Verdict | None = None
    """The verdict whose colour and sign it bears, if it is about one."""
    sites: int | None = None
    """Distinct places behind the count, where that says something."""


class Answer(NamedTuple):
    """A question, its figures, and the sentence to take away."""

    question: str
    sentence: str
    figures: tuple[Figure, ...]


def answers(report: Report) -> tuple[Answer, Answer, Answer]:
    """The answers to the three questions, in the user's order."""
    return _can_runs_differ(report), _what_does_the_mode_do(report), _what_to_change(report)


def headline(report: Report) -> tuple[Verdict, str]:
    """The whole report in one short sentence, and the verdict whose colour it bears."""
    tally = report.tally
    if not tally.total:
        return Verdict.UNKNOWN, "Nothing was recorded"
    if tally[Verdict.RAISES]:
        return Verdict.RAISES, "The step would stop with an error"
    if tally[Verdict.NONDETERMINISTIC]:
        return Verdict.NONDETERMINISTIC, "Two runs of this step can differ"
    if tally[Verdict.CONDITIONAL]:
        return Verdict.CONDITIONAL, f"Two runs can differ {_condition(report)}"
    if tally[Verdict.UNKNOWN]:
        return Verdict.UNKNOWN, "No risk found in what is known"
    if tally[Verdict.SEEDED]:
        return Verdict.SEEDED, "No risk found once seeded"
    return Verdict.DETERMINISTIC, "No risk found"


def evidence_counts(findings: Iterable[Finding]) -> list[tuple[str, int]]:
    """How many findings rest on which kind of evidence at best, strongest first; those with none last."""
    best = Counter(max([_STRENGTH[e.kind] for e in one.evidence], default=-1) for one in findings)
    kinds = list(EvidenceKind)
    named = [(EVIDENCE_STRENGTH[kinds[i]], best[i]) for i in reversed(range(len(kinds))) if best[i]]
    return named + ([("without evidence", best[-1])] if best[-1] else [])


def _can_runs_differ(report: Report) -> Answer:
    tally = report.tally
    risky = [one for one in report.findings if one.verdict in _RISK]
    refused = [one for one in report.findings if one.verdict is Verdict.RAISES]
    unknown = [one for one in report.findings if one.verdict is Verdict.UNKNOWN]
    at_risk = tally[Verdict.NONDETERMINISTIC] + tally[Verdict.CONDITIONAL]
    total = plural(tally.total, "recorded call")
    if not tally.total:
        sentence = _NOTHING
    elif refused:
        sentence = (
            f"The step stops before that question: {plural(tally[Verdict.RAISES], 'call')} "
            f"at {plural(_sites(refused), 'place')} would raise, first at {_where(refused[0])}."
        )
    elif at_risk:
        sure = "Yes" if tally[Verdict.NONDETERMINISTIC] else f"Only {_condition(report)}"
        sentence = (
            f"{sure}: {at_risk:,} of {total}, from {plural(_sites(risky), 'place')}, can give different "
            f"bits{_most(risky)}."
        )
    elif unknown:
        sentence = (
            f"No risk found in what is known; for {plural(tally[Verdict.UNKNOWN], 'call')} at "
            f"{plural(_sites(unknown), 'place')} there is no answer."
        )
    elif tally[Verdict.SEEDED]:
        sentence = f"Not once seeded: no other risk found in {total}."
    else:
        sentence = (
            f"No risk found in {total}. The evidence is the tables' rules and, for ops that no rule names, "
            f"the vendor's documentation."
        )
    return Answer(
        "Can two runs of my step differ, and because of which lines of mine?",
        sentence,
        (
            *_verdict_figures(report, Verdict.RAISES, only_if_any=True),
            *_verdict_figures(report, Verdict.NONDETERMINISTIC),
            *_verdict_figures(report, Verdict.CONDITIONAL),
            *_verdict_figures(report, Verdict.UNKNOWN),
        ),
    )


def _condition(report: Report) -> str:
    """What conditional calls hang on, in three words."""
    conditional = (one for one in report.findings if one.verdict is Verdict.CONDITIONAL)
    return "for some data" if all(one.cause in _DATA for one in conditional) else "under some conditions"


def _what_does_the_mode_do(report: Report) -> Answer:
    question = "If I switch deterministic mode on, what becomes deterministic, and what raises?"
    fixed = [one for one in report.findings if _changes_to(one, Verdict.DETERMINISTIC)]
    raising = [one for one in report.findings if one.deterministic_mode is Verdict.RAISES]
    stays = [
        one
        for one in report.findings
        if one.deterministic_mode in (*_RISK, Verdict.UNKNOWN) and one.verdict is not Verdict.DETERMINISTIC
    ]
    figures = (
        Figure(_calls(fixed), "become deterministic", Verdict.DETERMINISTIC, _sites(fixed)),
        Figure(_calls(raising), "raise", Verdict.RAISES, _sites(raising)),
        Figure(_calls(stays), "stay at risk or unknown", Verdict.UNKNOWN, _sites(stays)),
    )
    sentence = _mode_sentence(report.target, fixed, raising, stays) if report.tally.total else _NOTHING
    return Answer(question, sentence, figures)


def _mode_sentence(target: Target, fixed: list[Finding], raising: list[Finding], stays: list[Finding]) -> str:
    if is_mode_on(target):
        if not raising and not stays:
            return "It is on for this target already; no call that was recorded raises."
        return (
            f"It is on for this target already: {plural(_calls(raising), 'call raises', 'calls raise')} and "
            f"{plural(_calls(stays), 'call stays', 'calls stay')} at risk or unknown."
        )
    if not fixed and not raising and not stays:
        return "It changes no verdict: nothing that was recorded needs it, and nothing raises."
    parts = []
    if fixed:
        parts.append(f"it settles {plural(_calls(fixed), 'call')} at {plural(_sites(fixed), 'place')}")
    if raising:
        sites = _sites(raising)
        where = _where(raising[0])
        at = f"at {where}, until that is" if sites == 1 else f"at {sites:,} places, first {where}, until they are"
        parts.append(f"it stops the step with an error {at} changed as planned")
    if stays:
        parts.append(f"it does nothing known for {plural(_calls(stays), 'call')}")
    text = "; ".join(parts)
    return f"{text[0].upper()}{text[1:]}."


def _what_to_change(report: Report) -> Answer:
    plan = report.plan
    steps = Counter(step_of(one, report.target) for one in report.findings)
    unknown = steps[Step.UNKNOWN]
    settled = len(report.findings) - unknown
    to_make = [change for change in plan if change.code]
    by_hand = len(plan) - len(to_make) - sum(1 for _ in _unknown_reasons(report))
    if not report.tally.total:
        sentence = "Record a step first: no op ran while recording."
    elif not report.findings:
        sentence = "Nothing: no change is known that would help. The proof is two runs from one seed, compared."
    elif not settled:
        sentence = f"Nothing yet: {plural(unknown, 'finding')} must be found out first; the plan says how."
    else:
        sentence = (
            f"{_lines(len(to_make), by_hand)} {'close' if len(to_make) + by_hand != 1 else 'closes'} "
            f"{settled:,} of {plural(len(report.findings), 'finding')}; "
            f"the proof is two runs from one seed, compared bit by bit."
        )
    return Answer(
        "What exactly do I change so that it is reproducible, and is the proof there?",
        sentence,
        (
            Figure(len(to_make), "lines of settings" if len(to_make) != 1 else "line of settings"),
            Figure(by_hand, "code edits" if by_hand != 1 else "code edit"),
            Figure(unknown, "findings to find out" if unknown != 1 else "finding to find out"),
        ),
    )


def _unknown_reasons(report: Report) -> set[object]:
    return {one.reason for one in report.findings if step_of(one, report.target) is Step.UNKNOWN}


def _lines(settings: int, by_hand: int) -> str:
    parts = []
    if settings:
        parts.append(plural(settings, "line of settings", "lines of settings"))
    if by_hand:
        parts.append(plural(by_hand, "code edit"))
    return " and ".join(parts)


def _verdict_figures(report: Report, verdict: Verdict, *, only_if_any: bool = False) -> tuple[Figure, ...]:
    if only_if_any and not report.tally[verdict]:
        return ()
    sites = _sites(one for one in report.findings if one.verdict is verdict)
    return (Figure(report.tally[verdict], verdict.value, verdict, sites),)


def _most(risky: list[Finding]) -> str:
    """Which place has most of the calls, where one stands out enough to be named."""
    if not risky:
        return ""
    places: Counter[tuple[str, str]] = Counter()
    for one in risky:
        led_here = f", called from {_brief(one.called_from)}" if one.location and one.called_from else ""
        places[(f"{_where(one)}{led_here}", one_line(name_of(one.op), 2 * _LONG))] += one.count
    (place, op), calls = places.most_common(1)[0]
    return f"; {f'the most ({calls:,})' if len(places) > 1 else 'all'} through {op} at {place}"


def _changes_to(finding: Finding, verdict: Verdict) -> bool:
    return finding.deterministic_mode is verdict and finding.verdict not in (verdict, Verdict.SEEDED)


def _where(finding: Finding) -> str:
    """The place as a sentence can bear it: of a long path, the file alone."""
    return _brief(finding.location or place_of(finding))


def _brief(place: str) -> str:
    """``place``; of a long path, the file alone."""
    _, slash, file = place.rpartition("/")
    return one_line(f"…/{file}" if slash and len(place) > _LONG else place, 2 * _LONG)


def _sites(findings: Iterable[Finding]) -> int:
    return len({place_of(one) for one in findings})


def _calls(findings: Iterable[Finding]) -> int:
    return sum(one.count for one in findings)
