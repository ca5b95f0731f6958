"""All calls of two runs in order, as a picture: a lane a module, in the colour of agreed, root, follows, on one side.

Drawn here and not in the page, so that it stands without scripts and on paper; a script makes it zoom. A stretch is
drawn to scale, and each root bears a mark of its own, since one call in a million has no width.
"""

from __future__ import annotations

from collections import Counter
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
    State.ROOT: StateWords("root", "The runs part here."),
    State.FOLLOWS: StateWords("follows", "It differs only because a root before it did."),
    State.ONLY_FIRST: StateWords("only in run 1", "The other run does not make this call."),
    State.ONLY_SECOND: StateWords("only in the other run", "Run 1 does not make this call."),
    State.NOT_DIGESTED: StateWords("not known", "Its bytes were not digested, so nothing is said of it."),
}


class Stretch(NamedTuple):
    """What is drawn of one state."""

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
    marks: tuple[Mark, ...]
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
    return Strip(
        second=second,
        states=STATES,
        total=total,
        lanes=tuple(lanes),
        height=len(lanes) * LANE,
        stretches=tuple(Stretch(state, "".join(drawn[state])) for state in STATES if state in drawn),
        marks=_marks(divergence, total),
        ticks=tuple((step, round(100 * begin / total, 3)) for step, begin in _some(list(begins.items()))),
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
    calls: Counter[str] = Counter()
    for span in spans:
        calls[at_depth(1)(span)] += span.count
    kept = {name for name, _ in calls.most_common(MOST_LANES - 1)}

    def or_rest(span: Span) -> str:
        name = at_depth(1)(span)
        return name if name in kept else _REST

    return or_rest, list(dict.fromkeys(map(or_rest, spans)))


def _marks(divergence: Divergence, total: int) -> tuple[Mark, ...]:
    """Where each root of the comparison is; one that stands in no stretch is left to the table."""
    found = []
    at = 0
    places: dict[tuple[bool, int], int] = {}
    roots = {(root.only_second, root.call) for root in divergence.roots}
    for span in divergence.strip:
        is_second = span.state is State.ONLY_SECOND
        for only_second, call in roots:
            if only_second is is_second and span.call <= call < span.call + span.count:
                places[only_second, call] = at + call - span.call
        at += span.count
    for number, root in enumerate(divergence.roots, 1):
        place = places.get((root.only_second, root.call))
        if place is not None:
            found.append(Mark(number, place, round(100 * place / total, 3)))
    return tuple(found)


def _some(ticks: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """So many of ``ticks`` that their labels have room."""
    every = -(-len(ticks) // _MOST_STEPS)
    return ticks[::every]


def _rows(spans: Sequence[Span]) -> list[StepRow]:
    """Calls by step and state; steps in a row that agree in every call share one."""
    counts: dict[int, Counter[State]] = {}
    for span in spans:
        counts.setdefault(span.step, Counter())[span.state] += span.count
    rows = []
    whole = {State.AGREES}
    for (alike, _), steps in groupby(counts.items(), key=lambda one: (set(one[1]) == whole, 0)):
        several = list(steps)
        for group in [several] if alike else [[one] for one in several]:
            first, last = group[0][0], group[-1][0]
            named = f"{first}" if first == last else f"{first} to {last}"
            summed = sum((one[1] for one in group), Counter[State]())
            rows.append(StepRow(named, tuple(summed[state] for state in STATES)))
    return rows
