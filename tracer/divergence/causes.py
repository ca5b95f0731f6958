"""The cause of a root: what the recordings show at it, what the tables say beside it, which settings differ."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec
import numpy as np

from tracer.divergence.matching.differing import lie_otherwise, reads_another
from tracer.divergence.matching.following import Candidate, Way
from tracer.divergence.matching.pairing import Pairs, texts_of
from tracer.divergence.model import Changed, Place, Reason, Root, RootCause, Seed, Shows, Taken
from tracer.divergence.recordings import Recording
from tracer.findings import Finding
from tracer.names import SEVERITY, About, EventKind, GeneratorKind, NumberUse, Phase, SeedOrigin, Verdict
from tracer.trace.records import Environment, Region
from tracer.trace.values import Group, Mark, ValueKind, Values

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
            found = self._with_machine(found)
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
            return self._batch(root, position)
        return msgspec.structs.replace(root, reason=Reason(shows=Shows.ENTERED, is_first=is_first))

    def _batch(self, root: Root, position: int) -> Root:
        """A batch that differs: which loader and position, and whether the first run has it elsewhere."""
        sides = [_batches(values, root.name) for values in (self.pairs.first, self.pairs.second)]
        moved = _elsewhere(sides[0], sides[1], position)
        return msgspec.structs.replace(
            root,
            reason=Reason(shows=Shows.BATCH, position=position, elsewhere=moved),
            first=str(position) if position >= 0 else "",
            second=str(moved) if moved is not None else "",
        )

    def _drawn(self, one: Candidate) -> Root:
        first = self.pairs.first
        name = first.names[int(first.draws[1][one.row])].name
        earlier = place(first, int(self.pairs.at[0][one.earlier])) if one.earlier >= 0 else None
        is_resumed = self.pairs.is_resumed and earlier is None
        seed = None if is_resumed else self._machine_seed(name)
        if seed is None and earlier is None and not is_resumed:
            seed = _seeded(name, self.recordings[0])
        reason = Reason(shows=Shows.DRAW, is_resumed=is_resumed, seed=seed)
        return msgspec.structs.replace(
            self._plain(one.node),
            cause=RootCause.DRAW,
            kind=ValueKind.GENERATOR,
            name=name,
            earlier=earlier,
            reason=reason,
        )

    def _machine_seed(self, name: str) -> Seed | None:
        """Where a seed came from that is another number in every process."""
        names = (name, GeneratorKind.spelt(name).value)
        for recording in self.recordings:
            for number in recording.trace.machine_numbers if recording.trace is not None else ():
                if number.use is NumberUse.SEED and number.what in names:
                    return Seed(location=number.location, source=number.source)
        return None

    def _with_machine(self, root: Root) -> Root:
        """With what the program takes that is another number in every process: it may be where this comes from."""
        if root.reason is None:
            return root
        found = {
            number.location: Taken(what=number.what, location=number.location, source=number.source)
            for recording in self.recordings
            for number in (recording.trace.machine_numbers if recording.trace is not None else ())
            if number.use is not NumberUse.SEED and number.location and not number.by_library
        }
        for recording in self.recordings:
            for draw in recording.trace.host_draws if recording.trace is not None else ():
                if draw.origin is SeedOrigin.MACHINE and draw.location:
                    taken = Taken(what=draw.op, location=draw.location, is_unseeded=True)
                    found.setdefault(draw.location, taken)
        here = [found[place] for place in (root.location, root.called_from) if place in found]
        told = here[:1] or list(found.values())[:2]
        return msgspec.structs.replace(root, reason=msgspec.structs.replace(root.reason, taken=tuple(told)))

    def _ahead(self, one: Candidate) -> Root:
        """It draws otherwise, and the draw that finds the generator in another state comes later."""
        is_gap = self.pairs.is_gap(one.node)
        root = self._structure(one) if is_gap else self._numbers(one)
        first = self.pairs.first
        name = first.names[int(first.draws[1][one.shows_in])].name
        shows = place(first, int(first.draws[0][one.shows_in]))
        reason = Reason(shows=Shows.DRAWN_AHEAD, next_draw=shows, is_alone=is_gap)
        root = msgspec.structs.replace(
            root, cause=RootCause.DRAW, kind=ValueKind.GENERATOR, name=name, earlier=None, reason=reason
        )
        return self._with_machine(root)

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
            reason=Reason(shows=Shows.NUMBERS),
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
            return msgspec.structs.replace(root, reason=Reason(shows=Shows.NOT_DIGESTED))
        if reads_another(self.pairs, one.node):
            return self._given_another(root)
        if lie_otherwise(self.pairs, [one.node]).any():
            return msgspec.structs.replace(root, cause=RootCause.ARGUMENT, reason=Reason(shows=Shows.OTHER_LAYOUT))
        return msgspec.structs.replace(root, cause=RootCause.OUTSIDE_CHANGE, reason=Reason(shows=Shows.CHANGED_OUTSIDE))

    def _given_another(self, root: Root) -> Root:
        """It is given other tensors, or the same in another order: no op shows why, Python chose them."""
        calls = ((self.pairs.first, root.call), (self.pairs.second, root.other_call))
        told = [_sources(values, call) for values, call in calls if call is not None]
        one, two = next(((one, two) for one, two in zip(*told, strict=False) if one != two), ("", ""))
        reason = Reason(shows=Shows.OTHER_TENSORS)
        root = msgspec.structs.replace(root, cause=RootCause.INPUT_DATA, first=one, second=two, reason=reason)
        return self._with_machine(root)

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
        return msgspec.structs.replace(root, cause=cause, kind=kind, name=name, reason=Reason(shows=Shows.KEPT))

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
        reason = Reason(shows=Shows.UNWRITTEN)
        return msgspec.structs.replace(root, cause=RootCause.UNWRITTEN_MEMORY, earlier=origin, reason=reason)

    def _wrote(self, one: Candidate) -> Root:
        """All that it read agrees, and what it wrote differs."""
        root, marks = self._plain(one.node), self._marks(one.node)
        if Mark.COLLECTIVE in marks:
            return msgspec.structs.replace(root, cause=RootCause.COLLECTIVE, reason=Reason(shows=Shows.COLLECTIVE))
        if Mark.READ_UNWRITTEN in marks:
            return self._unwritten(root, self._unwritten_origin(root.call))
        if Mark.INPUT_NOT_DIGESTED in marks:
            return msgspec.structs.replace(root, reason=Reason(shows=Shows.NOT_DIGESTED))
        if self.settings:
            changed = self.settings[0]
            return msgspec.structs.replace(
                root,
                cause=RootCause.SETTING,
                name=changed.name,
                first=changed.first,
                second=changed.second,
                reason=Reason(shows=Shows.SETTINGS, settings=self.settings),
            )
        shows = Shows.REGION if Mark.COMPILED in marks else Shows.KERNEL
        return msgspec.structs.replace(root, cause=RootCause.KERNEL, reason=Reason(shows=shows))

    def _of_ranks(self, one: Candidate) -> Root:
        """An optimizer that reads otherwise on two ranks."""
        return msgspec.structs.replace(
            self._plain(one.node), cause=RootCause.COLLECTIVE, reason=Reason(shows=Shows.RANKS)
        )

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
        only = (gap.first_end - gap.first, gap.second_end - gap.second)
        reason = Reason(shows=Shows.STRUCTURE, goes_on=(nexts[0], nexts[1]), only=only)
        root = msgspec.structs.replace(
            root, earlier=before, first=_word(nexts[0]), second=_word(nexts[1]), reason=reason
        )
        return self._with_machine(root)


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


def _batches(values: Values, name: str) -> dict[int, int]:
    """Position -> digest of the batches of one loader, its first epoch."""
    numbers = [at for at, one in enumerate(values.names) if one.kind is ValueKind.BATCH and one.name == name]
    moments = values.moments
    rows = np.flatnonzero(np.isin(moments.name, numbers)).tolist()
    found: dict[int, int] = {}
    for row in rows:
        found.setdefault(int(moments.position[row]), int(moments.digest[row]))
    return found


def _elsewhere(first: dict[int, int], second: dict[int, int], position: int) -> int | None:
    """Where the first run has the batch that the second has at ``position``."""
    there = second.get(position)
    if there is None:
        return None
    return next((at for at, digest in first.items() if digest == there and at != position), None)


def _seeded(name: str, recording: Recording) -> Seed | None:
    """Who seeded a generator, as the first run's trace has it."""
    if recording.trace is None:
        return None
    for generator in recording.trace.generators:
        if generator.name == name:
            is_machines = generator.origin is SeedOrigin.MACHINE
            if is_machines or generator.seeded_at:
                return Seed(location=generator.seeded_at, is_machines=is_machines)
    return None


