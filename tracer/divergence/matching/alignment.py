"""Which call of one recording is which call of another.

Two runs of one program mostly make the same calls, so the equal beginning and end are found at once, whole steps that
are equal next, and only what is left is searched for the shortest difference (Myers' algorithm).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Keys = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

#: Differences up to which a block is searched for the shortest script; more are no longer one program.
MOST_EDITS = 1000
#: Steps of that search in all, so that two programs that have nothing in common are told so in seconds.
MOST_WORK = 4_000_000
#: Elements that are compared one by one before whole stretches are.
_SINGLY = 24


class Match(NamedTuple):
    """Calls that are the same on both sides, in a row."""

    first: int
    """Where they begin in the first sequence."""
    second: int
    length: int


class Gap(NamedTuple):
    """Calls that only one side has, between two matches: ranges, of which one may be empty."""

    first: int
    first_end: int
    second: int
    second_end: int


def align(first: Keys, second: Keys, first_steps: Sequence[int] = (), second_steps: Sequence[int] = ()) -> list[Match]:
    """The calls that are on both sides, in order; ``*_steps``: where each side's steps begin.

    Keys are equal where calls are of one group. The first gap is the first place where the sequences part.
    """
    aligner = _Aligner(first, second)
    return list(_joined(aligner.whole(first_steps, second_steps)))


def gaps_of(matches: Sequence[Match], first: int, second: int) -> list[Gap]:
    """What lies between the matches of two sequences of these lengths."""
    found = []
    at_first = at_second = 0
    for match in (*matches, Match(first, second, 0)):
        if match.first > at_first or match.second > at_second:
            found.append(Gap(at_first, match.first, at_second, match.second))
        at_first, at_second = match.first + match.length, match.second + match.length
    return found


def _joined(matches: Iterator[Match]) -> Iterator[Match]:
    """Matches that touch are one."""
    last: Match | None = None
    for match in matches:
        if not match.length:
            continue
        if last is not None and (match.first, match.second) == (last.first + last.length, last.second + last.length):
            last = Match(last.first, last.second, last.length + match.length)
            continue
        if last is not None:
            yield last
        last = match
    if last is not None:
        yield last


def common_prefix(first: Keys, second: Keys) -> int:
    """How many elements agree from the beginning."""
    size = min(len(first), len(second))
    differing = first[:size] != second[:size]
    return int(differing.argmax()) if differing.any() else size


class _Aligner:
    """Two sequences, and what the search may still cost."""

    def __init__(self, first: Keys, second: Keys) -> None:
        self.first, self.second = first, second
        self.work = MOST_WORK

    def whole(self, first_steps: Sequence[int], second_steps: Sequence[int]) -> Iterator[Match]:
        start = common_prefix(self.first, self.second)
        if start == len(self.first) == len(self.second):
            yield Match(0, 0, start)
            return
        end = common_prefix(self.first[start:][::-1], self.second[start:][::-1])
        lo, hi, lo2, hi2 = start, len(self.first) - end, start, len(self.second) - end
        yield Match(0, 0, start)
        ours, theirs = _cut(lo, hi, first_steps), _cut(lo2, hi2, second_steps)
        if len(ours) > 1 and len(theirs) > 1:
            yield from self._steps(ours, theirs)
        else:
            yield from self._block(lo, hi, lo2, hi2)
        yield Match(hi, hi2, end)

    def _steps(self, ours: list[tuple[int, int]], theirs: list[tuple[int, int]]) -> Iterator[Match]:
        """Whole steps first: those that are equal; the steps between them one to one, then inside."""
        numbers: dict[bytes, int] = {}
        signatures = [
            [numbers.setdefault(keys[lo:hi].tobytes(), len(numbers)) for lo, hi in steps]
            for keys, steps in ((self.first, ours), (self.second, theirs))
        ]
        same = self._shortest(signatures[0], signatures[1], most=300) or []
        at, at2 = 0, 0
        for one, two, length in (*same, (len(ours), len(theirs), 0)):
            for (lo, hi), (lo2, hi2) in zip(ours[at:one], theirs[at2:two], strict=False):
                yield from self._block(lo, hi, lo2, hi2)
            for (lo, hi), (lo2, _) in zip(ours[one : one + length], theirs[two : two + length], strict=True):
                yield Match(lo, lo2, hi - lo)
            at, at2 = one + length, two + length

    def _block(self, lo: int, hi: int, lo2: int, hi2: int) -> Iterator[Match]:
        first, second = self.first[lo:hi], self.second[lo2:hi2]
        start = common_prefix(first, second)
        yield Match(lo, lo2, start)
        first, second = first[start:], second[start:]
        end = common_prefix(first[::-1], second[::-1])
        first, second = first[: len(first) - end], second[: len(second) - end]
        # what the other side does not have at all is no part of any match, and makes the search long
        places, places2 = np.flatnonzero(np.isin(first, second)), np.flatnonzero(np.isin(second, first))
        if len(places) and len(places2):
            ours, theirs = first[places], second[places2]
            found = self._shortest(ours.tolist(), theirs.tolist(), most=MOST_EDITS)
            if found is None:
                found = _by_rare_keys(ours, theirs)
            for one, two, length in found:
                at, at2 = places[one : one + length], places2[two : two + length]
                breaks = np.flatnonzero((np.diff(at) != 1) | (np.diff(at2) != 1)) + 1
                for begin, stop in pairwise((0, *breaks.tolist(), length)):
                    yield Match(lo + start + int(at[begin]), lo2 + start + int(at2[begin]), stop - begin)
        yield Match(hi - end, hi2 - end, end)

    def _shortest(self, first: list[int], second: list[int], most: int) -> list[Match] | None:
        """The shortest edit script's matches; ``None`` where it takes more than ``most`` edits or work."""
        size, size2 = len(first), len(second)
        arrays = np.array(first, np.int64), np.array(second, np.int64)
        before = {1: 0}
        history: list[dict[int, int]] = []
        for edits in range(min(size + size2, most) + 1):
            history.append(before)
            reach: dict[int, int] = {}
            self.work -= edits + 1
            if self.work < 0:
                return None
            for diagonal in range(-edits, edits + 1, 2):
                down = _goes_down(before, diagonal, edits)
                x = before[diagonal + 1] if down else before[diagonal - 1] + 1
                y = x - diagonal
                if x <= size and 0 <= y <= size2:
                    length = _run(first, second, arrays, x, y)
                    self.work -= min(length, _SINGLY) + (length >> 6)
                    x += length
                reach[diagonal] = x
                if x >= size and x - diagonal >= size2:
                    return _walk_back(history, size, size2)
            before = reach
        return None


