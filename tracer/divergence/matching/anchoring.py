"""Which call is which where one run went on and the other resumed: step stands against step, from the first common one.

Before that step's own calls the resumed run set itself up, loaded its checkpoint and passed over batches, and the other
one ended the step before: neither says anything of the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from tracer.divergence.matching.alignment import Keys, Match, align

Flags = npt.NDArray[np.bool_]


def align_steps(
    first: Keys, second: Keys, first_steps: Sequence[int], second_steps: Sequence[int], is_own: tuple[Flags, Flags]
) -> list[Match]:
    """The calls that are on both sides. ``*_steps``: where steps begin, the first common one at 0.

    ``is_own``: which calls belong to a step for sure: of modules, of the backward, of an optimizer.
    """
    ours, theirs = _cut(len(first), first_steps), _cut(len(second), second_steps)
    found: list[Match] = []
    for number, ((lo, hi), (lo2, hi2)) in enumerate(zip(ours, theirs, strict=False)):
        some, others = first[lo:hi], second[lo2:hi2]
        if number:
            matches = align(some, others)
        else:
            own = is_own[0][lo:hi], is_own[1][lo2:hi2]
            matches = list(_from_its_own(_from_the_end(some, others), own))
        found += (Match(lo + one, lo2 + two, length) for one, two, length in matches)
    return found


def _cut(size: int, starts: Sequence[int]) -> list[tuple[int, int]]:
    edges = [0, *(start for start in starts if 0 < start < size), size]
    return [(one, other) for one, other in pairwise(edges) if other > one]


def _from_the_end(first: Keys, second: Keys) -> list[Match]:
    """Where one call could be several, the last of them."""
    matches = align(first[::-1], second[::-1])
    turned = (
        Match(len(first) - match.first - match.length, len(second) - match.second - match.length, match.length)
        for match in reversed(matches)
    )
    return list(turned)


def _from_its_own(matches: Sequence[Match], is_own: tuple[Flags, Flags]) -> Iterator[Match]:
    """Without what was matched before a gap that lies before the step's own calls."""
    begins = [int(np.argmax(own)) if own.any() else 0 for own in is_own]
    kept = 0
    for number, match in enumerate(matches):
        if match.first > begins[0] or match.second > begins[1]:
            break
        kept = number
    yield from matches[kept:]
