"""How each pair of calls differs, which differences other calls explain, and which are roots.

Besides inputs, a generator that ran ahead, a value that Python acted on and partly written memory pass differences on.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tracer.divergence.pairing import AlignedCalls, Attached, Flags, Ints, attach
from tracer.names import GeneratorKind, Phase, RootKind
from tracer.trace.values import Mark, ValueKind, Values
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
        calls, entries = _blamed(pairs, differing, side)
        left = rows[parents[rows] < 0]
        for begin in range(0, len(left), _AT_ONCE):
            some = left[begin : begin + _AT_ONCE]
            parents[some] = _first_blamed(values, pairs.at[side][some], calls, entries)
    return parents


def _blamed(pairs: AlignedCalls, differing: Differences, side: int) -> tuple[Ints, Ints]:
    """For each call of a side, and for each entry, the node to blame for a difference in it; -1 if it agrees."""
    values, nodes = (pairs.first, pairs.second)[side], pairs.nodes[side]
    calls = np.where(nodes >= pairs.size, nodes, -1)
    at = pairs.at[side][differing.outputs | wrote_elsewhere(pairs, differing)]
    calls[at] = nodes[at]
    # Entries that differ, or that only one side has.
    node = np.append(nodes, -1)[np.minimum(values.entries.call, len(values))]
    entries = np.where((node >= pairs.size) | differing.entries.differs[side], node, -1)
    if (calls >= 0).any() or (entries >= 0).any():
        _keep(values, calls, entries)
    return calls, entries


def leading_to(pairs: AlignedCalls, differing: Differences, parents: Ints, nodes: Ints) -> Flags:
    """Return of which nodes something comes in ``nodes``: by every origin that differs, not the first one alone."""
    leads = np.zeros(len(parents), np.bool_)
    leads[nodes] = True
    before = 0
    while (count := int(leads.sum())) > before:  # what only one side shows may lead on the other one
        before = count
        for side, values in enumerate((pairs.first, pairs.second)):
            calls, entries = _blamed(pairs, differing, side)
            of = pairs.nodes[side].tolist()
            for call in range(len(of) - 1, -1, -1):
                if of[call] >= 0 and leads[of[call]]:
                    origins = values.origins_of(call)
                    is_call = origins >= 0
                    blamed = np.concatenate((calls[origins[is_call]], entries[-1 - origins[~is_call]]))
                    leads[blamed[blamed >= 0]] = True
                    if parents[of[call]] >= 0:
                        leads[parents[of[call]]] = True
    return leads


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


# --- the roots among them: pairs or gaps that no earlier one explains, grouped by cause ---


_TO_HOST, _UNWRITTEN = int(Mark.TO_HOST), int(Mark.UNWRITTEN)


class Candidate(NamedTuple):
    """A root whose cause is not determined yet."""

    node: int
    way: RootKind
    same: Hashable
    """Equal for roots with the same cause."""
    row: int = -1
    """The differing entry or draw in the first recording; for ``READ``, the entry that only one side has."""
    side: int = 0
    """The recording that ``row`` belongs to."""
    more: int = 0
    """Further pairs of the same group of calls that are roots in the same way; ``node`` stands for them."""
    earlier: int = -1
    """For a draw: the node of the previous draw, after which the generator was advanced."""
    shows_in: int = -1
    """For ``AHEAD``: the first recording's draw that finds its generator in a different state."""


