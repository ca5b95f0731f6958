"""Which call of one recording corresponds to which of the other, and the entries and draws that belong to each.

Two runs of one program mostly make the same calls, so the common prefix and suffix are matched first, then whole equal
steps. In the rest the n-th call of a group on one side is paired with the n-th on the other; of these pairs the most
that keep the order of both sides are taken, and what lies between two of them is aligned in the same way.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tracer.names import Phase
from tracer.trace.values import Values
from tracer.trace.values.columns import U4, U8, Group, Name

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
Columns = tuple[U4, U4, U8]


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


def align(first: Ints, second: Ints, first_steps: Sequence[int] = (), second_steps: Sequence[int] = ()) -> list[Match]:
    """The calls that both sides have, in order; ``*_steps``: where each side's steps begin. Keys are groups."""
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
    return _joined(matches)


def gaps_of(matches: Sequence[Match], first: int, second: int, begins: tuple[int, int] = (0, 0)) -> list[Gap]:
    """The gaps between the matches of two sequences of these lengths, from ``begins`` on."""
    gaps = []
    at_first, at_second = begins
    for match in (*matches, Match(first, second, 0)):
        if match.first > at_first or match.second > at_second:
            gaps.append(Gap(at_first, match.first, at_second, match.second))
        at_first, at_second = match.first + match.length, match.second + match.length
    return gaps


def _joined(matches: Iterable[Match]) -> list[Match]:
    """Puts matches in order, and joins adjacent ones."""
    joined: list[Match] = []
    for match in sorted(matches):
        last = joined[-1] if joined else Match(0, 0, 0)
        if joined and (match.first, match.second) == (last.first + last.length, last.second + last.length):
            joined[-1] = Match(last.first, last.second, last.length + match.length)
        elif match.length:
            joined.append(match)
    return joined


def common_prefix(first: Ints, second: Ints) -> int:
    """The length of the common prefix."""
    size = min(len(first), len(second))
    differing = first[:size] != second[:size]
    return int(differing.argmax()) if differing.any() else size


def _equal_steps(first: Ints, second: Ints, ours: list[tuple[int, int]], theirs: list[tuple[int, int]]) -> list[Match]:
    numbers: dict[bytes, int] = {}
    signatures = [
        np.array([numbers.setdefault(keys[lo:hi].tobytes(), len(numbers)) for lo, hi in steps], np.int64)
        for keys, steps in ((first, ours), (second, theirs))
    ]
    return _joined(_block(signatures[0], signatures[1], Gap(0, len(ours), 0, len(theirs))))


def _block(first: Ints, second: Ints, block: Gap) -> Iterator[Match]:
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
        chain = rising(at2.tolist())
        matches = [
            Match(lo + one, lo2 + other, 1) for one, other in zip(at[chain].tolist(), at2[chain].tolist(), strict=True)
        ]
        yield from matches
        for (one, other, _), (following, following2, _) in pairwise(
            (Match(lo - 1, lo2 - 1, 1), *matches, Match(hi, hi2, 0))
        ):
            if matches and one + 1 < following and other + 1 < following2:
                blocks.append(Gap(one + 1, following, other + 1, following2))


def occurrences(keys: Ints) -> Ints:
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
    edges = [lo, *(start for start in starts if lo < start < hi), hi]
    return [(start, end) for start, end in pairwise(edges) if end > start]


def rising(numbers: list[int]) -> list[int]:
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
    first: Ints, second: Ints, first_steps: Sequence[int], second_steps: Sequence[int], is_own: tuple[Flags, Flags]
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
        if number:
            matches = align(first[lo:hi], second[lo2:hi2])
        else:  # from the end, so that an ambiguous call matches the last candidate
            turned = align(first[lo:hi][::-1], second[lo2:hi2][::-1])[::-1]
            matches = [Match(hi - lo - at - length, hi2 - lo2 - at2 - length, length) for at, at2, length in turned]
            # What precedes the last gap before the step's own calls is no match.
            begins = [int(np.argmax(own)) for own in (is_own[0][lo:hi], is_own[1][lo2:hi2])]
            before = sum(match.first <= begins[0] and match.second <= begins[1] for match in matches)
            matches = matches[max(0, before - 1) :]
        aligned += (Match(lo + begin, lo2 + begin2, length) for begin, begin2, length in matches)
    return aligned


