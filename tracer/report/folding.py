"""Findings as rows for reading: seeded draws of like modules are one row, and bury nothing that can differ.

Findings stay what they are: CSV, JSON and SARIF have each, and so has the page's table when unfolded.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping

import msgspec

from tracer.findings import Finding
from tracer.names import About, Phase, Verdict

_NUMBER = re.compile(r"(?<=\.)\d+(?=\.|$)")
#: What a row of several draws is about.
DRAWS = "random draws"


def rows_of(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """``findings`` in their order; seeded draws in modules that differ by a number alone are one row."""
    known = tuple(findings)
    groups = ([known[place] for place in group] for group in groups_of(known))
    return tuple(group[0] if len(group) == 1 else _folded(group) for group in groups)


def groups_of(findings: Iterable[Finding], told: Mapping[int, str] | None = None) -> tuple[tuple[int, ...], ...]:
    """The positions from 0 of the findings of each row; what is ``told`` of them differently keeps them apart."""
    told = told or {}
    groups: dict[object, list[int]] = {}
    for place, one in enumerate(findings):
        kind = (*_kind_of(one), told.get(place)) if _is_seeded_draw(one) else place
        groups.setdefault(kind, []).append(place)
    return tuple(map(tuple, groups.values()))


def _is_seeded_draw(one: Finding) -> bool:
    return one.about is About.CALL and one.verdict is one.deterministic_mode is Verdict.SEEDED


def _kind_of(one: Finding) -> tuple[object, ...]:
    return (one.backend, _NUMBER.sub("*", one.module), one.remedy)


def _folded(group: list[Finding]) -> Finding:
    first = group[0]
    ops: Counter[str] = Counter()
    for finding in group:
        ops[finding.op] += finding.count
    places = list(dict.fromkeys(finding.location for finding in group))
    more = f" and {len(places) - 1:,} more" if len(places) > 1 else ""
    return msgspec.structs.replace(
        first,
        op="",
        runs_as="",
        about=About.GENERATOR,
        subject=DRAWS,
        phase=Phase.OTHER,
        ops=dict(ops.most_common()),
        count=ops.total(),
        module=_NUMBER.sub("*", first.module),
        location=f"{places[0]}{more}",
        called_from=first.called_from if all(finding.called_from == first.called_from for finding in group) else "",
    )
