"""Which processes of two runs correspond: by who started them, at which line, how, as which rank, in which order."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence

from tracer.names import StartedBy
from tracer.trace.paths import LOWEST_SHARED
from tracer.trace.records import Child

Siblings = Mapping[tuple[object, ...], Sequence[str]]
"""Roles that two runs know by the same key. Its last part: whether they come in any order, as workers of a
pool do, and those that C code starts."""


def siblings(roles: Iterable[str], children: Iterable[Child]) -> Siblings:
    """The child processes among ``roles``, by what two runs have in common; ``children`` are all of the run."""
    by_role = {child.role: child for child in children}
    keyed: dict[tuple[object, ...], list[str]] = defaultdict(list)
    for role in roles:
        if role:
            keyed[_key(role, by_role)].append(role)
    return keyed


def paired_roles(
    first: Siblings, second: Siblings, distance: Callable[[str, str], float]
) -> tuple[dict[str, str], int]:
    """Each role of the first run with its own in the second, and how many have none.

    ``distance`` of two roles is 0 if they agree: where they come in any order those are a pair, then the nearest.
    """
    pairs: dict[str, str] = {}
    unpaired = 0
    for key in first.keys() | second.keys():
        roles, left = list(first.get(key, ())), list(second.get(key, ()))
        unpaired += abs(len(roles) - len(left))
        if key[-1]:
            for role in tuple(roles):
                agreeing = next((other for other in left if not distance(role, other)), None)
                if agreeing is not None:
                    roles.remove(role)
                    left.remove(agreeing)
                    pairs[role] = agreeing
            while roles and left:
                role, other = min(((role, other) for role in roles for other in left), key=lambda pair: distance(*pair))
                roles.remove(role)
                left.remove(other)
                pairs[role] = other
        pairs |= zip(roles, left, strict=False)
    return pairs, unpaired


def _key(role: str, children: Mapping[str, Child]) -> tuple[object, ...]:
    parts: list[object] = []
    in_any_order = False
    names = role.split(".")
    for end in range(1, len(names) + 1):
        name = ".".join(names[:end])
        if int(names[end - 1]) >= LOWEST_SHARED:
            in_any_order = True
            continue
        child = children.get(name)
        parts.append((child.location, child.started_by, child.rank) if child is not None else names[end - 1])
        shares = any(other.startswith(f"{name}.") and int(other.split(".")[end]) >= LOWEST_SHARED for other in children)
        in_any_order |= shares or (child is not None and child.started_by is StartedBy.POOL)
    return (*parts, in_any_order)
