"""All calls of two recordings in a row, as few stretches, for a picture."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise

import numpy as np

from tracer.divergence.matching.differing import Differences
from tracer.divergence.matching.following import Following
from tracer.divergence.matching.pairing import Ints, Pairs
from tracer.divergence.model import Span, State
from tracer.names import Phase
from tracer.trace.values import Values

#: Stretches that a picture can show; more are told by fewer words.
MOST_SPANS = 4000

_STATES = (State.AGREES, State.NOT_DIGESTED, State.FOLLOWS, State.ROOT)
_AGREES, _NOT_DIGESTED, _FOLLOWS, _ROOT = range(4)


def strip(pairs: Pairs, state: Ints) -> tuple[Span, ...]:
    """Stretches of one state, step, phase and module: whole modules or, where they are too many, ever less of them."""
    spans: list[Span] = []
    for module in (lambda path: path, lambda path: path.partition(".")[0], lambda path: ""):
        spans = list(_spans(pairs, state, module, by_phase=True))
        if len(spans) <= MOST_SPANS:
            return tuple(spans)
    spans = list(_spans(pairs, state, lambda path: "", by_phase=False))
    return tuple(spans if len(spans) <= MOST_SPANS else _merged(spans))


def states(pairs: Pairs, found: Differences, following: Following) -> Ints:
    """The state of each pair, as a number that grows with what it says."""
    state = np.full(pairs.size, _AGREES, np.int64)
    state[found.undigested] = _NOT_DIGESTED
    state[found.any] = _FOLLOWS
    roots = [one.node for one in following.candidates if not pairs.is_gap(one.node)]
    state[roots] = _ROOT
    return state


def _spans(pairs: Pairs, state: Ints, module: Callable[[str], str], *, by_phase: bool) -> Iterator[Span]:
    first, second = pairs.first, pairs.second
    lanes = _lanes(first, module, by_phase)
    at = pairs.at[0]
    steps = steps_of(first, at)
    lane = lanes[0][first.group[at]]
    changes = np.flatnonzero((np.diff(state) != 0) | (np.diff(lane) != 0) | (np.diff(steps) != 0)) + 1
    places = [int(np.searchsorted(at, gap.first)) for gap in pairs.gaps]
    edges = sorted({0, pairs.size, *changes.tolist(), *places})
    gaps = dict(zip(places, pairs.gaps, strict=True))
    for begin, end in zip(edges, [*edges[1:], None], strict=True):
        gap = gaps.get(begin)
        if gap is not None:
            yield from _alone(first, gap.first, gap.first_end, State.ONLY_FIRST, module, by_phase)
            yield from _alone(second, gap.second, gap.second_end, State.ONLY_SECOND, module, by_phase)
        if end is not None and end > begin:
            phase, path = lanes[1][int(lane[begin])]
            yield Span(_STATES[int(state[begin])], int(steps[begin]), phase, path, int(at[begin]), end - begin)


def _alone(
    values: Values, begin: int, end: int, state: State, module: Callable[[str], str], by_phase: bool
) -> Iterator[Span]:
    """Calls that one side alone has, in stretches."""
    if begin == end:
        return
    lanes = _lanes(values, module, by_phase)
    lane = lanes[0][values.group[begin:end]]
    steps = steps_of(values, np.arange(begin, end))
    edges = [0, *(np.flatnonzero((np.diff(lane) != 0) | (np.diff(steps) != 0)) + 1).tolist(), end - begin]
    for one, two in pairwise(edges):
        phase, path = lanes[1][int(lane[one])]
        yield Span(state, int(steps[one]), phase, path, begin + one, two - one)


def _lanes(values: Values, module: Callable[[str], str], by_phase: bool) -> tuple[Ints, list[tuple[Phase, str]]]:
    """For each group the number of its lane, and the lanes."""
    numbers: dict[tuple[Phase, str], int] = {}
    found = [
        numbers.setdefault((group.phase if by_phase else Phase.OTHER, module(group.module)), len(numbers))
        for group in values.groups
    ]
    return np.array(found, np.int64), list(numbers)


def steps_of(values: Values, calls: Ints) -> Ints:
    """The step of each call."""
    starts, numbers = values.steps
    rows = np.searchsorted(starts, calls, side="right") - 1
    found: Ints = np.where(rows >= 0, np.concatenate(([0], numbers))[rows + 1], 0).astype(np.int64)
    return found


def _merged(spans: list[Span]) -> Iterator[Span]:
    """Neighbours joined until there are few enough; the state that says the most stands."""
    order = [*_STATES, State.ONLY_FIRST, State.ONLY_SECOND]
    size = -(-len(spans) // MOST_SPANS)
    for at in range(0, len(spans), size):
        several = spans[at : at + size]
        worst = max(several, key=lambda one: (one.state is State.ROOT, order.index(one.state)))
        yield Span(worst.state, several[0].step, Phase.OTHER, "", several[0].call, sum(one.count for one in several))
