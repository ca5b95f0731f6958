"""How each pair of calls differs, and which differences other calls explain: those that wrote what a call reads."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tracer.divergence.pairing import AlignedCalls, Attached, Flags, Ints, attach
from tracer.trace.values import Mark, Values
from tracer.trace.values.columns import TURN_SHIFT, without_places

DigestArray = npt.NDArray[np.uint64]
#: Calls whose origins are looked at together: few enough for memory, enough for speed.
_AT_ONCE = 1 << 17

_UNKNOWN = int(Mark.INPUT_NOT_DIGESTED | Mark.OUTPUT_NOT_DIGESTED)
_TURNS = np.uint16(Mark.TURNED | 0xFF << TURN_SHIFT)


class Differences(NamedTuple):
    """One flag per pair."""

    inputs: Flags
    outputs: Flags
    numbers: Flags
    placed: Flags
    """The call got another part of a tensor, with equal numbers: not a difference if the bytes are the same."""
    entered: Flags
    """An entry at the call differs."""
    drawn: Flags
    """A generator's state before the call differs."""
    mark_bits: Ints
    """The marks of both sides."""
    entries: Attached
    draws: Attached

    @property
    def any(self) -> Flags:
        """Whether each pair differs at all."""
        return self.inputs | self.outputs | self.numbers | self.entered | self.drawn

    @property
    def undigested(self) -> Flags:
        """Whether the agreement of each pair is unknown."""
        unknown: Flags = (self.mark_bits & _UNKNOWN) != 0
        return unknown


def differences(pairs: AlignedCalls) -> Differences:
    """Compare all pairs, column by column."""
    first, second = pairs.first, pairs.second
    at, at2 = pairs.at
    entries = attach(pairs, lambda values: (values.entries.call, values.entries.name, values.entries.digest))
    draws = attach(pairs, lambda values: values.draws)
    numbers, placed = _numbers(first, second, first.numbers[at], second.numbers[at2])
    differing = Differences(
        inputs=first.inputs[at] != second.inputs[at2],
        outputs=first.outputs[at] != second.outputs[at2],
        numbers=numbers,
        placed=placed,
        entered=_of_pairs(entries, pairs.size),
        drawn=_of_pairs(draws, pairs.size),
        mark_bits=(first.mark_bits[at] | second.mark_bits[at2]).astype(np.int64),
        entries=entries,
        draws=draws,
    )
    unclear = differing.inputs & ~differing.outputs & lie_otherwise(pairs)
    if not unclear.any():
        return differing
    # The digests of these inputs are not comparable; the calls that wrote them are.
    return differing._replace(inputs=differing.inputs & ~(unclear & (explained_by(pairs, differing) < 0)))


def lie_otherwise(pairs: AlignedCalls, nodes: slice | list[int] = slice(None)) -> Flags:
    """Return which pairs read views with different strides on the two sides, digested in memory order."""
    differing_marks = pairs.first.mark_bits[pairs.at[0][nodes]] ^ pairs.second.mark_bits[pairs.at[1][nodes]]
    differ: Flags = (differing_marks & _TURNS) != 0
    return differ


def _numbers(first: Values, second: Values, ours: DigestArray, theirs: DigestArray) -> tuple[Flags, Flags]:
    """Return which pairs' numbers differ, and which differ only in the parts of tensors."""
    differs: Flags = ours != theirs
    rows = np.flatnonzero(differs)

    def is_cut(text: str | None) -> bool:
        return text is None or (text.endswith("...") and without_places(text) == text)

    placed = np.zeros(len(differs), np.bool_)
    numbers: dict[str, int] = {"": 0}
    bare: list[Ints] = []
    for values, digests in ((first, ours[rows]), (second, theirs[rows])):
        unique, inverse = np.unique(digests, return_inverse=True)
        texts = [values.texts.get(digest) for digest in unique.tolist()]
        numbered = [
            -1 if digest and is_cut(text) else numbers.setdefault(without_places(text or ""), len(numbers))
            for text, digest in zip(texts, unique.tolist(), strict=True)
        ]
        bare.append(np.array(numbered, np.int64)[inverse])
    alike = rows[(bare[0] == bare[1]) & (bare[0] >= 0)]
    placed[alike] = True
    differs[alike] = False
    return differs, placed


