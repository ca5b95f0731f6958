"""What the calls of attention's math route on the CPU tell of the call that was made of them.

The op that the user called is not dispatched, so its arguments are in no trace. Heads of queries that share those of
keys (``enable_gqa=True``) show by the copies that torch makes of the keys.
"""

from __future__ import annotations

from collections.abc import Iterable

from tracer.names import Phase
from tracer.trace.model import CallGroup

#: The softmax that nothing else calls.
SOFTMAX = "aten._safe_softmax"
#: Queries are scaled first, then keys are copied, for a moment with a dimension more than they have.
_SCALES, _REPEATS, _DIMENSIONS = "aten.mul.Scalar", "aten.clone.default", 4


def places_that_share_heads(calls: Iterable[CallGroup]) -> frozenset[tuple[str, str]]:
    """Modules and locations where attention repeats keys by itself: a user's own repeating comes before it scales."""
    scaled, repeated, softened = set(), set(), set()
    for group in calls:
        place = (group.module, group.location)
        if group.phase is Phase.BACKWARD:
            continue
        if group.op == _SCALES and group.facts.get("ndim") == _DIMENSIONS:
            scaled.add(place)
        elif group.op == _REPEATS and group.facts.get("ndim") == _DIMENSIONS + 1 and place in scaled:
            repeated.add(place)
        elif group.op.startswith(SOFTMAX):
            softened.add(place)
    return frozenset(repeated & softened)
