"""How a finding is called: by its op and place, or by its subject."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tracer.findings import Finding
from tracer.names import About, Phase, Verdict
from tracer.plan import name_of
from tracer.report.words import ABOUT, number, plural

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
