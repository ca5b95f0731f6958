"""Whether two configurations draw the same random numbers: where one draws otherwise, and which draw that changes.

Two draws are the same one where op, shape and line agree; they give the same numbers where generators' states agree.
"""

from __future__ import annotations

from operator import itemgetter
from typing import NamedTuple

import msgspec
import numpy as np

from tracer.divergence.joined_ranks import JoinedRanks
from tracer.divergence.pairing import align
from tracer.trace.values.places import REGION_DRAW, STATE_NOTED


class OtherDraws(msgspec.Struct, frozen=True, kw_only=True):
    """The draws in which two configurations come to differ."""

    op: str = ""
    """The first call that draws otherwise; empty: only the second draws there."""
    location: str = ""
    second_op: str = ""
    second_location: str = ""
    changes: str = ""
    """The line of the first draw in both that gives other numbers for it; empty: none was seen to."""

    @property
    def in_another_way(self) -> bool:
        """Whether both draw there: in eager and compiled code, by two kernels, in other shapes."""
        return bool(self.op and self.second_op)


class _Draw(NamedTuple):
    row: int
    key: tuple[str, str, tuple[int, ...], str]
    """Op, generator, shape and line."""
    state: int

    @property
    def op(self) -> str:
        return self.key[0]


def other_draws(first: JoinedRanks, second: JoinedRanks, row: int, second_row: int) -> OtherDraws | None:
    """How they draw otherwise before ``row`` of the first and ``second_row`` of the second; ``None``: alike."""
    sides = _draws(first), _draws(second)
    found = []
    for generator in dict.fromkeys(draw.key[1] for side in sides for draw in side):
        ones, others = ([draw for draw in side if draw.key[1] == generator] for side in sides)
        stretch = _unlike(ones, others)
        if stretch is None:
            continue
        one, other, changed = stretch
        begins = [draw.row < until for draw, until in ((one, row), (other, second_row)) if draw is not None]
        is_changed = changed is not None and changed.row < row
        if is_changed if not begins else all(begins):
            changes = changed.key[-1] if changed is not None and is_changed else ""
            words = {name: draw.op for name, draw in (("op", one), ("second_op", other)) if draw is not None}
            lines = {name: draw.key[-1] for name, draw in (("location", one), ("second_location", other)) if draw}
            earliest = one or changed or other
            found.append((earliest.row if earliest else 0, OtherDraws(**words, **lines, changes=changes)))
    return min(found, key=itemgetter(0))[1] if found else None


def _unlike(ones: list[_Draw], others: list[_Draw]) -> tuple[_Draw | None, _Draw | None, _Draw | None] | None:
    """What either draws without a like draw on the other side, and the next draw in both that gives other numbers.
    Draws after which the generator stands where it does on the other side change nothing: compiled code may draw what
    eager code does (``fallback_random``)."""
    numbers: dict[object, int] = {}
    keys = [np.array([numbers.setdefault(draw.key, len(numbers)) for draw in side]) for side in (ones, others)]
    at = other_at = 0
    ahead: tuple[_Draw | None, _Draw | None] | None = None
    for begin, other_begin, length in (*align(keys[0], keys[1]), (len(ones), len(others), 0)):
        ahead = ahead or _first_of(ones[at:begin], others[other_at:other_begin])
        at, other_at = begin + length, other_begin + length
        for one, other in zip(ones[begin:at], others[other_begin:other_at], strict=True):
            if one.op == REGION_DRAW:
                ahead = ahead or (one, other)
            elif one.state == other.state:
                ahead = None
            elif one.op != STATE_NOTED:
                return *(ahead or (None, None)), one
            elif ahead is not None:
                return *ahead, None
    return None if ahead is None else (*ahead, None)


def _first_of(*sides: list[_Draw]) -> tuple[_Draw | None, _Draw | None] | None:
    """The first draw of each side; ``None`` where neither draws."""
    one, other = (next((draw for draw in side if draw.op != STATE_NOTED), None) for side in sides)
    return (one, other) if one or other else None


def _draws(side: JoinedRanks) -> list[_Draw]:
    draws = []
    places = side.ranks[0].places
    for row in side.draws:
        name, form = places.names[int(places.rows["name"][row])], places.forms[int(places.rows["form"][row])]
        key = (name.name, form.dtype, form.shape, name.location)
        draws.append(_Draw(row, key, int(places.rows["digest"][row])))
    return draws
