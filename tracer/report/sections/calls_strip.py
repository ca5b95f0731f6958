"""All calls of two runs in order, as a picture: a lane a module, coloured by what became of each call.

It is drawn here, to stand without scripts and on paper; a script makes it zoom. One call in a million has no width, so
each root has a mark.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

from tracer.divergence.model import Divergence, Span, State

#: Lanes at most, the height of one, and how deep into the modules they go.
MOST_LANES = 12
LANE = 18
_DEEPEST = 4
OUTSIDE = "outside modules"
_REST = "other modules"
#: Steps that are named below the picture, and rows of the same in figures.
_MOST_STEPS = 24
_MOST_ROWS = 40


class StateWords(NamedTuple):
    """A state in words."""

    label: str
    meaning: str


STATES = {
    State.AGREES: StateWords("agrees", "All that it read and wrote is the same in both runs."),
    State.ROOT: StateWords("root", "The runs diverge here."),
    State.FOLLOWS: StateWords("follows", "It differs only because a root before it did."),
    State.ONLY_FIRST: StateWords("only in run 1", "The other run does not make this call."),
    State.ONLY_SECOND: StateWords("only in the other run", "Run 1 does not make this call."),
    State.NOT_DIGESTED: StateWords("not known", "Its bytes were not digested, so nothing is said of it."),
}


class Stretch(NamedTuple):
    """A drawn stretch of calls in one state."""

    state: State
    path: str
    """As SVG spells it, in calls and lanes."""


class Mark(NamedTuple):
    """A root, over the picture."""

    number: int
    """Its row in the table of roots, from 1."""
    at: int
    """Calls before it."""
    left: float
    """Percent of the whole."""


class StepRow(NamedTuple):
    """The calls of one step by what became of them."""

    steps: str
    counts: tuple[int, ...]
    """In the order of ``STATES``."""


class Strip(NamedTuple):
    """The picture."""

    second: str
    """The run that is held against run 1."""
    states: Mapping[State, StateWords]

    total: int
    lanes: tuple[str, ...]
    height: int
    stretches: tuple[Stretch, ...]
    root_marks: tuple[Mark, ...]
    ticks: tuple[tuple[int, float], ...]
    """Step, and where it begins in percent of the whole."""
    rows: tuple[StepRow, ...]
    rows_more: int
    spans: list[list[int]]
    """For the script: calls before, calls, state, lane, step, phase, module; the latter as places in ``names``."""
    names: list[str]


def picture_of(divergence: Divergence, second: str = "run 2") -> Strip | None:
    """The picture of ``divergence``; ``None`` where nothing was recorded."""
    spans = divergence.strip
    total = sum(span.count for span in spans)
    if not total:
        return None
    lane_of, lanes = _lanes(spans)
    names: dict[str, int] = {}
    drawn: dict[State, list[str]] = {}
    begins: dict[int, int] = {}
    data: list[list[int]] = []
    at = 0
    for span in spans:
        lane = lanes.index(lane_of(span))
        top = lane * LANE + 1
        drawn.setdefault(span.state, []).append(f"M{at} {top}h{span.count}v{LANE - 2}h-{span.count}z")
        begins.setdefault(span.step, at)
        state = list(STATES).index(span.state)
        words = [names.setdefault(word, len(names)) for word in (span.phase.value, span.module or OUTSIDE)]
        data.append([at, span.count, state, lane, span.step, *words])
        at += span.count
    rows = _rows(spans)
    every = -(-len(begins) // _MOST_STEPS)  # so few that their labels have room
    return Strip(
        second=second,
        states=STATES,
        total=total,
        lanes=tuple(lanes),
        height=len(lanes) * LANE,
        stretches=tuple(Stretch(state, "".join(drawn[state])) for state in STATES if state in drawn),
        root_marks=_root_marks(divergence, total),
        ticks=tuple((step, round(100 * begins[step] / total, 3)) for step in list(begins)[::every]),
        rows=tuple(rows[:_MOST_ROWS]),
        rows_more=max(0, len(rows) - _MOST_ROWS),
        spans=data,
        names=list(names),
    )


def _lanes(spans: Sequence[Span]) -> tuple[Callable[[Span], str], list[str]]:
    """The lane of a span, as deep into the modules as leaves few enough lanes; and all of them as they first ran."""

    def at_depth(depth: int) -> Callable[[Span], str]:
        return lambda span: ".".join(span.module.split(".")[:depth]) or OUTSIDE

    for depth in range(_DEEPEST, 0, -1):
        lanes = list(dict.fromkeys(map(at_depth(depth), spans)))
        if len(lanes) <= MOST_LANES:
            return at_depth(depth), lanes
    top = at_depth(1)
    calls: Counter[str] = Counter()
    for span in spans:
        calls[top(span)] += span.count
    busiest = {name for name, _ in calls.most_common(MOST_LANES - 1)}

    def or_rest(span: Span) -> str:
        return name if (name := top(span)) in busiest else _REST

    return or_rest, list(dict.fromkeys(map(or_rest, spans)))


def _root_marks(divergence: Divergence, total: int) -> tuple[Mark, ...]:
    """Return the mark of each root of the comparison; one that stands in no stretch is left to the table."""
    at = 0
    places: dict[tuple[bool, int], int] = {}
    roots = {(root.only_second, root.call) for root in divergence.roots}
    for span in divergence.strip:
        is_second = span.state is State.ONLY_SECOND
        for only_second, call in roots:
            if only_second is is_second and span.call <= call < span.call + span.count:
                places[only_second, call] = at + call - span.call
        at += span.count
    numbered = ((number, places.get((root.only_second, root.call))) for number, root in enumerate(divergence.roots, 1))
    return tuple(Mark(number, at, round(100 * at / total, 3)) for number, at in numbered if at is not None)


def _rows(spans: Sequence[Span]) -> list[StepRow]:
    """Calls by step and state; steps in a row that agree in every call share one."""
    counts: defaultdict[int, Counter[State]] = defaultdict(Counter)
    for span in spans:
        counts[span.step][span.state] += span.count
    rows = []
    for _, group in groupby(counts, key=lambda step: None if set(counts[step]) == {State.AGREES} else step):
        steps = list(group)
        named = f"{steps[0]}" if len(steps) == 1 else f"{steps[0]} to {steps[-1]}"
        summed = sum((counts[step] for step in steps), Counter[State]())
        rows.append(StepRow(named, tuple(summed[state] for state in STATES)))
    return rows
