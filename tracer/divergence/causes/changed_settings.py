"""Which settings, variables and versions two recordings do not share."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from tracer.divergence.model import Changed
from tracer.divergence.recordings import Recording
from tracer.names import EventKind
from tracer.trace.records import Environment

#: Fields that say how the generators stood: another seed is a draw's matter.
_SEEDS = ("torch_seed", "cuda_seed")
#: Variables that no kernel reads: they make other orders of sets, other bytes in fresh memory.
NO_KERNELS = frozenset({"PYTHONHASHSEED", "MALLOC_PERTURB_", "RANK", "LOCAL_RANK"})
_ABSENT = "not set"


def changed_settings(first: Recording, second: Recording) -> tuple[Changed, ...]:
    """Everything of the environments that differs, and what the programs set otherwise while they ran."""
    ours, theirs = first.environment, second.environment
    if ours is None or theirs is None:
        return ()
    found = {one.name: one for one in (*_of_environments(ours, theirs), *_of_events(first, second))}
    return tuple(found.values())


def _of_environments(ours: Environment, theirs: Environment) -> Iterator[Changed]:
    sides = [msgspec.to_builtins(one) for one in (ours, theirs)]
    for name in Environment.__struct_fields__:
        if name in _SEEDS:
            continue
        one, two = (side.get(name) for side in sides)
        if name not in ("variables", "settings"):
            if one != two and None not in (one, two):  # what could not be read on one side is not known to differ
                yield Changed(name=name, first=_text(one), second=_text(two))
            continue
        one, two = one or {}, two or {}
        for key in sorted({*one, *two} if name == "variables" else {*one} & {*two}):
            if one.get(key) != two.get(key):
                yield Changed(name=key, first=_text(one.get(key)), second=_text(two.get(key)))


def _of_events(first: Recording, second: Recording) -> Iterator[Changed]:
    """Settings that one program made, and the other not, or to another value."""
    if first.trace is None or second.trace is None:
        return
    kinds = (EventKind.SETTING, EventKind.VARIABLE)
    sides = [
        {(event.name, event.location): event.value for event in trace.events if event.kind in kinds}
        for trace in (first.trace, second.trace)
    ]
    for key in dict.fromkeys((*sides[0], *sides[1])):
        one, two = sides[0].get(key), sides[1].get(key)
        if one != two:
            yield Changed(name=key[0], first=_text(one), second=_text(two))


def _text(value: object) -> str:
    return _ABSENT if value is None else str(value)
