"""Finds the roots among the differences, pairs or gaps that no earlier one explains, and groups those of one cause.

Besides inputs, a generator that ran ahead, a value that Python acted on and partly written memory pass differences on.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import NamedTuple

import numpy as np

from tracer.divergence.differing import (
    Differences,
    explained_by,
    followed,
    reads_another,
    wrote_elsewhere,
)
from tracer.divergence.pairing import AlignedCalls, Flags, Ints
from tracer.names import GeneratorKind, RootKind
from tracer.trace.values import Mark, ValueKind, Values

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
        """All roots, in order of execution, and for each node that of the root that it follows from, or its own."""
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
        return sorted((self._if_ahead(root, ends) for root in roots), key=self._order), ends

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
            self.parents[node] = -1
            # A model that is not seeded differs in every parameter: that is one cause.
            same = (kind, self._group(node)) if kind in (ValueKind.OUTSIDE, ValueKind.OUTSIDE_CHANGE) else kind
            by_node[node] = Candidate(node, RootKind.ENTERED, same, row)
        return list(by_node.values())

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
