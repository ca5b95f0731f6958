"""Findings that share an answer are one row where people read: by op, by remedy.

Nothing is dropped: what a reader has no room for is one more row a verdict, which counts it. Files for programs, and a
reader of everything, have each finding.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from tracer.findings import Finding
from tracer.names import SEVERITY, About, Verdict
from tracer.plan import place_of
from tracer.report.words import compiled_in, is_call, phase_of, plural, some, subject_of

_WHOLE_NUMBER = re.compile(r"(?<=\.)\d+(?=\.|$)")
#: Modules, and places, that a row names.
_MODULES, _PLACES = 2, 2


class FindingRow(NamedTuple):
    """Findings with one answer, or those beyond what a reader has room for."""

    findings: tuple[Finding, ...]
    is_rest: bool = False
    """Whether it is what was left of one verdict, whatever the op."""

    @property
    def first(self) -> Finding:
        """The one whose words stand for all."""
        return self.findings[0]

    @property
    def calls(self) -> int:
        """Calls behind them; what was counted of the process where there are none."""
        return sum(finding.count for finding in self.findings)

    @property
    def verdicts(self) -> tuple[Verdict, Verdict]:
        """As the settings stand, and under deterministic mode."""
        return self.first.verdict, self.first.deterministic_mode

    @property
    def places(self) -> str:
        """The places, the one with the most calls first."""
        if len(self.findings) == 1:
            return place_of(self.first)
        counts: Counter[str] = Counter()
        for finding in self.findings:
            counts[finding.location or place_of(finding)] += finding.count
        shown, more = [place for place, _ in counts.most_common(_PLACES)], len(counts) - _PLACES
        files = [place.rpartition(":")[0] for place in shown]
        if len(shown) == _PLACES and len(set(files)) == 1 and files[0]:
            shown[1:] = [place.removeprefix(files[0]) for place in shown[1:]]
        callers = {finding.called_from for finding in self.findings if finding.location}
        led_here = "".join(callers) if len(callers) == 1 else ""
        return (
            ", ".join(shown)
            + (f" and {plural(more, 'more place')}" if more > 0 else "")
            + (f" (called from {led_here})" if led_here else "")
        )

    @property
    def modules(self) -> str:
        """Their modules, the first of several."""
        placed = (finding.module for finding in self.findings if finding.location + finding.called_from)
        return some(list(dict.fromkeys(filter(None, placed))), _MODULES)

    @property
    def compiled(self) -> str:
        """The regions of compiled calls; empty for eager ones."""
        regions = {region for finding in self.findings for region in finding.regions}
        said = {compiled_in(finding) for finding in self.findings}
        return "".join(said) if len(said) == 1 else f"compiled, in {plural(len(regions), 'region')}"


def rows_of(findings: Iterable[Finding], answer_of: Callable[[Finding], object]) -> tuple[FindingRow, ...]:
    """A row for each op, phase and answer, the worst and most called first.

    ``answer_of`` gives what is said of a finding: what to do about it.
    """
    groups: defaultdict[object, list[Finding]] = defaultdict(list)
    for finding in findings:
        is_alone = None if is_call(finding) else (finding.location, finding.called_from)
        groups[
            finding.verdict,
            finding.deterministic_mode,
            finding.about,
            subject_of(finding),
            finding.runs_as,
            finding.host,
            phase_of(finding),
            finding.rule,
            is_alone,
            answer_of(finding),
        ].append(finding)
    rows = (FindingRow(tuple(group)) for group in groups.values())
    return tuple(sorted(rows, key=lambda row: (*map(SEVERITY.index, row.verdicts), -row.calls)))


def within(rows: Sequence[FindingRow], most: int | None) -> tuple[FindingRow, ...]:
    """At most ``most`` of ``rows``, then one more for each pair of verdicts that has others."""
    if most is None or len(rows) <= most:
        return tuple(rows)
    rest: defaultdict[tuple[Verdict, Verdict], list[Finding]] = defaultdict(list)
    for row in rows[most:]:
        rest[row.verdicts] += row.findings
    return (*rows[:most], *(FindingRow(tuple(left_over), is_rest=True) for left_over in rest.values()))


def like_draws(findings: Iterable[Finding], notes: Mapping[int, str] | None = None) -> Iterator[tuple[int, ...]]:
    """The positions from 0 of the findings of each row of a page, where seeded draws in modules that differ by a number
    alone share one. Draws with different ``notes`` are different rows."""
    groups: dict[object, list[int]] = {}
    for at, finding in enumerate(findings):
        kind: object = at
        if finding.about is About.CALL and finding.verdict is finding.deterministic_mode is Verdict.SEEDED:
            kind = finding.backend, _WHOLE_NUMBER.sub("*", finding.module), finding.remedy, (notes or {}).get(at)
        groups.setdefault(kind, []).append(at)
    return map(tuple, groups.values())