# --- two recordings ---------------------------------------------------------------------------------------

#: How many entries or draws of one name and call are distinguished.
_MOST_ALIKE = 1 << 12
_MOST_NAMES = 1 << 20


class AlignedCalls(NamedTuple):
    """The aligned calls. A *node* is a pair, or a gap; nodes are numbered pairs first, in order."""

    first: Values
    second: Values
    at: tuple[Ints, Ints]
    """The calls of each pair, on each side."""
    gaps: tuple[Gap, ...]
    """Calls that only one side has, except those before the compared part or past the end of a truncated recording."""
    nodes: tuple[Ints, Ints]
    """The node of each call on each side; -1 for a call that is not compared."""
    begins: tuple[int, int]
    """The first call of the compared part on each side."""
    is_resumed: bool = False
    """Whether the second is a resumed run, compared with a later part of the first."""
    reordered: int = 0
    """Calls that agree, and that threads made in another order; the fewest that explain it."""

    @property
    def size(self) -> int:
        """The number of pairs."""
        return len(self.at[0])

    def reads_from_before(self, node: int) -> bool:
        """Return whether either call of a pair reads something that was written before the compared part."""
        return any(self.kept_by(side, node) for side in (0, 1))

    def kept_by(self, side: int, node: int) -> list[int]:
        """The origins of what the call of a pair reads and was written before the compared part."""
        values, nodes = (self.first, self.second)[side], self.nodes[side]
        origins = values.origins_of(int(self.at[side][node])).tolist()
        sources = [origin if origin >= 0 else int(values.entries.call[-1 - origin]) for origin in origins]
        return [origin for origin, at in zip(origins, sources, strict=True) if at < len(nodes) and nodes[at] < 0]

    def is_gap(self, node: int) -> bool:
        return node >= self.size

    def stretches(self, gap: Gap) -> list[tuple[Values, int, int]]:
        """The calls of a gap, side by side: none of a side that has no call there."""
        sides = ((self.first, gap.first, gap.first_end), (self.second, gap.second, gap.second_end))
        return [(values, begin, end) for values, begin, end in sides if begin < end]


def pair(
    first: Values,
    second: Values,
    begins: tuple[int, int] = (0, 0),
    *,
    is_resumed: bool = False,
    in_any_order: bool = False,
) -> AlignedCalls:
    """Align two recordings from ``begins`` on. ``is_resumed``: the second recording's calls before the first common one
    are its setup, and either side may run longer. ``in_any_order``: threads decide the order of calls, so those of a
    step that read and wrote the same are paired first, wherever they stand in it, and only the rest is aligned."""
    sides: list[Ints] = []
    starts: list[list[int]] = []
    own: list[Flags] = []
    for values, numbers, begin in zip(
        (first, second), _common_numbers(first.groups, second.groups), begins, strict=True
    ):
        groups = values.group[begin:]
        sides.append(numbers[groups])
        is_first = np.diff(values.steps[1], prepend=-1) != 0  # a repeated number is one step
        starts.append((values.steps[0][is_first].astype(np.int64) - begin).tolist())
        of_step = [group.phase is not Phase.OTHER or bool(group.module) for group in values.groups]
        own.append(np.array(of_step, np.bool_)[groups])
    if is_resumed:
        matches = align_steps(sides[0], sides[1], starts[0], starts[1], (own[0], own[1]))
    else:
        matches = align(sides[0], sides[1], starts[0], starts[1])
    matches = [Match(start + begins[0], start2 + begins[1], length) for start, start2, length in matches]
    gaps = tuple(gaps_of(matches, len(first), len(second), begins))
    at = (_spread(matches, 0), _spread(matches, 1))
    reordered = 0
    if in_any_order and not is_resumed:
        contents = _contents(first, second)
        if gaps or (contents[0][at[0]] != contents[1][at[1]]).any():
            at = _paired_by(contents, keys_of_calls=(sides[0], sides[1]))
            gaps = _unpaired(at, (len(first), len(second)))
            reordered = len(at[1]) - len(rising(at[1].tolist()))
    gaps = _counting(gaps, first, second, begins, is_resumed=is_resumed)
    nodes = (np.full(len(first), -1, np.int64), np.full(len(second), -1, np.int64))
    for side in (0, 1):
        nodes[side][at[side]] = np.arange(len(at[0]))
    for number, gap in enumerate(gaps, len(at[0])):
        nodes[0][gap.first : gap.first_end] = number
        nodes[1][gap.second : gap.second_end] = number
    return AlignedCalls(first, second, at, gaps, nodes, begins, is_resumed, reordered)


