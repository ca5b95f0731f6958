"""Whether a run makes the calls that other runs of the same program made."""

from __future__ import annotations

from collections.abc import Sequence

from tracer.trace.values import Values

_Kind = tuple[str, ...]


def makes_calls_of(values: Values, others: Sequence[Values]) -> bool:
    """Are these the calls of one of ``others``, or calls of the same kinds?

    How often a loop goes round may be what varies: it is enough that the kinds of calls are theirs, all that they have
    in common and none that none of them has.
    """
    ours, theirs = _calls(values), [_calls(other) for other in others]
    if ours in theirs:
        return True
    kinds = [set(other) for other in theirs]
    return set.intersection(*kinds) <= set(ours) <= set.union(*kinds)


def _calls(values: Values) -> list[_Kind]:
    kinds = [(group.op, group.phase.value, group.module, group.location, group.function) for group in values.groups]
    return [kinds[number] for number in values.group.tolist()]
