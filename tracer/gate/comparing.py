"""What changed between two judgements: two traces, or one trace for two targets.

Findings are matched by op, phase, module, file and function, never by rule: other backends have other rules.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from tracer.findings import Finding, Judgement, Target
from tracer.gate.gating import risk_of
from tracer.names import SAFE, SEVERITY, Verdict, Word
from tracer.ops import spoken
from tracer.tables.versions import speaks_of
from tracer.trace.differences import SettingDifference, differing_settings
from tracer.trace.records import Draw


class ChangeKind(Word):
    """The kinds of changes of a finding, worst first."""

    NEW = "new"
    WORSENED = "worsened"
    MODE_WORSENED = "worse under deterministic mode"
    IMPROVED = "improved"
    GONE = "gone"
    RECOUNTED = "other count"


class Difference(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One finding that is not the same before and after."""

    kind: ChangeKind
    op: str
    """The op, or what of the process it speaks of."""
    phase: str
    module: str = ""
    place: str = ""
    """``path:line`` as it is after, or was before."""
    before: Verdict | None = None
    """``None``: it was not found."""
    after: Verdict | None = None
    mode_before: Verdict | None = None
    mode_after: Verdict | None = None
    calls_before: int = 0
    calls_after: int = 0
    rule: str = ""
    """The rule after, or before where it is gone."""
    why: str = ""
    remedy: str = ""


class GateComparison(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Two judgements side by side."""

    before: Target
    after: Target
    differences: tuple[Difference, ...] = ()
    """Worst first."""
    same: int = 0
    """Findings that are the same in both, but for draws that repeat: what a report of the later counts."""
    settings: tuple[SettingDifference, ...] = ()
    tally_before: dict[Verdict, int] = {}
    tally_after: dict[Verdict, int] = {}
    draws: tuple[str, ...] = ()
    """The differences of random draws: of their ledgers, a sentence a generator, and of the two versions of torch."""


_Key = tuple[str, ...]


def compare_judgements(
    before: Judgement,
    after: Judgement,
    draws: Iterable[tuple[str, int, Draw | None]] = (),
    redrawn: Iterable[tuple[str, str]] = (),
) -> GateComparison:
    """Compare ``after`` with ``before``.

    ``draws``: by generator, how many ``after`` is ahead, and where first; ``redrawn``: ops of ``after``, each with the
    release of torch since which one seed gives it other numbers.
    """
    torches = (before.target.torch, after.target.torch)
    changed = {
        op: since
        for op, since in redrawn
        if since and len({speaks_of(f">={since}", torch) for torch in torches}) > 1  # it lies between them
    }
    ours, theirs = _by_key(before.findings), _by_key(after.findings)
    compared = {key: _difference(ours.get(key), theirs.get(key)) for key in (*ours, *theirs)}
    return GateComparison(
        before=before.target,
        after=after.target,
        differences=tuple(sorted(filter(None, compared.values()), key=_order)),
        same=sum(
            compared[_key_of(finding)] is None
            for finding in after.findings
            if finding.verdict not in SAFE or finding.deterministic_mode not in SAFE
        ),
        settings=tuple(differing_settings((before.trace.environment, after.trace.environment))),
        tally_before=before.tally.as_is,
        tally_after=after.tally.as_is,
        draws=(
            *(_sentence(*draw) for draw in draws),
            *(f"{op}: other numbers from one seed since torch {since}" for op, since in sorted(changed.items())),
        ),
    )


class _Side(NamedTuple):
    """All findings of one key, as one: the worst verdicts, all calls."""

    finding: Finding
    """The first."""
    verdict: Verdict
    mode: Verdict
    calls: int


def _by_key(findings: Iterable[Finding]) -> dict[_Key, _Side]:
    grouped: dict[_Key, list[Finding]] = {}
    for finding in findings:
        grouped.setdefault(_key_of(finding), []).append(finding)
    return {
        key: _Side(
            alike[0],
            min((finding.verdict for finding in alike), key=SEVERITY.index),
            min((finding.deterministic_mode for finding in alike), key=SEVERITY.index),
            sum(finding.count for finding in alike),
        )
        for key, alike in grouped.items()
    }


def _key_of(finding: Finding) -> _Key:
    risk = risk_of(finding)
    return risk.op, risk.phase, risk.module, risk.file, risk.function


def _difference(before: _Side | None, after: _Side | None) -> Difference | None:
    kind = _kind(before, after)
    side = after or before
    if kind is None or side is None:
        return None
    finding = side.finding
    return Difference(
        kind=kind,
        op=spoken(finding.op, finding.runs_as) or finding.subject,
        phase=finding.phase.value,
        module=finding.module,
        place=finding.location or finding.called_from,
        before=before.verdict if before else None,
        after=after.verdict if after else None,
        mode_before=before.mode if before else None,
        mode_after=after.mode if after else None,
        calls_before=before.calls if before else 0,
        calls_after=after.calls if after else 0,
        rule=finding.rule,
        why=finding.why,
        remedy=finding.remedy,
    )


def _kind(before: _Side | None, after: _Side | None) -> ChangeKind | None:
    if before is None or after is None:
        return ChangeKind.NEW if before is None else ChangeKind.GONE
    verdicts = (before.verdict, after.verdict, ChangeKind.WORSENED)
    for old, new, worse in (verdicts, (before.mode, after.mode, ChangeKind.MODE_WORSENED)):
        if old is not new:
            return worse if SEVERITY.index(new) < SEVERITY.index(old) else ChangeKind.IMPROVED
    return ChangeKind.RECOUNTED if before.calls != after.calls else None


def _order(difference: Difference) -> tuple[object, ...]:
    verdict = difference.after or difference.before or Verdict.DETERMINISTIC
    calls = difference.calls_after or difference.calls_before
    place = (difference.place, difference.op, difference.phase, difference.module)
    return (list(ChangeKind).index(difference.kind), SEVERITY.index(verdict), -calls, *place)


def _sentence(generator: str, ahead: int, place: Draw | None) -> str:
    where = f", first at {place.location or place.module or place.op} ({place.op})" if place is not None else ""
    if not ahead:
        return f"{generator}: as many draws, at other places{where}"
    return f"{generator}: {abs(ahead):,} draws {'more' if ahead > 0 else 'fewer'}{where}"
