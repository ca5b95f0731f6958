"""All calls of two recordings in a row, as few stretches, for a picture."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise

import numpy as np

from tracer.divergence.matching.alignment import Gap
from tracer.divergence.matching.differing import Differences
from tracer.divergence.matching.following import Following
from tracer.divergence.matching.pairing import Ints, Pairs
from tracer.divergence.model import Span, State
from tracer.names import Phase
from tracer.trace.values import Values

#: Stretches that a picture can show; more are told by fewer words.
MOST_SPANS = 4000

_STATES = (State.AGREES, State.NOT_DIGESTED, State.FOLLOWS, State.ROOT)
_Lane = tuple[Phase, str]
_Words = tuple[Callable[[str], str], bool]
#: How lanes are named, ever more coarsely: what of a module's path is told, and whether the phase is.
_WORDS: tuple[_Words, ...] = (
    (lambda path: path, True),
    (lambda path: path.partition(".")[0], True),
    (lambda path: "", True),
    (lambda path: "", False),
)
_AGREES, _NOT_DIGESTED, _FOLLOWS, _ROOT = range(4)


def strip(pairs: Pairs, state: Ints) -> tuple[Span, ...]:
    """Stretches of one state, step, phase and module: whole modules or, where they are too many, ever less of them."""
    steps = steps_of(pairs.first, pairs.at[0])
    for module, by_phase in _WORDS:
        lanes = _lanes(pairs.first, module, by_phase)
        edges = _edges(pairs, state, steps, lanes[0])
        if len(edges) + len(pairs.gaps) <= MOST_SPANS:
            return tuple(_spans(pairs, state, steps, edges, lanes, (module, by_phase)))
    return tuple(_few(pairs, state, steps, edges))


def states(pairs: Pairs, differing: Differences, following: Following) -> Ints:
    """The state of each pair, as a number that grows with what it says."""
    state = np.full(pairs.size, _AGREES, np.int64)
    state[differing.undigested] = _NOT_DIGESTED
    state[differing.any] = _FOLLOWS
    state[following.roots] = _ROOT
    return state


def _edges(pairs: Pairs, state: Ints, steps: Ints, lane_of_group: Ints) -> Ints:
    """Return the starts of stretches, and the end."""
    lane = lane_of_group[pairs.first.group[pairs.at[0]]]
    begins = np.zeros(pairs.size + 1, np.bool_)
    begins[[0, pairs.size]] = True
    begins[1:-1] |= (state[1:] != state[:-1]) | (lane[1:] != lane[:-1]) | (steps[1:] != steps[:-1])
    begins[np.searchsorted(pairs.at[0], [gap.first for gap in pairs.gaps])] = True
    return np.flatnonzero(begins)


def _spans(
    pairs: Pairs, state: Ints, steps: Ints, edges: Ints, lanes: tuple[Ints, list[_Lane]], words: _Words
) -> Iterator[Span]:
    first, second = pairs.first, pairs.second
    of_second = _lanes(second, *words) if pairs.gaps else lanes
    at = pairs.at[0]
    gaps: dict[int, list[Gap]] = {}
    for gap in pairs.gaps:
        gaps.setdefault(int(np.searchsorted(at, gap.first)), []).append(gap)
    for begin, end in pairwise((*edges.tolist(), pairs.size)):
        for gap in gaps.get(begin, ()):
            yield from _alone(first, gap.first, gap.first_end, State.ONLY_FIRST, lanes)
            yield from _alone(second, gap.second, gap.second_end, State.ONLY_SECOND, of_second)
        if end > begin:
            phase, path = lanes[1][int(lanes[0][first.group[at[begin]]])]
            yield Span(_STATES[int(state[begin])], int(steps[begin]), phase, path, int(at[begin]), end - begin)


def _few(pairs: Pairs, state: Ints, steps: Ints, edges: Ints) -> Iterator[Span]:
    """Neighbours joined until there are few enough; what says the most stands, so that no root is lost."""
    edges = np.unique(np.append(edges[:: -(-len(edges) // MOST_SPANS)], pairs.size))
    worst = np.maximum.reduceat(state, edges[:-1]) if len(edges) > 1 else np.empty(0, np.int64)
    for begin, end, says in zip(edges[:-1].tolist(), edges[1:].tolist(), worst.tolist(), strict=True):
        call = int(pairs.at[0][begin])
        yield Span(_STATES[says], int(steps[begin]), Phase.OTHER, "", call, end - begin)


def _alone(values: Values, begin: int, end: int, state: State, lanes: tuple[Ints, list[_Lane]]) -> Iterator[Span]:
    """Calls that one side alone has, in stretches."""
    if begin == end:
        return
    lane = lanes[0][values.group[begin:end]]
    steps = steps_of(values, np.arange(begin, end))
    edges = [0, *(np.flatnonzero((np.diff(lane) != 0) | (np.diff(steps) != 0)) + 1).tolist(), end - begin]
    for first, last in pairwise(edges):
        phase, path = lanes[1][int(lane[first])]
        yield Span(state, int(steps[first]), phase, path, begin + first, last - first)


def _lanes(values: Values, module: Callable[[str], str], by_phase: bool) -> tuple[Ints, list[_Lane]]:
    """For each group the number of its lane, and the lanes."""
    numbers: dict[_Lane, int] = {}
    lane_of_group = [
        numbers.setdefault((group.phase if by_phase else Phase.OTHER, module(group.module)), len(numbers))
        for group in values.groups
    ]
    return np.array(lane_of_group, np.int64), list(numbers)


def steps_of(values: Values, calls: Ints) -> Ints:
    """The step of each call."""
    starts, numbers = values.steps
    rows = np.searchsorted(starts, calls, side="right") - 1
    steps_of_calls: Ints = np.where(rows >= 0, np.concatenate(([0], numbers))[rows + 1], 0).astype(np.int64)
    return steps_of_calls
