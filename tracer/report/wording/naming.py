"""How a finding is called (by its op and place, or by its subject), and what a change asks for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from tracer.findings import Change, Finding, Need
from tracer.names import About, Phase, Prerequisite, Verdict
from tracer.plan import name_of
from tracer.report.wording.words import ABOUT, number, plural

#: What there is once in a process, at however many places it shows.
_EVERYWHERE = (About.SETTING, About.GENERATOR)


def is_call(finding: Finding) -> bool:
    """Does ``finding`` speak of recorded calls, which the tally counts?"""
    return finding.about is About.CALL


def subject_of(finding: Finding) -> str:
    """The op or, where there is none, what of the process it is."""
    return name_of(finding.op) or finding.subject or finding.rule


def runs_as_of(finding: Finding) -> str:
    """``, which runs as aten._cudnn_rnn``, for an op that is another one on the target; empty for others."""
    return f", which runs as {name_of(finding.runs_as)}" if finding.runs_as else ""


def is_suggestion(change: Change) -> bool:
    """Does ``change`` close nothing, nor help another to? It only saves time."""
    return not change.closes and not change.sets


def worth(change: Change) -> str:
    """What ``change`` is worth: ``closes 2 findings, 24 calls``."""
    if not change.closes:
        return "a suggestion: it closes no finding" if is_suggestion(change) else "needed with the others"
    calls = f", {plural(change.calls, 'call')}" if change.calls else ""
    seen = f", {change.seen:,} of them seen to differ" if change.seen else ""
    return f"closes {plural(change.closes, 'finding')}{seen}{calls}"


def advice_of(change: Change) -> str:
    """What to do, then how: title and remedy as one sentence."""
    return f"{change.title}: {change.remedy}" if change.remedy else change.title


def needs_in_words(change: Change) -> list[str]:
    """A sentence, without its full stop, for each thing that ``change`` needs."""
    return [_in_words(need) for need in change.needs]


def _in_words(need: Need) -> str:
    if need.kind is Prerequisite.BEFORE_COMPILING:
        return "Make it before anything is compiled: what was compiled without it must be compiled anew"
    if need.kind is Prerequisite.NOTHING_RAISES:
        if need.setting:
            return f"Make {_numbered(need.changes)} with it: without {need.setting} calls raise"
        what = "it replaces" if len(need.changes) == 1 else "they replace"
        return f"Make {_numbered(need.changes)} first: what {what} raises under deterministic mode"
    if need.changes:
        return f"Works with deterministic mode on alone: make {_numbered(need.changes)} with it"
    if need.holds:
        return "Works with deterministic mode on alone: leave it on"
    return "Works with deterministic mode on alone, which no change of this plan turns on"


def _numbered(changes: Sequence[int]) -> str:
    """``change 3``, ``changes 3 and 5 to 8``."""
    runs: list[list[int]] = []
    for change in changes:
        if runs and change == runs[-1][-1] + 1:
            runs[-1].append(change)
        else:
            runs.append([change])
    told = [f"{run[0]} to {run[-1]}" if len(run) > 2 else " and ".join(map(str, run)) for run in runs]
    spelt = " and ".join(filter(None, (", ".join(told[:-1]), told[-1])))
    return f"change{'s' * (len(changes) > 1)} {spelt}"


def compiled_in(finding: Finding) -> str:
    """Where compiled calls ran, and the kernel: ``compiled, region 0/0 forward: cpp_fused_index_add_0``; else empty."""
    if not finding.regions:
        return ""
    more = f" and {len(finding.regions) - 1} more" if len(finding.regions) > 1 else ""
    named = ", ".join(finding.kernels[:2]) + (
        f" and {len(finding.kernels) - 2} more" if len(finding.kernels) > 2 else ""
    )
    return f"compiled, region {finding.regions[0]}{more}{f': {named}' if named else ''}"


def answer_of(finding: Finding) -> str:
    """``is nondeterministic``, or ``raises``: the verdict as a sentence ends."""
    return "raises" if finding.verdict is Verdict.RAISES else f"is {finding.verdict}"


def phase_of(finding: Finding) -> str:
    """The phase; empty for what belongs to none, as a setting does."""
    return "" if not finding.op and not is_call(finding) and finding.phase is Phase.OTHER else finding.phase.value


def counted(finding: Finding) -> str:
    """How often: ``12 calls``; what was counted of the process may be no calls."""
    return plural(finding.count, "call") if is_call(finding) or finding.ops or finding.op else number(finding.count)


def ops_behind(finding: Finding) -> Mapping[str, int]:
    """The ops that make ``finding`` matter, beside the one that it names itself."""
    return {} if set(finding.ops) == {finding.op} else finding.ops


def calls_by_op(ops: Mapping[str, int], limit: int = 6) -> str:
    """``ops``, the most called first: ``aten.mm 120, aten.bmm 24 and 3 more``."""
    ordered = sorted(ops.items(), key=lambda item: (-item[1], item[0]))
    named = ", ".join(f"{name_of(op)} {calls:,}" for op, calls in ordered[:limit])
    return named + (f" and {len(ordered) - limit:,} more" if len(ordered) > limit else "")


def of_the_process(findings: Iterable[Finding]) -> list[str]:
    """What of the process ``findings`` speak of, counted: ``2 settings``, ``1 unseeded generator``."""
    things: dict[tuple[About, bool], set[tuple[str, ...]]] = {}
    for finding in findings:
        if not is_call(finding):
            place = () if finding.about in _EVERYWHERE else (finding.op, finding.location, finding.called_from)
            things.setdefault((finding.about, finding.verdict is Verdict.UNKNOWN), set()).add((finding.subject, *place))
    parts = []
    for about, words in ABOUT.items():
        if found := things.get((about, False)):
            parts.append(plural(len(found), words.one, words.many))
        if found := things.get((about, True)):
            parts.append(plural(len(found), words.open, words.open_many))
    return parts
