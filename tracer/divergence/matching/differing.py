"""In what each pair of calls differs, and what of it other calls explain.

Whatever a call reads was written by another recorded call, or came in as an entry. A call whose inputs differ follows
from the calls or entries that they came from, as far as those differ.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tracer.divergence.matching.pairing import Attached, Flags, Ints, Pairs, attach
from tracer.trace.values import Mark, Values

#: Calls whose origins are looked at together: few enough for memory, enough for speed.
_AT_ONCE = 1 << 17

_UNKNOWN = int(Mark.INPUT_NOT_DIGESTED | Mark.OUTPUT_NOT_DIGESTED)


class Differences(NamedTuple):
    """A flag a pair."""

    inputs: Flags
    outputs: Flags
    numbers: Flags
    entered: Flags
    """Something that came in there differs."""
    drawn: Flags
    """A generator's state before the call differs."""
    marks: Ints
    """The marks of both sides."""
    entries: Attached
    draws: Attached

    @property
    def any(self) -> Flags:
        """Does the pair differ at all?"""
        return self.inputs | self.outputs | self.numbers | self.entered | self.drawn

    @property
    def undigested(self) -> Flags:
        """Is agreement not known?"""
        unknown: Flags = (self.marks & _UNKNOWN) != 0
        return unknown


def differences(pairs: Pairs) -> Differences:
    """Compare all pairs, column by column."""
    one, two = pairs.first, pairs.second
    at, at2 = pairs.at
    entries = attach(
        pairs,
        (one.entries.call, two.entries.call),
        (one.entries.name, two.entries.name),
        (one.entries.digest, two.entries.digest),
    )
    draws = attach(pairs, (one.draws[0], two.draws[0]), (one.draws[1], two.draws[1]), (one.draws[2], two.draws[2]))
    return Differences(
        inputs=one.inputs[at] != two.inputs[at2],
        outputs=one.outputs[at] != two.outputs[at2],
        numbers=one.numbers[at] != two.numbers[at2],
        entered=_of_pairs(entries, pairs.size),
        drawn=_of_pairs(draws, pairs.size),
        marks=(one.marks[at] | two.marks[at2]).astype(np.int64),
        entries=entries,
        draws=draws,
    )


def _of_pairs(attached: Attached, count: int) -> Flags:
    found = np.zeros(count, np.bool_)
    found[attached.pair[0][attached.differs[0]]] = True
    return found


def explained_by(pairs: Pairs, found: Differences) -> Ints:
    """For each pair whose inputs differ, the node that they came different from; -1 where none explains it."""
    parents = np.full(pairs.size, -1, np.int64)
    rows = np.flatnonzero(found.inputs)
    if not len(rows):
        return parents
    for side, values in enumerate((pairs.first, pairs.second)):
        calls = _blamed_calls(pairs, found, side, values)
        entries = _blamed_entries(pairs, found, side, values)
        _keep(values, calls, entries)
        left = rows[parents[rows] < 0]
        for begin in range(0, len(left), _AT_ONCE):
            some = left[begin : begin + _AT_ONCE]
            parents[some] = _first_blamed(values, pairs.at[side][some], calls, entries)
    return parents


def _blamed_calls(pairs: Pairs, found: Differences, side: int, values: Values) -> Ints:
    """For each call of a side, the node that is to blame for what it wrote; -1 where that agrees."""
    blamed = np.full(len(values), -1, np.int64)
    nodes = pairs.nodes[side]
    alone = nodes >= pairs.size
    blamed[alone] = nodes[alone]
    at = pairs.at[side][found.outputs]
    blamed[at] = nodes[at]
    return blamed


def _blamed_entries(pairs: Pairs, found: Differences, side: int, values: Values) -> Ints:
    """The same for each entry: what came in different, or where only one side has been."""
    call = values.entries.call.astype(np.int64)
    blamed = np.full(len(call), -1, np.int64)
    known = np.flatnonzero(call < len(values))
    node = pairs.nodes[side][call[known]]
    is_blamed = (node >= pairs.size) | found.entries.differs[side][known]
    blamed[known[is_blamed]] = node[is_blamed]
    return blamed


def _keep(values: Values, calls: Ints, entries: Ints) -> None:
    """A call that wrote part of some memory hands on what is wrong with the rest of it."""
    if not len(values.keeps) or not ((calls >= 0).any() or (entries >= 0).any()):
        return
    for call, origin in values.keeps.tolist():
        if calls[call] < 0:
            calls[call] = calls[origin] if origin >= 0 else entries[-1 - origin]


def _first_blamed(values: Values, at: Ints, calls: Ints, entries: Ints) -> Ints:
    """The first of each call's origins that is to blame; -1 where none is."""
    result = np.full(len(at), -1, np.int64)
    starts = values.origin_start[at]
    counts = values.origin_start[at + 1] - starts
    total = int(counts.sum())
    if not total:
        return result
    owner = np.repeat(np.arange(len(at)), counts)
    offset = np.arange(total) - np.repeat(np.cumsum(counts) - counts, counts)
    origin = values.origins[np.repeat(starts, counts) + offset].astype(np.int64)
    blamed = np.full(total, -1, np.int64)
    made = origin >= 0
    blamed[made] = calls[origin[made]]
    blamed[~made] = entries[-1 - origin[~made]]
    hit = np.flatnonzero(blamed >= 0)
    owners, first = np.unique(owner[hit], return_index=True)
    result[owners] = blamed[hit[first]]
    return result


def followed(parents: Ints) -> Ints:
    """For each node the one that its line of parents ends at; a node without a parent ends at itself."""
    ends: Ints = np.where(parents < 0, np.arange(len(parents)), parents)
    while True:
        further: Ints = ends[ends]
        if (further == ends).all():
            return ends
        ends = further