def _contents(first: Values, second: Values) -> tuple[Ints, Ints]:
    """A number for each call of both sides, the same for calls of one op and step that read and wrote the same."""
    ops: dict[tuple[str, str], int] = {}
    columns = []
    for values in (first, second):
        op = np.array([ops.setdefault((group.op, group.region), len(ops)) for group in values.groups], np.uint64)
        starts, numbers = values.steps
        rows = np.searchsorted(starts, np.arange(len(values)), side="right")
        step = np.concatenate(([0], numbers))[rows].astype(np.uint64)
        columns.append(np.stack([op[values.group], step, values.inputs, values.outputs, values.numbers], axis=1))
    _, numbered = np.unique(np.concatenate(columns), axis=0, return_inverse=True)
    numbered = numbered.reshape(-1).astype(np.int64)  # NumPy 2.0.0 gives it another shape
    return numbered[: len(first)], numbered[len(first) :]


def _paired_by(contents: tuple[Ints, Ints], keys_of_calls: tuple[Ints, Ints]) -> tuple[Ints, Ints]:
    """Pairs of calls of equal contents, in order among themselves, and of what is left by its keys."""
    size = max(len(numbers) for numbers in contents) + 1
    ranked = [numbers * size + occurrences(numbers) for numbers in contents]
    _, ours, theirs = np.intersect1d(ranked[0], ranked[1], assume_unique=True, return_indices=True)
    left = [np.setdiff1d(np.arange(len(side)), some) for side, some in zip(contents, (ours, theirs), strict=True)]
    for match in align(keys_of_calls[0][left[0]], keys_of_calls[1][left[1]]):
        ours = np.append(ours, left[0][match.first : match.first + match.length])
        theirs = np.append(theirs, left[1][match.second : match.second + match.length])
    order = np.argsort(ours, kind="stable")
    return ours[order].astype(np.int64), theirs[order].astype(np.int64)


def _unpaired(at: tuple[Ints, Ints], sizes: tuple[int, int]) -> tuple[Gap, ...]:
    """The calls that no pair has, each stretch of one side as a gap beside the call that follows the pair before it."""
    gaps = []
    for side in (0, 1):
        partner = dict(zip(at[side].tolist(), at[1 - side].tolist(), strict=True))
        alone = np.setdiff1d(np.arange(sizes[side]), at[side])
        for stretch in np.split(alone, np.flatnonzero(np.diff(alone) != 1) + 1):
            if len(stretch):
                begin, end = int(stretch[0]), int(stretch[-1]) + 1
                other = partner.get(begin - 1, -1) + 1
                gaps.append(Gap(begin, end, other, other) if side == 0 else Gap(other, other, begin, end))
    return tuple(sorted(gaps))


