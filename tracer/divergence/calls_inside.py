"""The first call inside a faulty module that differs, from recordings that hold its single calls.

Pure: reads recordings of magnitudes.
"""

from __future__ import annotations

import math
from difflib import SequenceMatcher

from tracer.divergence.joined_ranks import JoinedRanks, Whole, distance_of
from tracer.divergence.magnitudes import CallDifference, PlaceDifference
from tracer.divergence.yardsticks import SIGNIFICANT, half_unit
from tracer.names import Phase, PlaceKind
from tracer.trace.values import Magnitudes


def first_call(
    first: Magnitudes, second: Magnitudes, shaken: Magnitudes, place: PlaceDifference
) -> CallDifference | None:
    """The first call inside the module of ``place`` whose result differs by more than rounding, or that only one makes.

    The recordings hold single calls of that module (``PlaceKind.CALL``). Calls correspond one by one as long as their
    results agree, and by their ops from there. ``None``: no call stands out.
    """
    sides = [JoinedRanks(one) for one in (first, second, shaken)]
    with sides[0], sides[1], sides[2]:
        calls = [_calls_in(side, place) for side in sides]
        ops = [[side.name(row).name for row in rows] for side, rows in zip(sides, calls, strict=True)]
        yards = dict(zip(calls[0], calls[2], strict=False)) if ops[0] == ops[2] else {}

        def difference(row: int, other: int) -> CallDifference | None:
            """``None``: no more than rounding."""
            one, two = Whole([sides[0].at(row)]), Whole([sides[1].at(other)])
            distance = distance_of([one], [two]).whole if one.form.size == two.form.size else math.inf
            moved = distance_of([one], [Whole([sides[2].at(yards[row])])]).whole if row in yards else 0.0
            yard = max(moved, half_unit(one.form.dtype), half_unit(two.form.dtype))
            if distance <= SIGNIFICANT * yard:
                return None
            ratio = distance / yard if yard and math.isfinite(distance) else None
            return _at(sides[0], row, op=sides[0].name(row).name, second_op=sides[1].name(other).name, ratio=ratio)

        shorter = min(map(len, calls[:2]))
        both = zip(*ops[:2], *calls[:2], strict=False)
        unlike = (op != second_op or difference(row, other) is not None for op, second_op, row, other in both)
        start = next((number for number, is_unlike in enumerate(unlike) if is_unlike), shorter)
        otherwise: CallDifference | None = None
        matcher = SequenceMatcher(None, ops[0][start:], ops[1][start:], autojunk=False)
        for tag, *ends in matcher.get_opcodes():
            begin, end, other_begin, other_end = (start + number for number in ends)
            if tag != "equal":
                side, row = (sides[0], calls[0][begin]) if begin < end else (sides[1], calls[1][other_begin])
                op, second_op = ops[0][begin:end][:1], ops[1][other_begin:other_end][:1]
                otherwise = otherwise or _at(side, row, op="".join(op), second_op="".join(second_op))
                continue
            pairs = zip(calls[0][begin:end], calls[1][other_begin:other_end], strict=True)
            found = next(filter(None, (difference(row, other) for row, other in pairs)), None)
            if found is not None:
                return otherwise or found
        return otherwise


def _at(side: JoinedRanks, row: int, *, op: str, second_op: str, ratio: float | None = None) -> CallDifference:
    name = side.name(row)
    where = {"location": name.location, "called_from": name.called_from}
    return CallDifference(op=op, second_op=second_op, ratio=ratio, **where)


def _calls_in(side: JoinedRanks, place: PlaceDifference) -> list[int]:
    of_backward = place.phase is Phase.BACKWARD
    calls = ((key, row) for key, row in side.rows.items() if key[0] is PlaceKind.CALL and key[-1] == place.step)
    return [row for key, row in calls if (key[3] is Phase.BACKWARD) == of_backward]
