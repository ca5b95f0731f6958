"""Where the outputs of parts of a batch stand in those of the whole batch, which another recording has.

A step that accumulates over four parts calls each module four times as often as one that takes the batch as a whole.
What the calls return are rows of what the one call returns, in order, and ranks hold equal parts of them.
"""

from __future__ import annotations

import os
from collections import Counter
from typing import NamedTuple

from tracer.names import Phase, PlaceKind
from tracer.recording.magnitudes.parts import Part
from tracer.trace.values import PlaceName, read_magnitudes
from tracer.trace.values.places import leads_with_class, module_of

_Key = tuple[PlaceKind, str, str, Phase, int]


class Rows(NamedTuple):
    """The place in the whole batch that a part belongs to."""

    part: Part
    occurrence: int


class WholeBatch:
    """The shapes of inputs and outputs in the recording ``path`` of a run that splits its batch less often."""

    def __init__(self, path: str | os.PathLike[str], rank: int = 0, world_size: int = 1) -> None:
        self._rank, self._world_size = rank, world_size
        self._shapes: dict[_Key, list[tuple[int, ...]]] = {}
        self._losses: Counter[int] = Counter()
        """By step: the parts that the recording itself splits a batch into."""
        self._rows: Counter[tuple[_Key, int]] = Counter()
        """First dimensions that came by so far."""
        places = read_magnitudes(path).places
        self._leads_with_class = leads_with_class(places.names)
        columns = (places.rows[column].tolist() for column in ("name", "form", "step"))
        for name, form, step in zip(*columns, strict=True):
            place = places.names[name]
            if place.kind is PlaceKind.LOSS:
                self._losses[step] += 1
            elif place.kind in (PlaceKind.INPUT, PlaceKind.OUTPUT):
                key = _key(place, step, leads_with_class=self._leads_with_class)
                self._shapes.setdefault(key, []).append(places.forms[form].shape)

    def rows(
        self, place: PlaceName, step: int, call: int, part: Part, *, leads_with_class: bool = False
    ) -> Rows | None:
        """``part`` as rows of the whole, for the ``call``-th of its kind in the step; ``None`` where it is none.

        ``leads_with_class``: the path of its module begins with the model's class.
        """
        key = _key(place, step, leads_with_class=self._leads_with_class and leads_with_class)
        shapes = self._shapes.get(key)
        if not shapes or part.start or part.is_term:
            return None
        passes = self._losses[step] or 1
        calls = len(shapes) // passes if len(shapes) % passes == 0 else len(shapes)
        for occurrence in range(call % calls, len(shapes), calls):
            whole, begin = shapes[occurrence], self._rows[key, occurrence]
            if part.shape == whole:
                return Rows(part, occurrence)
            if not part.shape or part.shape[1:] != whole[1:] or whole[0] % self._world_size:
                return None
            share = whole[0] // self._world_size
            if begin + part.shape[0] <= share:
                self._rows[key, occurrence] += part.shape[0]
                start = (self._rank * share + begin, *[0] * (len(whole) - 1))
                return Rows(Part(part.local, whole, start), occurrence)
        return None


def _key(place: PlaceName, step: int, *, leads_with_class: bool) -> _Key:
    return place.kind, module_of(place, leads_with_class=leads_with_class), place.name, place.phase, step
