"""Compares a resumed run with the uninterrupted one: where it resumes, and what its checkpoint did not restore."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator

import msgspec
import numpy as np

from tracer.divergence.causes import RootCause
from tracer.divergence.model import NotRestored, Resumed, Root
from tracer.divergence.pairing import AlignedCalls
from tracer.errors import TraceError
from tracer.trace.values import ValueKind, Values, fold

#: The states that a checkpoint has to hold.
_STATES = (
    ValueKind.PARAMETER,
    ValueKind.OPTIMIZER_STATE,
    ValueKind.SCHEDULER,
    ValueKind.SCALER,
    ValueKind.HYPERPARAMETER,
    ValueKind.DATA_POSITION,
)


#: Of these, what an optimizer holds, or updates.
OF_OPTIMIZERS = (ValueKind.PARAMETER, ValueKind.OPTIMIZER_STATE, ValueKind.HYPERPARAMETER)

_States = dict[tuple[ValueKind, str], tuple[int, str]]


def begins_of(
    first: Values, second: Values, align_step: tuple[int, int] | None
) -> tuple[Resumed, tuple[int, int]] | None:
    """Return where the comparison starts, and the first call of each side; ``None``: at the first call of both."""
    steps = align_step
    if steps is None:
        step = resumed_from(first, second, sys.maxsize)
        going_on = first.steps[1][first.steps[0] < len(first)].tolist()
        if step is None or step not in going_on or step == next(iter(_parameters(first))):
            return None
        steps = step, next(iter(_parameters(second)))
    calls = (begin_of(first, steps[0], "first"), begin_of(second, steps[1], "second"))
    return Resumed(first_step=steps[0], second_step=steps[1], by_itself=align_step is None), calls


def begin_of(values: Values, step: int, which: str) -> int:
    """The first call of a step. Raises ``TraceError`` if the recording has none of that number."""
    starts, numbers = values.steps
    rows = np.flatnonzero(numbers == step)
    if len(rows):
        return int(starts[rows[0]])
    if step == first_step_of(values):
        return 0
    recorded_steps = f"{int(numbers.min())} to {int(numbers.max())}" if len(numbers) else "none"
    raise TraceError(f"the {which} recording has no step {step}", hint=f"its steps are {recorded_steps}")


def first_step_of(values: Values) -> int:
    """The number of the first step: calls before the first row belong to step 0."""
    starts, numbers = values.steps
    return int(numbers[0]) if len(starts) and not starts[0] else 0


def resumed_from(first: Values, second: Values, stopped_after: int) -> int | None:
    """The step of the first recording whose parameters the second begins with, of as many optimizers as can be, and as
    many further states; of several, the last one up to ``stopped_after``: an update may have been skipped, or made with
    a learning rate of 0."""
    ours, theirs = _parameters(first), _parameters(second)
    begin = next(iter(theirs), None)
    if begin is None:
        return None
    begins = states_at(second, begin)
    updates = first_updates(second, begin) or [0]

    def same(step: int) -> int:
        return sum(ours.get(step + ahead) == theirs[begin + ahead] for ahead in updates)

    def agreeing(step: int) -> tuple[int, int, bool, int]:
        states, is_early = states_at(first, step), step <= stopped_after
        alike = sum(states.get(key, (None,))[0] == digest for key, (digest, _) in begins.items())
        return same(step), alike, is_early, step if is_early else -step

    return max(filter(same, ours), key=agreeing, default=None)


def optimizers_from(first: Values, second: Values, stopped_after: int) -> int:
    """The last step up to ``stopped_after`` whose optimizer states the second recording begins with, whatever its
    parameters are; 0 if there is none."""

    def held(values: Values, step: int) -> set[tuple[str, int]]:
        states = states_at(values, step).items()
        return {(name, digest) for (kind, name), (digest, _) in states if kind is ValueKind.OPTIMIZER_STATE}

    begins = held(second, first_step_of(second))
    return next((step for step in range(stopped_after, 0, -1) if begins and begins <= held(first, step)), 0)


def _parameters(values: Values) -> dict[int, int]:
    """Step -> one digest of all parameters that the step updates, whatever their names: a module has its parameters'
    names from when it first ran."""
    digests = digests_by_step(values, ValueKind.PARAMETER)
    return {step: fold(sorted(names.values())) for step, names in digests.items()}


def not_restored(pairs: AlignedCalls, resumed: Resumed, roots: Iterable[Root]) -> tuple[NotRestored, ...]:
    """Return the states that the second run did not restore."""
    missing = list(_missing(pairs, resumed))
    for root in roots:
        kind = root.cause.lacks
        if root.cause is RootCause.INPUT_DATA and root.kind is ValueKind.OUTSIDE:
            continue  # NumPy data or a constant: not in a checkpoint
        if root.cause is RootCause.INITIAL_STATE:
            kind = root.kind
        if kind is None and root.loading is not None and root.loading.indices_agree is False:
            kind = ValueKind.DATA_POSITION  # the data set makes its samples of the index
        if kind is not None and not any(state.kind is kind for state in missing):
            ahead = root.step - resumed.first_step
            missing.append(NotRestored(kind=kind, name=root.name, root=root, ahead=ahead))
    return tuple(missing)


def without_orders_drawn(roots: Iterable[Root]) -> tuple[Root, ...]:
    """Joins a loader's other order with what it follows from: the batches with the draw of a generator that was not
    restored, and the sampler's further draws with the batches whose order it drew."""
    kept: list[Root] = []
    for root in roots:
        for at, earlier in enumerate(kept):
            order = (root if earlier.cause is RootCause.DRAW else earlier).loading
            lines = (root.location, root.called_from)
            if order is None or not order.order_from or RootCause.DRAW not in (root.cause, earlier.cause):
                continue
            is_of_order = earlier.cause is RootCause.DRAW and earlier.name == order.order_from
            if is_of_order or (earlier.cause is not RootCause.DRAW and order.loader.partition(" at ")[2] in lines):
                follows = earlier.follows + root.follows + root.same_cause + 1
                reaches = earlier.reaches_training or root.reaches_training
                kept[at] = msgspec.structs.replace(earlier, follows=follows, reaches_training=reaches)
                break
        else:
            kept.append(root)
    return tuple(kept)


