"""Findings that share an answer are one row where people read: by op, by pattern of modules, by remedy.

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
from tracer.report.words import (
    compiled_in,
    consecutive,
    is_call,
    phase_of,
    plural,
    some,
    subject_of,
)

_NUMBER = re.compile(r"\d+")
_WHOLE_NUMBER = re.compile(r"(?<=\.)\d+(?=\.|$)")
#: Patterns of modules, and places, that a row names.
_PATTERNS, _PLACES = 3, 2
#: Ops that a row names which stands for several.
_OPS = 4


class Row(NamedTuple):
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
        """Their modules: the path of one, patterns of several."""
        paths = [
            finding.module for finding in self.findings if finding.module and finding.location + finding.called_from
        ]
        return paths[0] if len(paths) == 1 else together(patterns(paths))

    @property
    def compiled(self) -> str:
        """The regions of compiled calls; empty for eager ones."""
        regions = {region for finding in self.findings for region in finding.regions}
        said = {compiled_in(finding) for finding in self.findings}
        return "".join(said) if len(said) == 1 else f"compiled, in {plural(len(regions), 'region')}"

    @property
    def ops(self) -> str:
        """The ops of the findings beyond the room: ``aten.sort, aten.cumsum and 3 more``."""
        return some(list(dict.fromkeys(map(subject_of, self.findings))), _OPS)


def rows_of(findings: Iterable[Finding], answer_of: Callable[[Finding], object]) -> tuple[Row, ...]:
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
    rows = (Row(tuple(group)) for group in groups.values())
    return tuple(sorted(rows, key=lambda row: (*map(SEVERITY.index, row.verdicts), -row.calls)))


def within(rows: Sequence[Row], most: int | None) -> tuple[Row, ...]:
    """At most ``most`` of ``rows``, then one more for each pair of verdicts that has others."""
    if most is None or len(rows) <= most:
        return tuple(rows)
    rest: defaultdict[tuple[Verdict, Verdict], list[Finding]] = defaultdict(list)
    for row in rows[most:]:
        rest[row.verdicts] += row.findings
    return (*rows[:most], *(Row(tuple(left_over), is_rest=True) for left_over in rest.values()))


def patterns(paths: Iterable[str], most: int = _PATTERNS) -> tuple[str, ...]:
    """Module paths as patterns, as deep as ``most`` of them go: ``layers.*.mlp``, ``body.layer[1-4].*``."""
    split = [path.split(".") for path in dict.fromkeys(paths)]
    groups: dict[tuple[str, bool], list[list[str]]] = {}
    for depth in range(max(map(len, split), default=0), _shared(split), -1):
        groups = {}
        for parts in split:
            shape = _NUMBER.sub("#", ".".join(parts[:depth])), len(parts) > depth
            groups.setdefault(shape, []).append(parts[:depth])
        if len(groups) <= most:
            break
    return tuple(
        ".".join(map(_segment, zip(*group, strict=True))) + (".*" if goes_deeper else "")
        for (_, goes_deeper), group in groups.items()
    )


def together(paths: Sequence[str]) -> str:
    """``paths`` with the beginning that they share said once: ``net.{body.*, head}``."""
    split = [path.split(".") for path in paths]
    shared = _shared(split)
    rest = some([".".join(parts[shared:]) for parts in split], _PATTERNS)
    return f"{'.'.join(split[0][:shared])}.{{{rest}}}" if shared else rest


def _shared(split: Sequence[Sequence[str]]) -> int:
    """Return the number of leading parts that all paths share; of one path, none."""
    count = 0
    for parts in zip(*split, strict=False):
        if len(set(parts)) > 1:
            break
        count += 1
    return count if len(split) > 1 else 0


def _segment(names: tuple[str, ...]) -> str:
    """One part of a path: ``mlp``, ``*`` for numbers, ``layer[1-4]`` for names that end in different ones."""
    if len(set(names)) == 1:
        return names[0]
    if all(map(str.isdecimal, names)):
        return "*"
    pieces, numbers = _NUMBER.split(names[0]), zip(*map(_NUMBER.findall, names), strict=True)
    return pieces[0] + "".join(f"{_span(each)}{piece}" for each, piece in zip(numbers, pieces[1:], strict=True))


def _span(numbers: tuple[str, ...]) -> str:
    if len(set(numbers)) == 1:
        return numbers[0]
    runs = consecutive(sorted(set(map(int, numbers))))
    return f"[{','.join(f'{run[0]}-{run[-1]}' if len(run) > 1 else str(run[0]) for run in runs)}]"


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