def _cut(lo: int, hi: int, starts: Sequence[int]) -> list[tuple[int, int]]:
    """The range ``lo:hi`` by steps; what lies before the first of them is one too."""
    edges = [lo, *(int(start) for start in starts if lo < start < hi), hi]
    return [(one, other) for one, other in pairwise(edges) if other > one]


def _run(first: list[int], second: list[int], arrays: tuple[Keys, Keys], x: int, y: int) -> int:
    """How many elements agree from ``x`` and ``y`` on."""
    length = 0
    most = min(len(first) - x, len(second) - y)
    while length < min(most, _SINGLY):
        if first[x + length] != second[y + length]:
            return length
        length += 1
    stretch = 256
    while length < most:
        stop = min(most, length + stretch)
        here = common_prefix(arrays[0][x + length : x + stop], arrays[1][y + length : y + stop])
        if here < stop - length:
            return length + here
        length, stretch = stop, stretch * 4
    return length


def _goes_down(before: dict[int, int], diagonal: int, edits: int) -> bool:
    """Is this diagonal best reached by skipping a call of the second side?"""
    return diagonal == -edits or (diagonal != edits and before[diagonal - 1] < before[diagonal + 1])


def _walk_back(history: list[dict[int, int]], x: int, y: int) -> list[Match]:
    """The matches of the script that was found, from its end."""
    found: list[Match] = []
    for edits in range(len(history) - 1, 0, -1):
        before, diagonal = history[edits], x - y
        down = _goes_down(before, diagonal, edits)
        came = diagonal + 1 if down else diagonal - 1
        start = before[came] + (not down)
        if x > start:
            found.append(Match(start, start - diagonal, x - start))
        x = before[came]
        y = x - came
    if x:
        found.append(Match(0, 0, x))
    return found[::-1]


def _by_rare_keys(first: Keys, second: Keys) -> list[Match]:
    """Matches at keys that each side has once, in the order of both: what is left when the search gave up."""
    ours, theirs = (_once(keys) for keys in (first, second))
    places = [(ours[key], theirs[key]) for key in sorted(ours.keys() & theirs.keys(), key=ours.__getitem__)]
    chain = _rising([two for _, two in places])
    return [Match(places[at][0], places[at][1], 1) for at in chain]


def _once(keys: Keys) -> dict[int, int]:
    found, places, counts = np.unique(keys, return_index=True, return_counts=True)
    return dict(zip(found[counts == 1].tolist(), places[counts == 1].tolist(), strict=True))


def _rising(numbers: list[int]) -> list[int]:
    """Positions of a longest rising subsequence."""
    ends: list[int] = []
    at: list[int] = []
    before: list[int] = []
    for position, number in enumerate(numbers):
        place = bisect_left(ends, number)
        before.append(at[place - 1] if place else -1)
        if place == len(ends):
            ends.append(number)
            at.append(position)
        else:
            ends[place], at[place] = number, position
    chain = []
    position = at[-1] if at else -1
    while position >= 0:
        chain.append(position)
        position = before[position]
    return chain[::-1]


# --- where one run went on and the other resumed ----------------------------------------------------------


def align_steps(
    first: Keys, second: Keys, first_steps: Sequence[int], second_steps: Sequence[int], is_own: tuple[Flags, Flags]
) -> list[Match]:
    """The calls that are on both sides where one run went on and the other resumed: step stands against step.

    Before the first common step the resumed run set itself up, loaded its checkpoint and passed over batches, and the
    other one ended the step before: neither says anything of the other.

    ``*_steps``: where steps begin, the first common one at 0.
    ``is_own``: which calls belong to a step for sure: of modules, of the backward, of an optimizer.
    """
    ours, theirs = _cut_in_steps(len(first), first_steps), _cut_in_steps(len(second), second_steps)
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


def _cut_in_steps(size: int, starts: Sequence[int]) -> list[tuple[int, int]]:
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
