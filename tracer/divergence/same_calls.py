"""Whether a run makes the calls that other runs of the same program made."""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter

from tracer.trace.values import Values

_Kind = tuple[str, ...]
_LINE = itemgetter(3, 4)


def makes_calls_of(values: Values, others: Sequence[Values]) -> bool:
    """Are these the calls of one of ``others``, or calls of the same kinds?

    How often a loop goes round may be what varies: it is enough that the kinds of calls are theirs, all that they have
    in common and none that none of them has. Where the kinds are what varies, it is enough that calls are made at the
    lines that all of them have.
    """
    ours, theirs = _calls(values), [_calls(other) for other in others]
    if ours in theirs:
        return True
    kinds = [set(other) for other in theirs]
    shared, all_kinds = set.intersection(*kinds), set.union(*kinds)
    if shared == all_kinds:
        return set(ours) == shared
    return set(map(_LINE, shared)) <= set(map(_LINE, ours))


def _calls(values: Values) -> list[_Kind]:
    kinds = [(group.op, group.phase.value, group.module, group.location, group.function) for group in values.groups]
    return [kinds[number] for number in values.group.tolist()]