# --- what the tables say ----------------------------------------------------------------------------------

#: Verdicts under which a kernel that differs is no surprise.
_CALM = (Verdict.DETERMINISTIC, Verdict.SEEDED)
_BY_KERNEL = (RootCause.KERNEL, RootCause.SETTING)
_VARIES = (Verdict.NONDETERMINISTIC, Verdict.CONDITIONAL, Verdict.RAISES)

_Key = tuple[str, ...]


class Tables:
    """What the tables say of the first recording's calls."""

    def __init__(self, recording: Recording, findings: Sequence[Finding] | None) -> None:
        self.worst: dict[_Key, Finding] = {}
        self.judged: frozenset[_Key] = frozenset()
        self._regions: dict[str, Region] = {}
        self._seen: frozenset[str] = frozenset()
        """Regions whose ops were judged."""
        self._inside: dict[str, list[Finding]] = {}
        """By region: what was found in it, the worst first."""
        trace = recording.trace
        if trace is None:
            return
        self._regions = {region.id: region for region in trace.regions}
        if findings is None:
            return
        self.judged = frozenset(_key(call) for call in trace.calls if call.region is None)
        self._seen = frozenset(call.region for call in trace.calls if call.region is not None)
        for finding in findings:
            if finding.about is not About.CALL:
                continue
            for region in finding.regions:
                self._inside.setdefault(region, []).append(finding)
            known = self.worst.get(_key(finding))
            if known is None or _severity(finding) < _severity(known):
                self.worst[_key(finding)] = finding
        for several in self._inside.values():
            several.sort(key=_severity)

    def beside(self, root: Root, values: Values) -> Root:
        """The root with what the tables say of its call."""
        if root.region:
            return self._in_region(root) if root.cause in _BY_KERNEL else root
        rule, verdict = self._of(values.groups[int(values.group[root.call])])
        contradicts = root.cause is RootCause.KERNEL and verdict in _CALM
        return msgspec.structs.replace(root, rule=rule, verdict=verdict, contradicts=contradicts)

    def _of(self, group: Group) -> tuple[str, Verdict | None]:
        """Rule and verdict at these calls; no verdict where no table was asked about them."""
        found = self.worst.get(_key(group))
        if found is not None:
            return found.rule, found.verdict
        return "", Verdict.DETERMINISTIC if _key(group) in self.judged else None

    # --- compiled regions ---

    def _in_region(self, root: Root) -> Root:
        """With the line in it that is suspected, and its kernels that add atomically."""
        region = self._regions.get(root.region)
        inside = self._inside.get(root.region, [])
        adding = () if region is None else tuple(one.name for one in region.kernels if one.adds_in_any_order)
        varying = [finding for finding in inside if finding.verdict in _VARIES]
        suspects = [finding for finding in varying if set(finding.kernels) & set(adding)] or varying
        if suspects:
            worst = suspects[0]
            root = msgspec.structs.replace(
                root,
                module=worst.module or root.module,
                location=worst.location or root.location,
                function=worst.function or root.function,
                called_from=worst.called_from if worst.location else root.called_from,
                rule=worst.rule,
                verdict=worst.verdict,
            )
        elif not adding and root.region in self._seen:
            verdict = inside[0].verdict if inside else Verdict.DETERMINISTIC
            contradicts = root.cause is RootCause.KERNEL and verdict in _CALM
            root = msgspec.structs.replace(root, verdict=verdict, contradicts=contradicts)
        if root.reason is None:
            return root
        places = tuple(Place(op=finding.op, location=finding.location) for finding in suspects)
        reason = msgspec.structs.replace(root.reason, adding=adding, suspects=places)
        return msgspec.structs.replace(root, reason=reason)


