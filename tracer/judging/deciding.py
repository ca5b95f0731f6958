"""From the conditions that a table's look-up met to what a finding says of them."""

from __future__ import annotations

from collections.abc import Iterable

from tracer.findings import Condition, Deciding
from tracer.tables.conditions import Met


def deciding_of(decided: Iterable[tuple[Met | None, Met | None]]) -> Deciding:
    """What decided, of each case once, as a finding holds it."""
    both = list(dict.fromkeys(decided))
    as_is, in_mode = (
        tuple(
            tuple(Condition(asks, holds_for) for asks, holds_for in met)
            for met in dict.fromkeys(pair[way] for pair in both)
            if met is not None
        )
        for way in (0, 1)
    )
    return Deciding(as_is=as_is, deterministic_mode=in_mode)
