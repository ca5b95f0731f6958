"""The plan after runs were compared or calls tried: what was seen to differ comes before what could."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import msgspec

from tracer.findings import Change, Finding
from tracer.names import Phase

Where = tuple[str, Phase, str]
"""Op, phase and location of a call."""


def seen_first(changes: Sequence[Change], findings: Sequence[Finding], seen: Collection[Where]) -> tuple[Change, ...]:
    """``changes``, those that close a finding at which runs were ``seen`` to part first, numbered anew."""
    counts = [
        sum(
            (finding.op, finding.phase, finding.location) in seen for finding in map(findings.__getitem__, one.findings)
        )
        for one in changes
    ]
    order = sorted(range(len(changes)), key=lambda at: (not counts[at], at))
    numbers = {changes[at].number: number for number, at in enumerate(order, 1)}
    return tuple(
        msgspec.structs.replace(
            changes[at],
            number=numbers[changes[at].number],
            seen=counts[at],
            needs=tuple(
                msgspec.structs.replace(need, changes=tuple(sorted(numbers[one] for one in need.changes)))
                for need in changes[at].needs
            ),
        )
        for at in order
    )