def _key(one: object) -> _Key:
    return tuple(str(getattr(one, name)) for name in ("op", "phase", "module", "location", "called_from"))


def _severity(finding: Finding) -> int:
    return SEVERITY.index(finding.verdict)


# --- settings that differ ---------------------------------------------------------------------------------

#: Fields that say how the generators stood: another seed is a draw's matter.
_SEEDS = ("torch_seed", "cuda_seed")
#: Variables that no kernel reads: they make other orders of sets, other bytes in fresh memory.
NO_KERNELS = frozenset({"PYTHONHASHSEED", "MALLOC_PERTURB_", "RANK", "LOCAL_RANK"})
_ABSENT = "not set"


def changed_settings(first: Recording, second: Recording) -> tuple[Changed, ...]:
    """Everything of the environments that differs, and what the programs set otherwise while they ran."""
    ours, theirs = first.environment, second.environment
    if ours is None or theirs is None:
        return ()
    found = {one.name: one for one in (*_of_environments(ours, theirs), *_of_events(first, second))}
    return tuple(found.values())


def _of_environments(ours: Environment, theirs: Environment) -> Iterator[Changed]:
    sides = [msgspec.to_builtins(one) for one in (ours, theirs)]
    for name in Environment.__struct_fields__:
        if name in _SEEDS:
            continue
        one, two = (side.get(name) for side in sides)
        if name not in ("variables", "settings"):
            if one != two and None not in (one, two):  # what could not be read on one side is not known to differ
                yield Changed(name=name, first=_text(one), second=_text(two))
            continue
        one, two = one or {}, two or {}
        for key in sorted({*one, *two} if name == "variables" else {*one} & {*two}):
            if one.get(key) != two.get(key):
                yield Changed(name=key, first=_text(one.get(key)), second=_text(two.get(key)))


def _of_events(first: Recording, second: Recording) -> Iterator[Changed]:
    """Settings that one program made, and the other not, or to another value."""
    if first.trace is None or second.trace is None:
        return
    kinds = (EventKind.SETTING, EventKind.VARIABLE)
    sides = [
        {(event.name, event.location): event.value for event in trace.events if event.kind in kinds}
        for trace in (first.trace, second.trace)
    ]
    for key in dict.fromkeys((*sides[0], *sides[1])):
        one, two = sides[0].get(key), sides[1].get(key)
        if one != two:
            yield Changed(name=key[0], first=_text(one), second=_text(two))


def _text(value: object) -> str:
    return _ABSENT if value is None else str(value)
