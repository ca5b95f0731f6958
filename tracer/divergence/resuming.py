"""A resumed run against the uninterrupted one: where it begins in it, and what of the checkpoint is missing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from tracer.divergence.causes import RootCause
from tracer.divergence.matching.pairing import Pairs
from tracer.divergence.model import NotRestored, Resumed, Root
from tracer.errors import TraceError
from tracer.trace.values import ValueKind, Values, fold

#: What a checkpoint has to hold, and what is told of it.
_STATES = (
    ValueKind.OPTIMIZER_STATE,
    ValueKind.SCHEDULER,
    ValueKind.SCALER,
    ValueKind.HYPERPARAMETER,
    ValueKind.DATA_POSITION,
)


class Begins(NamedTuple):
    """Where two recordings are compared from."""

    steps: tuple[int, int]
    calls: tuple[int, int]
    by_itself: bool


_States = dict[tuple[ValueKind, str], tuple[int, str]]


def begins_of(first: Values, second: Values, align_step: tuple[int, int] | None) -> Begins | None:
    """From which calls on to compare; ``None``: both from their beginning."""
    steps, by_itself = align_step, False
    if steps is None:
        steps, by_itself = _found(first, second), True
    if steps is None:
        return None
    calls = (_begin(first, steps[0], "first"), _begin(second, steps[1], "second"))
    return Begins(steps, calls, by_itself)


def _begin(values: Values, step: int, which: str) -> int:
    starts, numbers = values.steps
    rows = np.flatnonzero(numbers == step)
    if len(rows):
        return int(starts[rows[0]])
    if step == 0 and (not len(starts) or starts[0] > 0):
        return 0
    known = f"{int(numbers.min())} to {int(numbers.max())}" if len(numbers) else "none"
    raise TraceError(f"the {which} recording has no step {step}", hint=f"its steps are {known}")


def _found(first: Values, second: Values) -> tuple[int, int] | None:
    """The later step of the first recording whose parameters are those that the second begins with."""
    ours, theirs = _parameters(first), _parameters(second)
    if not ours or not theirs:
        return None
    step, wanted = next(iter(theirs.items()))
    if next(iter(ours.values())) == wanted:
        return None
    going_on = set(first.steps[1][first.steps[0] < len(first)].tolist())
    later = next((number for number, digest in ours.items() if digest == wanted and number in going_on), None)
    return None if later is None else (later, step)


def _parameters(values: Values) -> dict[int, int]:
    """Step -> one digest of all parameters as they were in it first."""
    moments = values.moments
    numbers = [at for at, name in enumerate(values.names) if name.kind is ValueKind.PARAMETER]
    rows = np.flatnonzero(np.isin(moments.name, numbers))
    found: dict[int, dict[str, int]] = {}
    for row in rows.tolist():
        name = values.names[int(moments.name[row])].name
        found.setdefault(int(moments.step[row]), {}).setdefault(name, int(moments.digest[row]))
    return {step: fold(digest for _, digest in sorted(names.items())) for step, names in found.items()}


def resumed(pairs: Pairs, begins: Begins, roots: Iterable[Root]) -> Resumed:
    """What the second run did not have back."""
    missing = {(one.kind, one.name): one for one in _missing(pairs, begins)}
    for root in roots:
        kind = root.cause.lacks
        if root.cause is RootCause.INPUT_DATA and root.kind is ValueKind.OUTSIDE:
            continue  # NumPy or a constant: no checkpoint holds them
        if kind is None and root.cause is RootCause.INITIAL_STATE and root.kind is not None:
            kind = root.kind
        if kind is not None and not any(known is kind for known, _ in missing):
            missing[kind, root.name] = NotRestored(kind=kind, name=root.name, root=root)
    return Resumed(
        first_step=begins.steps[0],
        second_step=begins.steps[1],
        by_itself=begins.by_itself,
        not_restored=tuple(missing.values()),
    )


def _missing(pairs: Pairs, begins: Begins) -> Iterator[NotRestored]:
    """States before the update of the first common step that differ: one line a kind."""
    ours, theirs = _states(pairs.first, begins.steps[0]), _states(pairs.second, begins.steps[1])
    for kind in _STATES:
        names = [name for known, name in ours if known is kind]
        there = [name for known, name in theirs if known is kind]
        lost = [name for name in names if (kind, name) not in theirs]
        other = [name for name in names if (kind, name) in theirs and theirs[kind, name][0] != ours[kind, name][0]]
        if lost and not there:
            yield NotRestored(kind=kind, name=names[0], count=len(names), has_none=True)
        elif lost or other:
            name = (lost or other)[0]
            (_, before), after = ours[kind, name], theirs.get((kind, name))
            yield NotRestored(
                kind=kind,
                name=name,
                count=len(lost + other),
                is_missing=after is None,
                first=before,
                second="" if after is None else after[1],
            )


def _states(values: Values, step: int) -> _States:
    """The states that were noted in a step, the first of each name."""
    moments = values.moments
    found: _States = {}
    for row in np.flatnonzero(moments.step == step).tolist():
        name = values.names[int(moments.name[row])]
        digest = int(moments.digest[row])
        found.setdefault((name.kind, name.name), (digest, values.texts.get(digest, "")))
    return found