class Roots:
    """Finds the roots."""

    def __init__(self, pairs: AlignedCalls, differing: Differences) -> None:
        self.pairs, self.differing = pairs, differing
        self.parents = np.full(pairs.size + len(pairs.gaps), -1, np.int64)
        handed = np.flatnonzero(((differing.mark_bits & _TO_HOST) != 0) & (differing.inputs | differing.outputs))
        self.host = int(handed[0]) if len(handed) else -1
        """The first pair that returned different values to Python; -1 if none did."""
        self.candidates: list[Candidate] = []
        self.first = self.parents.size
        """The first node at which an entry, a draw or a number differs."""
        self.shows: dict[int, int] = {}
        """By the node that drew differently: the first recording's draw that finds the generator in another state."""

    def all(self) -> tuple[list[Candidate], Ints]:
        """All roots, in order of execution, and for each node the one that explains it; -1 for roots."""
        differing, count = self.differing, self.pairs.size
        explained = explained_by(self.pairs, differing)
        self.parents[:count] = explained
        entered = self._entered()
        drawn = dict(self._drawn())
        for node, candidate in drawn.items():
            if isinstance(candidate, int):
                if self.parents[node] < 0 and not differing.entered[node]:
                    self.parents[node] = candidate
            elif not differing.entered[node]:
                self.parents[node] = -1
                self.candidates.append(candidate)
        numbers = differing.numbers & ~differing.entered & (self.parents[:count] < 0)
        numbers[list(drawn)] = False
        self._alike(np.flatnonzero(numbers), RootKind.NUMBERS)
        rest = ~differing.entered & ~differing.numbers & ~differing.drawn & (self.parents[:count] < 0)
        self.first = min([candidate.node for candidate in (*entered, *self.candidates)], default=self.first)
        rest &= ~self._elsewhere(rest, explained)
        self._read(np.flatnonzero(rest & differing.inputs))
        self._alike(np.flatnonzero(rest & ~differing.inputs & differing.outputs), RootKind.WROTE)
        self.candidates += entered
        self._gaps()
        ends = followed(self.parents)
        roots = [candidate for candidate in self.candidates if self.parents[candidate.node] < 0]
        return sorted((self._if_ahead(root, ends) for root in roots), key=self._order), self.parents

    def _order(self, candidate: Candidate) -> tuple[float, int]:
        """Gaps lie between pairs."""
        if not self.pairs.is_gap(candidate.node):
            return (float(candidate.node), 0)
        gap = self.pairs.gaps[candidate.node - self.pairs.size]
        return (float(np.searchsorted(self.pairs.at[0], gap.first)) - 0.5, candidate.node)

    def _through_python(self, node: int, before: int | None = None) -> bool:
        """Return whether ``node`` may follow from what Python read. Then it is no root of its own."""
        place = node if before is None else before
        if not 0 <= self.host < place:
            return False
        self.parents[node] = self.host
        return True

    def _entered(self) -> list[Candidate]:
        """Entries that differ: one candidate a pair."""
        by_node: dict[int, Candidate] = {}
        entries, names = self.differing.entries, self.pairs.first.names
        for row in np.flatnonzero(entries.differs[0]).tolist():
            node = int(entries.pair[0][row])
            if node in by_node:
                continue
            kind = names[int(self.pairs.first.entries.name[row])].kind
            if kind in (ValueKind.OUTSIDE, ValueKind.OUTSIDE_CHANGE) and self._through_python(node):
                continue
            if kind is ValueKind.OUTSIDE_CHANGE and (reduced := self._reduced(node)) >= 0:
                self.parents[node] = reduced
                continue
            self.parents[node] = -1
            # A model that is not seeded differs in every parameter: that is one cause.
            same = (kind, self._group(node)) if kind in (ValueKind.OUTSIDE, ValueKind.OUTSIDE_CHANGE) else kind
            by_node[node] = Candidate(node, RootKind.ENTERED, same, row)
        return list(by_node.values())

    def _reduced(self, node: int) -> int:
        """The last call of a backward before ``node`` that differs, in a distributed job; -1 for none. From it comes
        what a reducer in C++ writes into gradients."""
        if self.pairs.first.header.world_size is None:
            return -1
        is_backward = np.array([group.phase is Phase.BACKWARD for group in self.pairs.first.groups], np.bool_)
        before = np.flatnonzero(self.differing.any[:node])
        before = before[is_backward[self.pairs.first.group[self.pairs.at[0][before]]]]
        return int(before[-1]) if len(before) else -1

    def _drawn(self) -> Iterator[tuple[int, int | Candidate]]:
        """For each pair whose generator's state differed: the node that it follows from, or a candidate."""
        draws = self.differing.draws
        if not draws.differs[0].any():
            return
        sides = (self.pairs.first, self.pairs.second)
        earlier = [_rows_before(values) for values in sides]
        last: dict[int, int] = {}  # generator -> the first node of the stretch in which it differs
        rows = np.flatnonzero(draws.pair[0] >= 0)
        for row in rows.tolist():
            generator, node = int(self.pairs.first.draws[1][row]), int(draws.pair[0][row])
            if not draws.differs[0][row]:
                last.pop(generator, None)
                continue
            begun = last.get(generator)
            if begun is not None:
                yield node, begun
                continue
            last[generator] = node
            other = int(draws.other[0][row])
            before = [self._node_of_draw(side, earlier[side][at]) for side, at in ((0, row), (1, other))]
            why = self._why_ahead(node, row, generator, before)
            if isinstance(why, int):
                self.shows.setdefault(why, row)
            yield node, why

    def _why_ahead(self, node: int, row: int, generator: int, before: list[int]) -> int | Candidate:
        """Return why a generator is in a different state, by the previous draws on both sides."""
        gaps = [node_before for node_before in before if node_before >= self.pairs.size]
        if gaps:
            return gaps[0]  # a draw that only one side made
        earlier = max(before)
        differing = self.differing
        columns = (differing.inputs, differing.numbers, differing.entered, differing.outputs)
        if before[0] == before[1] >= 0 and any(differs[earlier] for differs in columns):
            return earlier  # the same draw, of a different number of values
        # several generators of the program's own share a name
        passed = GeneratorKind.spelt(self.pairs.first.names[generator].name) is GeneratorKind.PASSED
        same = (RootKind.DRAWN, generator, self._group(node) if passed else -1)
        return Candidate(node, RootKind.DRAWN, same, row, earlier=earlier)

    def _if_ahead(self, candidate: Candidate, ends: Ints) -> Candidate:
        """A root that is only a draw of another size, or a draw by one run only, is reported as a draw."""
        if candidate.way not in (RootKind.NUMBERS, RootKind.GAP):
            return candidate
        for node, row in self.shows.items():
            is_draw = (
                self._only_draws(node) if self.pairs.is_gap(node) else self._group(node) == self._group(candidate.node)
            )
            if ends[node] == candidate.node and is_draw:
                return candidate._replace(way=RootKind.AHEAD, shows_in=row)
        return candidate

    def _only_draws(self, node: int) -> bool:
        """Return whether a gap contains only draws of one run, and the allocations that they write to."""
        held = self.pairs.stretches(self.pairs.gaps[node - self.pairs.size])
        if len(held) != 1:
            return False
        values, begin, end = held[0]
        drawing = set(values.draws[0].tolist())
        return all(call in drawing or int(values.mark_bits[call]) & _UNWRITTEN for call in range(begin, end))

    def _node_of_draw(self, side: int, row: int) -> int:
        values = (self.pairs.first, self.pairs.second)[side]
        if row < 0:
            return -1
        call = int(values.draws[0][row])
        return int(self.pairs.nodes[side][call]) if call < len(values) else -1

    def _group(self, node: int) -> int:
        return int(self.pairs.first.group[self.pairs.at[0][node]]) if 0 <= node < self.pairs.size else -1

    def _alike(self, nodes: Ints, way: RootKind) -> None:
        """Candidates of one group have one cause, and one represents them all, since there may be a million."""
        if way is not RootKind.WROTE and self.host >= 0:
            self.parents[nodes[nodes > self.host]] = self.host
            nodes = nodes[nodes <= self.host]
        groups = self.pairs.first.group[self.pairs.at[0][nodes]]
        unique, first, inverse, counts = np.unique(groups, return_index=True, return_inverse=True, return_counts=True)
        self.parents[nodes] = nodes[first][inverse]
        self.parents[nodes[first]] = -1
        for node, group, count in zip(nodes[first].tolist(), unique.tolist(), counts.tolist(), strict=True):
            self.candidates.append(Candidate(node, way, (way, group), more=count - 1))

    def _elsewhere(self, rest: Flags, explained: Ints) -> Flags:
        """Calls that got another part of a tensor, if they or later calls differ because of it."""
        differing = self.differing
        blamed = np.zeros(self.pairs.size, np.bool_)
        blamed[explained[(explained >= 0) & (explained < self.pairs.size)]] = True
        chosen: Flags = (
            rest
            & differing.placed
            & (differing.inputs | differing.outputs | (blamed & wrote_elsewhere(self.pairs, differing)))
        )
        nodes = np.flatnonzero(chosen)
        if self.pairs.is_resumed:  # a restart recreates some tensors, and continues within others
            nodes = nodes[[not self.pairs.reads_from_before(node) for node in nodes.tolist()]]
            chosen = np.zeros(self.pairs.size, np.bool_)
            chosen[nodes] = True
        differing.numbers[nodes] = True
        left = [node for node in nodes.tolist() if not self._through_choice(node)]
        self._alike(np.array(left, np.int64), RootKind.NUMBERS)
        return chosen

    def _through_choice(self, node: int) -> bool:
        """Return whether ``node`` may follow from any earlier difference, as a choice that Python made may."""
        if self._through_python(node):
            return True
        if self.first >= node:
            return False
        self.parents[node] = self.first
        return True

    def _read(self, nodes: Ints) -> None:
        """Calls whose inputs differ although their writers agree; an entry that only one side has may explain it."""
        entries, lonely = self.differing.entries, dict[int, tuple[int, int]]()
        for side in (1, 0) if len(nodes) else ():
            for row in np.flatnonzero((entries.pair[side] >= 0) & (entries.other[side] < 0)).tolist():
                lonely.setdefault(int(entries.pair[side][row]), (side, row))
        for node in nodes.tolist():
            side, row = lonely.get(node, (0, -1))
            same: Hashable = (RootKind.READ, self._group(node))
            if row < 0 and not self.pairs.is_resumed and reads_another(self.pairs, node):
                if self._through_choice(node):
                    continue
                same = (RootKind.READ, RootKind.NUMBERS)
            if row >= 0:
                values = (self.pairs.first, self.pairs.second)[side]
                same = (RootKind.READ, values.names[int(values.entries.name[row])].kind)
            self.candidates.append(Candidate(node, RootKind.READ, same, row, side))

    def _gaps(self) -> None:
        for number, gap in enumerate(self.pairs.gaps, self.pairs.size):
            before = int(np.searchsorted(self.pairs.at[0], gap.first))
            if not self._through_python(number, before):
                groups = (values.group_of(begin) for values, begin, _ in self.pairs.stretches(gap))
                same = (RootKind.GAP, gap.first < gap.first_end, *groups)
                self.candidates.append(Candidate(number, RootKind.GAP, same))


def _rows_before(values: Values) -> Ints:
    """For each draw, the row of the same generator's previous draw; -1 if it is the first."""
    names = values.draws[1]
    order = np.argsort(names, kind="stable")
    before = np.full(len(names), -1, np.int64)
    alike = names[order[1:]] == names[order[:-1]]
    before[order[1:][alike]] = order[:-1][alike]
    return before