def _missing(pairs: AlignedCalls, resumed: Resumed) -> Iterator[NotRestored]:
    """States that differ when they are first used, one per kind: before the first common update, and what an optimizer
    holds, before its own first one."""
    sides = (pairs.first, resumed.first_step), (pairs.second, resumed.second_step)
    for ahead in first_updates(*sides[0]):
        ours, theirs = (states_at(values, step + ahead) for values, step in sides)
        if not theirs:
            break
        for kind in OF_OPTIMIZERS if ahead else _STATES:
            names = [name for other_kind, name in ours if other_kind is kind]
            there = [name for other_kind, name in theirs if other_kind is kind]
            lost = [name for name in names if (kind, name) not in theirs]
            other = [name for name in names if (kind, name) in theirs and theirs[kind, name][0] != ours[kind, name][0]]
            if lost and not there:
                yield NotRestored(kind=kind, name=names[0], count=len(names), has_none=True, ahead=ahead)
            elif lost or other:
                name, count = (lost or other)[0], len(lost + other)
                state = NotRestored(kind=kind, name=name, count=count, is_missing=bool(lost), ahead=ahead)
                (_, before), (_, after) = ours[kind, name], theirs.get((kind, name), (0, ""))
                yield msgspec.structs.replace(state, first=before, second=after)


def first_updates(values: Values, begin: int) -> list[int]:
    """How many steps after ``begin`` each optimizer first updates its parameters."""
    met = set[str]()
    found: list[int] = []
    for step, names in digests_by_step(values, ValueKind.PARAMETER, is_updated=True).items():
        if step >= begin and met.isdisjoint(names):
            found.append(step - begin)
            met.update(names)
    return found


def states_at(values: Values, step: int) -> _States:
    """The states recorded in a step, the first of each name."""
    moments = values.moments
    states: _States = {}
    for row in np.flatnonzero(moments.step == step).tolist():
        name = values.names[int(moments.name[row])]
        digest = int(moments.digest[row])
        states.setdefault((name.kind, name.name), (digest, values.texts.get(digest, "")))
    return states


def digests_by_step(values: Values, kind: ValueKind, *, is_updated: bool = False) -> dict[int, dict[str, int]]:
    """Step -> name -> the first digest in that step; ``is_updated``: only of steps that an update follows."""
    moments = values.moments
    digests: dict[int, dict[str, int]] = {}
    for row in values.moments_of(kind).tolist():
        if not is_updated or int(moments.call[row]) < len(values):
            name = values.names[int(moments.name[row])].name
            digests.setdefault(int(moments.step[row]), {}).setdefault(name, int(moments.digest[row]))
    return digests