def _of_pairs(attached: Attached, count: int) -> Flags:
    differs = np.zeros(count, np.bool_)
    differs[attached.pair[0][attached.differs[0]]] = True
    return differs


def explained_by(pairs: AlignedCalls, differing: Differences) -> Ints:
    """For each pair whose inputs differ, the node that explains it; -1 if none does."""
    parents = np.full(pairs.size, -1, np.int64)
    rows = np.flatnonzero(differing.inputs)
    if not len(rows):
        return parents
    for side, values in enumerate((pairs.first, pairs.second)):
        # For each call of a side, the node to blame for a difference in what it wrote; -1 if that agrees.
        nodes = pairs.nodes[side]
        calls = np.where(nodes >= pairs.size, nodes, -1)
        at = pairs.at[side][differing.outputs | wrote_elsewhere(pairs, differing)]
        calls[at] = nodes[at]
        # The same for each entry: those that differ, or that only one side has.
        node = np.append(nodes, -1)[np.minimum(values.entries.call, len(values))]
        entries = np.where((node >= pairs.size) | differing.entries.differs[side], node, -1)
        if (calls >= 0).any() or (entries >= 0).any():
            _keep(values, calls, entries)
        left = rows[parents[rows] < 0]
        for begin in range(0, len(left), _AT_ONCE):
            some = left[begin : begin + _AT_ONCE]
            parents[some] = _first_blamed(values, pairs.at[side][some], calls, entries)
    return parents


def wrote_elsewhere(pairs: AlignedCalls, differing: Differences) -> Flags:
    """Pairs that wrote the same bytes to different parts of a memory."""
    rewritten = np.zeros(len(pairs.first), np.bool_)
    if not pairs.is_resumed:  # a restart allocates some of its memory anew
        rewritten[pairs.first.keeps[:, 0]] = True
    wrote: Flags = differing.placed & rewritten[pairs.at[0]]
    return wrote


def reads_another(pairs: AlignedCalls, node: int) -> bool:
    """Return whether a pair gets tensors on the two sides that different calls wrote, or the same in another order."""
    read = [
        [_source(values, pairs.nodes[side], origin) for origin in values.origins_of(int(pairs.at[side][node])).tolist()]
        for side, values in enumerate((pairs.first, pairs.second))
    ]
    return read[0] != read[1]


def _source(values: Values, nodes: Ints, origin: int) -> tuple[object, ...]:
    if origin >= 0:
        return (int(nodes[origin]),)
    row = -1 - origin
    name = values.names[int(values.entries.name[row])]
    return (name.kind, name.name)


def _keep(values: Values, calls: Ints, entries: Ints) -> None:
    """A call that wrote part of a memory passes on the blame for the rest of it."""
    for call, origin in values.keeps.tolist():
        if calls[call] < 0:
            calls[call] = calls[origin] if origin >= 0 else entries[-1 - origin]


def _first_blamed(values: Values, at: Ints, calls: Ints, entries: Ints) -> Ints:
    """For each call, the blame of its first origin that has any; -1 if none has."""
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
    from_call = origin >= 0
    blamed[from_call] = calls[origin[from_call]]
    blamed[~from_call] = entries[-1 - origin[~from_call]]
    hit = np.flatnonzero(blamed >= 0)
    owners, first = np.unique(owner[hit], return_index=True)
    result[owners] = blamed[hit[first]]
    return result


def followed(parents: Ints) -> Ints:
    """For each node the root of its chain of parents; a node without a parent is its own."""
    ends: Ints = np.where(parents < 0, np.arange(len(parents)), parents)
    while True:
        further: Ints = ends[ends]
        if (further == ends).all():
            return ends
        ends = further