def _counting(
    gaps: Sequence[Gap], first: Values, second: Values, begins: tuple[int, int], *, is_resumed: bool
) -> tuple[Gap, ...]:
    """Drops gaps that say nothing about the runs: the missing end of a truncated recording, a restart's setup."""
    counting = list(gaps)
    if counting:
        last = counting[-1]
        ends = last.first_end == len(first) and last.second_end == len(second)
        cut = (first.partial and last.first == last.first_end) or (second.partial and last.second == last.second_end)
        if ends and (cut or is_resumed):
            counting.pop()
    if counting and is_resumed and (counting[0].first, counting[0].second) == begins:
        counting.pop(0)
    if not is_resumed:
        return tuple(counting)
    drawing = set(second.draws[0].tolist())

    def is_made_anew(gap: Gap) -> bool:
        """Return whether the resumed run allocates this memory in its first step, and the other has it from before."""
        if gap.first < gap.first_end or second.step_of(gap.second) != second.step_of(begins[1]):
            return False
        return not any(int(second.inputs[call]) or call in drawing for call in range(gap.second, gap.second_end))

    return tuple(gap for gap in counting if not is_made_anew(gap))


def _spread(matches: Sequence[Match], side: int) -> Ints:
    """The calls of one side in ``matches``."""
    parts = [np.arange(match[side], match[side] + match.length, dtype=np.int64) for match in matches]
    return np.concatenate(parts) if parts else np.empty(0, np.int64)


def _common_numbers(first: Sequence[Group | Name], second: Sequence[Group | Name]) -> tuple[Ints, Ints]:
    """A number for each group or name of the two sides, the same for equal ones."""
    numbers: dict[Group | Name, int] = {}
    ours, theirs = (
        np.array([numbers.setdefault(key, len(numbers)) for key in keys], np.int64) for keys in (first, second)
    )
    return ours, theirs


class Attached(NamedTuple):
    """Entries, or draws, of compared calls on both sides, and which row corresponds to which."""

    pair: tuple[Ints, Ints]
    """The pair of each row on each side; -1 for a row of a call that no pair has."""
    other: tuple[Ints, Ints]
    """The corresponding row of the other side; -1 if there is none."""
    differs: tuple[Flags, Flags]
    """Whether the corresponding row has another digest."""


def attach(pairs: AlignedCalls, columns: Callable[[Values], Columns]) -> Attached:
    """Pairs rows of the same call and name, in order; ``columns``: call, name and digest of each row of a side."""
    common = _common_numbers(pairs.first.names, pairs.second.names)
    sides = (columns(pairs.first), columns(pairs.second))
    belongs: list[Ints] = []
    identities: list[Ints] = []
    attached: list[Ints] = []
    for (calls, names, _), nodes, numbers in zip(sides, pairs.nodes, common, strict=True):
        node = np.append(nodes, -1)[np.minimum(calls, len(nodes))]
        node[node >= pairs.size] = -1
        belongs.append(node)
        identity = node * _MOST_NAMES + np.minimum(numbers[names], _MOST_NAMES - 1)
        identity = identity * _MOST_ALIKE + np.minimum(occurrences(identity), _MOST_ALIKE - 1)
        attached.append(np.flatnonzero(node >= 0))
        identities.append(identity[attached[-1]])
    _, ours, theirs = np.intersect1d(identities[0], identities[1], return_indices=True)
    rows = attached[0][ours], attached[1][theirs]
    unequal = sides[0][2][rows[0]] != sides[1][2][rows[1]]
    other = (np.full(len(belongs[0]), -1, np.int64), np.full(len(belongs[1]), -1, np.int64))
    differs = (np.zeros(len(belongs[0]), np.bool_), np.zeros(len(belongs[1]), np.bool_))
    for side in (0, 1):
        other[side][rows[side]] = rows[1 - side]
        differs[side][rows[side]] = unequal
    return Attached((belongs[0], belongs[1]), other, differs)
