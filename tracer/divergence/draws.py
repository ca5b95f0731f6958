"""Whether two configurations draw the same random numbers: where one draws otherwise, and which draw that changes.

A call draws what its generator's state says. Two draws are the same one where op, shape and line agree; they give the
same numbers where the states agree. Pure: reads two recordings of magnitudes.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from tracer.divergence.joined_ranks import JoinedRanks
from tracer.trace.values.places import REGION_DRAW, STATE_NOTED

#: Draws that are looked through for the next one that both have.
_MOST_SKIPPED = 128


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
    location: str

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
            changes = changed.location if changed is not None and is_changed else ""
            found.append(
                (one or changed or other, OtherDraws(**_words(one), **_words(other, "second_"), changes=changes))
            )
    return min(found, key=lambda pair: pair[0].row if pair[0] else 0)[1] if found else None


def _words(draw: _Draw | None, prefix: str = "") -> dict[str, str]:
    return {} if draw is None else {f"{prefix}op": draw.op, f"{prefix}location": draw.location}


def _unlike(ones: list[_Draw], others: list[_Draw]) -> tuple[_Draw | None, _Draw | None, _Draw | None] | None:
    """What either draws without a like draw on the other side, and the next draw in both that gives other numbers.

    Draws after which the generator stands where it does on the other side change nothing: compiled code may draw what
    eager code does (``fallback_random``).
    """
    place = other_place = 0
    ahead: tuple[_Draw | None, _Draw | None] | None = None
    while place < len(ones) and other_place < len(others):
        one, other = ones[place], others[other_place]
        if one.key != other.key:
            skipped, other_skipped = _to_next_in_both(ones[place:], others[other_place:])
            ahead = ahead or _first_of(ones[place:][:skipped], others[other_place:][:other_skipped])
            place, other_place = place + skipped, other_place + other_skipped
            continue
        place, other_place = place + 1, other_place + 1
        if one.op == REGION_DRAW:
            ahead = ahead or (one, other)
        elif one.state == other.state:
            ahead = None
        elif one.op != STATE_NOTED:
            return *(ahead or (None, None)), one
        elif ahead is not None:
            return *ahead, None
    ahead = ahead or _first_of(ones[place:], others[other_place:])
    return None if ahead is None else (*ahead, None)


def _first_of(*sides: list[_Draw]) -> tuple[_Draw | None, _Draw | None] | None:
    """The first draw of each side; ``None`` where neither draws."""
    one, other = (next((draw for draw in side if draw.op != STATE_NOTED), None) for side in sides)
    return (one, other) if one or other else None


def _to_next_in_both(ones: list[_Draw], others: list[_Draw]) -> tuple[int, int]:
    """How many draws each side makes before the next one that both make."""
    keys, other_keys = ([draw.key for draw in side[:_MOST_SKIPPED]] for side in (ones, others))
    for total in range(1, len(keys) + len(other_keys) - 1):
        for skipped in range(max(0, total - len(other_keys) + 1), min(total + 1, len(keys))):
            if keys[skipped] == other_keys[total - skipped]:
                return skipped, total - skipped
    return len(ones), len(others)


def _draws(side: JoinedRanks) -> list[_Draw]:
    draws = []
    places = side.ranks[0].places
    for row in side.draws:
        name, form = places.names[int(places.rows["name"][row])], places.forms[int(places.rows["form"][row])]
        key = (name.name, form.dtype, form.shape, name.location)
        draws.append(_Draw(row, key, int(places.rows["digest"][row]), name.location))
    return draws
