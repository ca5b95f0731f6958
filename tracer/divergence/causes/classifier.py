"""From a root as it shows itself to its cause, with what the recordings say of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from tracer.divergence.causes import reasons
from tracer.divergence.causes.changed_settings import NO_KERNELS
from tracer.divergence.causes.tables import Tables
from tracer.divergence.matching.differing import lie_otherwise, reads_another
from tracer.divergence.matching.following import Candidate, Way
from tracer.divergence.matching.pairing import Pairs, texts_of
from tracer.divergence.model import Changed, Place, Root, RootCause
from tracer.divergence.recordings import Recording
from tracer.names import Phase
from tracer.trace.values import Mark, ValueKind, Values

#: What a thing that came in different makes a root.
_OF_KIND = {
    ValueKind.BATCH: RootCause.INPUT_DATA,
    ValueKind.OUTSIDE: RootCause.INPUT_DATA,
    ValueKind.OUTSIDE_CHANGE: RootCause.OUTSIDE_CHANGE,
    ValueKind.PARAMETER: RootCause.INITIAL_STATE,
    ValueKind.BUFFER: RootCause.INITIAL_STATE,
    ValueKind.GRADIENT: RootCause.INITIAL_STATE,
    ValueKind.OPTIMIZER_STATE: RootCause.INITIAL_STATE,
}


class Classifier:
    """Makes a root of a candidate."""

    def __init__(
        self, pairs: Pairs, recordings: tuple[Recording, Recording], settings: Iterable[Changed], tables: Tables
    ) -> None:
        self.pairs, self.recordings, self.tables = pairs, recordings, tables
        self.settings = tuple(one for one in settings if one.name not in NO_KERNELS)

    def root(self, one: Candidate) -> Root:
        """The root with its cause and reason; what follows from it is not counted yet."""
        if one.way is Way.GAP:
            return self._structure(one)
        if one.way is Way.AHEAD:
            return self._ahead(one)
        found = {
            Way.ENTERED: self._entered,
            Way.DRAWN: self._drawn,
            Way.NUMBERS: self._numbers,
            Way.READ: self._read,
            Way.WROTE: self._wrote,
            Way.RANKS: self._of_ranks,
        }[one.way](one)
        if found.cause is RootCause.ARGUMENT or found.kind is ValueKind.OUTSIDE:
            found = msgspec.structs.replace(found, why=found.why + reasons.of_machine(found, self.recordings))
        return self.tables.beside(found, self.pairs.first)

    def _plain(self, node: int) -> Root:
        """A root at a pair, without a cause."""
        first = self.pairs.first
        call = int(self.pairs.at[0][node])
        return _at(first, call, cause=RootCause.UNKNOWN, other_call=int(self.pairs.at[1][node]))

    def _marks(self, node: int) -> Mark:
        one, two = int(self.pairs.at[0][node]), int(self.pairs.at[1][node])
        return Mark(int(self.pairs.first.marks[one]) | int(self.pairs.second.marks[two]))

    def _entered(self, one: Candidate) -> Root:
        values = (self.pairs.first, self.pairs.second)[one.side]
        what = values.names[int(values.entries.name[one.row])]
        position = int(values.entries.position[one.row])
        root = self._plain(one.node)
        cause = _OF_KIND.get(what.kind, RootCause.UNKNOWN)
        if Mark.READ_UNWRITTEN in self._marks(one.node) and what.kind is ValueKind.OUTSIDE:
            return self._unwritten(root)
        root = msgspec.structs.replace(root, cause=cause, kind=what.kind, name=what.name)
        is_first = root.step <= int(values.steps[1][0]) if len(values.steps[1]) else not root.step
        if what.kind is ValueKind.BATCH:
            return reasons.with_batch(root, self.pairs.first, self.pairs.second, position)
        return msgspec.structs.replace(root, why=reasons.of_entry(what.kind, what.name, root.step, is_first=is_first))

    def _drawn(self, one: Candidate) -> Root:
        first = self.pairs.first
        name = first.names[int(first.draws[1][one.row])].name
        earlier = place(first, int(self.pairs.at[0][one.earlier])) if one.earlier >= 0 else None
        root = msgspec.structs.replace(
            self._plain(one.node), cause=RootCause.DRAW, kind=ValueKind.GENERATOR, name=name, earlier=earlier
        )
        return msgspec.structs.replace(
            root, why=reasons.of_draw(root, self.recordings, is_resumed=self.pairs.is_resumed)
        )

    def _ahead(self, one: Candidate) -> Root:
        """It draws otherwise, and the draw that finds the generator in another state comes later."""
        is_gap = self.pairs.is_gap(one.node)
        root = self._structure(one) if is_gap else self._numbers(one)
        first = self.pairs.first
        name = first.names[int(first.draws[1][one.shows_in])].name
        shows = place(first, int(first.draws[0][one.shows_in]))
        return msgspec.structs.replace(
            root,
            cause=RootCause.DRAW,
            kind=ValueKind.GENERATOR,
            name=name,
            earlier=None,
            why=reasons.of_ahead(root, name, shows, is_alone=is_gap) + reasons.of_machine(root, self.recordings),
        )

    def _numbers(self, one: Candidate) -> Root:
        root = self._plain(one.node)
        calls = (int(self.pairs.at[0][one.node]), int(self.pairs.at[1][one.node]))
        texts = [
            texts_of(values, int(values.numbers[call]))
            for values, call in zip((self.pairs.first, self.pairs.second), calls, strict=True)
        ]
        return msgspec.structs.replace(
            root,
            cause=RootCause.ARGUMENT,
            first=texts[0],
            second=texts[1],
            why=reasons.of_numbers(texts[0], texts[1]),
        )

    def _read(self, one: Candidate) -> Root:
        """Its inputs differ, and everything that is known to have written them agrees."""
        root, marks = self._plain(one.node), self._marks(one.node)
        origin = self._unwritten_origin(int(self.pairs.at[0][one.node]))
        if Mark.READ_UNWRITTEN in marks or origin is not None:
            return self._unwritten(root, origin)
        if self.pairs.is_resumed and (one.row >= 0 or self.pairs.reads_from_before(one.node)):
            entered = self._entered(one) if one.row >= 0 else None
            return entered if entered is not None and entered.kind is not ValueKind.OUTSIDE else self._kept_from(root)
        if one.row >= 0:
            return self._entered(one)
        if self._is_in_doubt(one.node, marks):
            return msgspec.structs.replace(root, why=reasons.NOT_DIGESTED)
        if reads_another(self.pairs, one.node):
            return self._given_another(root)
        if lie_otherwise(self.pairs, [one.node]).any():
            return msgspec.structs.replace(root, cause=RootCause.ARGUMENT, why=reasons.LIES_OTHERWISE)
        return msgspec.structs.replace(root, cause=RootCause.OUTSIDE_CHANGE, why=reasons.CHANGED_OUTSIDE)

    def _given_another(self, root: Root) -> Root:
        """It is given other tensors, or the same in another order: no op shows why, Python chose them."""
        calls = ((self.pairs.first, root.call), (self.pairs.second, root.other_call))
        told = [_sources(values, call) for values, call in calls if call is not None]
        one, two = next(((one, two) for one, two in zip(*told, strict=False) if one != two), ("", ""))
        why = reasons.of_another(one, two) + reasons.of_machine(root, self.recordings)
        return msgspec.structs.replace(root, cause=RootCause.INPUT_DATA, first=one, second=two, why=why)

    def _kept_from(self, root: Root) -> Root:
        """A resumed run reads what was there before it went on, and it is another one: where it reads it says what."""
        scaler = self._scaler_state(root)
        if scaler:
            kind, cause, name = ValueKind.SCALER, RootCause.INITIAL_STATE, scaler
        elif root.phase is Phase.OPTIMIZER:
            kind, cause, name = ValueKind.OPTIMIZER_STATE, RootCause.INITIAL_STATE, ""
        elif root.op.partition(".")[2].partition(".")[0].endswith("_"):
            kind, cause, name = ValueKind.BUFFER, RootCause.INITIAL_STATE, root.module  # it goes on writing to it
        elif root.phase is Phase.OTHER and not root.module:
            kind, cause, name = ValueKind.DATA_POSITION, RootCause.INPUT_DATA, ""
        else:
            kind, cause, name = ValueKind.BUFFER, RootCause.INITIAL_STATE, root.module
        return msgspec.structs.replace(root, cause=cause, kind=kind, name=name, why=reasons.of_kept(kind))

    def _scaler_state(self, root: Root) -> str:
        """The name of a scaler's state that the call reads; empty for none."""
        for values, call in ((self.pairs.first, root.call), (self.pairs.second, root.other_call)):
            moments = values.moments
            states = {
                int(digest): values.names[int(name)].name
                for digest, name in zip(moments.digest.tolist(), moments.name.tolist(), strict=True)
                if values.names[int(name)].kind is ValueKind.SCALER
            }
            for origin in values.origins_of(call).tolist() if states and call is not None else ():
                digest = values.outputs[origin] if origin >= 0 else values.entries.digest[-1 - origin]
                if int(digest) in states:
                    return states[int(digest)]
        return ""

    def _is_in_doubt(self, node: int, marks: Mark) -> bool:
        """Did something that was not digested have a part in it?"""
        if Mark.INPUT_NOT_DIGESTED in marks:
            return True
        for values, at in zip((self.pairs.first, self.pairs.second), self.pairs.at, strict=True):
            for origin in values.origins_of(int(at[node])).tolist():
                if origin >= 0 and int(values.marks[origin]) & Mark.OUTPUT_NOT_DIGESTED:
                    return True
        return False

    def _unwritten_origin(self, call: int) -> Place | None:
        """The call that gave memory without writing it, where what ``call`` read goes back to one."""
        values = self.pairs.first
        kept = dict(values.keeps.tolist())
        seen: set[int] = set()
        left = values.origins_of(call).tolist()
        while left:
            origin = left.pop()
            if origin < 0 or origin in seen:
                continue
            seen.add(origin)
            if int(values.marks[origin]) & Mark.UNWRITTEN:
                return place(values, origin)
            if origin in kept:
                left.append(kept[origin])
        return None

    def _unwritten(self, root: Root, origin: Place | None = None) -> Root:
        trace = self.recordings[0].trace
        for read in trace.unwritten_reads if origin is None and trace is not None else ():
            if (read.op, read.location, read.module) == (root.op, root.location, root.module):
                origin = Place(op=read.allocated_by, location=read.allocated_at, called_from=read.allocated_from)
        why = reasons.of_unwritten(origin)
        return msgspec.structs.replace(root, cause=RootCause.UNWRITTEN_MEMORY, earlier=origin, why=why)

    def _wrote(self, one: Candidate) -> Root:
        """All that it read agrees, and what it wrote differs."""
        root, marks = self._plain(one.node), self._marks(one.node)
        if Mark.COLLECTIVE in marks:
            return msgspec.structs.replace(root, cause=RootCause.COLLECTIVE, why=reasons.COLLECTIVE)
        if Mark.READ_UNWRITTEN in marks:
            return self._unwritten(root, self._unwritten_origin(root.call))
        if Mark.INPUT_NOT_DIGESTED in marks:
            return msgspec.structs.replace(root, why=reasons.NOT_DIGESTED)
        if self.settings:
            changed = self.settings[0]
            return msgspec.structs.replace(
                root,
                cause=RootCause.SETTING,
                name=changed.name,
                first=changed.first,
                second=changed.second,
                why=reasons.of_settings(self.settings),
            )
        return msgspec.structs.replace(root, cause=RootCause.KERNEL, why=reasons.of_kernel(root, marks))

    def _of_ranks(self, one: Candidate) -> Root:
        """An optimizer that reads otherwise on two ranks."""
        return msgspec.structs.replace(self._plain(one.node), cause=RootCause.COLLECTIVE, why=reasons.RANKS)

    def _structure(self, one: Candidate) -> Root:
        gap = self.pairs.gaps[one.node - self.pairs.size]
        first, second = self.pairs.first, self.pairs.second
        at = (gap.first, gap.first_end), (gap.second, gap.second_end)
        if gap.first < gap.first_end:
            root = _at(first, gap.first, cause=RootCause.STRUCTURE)
        else:
            root = _at(second, gap.second, cause=RootCause.STRUCTURE, only_second=True)
        nexts = [
            place(values, start) if start < len(values) else None
            for values, (start, _) in zip((first, second), at, strict=True)
        ]
        before = place(first, gap.first - 1) if gap.first > self.pairs.begins[0] else None
        machine = reasons.of_machine(root, self.recordings)
        return msgspec.structs.replace(
            root,
            earlier=before,
            first=_word(nexts[0]),
            second=_word(nexts[1]),
            why=reasons.of_structure(before, nexts[0], nexts[1], gap) + machine,
        )


def place(values: Values, call: int) -> Place:
    """A call, as sentences speak of it."""
    group = values.groups[int(values.group[call])]
    return Place(
        op=group.op,
        phase=group.phase,
        module=group.module,
        location=group.location,
        called_from=group.called_from,
        step=values.step_of(call),
        call=call,
    )


def _sources(values: Values, call: int) -> list[str]:
    """Where each input of a call came from, in words."""
    found = []
    for origin in values.origins_of(call).tolist():
        if origin >= 0:
            found.append(f"call {origin:,}, {_word(place(values, origin))}")
        else:
            name = values.names[int(values.entries.name[-1 - origin])]
            found.append(f"the {name.kind.value} {name.name}".rstrip())
    return found


def _word(one: Place | None) -> str:
    return "" if one is None else f"{one.op} at {one.location}" if one.location else one.op


def _at(values: Values, call: int, **fields: object) -> Root:
    group = values.groups[int(values.group[call])]
    told: Mapping[str, object] = {
        name: getattr(group, name)
        for name in ("op", "phase", "module", "location", "function", "called_from", "region")
    }
    return Root(step=values.step_of(call), call=call, **{**told, **fields})  # type: ignore[arg-type]
