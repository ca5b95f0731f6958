"""Which call of one recording corresponds to which call of the other.

Two runs of one program mostly make the same calls, so the common prefix and suffix are matched first, then whole equal
steps. In the rest the n-th call of a group on one side is paired with the n-th on the other; of these pairs the most
that keep the order of both sides are taken, and what lies between two of them is aligned in the same way.
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
    start = common_prefix(first, second)
    end = common_prefix(first[start:][::-1], second[start:][::-1])
    stops = len(first) - end, len(second) - end
    ours, theirs = _cut(start, stops[0], first_steps), _cut(start, stops[1], second_steps)
    matches = [Match(0, 0, start), Match(*stops, end)]
    at, at2 = 0, 0
    for begin, begin2, length in (*_equal_steps(first, second, ours, theirs), (len(ours), len(theirs), 0)):
        # The steps between equal ones are paired one to one.
        for (lo, hi), (lo2, hi2) in zip(ours[at:begin], theirs[at2:begin2], strict=False):
            matches += _block(first, second, Gap(lo, hi, lo2, hi2))
        at, at2 = begin + length, begin2 + length
        matches += (
            Match(lo, lo2, hi - lo) for (lo, hi), (lo2, _) in zip(ours[begin:at], theirs[begin2:at2], strict=True)
        )
    return list(_joined(sorted(matches)))


def gaps_of(matches: Sequence[Match], first: int, second: int) -> list[Gap]:
    """The gaps between the matches of two sequences of these lengths."""
    gaps = []
    at_first = at_second = 0
    for match in (*matches, Match(first, second, 0)):
        if match.first > at_first or match.second > at_second:
            gaps.append(Gap(at_first, match.first, at_second, match.second))
        at_first, at_second = match.first + match.length, match.second + match.length
    return gaps


def _joined(matches: Sequence[Match]) -> Iterator[Match]:
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


def _equal_steps(first: Keys, second: Keys, ours: list[tuple[int, int]], theirs: list[tuple[int, int]]) -> list[Match]:
    numbers: dict[bytes, int] = {}
    signatures = [
        np.array([numbers.setdefault(keys[lo:hi].tobytes(), len(numbers)) for lo, hi in steps], np.int64)
        for keys, steps in ((first, ours), (second, theirs))
    ]
    return list(_joined(sorted(_block(signatures[0], signatures[1], Gap(0, len(ours), 0, len(theirs))))))


def _block(first: Keys, second: Keys, block: Gap) -> Iterator[Match]:
    """The matches inside ``block``, in any order: no group of calls is left on both sides between two of them."""
    blocks = [block]
    while blocks:
        lo, hi, lo2, hi2 = blocks.pop()
        start = common_prefix(first[lo:hi], second[lo2:hi2])
        yield Match(lo, lo2, start)
        lo, lo2 = lo + start, lo2 + start
        end = common_prefix(first[lo:hi][::-1], second[lo2:hi2][::-1])
        hi, hi2 = hi - end, hi2 - end
        yield Match(hi, hi2, end)
        some, others = first[lo:hi], second[lo2:hi2]
        size = max(len(some), len(others)) + 1
        counted = [keys * size + occurrences(keys) for keys in (some, others)]
        _, at, at2 = np.intersect1d(counted[0], counted[1], assume_unique=True, return_indices=True)
        at2 = at2[np.argsort(at)]
        at.sort()
        chain = _rising(at2.tolist())
        matches = [
            Match(lo + one, lo2 + other, 1) for one, other in zip(at[chain].tolist(), at2[chain].tolist(), strict=True)
        ]
        yield from matches
        for (one, other, _), (following, following2, _) in pairwise(
            (Match(lo - 1, lo2 - 1, 1), *matches, Match(hi, hi2, 0))
        ):
            if matches and one + 1 < following and other + 1 < following2:
                blocks.append(Gap(one + 1, following, other + 1, following2))


def occurrences(keys: Keys) -> Keys:
    """For each element, how many equal elements precede it."""
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    begins = np.zeros(len(keys), np.int64)
    fresh = np.flatnonzero(np.diff(ordered)) + 1
    begins[fresh] = fresh
    counts = np.empty(len(keys), np.int64)
    counts[order] = np.arange(len(keys)) - np.maximum.accumulate(begins)
    return counts


def _cut(lo: int, hi: int, starts: Sequence[int]) -> list[tuple[int, int]]:
    """The range ``lo:hi`` cut into steps; calls before the first step count as a step."""
    edges = [lo, *(int(start) for start in starts if lo < start < hi), hi]
    return [(start, end) for start, end in pairwise(edges) if end > start]


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
