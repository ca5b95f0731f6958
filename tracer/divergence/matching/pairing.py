"""Pairs the calls of two recordings, and the entries and draws that belong to each call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tracer.divergence.matching.alignment import Gap, Match, align, align_steps, gaps_of, longest_rising, occurrences
from tracer.names import Phase
from tracer.trace.values import Values
from tracer.trace.values.columns import Group, Name

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

#: How many entries or draws of one name and call are distinguished.
_MOST_ALIKE = 1 << 12
_MOST_NAMES = 1 << 20


class Pairs(NamedTuple):
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


def pair(
    first: Values,
    second: Values,
    begins: tuple[int, int] = (0, 0),
    *,
    is_resumed: bool = False,
    in_any_order: bool = False,
) -> Pairs:
    """Align two recordings from ``begins`` on.

    ``is_resumed``: the second recording's calls before the first common one are its setup, and either side may run
    longer. ``in_any_order``: threads decide the order of calls, so those of a step that read and wrote the same are
    paired first, wherever they stand in it, and only the rest is aligned.
    """
    keys = _common_numbers(first.groups, second.groups)
    sides = tuple(
        numbers[values.group[begin:]] for values, numbers, begin in zip((first, second), keys, begins, strict=True)
    )
    starts = tuple(
        (_step_starts(values) - begin).tolist() for values, begin in zip((first, second), begins, strict=True)
    )
    if is_resumed:
        own = tuple(_own_calls(values)[begin:] for values, begin in zip((first, second), begins, strict=True))
        matches = align_steps(sides[0], sides[1], starts[0], starts[1], (own[0], own[1]))
    else:
        matches = align(sides[0], sides[1], starts[0], starts[1])
    gaps = gaps_of(matches, len(sides[0]), len(sides[1]))
    shifted = [Match(start + begins[0], start2 + begins[1], length) for start, start2, length in matches]
    compared_gaps = tuple(
        Gap(gap.first + begins[0], gap.first_end + begins[0], gap.second + begins[1], gap.second_end + begins[1])
        for gap in gaps
    )
    at = (
        _spread([match.first for match in shifted], [match.length for match in shifted]),
        _spread([match.second for match in shifted], [match.length for match in shifted]),
    )
    reordered = 0
    if in_any_order and not is_resumed:
        contents = _contents(first, second)
        if compared_gaps or (contents[0][at[0]] != contents[1][at[1]]).any():
            at = _paired_by(contents, keys_of_calls=(sides[0], sides[1]))
            compared_gaps = _unpaired(at, (len(first), len(second)))
            reordered = len(at[1]) - longest_rising(at[1].tolist())
    compared_gaps = _counting(compared_gaps, first, second, begins, is_resumed=is_resumed)
    nodes = _nodes(first, second, at, compared_gaps)
    return Pairs(first, second, at, compared_gaps, nodes, begins, is_resumed, reordered)


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
    return tuple(gap for gap in counting if not (is_resumed and _is_made_anew(gap, second, begins[1])))


def _is_made_anew(gap: Gap, second: Values, begin: int) -> bool:
    """Return whether the resumed run allocates this memory in its first step, and the other has it from before."""
    calls = range(gap.second, gap.second_end)
    if gap.first < gap.first_end or second.step_of(gap.second) != second.step_of(begin):
        return False
    drawing = set(second.draws[0].tolist())
    return not any(int(second.inputs[call]) or call in drawing for call in calls)


def _step_starts(values: Values) -> Ints:
    """Return the first call of each step; a repeated number is one step."""
    starts, numbers = values.steps
    begins = np.flatnonzero(np.diff(numbers, prepend=-1) != 0)
    starts_of_steps: Ints = starts[begins].astype(np.int64)
    return starts_of_steps


def _own_calls(values: Values) -> Flags:
    """Calls that certainly belong to a training step."""
    own = np.array([group.phase is not Phase.OTHER or bool(group.module) for group in values.groups], np.bool_)
    is_own: Flags = own[values.group]
    return is_own


def _spread(starts: Sequence[int], lengths: Sequence[int]) -> Ints:
    """``start, start + 1, ...`` for each stretch, concatenated."""
    if len(starts) == 1:
        return np.arange(starts[0], starts[0] + lengths[0], dtype=np.int64)
    parts = [np.arange(start, start + length, dtype=np.int64) for start, length in zip(starts, lengths, strict=True)]
    return np.concatenate(parts) if parts else np.empty(0, np.int64)


def _nodes(first: Values, second: Values, at: tuple[Ints, Ints], gaps: Sequence[Gap]) -> tuple[Ints, Ints]:
    nodes = (np.full(len(first), -1, np.int64), np.full(len(second), -1, np.int64))
    count = len(at[0])
    for side in (0, 1):
        nodes[side][at[side]] = np.arange(count)
    for number, gap in enumerate(gaps, count):
        nodes[0][gap.first : gap.first_end] = number
        nodes[1][gap.second : gap.second_end] = number
    return nodes


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


def attach(
    pairs: Pairs,
    calls: tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint32]],
    names: tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint32]],
    digests: tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]],
) -> Attached:
    """Pairs rows of the same call and name, in order."""
    common = _common_numbers(pairs.first.names, pairs.second.names)
    belongs: list[Ints] = []
    identities: list[Ints] = []
    for side in (0, 1):
        nodes = pairs.nodes[side]
        call = calls[side].astype(np.int64)
        in_recording = call < len(nodes)
        node = np.full(len(call), -1, np.int64)
        node[in_recording] = nodes[call[in_recording]]
        node[node >= pairs.size] = -1
        belongs.append(node)
        identity = node * _MOST_NAMES + np.minimum(common[side][names[side]], _MOST_NAMES - 1)
        identity = identity * _MOST_ALIKE + np.minimum(occurrences(identity), _MOST_ALIKE - 1)
        identity[node < 0] = -1
        identities.append(identity)
    other = (np.full(len(calls[0]), -1, np.int64), np.full(len(calls[1]), -1, np.int64))
    attached = [np.flatnonzero(identity >= 0) for identity in identities]
    _, ours, theirs = np.intersect1d(identities[0][attached[0]], identities[1][attached[1]], return_indices=True)
    rows = attached[0][ours], attached[1][theirs]
    other[0][rows[0]], other[1][rows[1]] = rows[1], rows[0]
    unequal = digests[0][rows[0]] != digests[1][rows[1]]
    differs = (np.zeros(len(calls[0]), np.bool_), np.zeros(len(calls[1]), np.bool_))
    for side in (0, 1):
        differs[side][rows[side]] = unequal
    return Attached((belongs[0], belongs[1]), other, differs)


def texts_of(values: Values, digest: int) -> str:
    """The text recorded for a digest; empty if there is none."""
    texts: Mapping[int, str] = values.texts
    return texts.get(digest, "")
