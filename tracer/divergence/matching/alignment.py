"""Which call of one recording corresponds to which call of the other.

Two runs of one program mostly make the same calls, so the common prefix and suffix are matched first, then whole equal
steps; only the rest is searched for the shortest edit script (Myers' algorithm).
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

#: The most edits in a block's shortest script; with more, the two are hardly the same program.
MOST_EDITS = 1000
#: The most steps of that search in total, so that comparing two unrelated programs takes seconds.
MOST_WORK = 4_000_000
#: Elements that are compared one at a time before whole stretches are.
_SINGLY = 24


class Match(NamedTuple):
    """A run of calls that are the same on both sides."""

    first: int
    """Its start in the first sequence."""
    second: int
    length: int


class Gap(NamedTuple):
    """Calls that only one side has, between two matches; one of the two ranges may be empty."""

    first: int
    first_end: int
    second: int
    second_end: int


def align(first: Keys, second: Keys, first_steps: Sequence[int] = (), second_steps: Sequence[int] = ()) -> list[Match]:
    """The calls that both sides have, in order; ``*_steps``: where each side's steps begin.

    Calls of one group have equal keys. The sequences diverge first at the first gap.
    """
    aligner = _Aligner(first, second)
    return list(_joined(aligner.whole(first_steps, second_steps)))


def gaps_of(matches: Sequence[Match], first: int, second: int) -> list[Gap]:
    """The gaps between the matches of two sequences of these lengths."""
    gaps = []
    at_first = at_second = 0
    for match in (*matches, Match(first, second, 0)):
        if match.first > at_first or match.second > at_second:
            gaps.append(Gap(at_first, match.first, at_second, match.second))
        at_first, at_second = match.first + match.length, match.second + match.length
    return gaps


def _joined(matches: Iterator[Match]) -> Iterator[Match]:
    """Joins adjacent matches."""
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
    """The length of the common prefix."""
    size = min(len(first), len(second))
    differing = first[:size] != second[:size]
    return int(differing.argmax()) if differing.any() else size


class _Aligner:
    """Two sequences, and how much work the search may still do."""

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
        """Matches equal steps first; the steps between them are paired one to one and searched inside."""
        numbers: dict[bytes, int] = {}
        signatures = [
            [numbers.setdefault(keys[lo:hi].tobytes(), len(numbers)) for lo, hi in steps]
            for keys, steps in ((self.first, ours), (self.second, theirs))
        ]
        same = self._shortest(signatures[0], signatures[1], most=300) or []
        at, at2 = 0, 0
        for begin, begin2, length in (*same, (len(ours), len(theirs), 0)):
            for (lo, hi), (lo2, hi2) in zip(ours[at:begin], theirs[at2:begin2], strict=False):
                yield from self._block(lo, hi, lo2, hi2)
            for (lo, hi), (lo2, _) in zip(ours[begin : begin + length], theirs[begin2 : begin2 + length], strict=True):
                yield Match(lo, lo2, hi - lo)
            at, at2 = begin + length, begin2 + length

    def _block(self, lo: int, hi: int, lo2: int, hi2: int) -> Iterator[Match]:
        first, second = self.first[lo:hi], self.second[lo2:hi2]
        start = common_prefix(first, second)
        yield Match(lo, lo2, start)
        first, second = first[start:], second[start:]
        end = common_prefix(first[::-1], second[::-1])
        first, second = first[: len(first) - end], second[: len(second) - end]
        # a key that the other side lacks is in no match, and makes the search longer
        places, places2 = np.flatnonzero(np.isin(first, second)), np.flatnonzero(np.isin(second, first))
        if len(places) and len(places2):
            ours, theirs = first[places], second[places2]
            matches = self._shortest(ours.tolist(), theirs.tolist(), most=MOST_EDITS)
            if matches is None:
                matches = _by_rare_keys(ours, theirs)
            for begin, begin2, length in matches:
                at, at2 = places[begin : begin + length], places2[begin2 : begin2 + length]
                breaks = np.flatnonzero((np.diff(at) != 1) | (np.diff(at2) != 1)) + 1
                for begin, stop in pairwise((0, *breaks.tolist(), length)):
                    yield Match(lo + start + int(at[begin]), lo2 + start + int(at2[begin]), stop - begin)
        yield Match(hi - end, hi2 - end, end)

    def _shortest(self, first: list[int], second: list[int], most: int) -> list[Match] | None:
        """The matches of the shortest edit script; ``None`` if it takes more than ``most`` edits or too much work."""
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
    """The range ``lo:hi`` cut into steps; calls before the first step count as a step."""
    edges = [lo, *(int(start) for start in starts if lo < start < hi), hi]
    return [(start, end) for start, end in pairwise(edges) if end > start]


def _run(first: list[int], second: list[int], arrays: tuple[Keys, Keys], x: int, y: int) -> int:
    """Return the number of elements that agree from ``x`` and ``y``."""
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
    """Return whether this diagonal is best reached by skipping a call of the second side."""
    return diagonal == -edits or (diagonal != edits and before[diagonal - 1] < before[diagonal + 1])


def _walk_back(history: list[dict[int, int]], x: int, y: int) -> list[Match]:
    """The matches of the shortest script, walked back from its end."""
    matches: list[Match] = []
    for edits in range(len(history) - 1, 0, -1):
        before, diagonal = history[edits], x - y
        down = _goes_down(before, diagonal, edits)
        came = diagonal + 1 if down else diagonal - 1
        start = before[came] + (not down)
        if x > start:
            matches.append(Match(start, start - diagonal, x - start))
        x = before[came]
        y = x - came
    if x:
        matches.append(Match(0, 0, x))
    return matches[::-1]


def _by_rare_keys(first: Keys, second: Keys) -> list[Match]:
    """Matches at keys that occur once on each side, in the same order: the fallback if the search gives up."""
    ours, theirs = (_once(keys) for keys in (first, second))
    places = [(ours[key], theirs[key]) for key in sorted(ours.keys() & theirs.keys(), key=ours.__getitem__)]
    chain = _rising([two for _, two in places])
    return [Match(places[at][0], places[at][1], 1) for at in chain]


def _once(keys: Keys) -> dict[int, int]:
    unique, places, counts = np.unique(keys, return_index=True, return_counts=True)
    return dict(zip(unique[counts == 1].tolist(), places[counts == 1].tolist(), strict=True))


def longest_rising(numbers: list[int]) -> int:
    """The length of a longest rising subsequence."""
    return len(_rising(numbers))


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


# --- an uninterrupted run and a resumed one ---------------------------------------------------------------


def align_steps(
    first: Keys, second: Keys, first_steps: Sequence[int], second_steps: Sequence[int], is_own: tuple[Flags, Flags]
) -> list[Match]:
    """The calls that an uninterrupted run and a resumed one share, aligned step by step.

    Before the first common step the resumed run sets itself up, loads its checkpoint and skips batches, while the
    other run ends the step before: these calls are not comparable.

    ``*_steps``: where steps begin, the first common one at 0.
    ``is_own``: which calls certainly belong to a step: those of modules, of the backward, of an optimizer.
    """
    ours, theirs = _cut(0, len(first), first_steps), _cut(0, len(second), second_steps)
    aligned: list[Match] = []
    for number, ((lo, hi), (lo2, hi2)) in enumerate(zip(ours, theirs, strict=False)):
        some, others = first[lo:hi], second[lo2:hi2]
        if number:
            matches = align(some, others)
        else:
            own = is_own[0][lo:hi], is_own[1][lo2:hi2]
            matches = list(_from_its_own(_from_the_end(some, others), own))
        aligned += (Match(lo + begin, lo2 + begin2, length) for begin, begin2, length in matches)
    return aligned


def _from_the_end(first: Keys, second: Keys) -> list[Match]:
    """Aligns from the end, so that an ambiguous call matches the last candidate."""
    matches = align(first[::-1], second[::-1])
    turned = (
        Match(len(first) - match.first - match.length, len(second) - match.second - match.length, match.length)
        for match in reversed(matches)
    )
    return list(turned)


def _from_its_own(matches: Sequence[Match], is_own: tuple[Flags, Flags]) -> Iterator[Match]:
    """Drops matches that precede the last gap before the step's own calls."""
    begins = [int(np.argmax(own)) if own.any() else 0 for own in is_own]
    start = 0
    for number, match in enumerate(matches):
        if match.first > begins[0] or match.second > begins[1]:
            break
        start = number
    yield from matches[start:]
