"""Roots from candidates: the cause of each, what the tables say beside it, and which settings differ."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property

import numpy as np
from msgspec.structs import replace

from tracer.divergence import reasons
from tracer.divergence.causes import RootCause, Shows
from tracer.divergence.loading import loading_of, loads_in
from tracer.divergence.matching.differing import lie_otherwise, reads_another
from tracer.divergence.matching.following import Candidate
from tracer.divergence.matching.pairing import Pairs, texts_of
from tracer.divergence.model import Changed, Place, Root, Seed
from tracer.divergence.recordings import Recording
from tracer.findings import Finding
from tracer.names import (
    AT_RISK,
    SAFE,
    SEVERITY,
    About,
    BlindSpotKind,
    Cause,
    EventKind,
    GeneratorKind,
    Phase,
    SeedOrigin,
    Verdict,
    Way,
)
from tracer.ops.rows import packet_of
from tracer.trace.differences import NOT_SET, differing_settings
from tracer.trace.file import Trace
from tracer.trace.records import Environment, Region, Tried
from tracer.trace.values import Group, Mark, ValueKind, Values
from tracer.trace.values.columns import Name


class Classifier:
    """Makes a root of a candidate."""

    def __init__(
        self,
        pairs: Pairs,
        recordings: tuple[Recording, Recording],
        settings: Iterable[Changed],
        tables: Tables,
    ) -> None:
        self.pairs, self.recordings, self.tables = pairs, recordings, tables
        self.traces = [recording.trace for recording in recordings if recording.trace is not None]
        self.settings = tuple(setting for setting in settings if setting.name not in NO_KERNELS)
        self.threads = tuple(
            dict.fromkeys(
                spot.location
                for trace in self.traces
                for spot in trace.blind_spots
                if spot.kind is BlindSpotKind.OTHER_THREAD
            )
        )
        """The lines that started threads; an empty place for those that ran before recording began."""
        self._details: Mapping[Shows, Callable[[Root, Candidate], Root]] = {
            Shows.STRUCTURE: self._structure,
            Shows.DRAWN_AHEAD: self._ahead,
            Shows.DRAW: self._drawn,
            Shows.NUMBERS: self._numbers,
            Shows.UNWRITTEN: self._unwritten,
            Shows.KEPT: self._resumed_state,
            Shows.BATCH: self._batch,
            Shows.ENTERED: self._entered,
            Shows.OTHER_TENSORS: self._other_tensors,
            Shows.PART: self._part,
            Shows.CHANGED_OUTSIDE: self._beside_threads,
            Shows.THREADS: self._beside_threads,
            Shows.SETTINGS: self._settings,
        }

    def root(self, candidate: Candidate) -> Root:
        """The root with its cause and reason; what follows from it is not counted yet."""
        shows = Shows.at(candidate.way, Evidence(self, candidate))
        root = replace(self._at(candidate.node), cause=shows.cause, shows=shows, why=shows.says)
        if shows in self._details:
            root = self._details[shows](root, candidate)
        if root.cause in (RootCause.INPUT_DATA, RootCause.ARGUMENT):
            root = self._with_loader(root)
        return root if candidate.way in (Way.GAP, Way.AHEAD) else self.tables.beside(root, self.pairs.first)

    def _at(self, node: int) -> Root:
        """A root at a pair, or at a call that only one recording has, without a cause."""
        if not self.pairs.is_gap(node):
            return _at(self.pairs.first, int(self.pairs.at[0][node]), other_call=int(self.pairs.at[1][node]))
        gap = self.pairs.gaps[node - self.pairs.size]
        has_first = gap.first < gap.first_end
        return _at(self.pairs.first, gap.first) if has_first else _at(self.pairs.second, gap.second, only_second=True)

    def entry(self, candidate: Candidate) -> Name:
        """The input that differs."""
        values = (self.pairs.first, self.pairs.second)[candidate.side]
        return values.names[int(values.entries.name[candidate.row])]

    def _entered(self, root: Root, candidate: Candidate) -> Root:
        kind, name = self.entry(candidate).kind, self.entry(candidate).name
        steps = self.pairs.first.steps[1]
        is_first = root.step <= int(steps[0]) if len(steps) else not root.step
        why = reasons.of_entry(
            kind, name, "before the first step" if is_first else f"when it was first read, in step {root.step}"
        )
        root = replace(root, cause=RootCause.of_entered(kind), kind=kind, name=name, why=why)
        return self._beside_threads(root, candidate) if kind is ValueKind.OUTSIDE_CHANGE else root

    def _beside_threads(self, root: Root, candidate: Candidate) -> Root:
        """With the threads that may have written what it reads."""
        return replace(root, why=root.why + reasons.of_threads(self.threads))

    def _batch(self, root: Root, candidate: Candidate) -> Root:
        """A batch that differs: which loader and position, and whether the first run has it elsewhere."""
        name = self.entry(candidate).name
        loader = name.partition(", [")[0]  # without the path within the batch
        values = (self.pairs.first, self.pairs.second)
        position = int(values[candidate.side].entries.position[candidate.row])
        first, second = (_batches(side, loader) for side in values)
        there = (at for at, digest in first.items() if digest == second.get(position) and at != position)
        elsewhere = next(there, None)
        loading = loading_of(loader, root, values, self.recordings)
        why = f"{name or 'the loader'} yielded a different batch{f' at position {position}' if position >= 0 else ''}"
        if elsewhere is not None:
            why += f": the second run's is the first run's batch {elsewhere}, so their order differs"
        root = replace(root, kind=ValueKind.BATCH, name=name, why=why + loading.says, loading=loading)
        in_first = "" if elsewhere is None else str(elsewhere)
        return replace(root, first=str(position) if position >= 0 else "", second=in_first)

    def _with_loader(self, root: Root) -> Root:
        """With the loader that made the call, where it loads a batch in the training process."""
        values = (self.pairs.first, self.pairs.second)
        if root.loading is not None or root.only_second or (loads := loads_in(root.call, values[0])) is None:
            return root
        loading = loading_of(loads[0], root, values, self.recordings, position=loads[1])
        return replace(root, loading=loading, why=root.why + loading.says)

    def _drawn(self, root: Root, candidate: Candidate) -> Root:
        first = self.pairs.first
        name = first.names[int(first.draws[1][candidate.row])].name
        earlier = place(first, int(self.pairs.at[0][candidate.earlier])) if candidate.earlier >= 0 else None
        root = replace(root, kind=ValueKind.GENERATOR, name=name, earlier=earlier)
        if self.pairs.is_resumed and earlier is None:
            return self._restored(root, candidate.row)
        seed = self._with_values(_seeded(name, self.recordings[0]) if earlier is None else None, name)
        since = " before its first recorded draw"
        if earlier is not None:
            by = "something other than a recorded call advanced or seeded it"
            since = f", though earlier draws agree: after {_draw_of(earlier)} {by}"
        return replace(
            root, seed=seed, why=f"the generator {name} was in a different state{since}{reasons.of_seed(seed)}"
        )

    def _restored(self, root: Root, row: int) -> Root:
        """A resumed run draws from a generator in another state: with the draw that found it in the first run's, and
        advanced it, or where it was given another saved state."""
        first, second = self.pairs.first, self.pairs.second
        calls, names, states = second.draws
        is_wanted = (states == first.draws[2][row]) & (calls < (root.other_call or 0))
        rows = [at for at in np.flatnonzero(is_wanted).tolist() if second.names[int(names[at])].name == root.name]
        earlier = place(second, int(calls[rows[-1]])) if rows else None
        trace = self.recordings[1].trace
        given = [
            event.location
            for event in (trace.events if trace is not None else ())
            if event.kind is EventKind.SEED
            and event.value == SeedOrigin.RESTORED
            and GeneratorKind.spelt(event.name) is GeneratorKind.spelt(root.name)
        ]
        if earlier is not None:
            by = _draw_of(earlier)
            loader = f"DataLoader at {earlier.called_from or earlier.location}"
            if any(name.name == loader and name.kind is not ValueKind.BATCH for name in second.names):
                by = f"the iterator of {loader}, which draws ({by})"
            how = f"was restored at {given[-1]}, and then" if given else "had the first run's, and was"
            since = f": it {how} advanced by {by}: restore it after that"
        elif given:
            since = f" where the run resumes: it was given a saved state at {given[-1]}, which was saved at another"
            since += " moment or drawn from since"
        else:
            since = " where the run resumes: it was not restored"
        return replace(
            root,
            earlier=earlier,
            seed=Seed(location=given[-1]) if given else None,
            why=f"the generator {root.name} was in a different state{since}",
        )

    def _with_values(self, seed: Seed | None, generator: str) -> Seed | None:
        """With the numbers of both runs; where the line is not known, that of a seed that differs."""
        first, second = (
            {
                event.location: event.seed
                for event in (recording.trace.events if recording.trace is not None else ())
                if event.kind is EventKind.SEED
                and event.seed
                and GeneratorKind.spelt(event.name) is GeneratorKind.spelt(generator)
            }
            for recording in self.recordings
        )
        both = {place: (number, second[place]) for place, number in first.items() if place in second}
        differing = (location for location, (ours, theirs) in both.items() if ours != theirs)
        place = seed.location if seed is not None else next(differing, "")
        if place not in both:
            return seed
        return replace(seed or Seed(location=place), first=both[place][0], second=both[place][1])

    def _ahead(self, root: Root, candidate: Candidate) -> Root:
        """It draws otherwise, and the draw that finds the generator in another state comes later."""
        first = self.pairs.first
        name = first.names[int(first.draws[1][candidate.shows_in])].name
        next_draw = place(first, int(first.draws[0][candidate.shows_in]))
        if self.pairs.is_gap(candidate.node):
            root = self._structure(root, candidate)
            draws = f"only the {'second' if root.only_second else 'first'} run draws here"
        else:
            root = self._numbers(root, candidate)
            counts = reasons.parted(root.first, root.second)
            how = f"different numbers of values: {' and '.join(counts)}" if all(counts) else "differently"
            draws = f"it draws {how}"
        why = f"{draws}, so the generator {name} is in a different state before the next common draw, {next_draw.words}"
        return replace(root, kind=ValueKind.GENERATOR, name=name, earlier=None, why=why)

    def _numbers(self, root: Root, candidate: Candidate) -> Root:
        first, second = (
            texts_of(values, int(values.numbers[int(at[candidate.node])]))
            for values, at in zip((self.pairs.first, self.pairs.second), self.pairs.at, strict=True)
        )
        return replace(root, first=first, second=second, why=reasons.of_numbers(first, second))

    def data_read(self, call: int) -> Name | None:
        """The data from outside that a call of the first recording reads, or a part of them."""
        values = self.pairs.first
        entered = (
            values.names[int(values.entries.name[-1 - origin])]
            for origin in values.origins_of(call).tolist()
            if origin < 0
        )
        return next((name for name in entered if name.kind in (ValueKind.OUTSIDE, ValueKind.BATCH)), None)

    def _part(self, root: Root, candidate: Candidate) -> Root:
        name = self.data_read(root.call)
        assert name is not None
        return replace(root, kind=name.kind, name=name.name)

    def _other_tensors(self, root: Root, candidate: Candidate) -> Root:
        """No op shows why it is given other tensors: Python chose them."""
        calls = ((self.pairs.first, root.call), (self.pairs.second, root.other_call))
        sources = [_sources(values, call) for values, call in calls if call is not None]
        different = (pair for pair in zip(*sources, strict=False) if pair[0] != pair[1])
        ours, theirs = next(different, ("", ""))
        pairs = f": {ours} in the first run, {theirs} in the second" if ours and theirs else ""
        return replace(root, first=ours, second=theirs, why=root.why + pairs)

    def _resumed_state(self, root: Root, candidate: Candidate) -> Root:
        """A resumed run reads what was there before it went on, and it is another one: its digest says what, where a
        state had it; else whether a loader gave it, whether its module has buffers, whether it is a part of more."""
        sides = (self.pairs.first, self.pairs.second)
        kept = [self.pairs.kept_by(side, candidate.node) for side in (0, 1)]
        digests = [
            [int(values.outputs[at] if at >= 0 else values.entries.digest[-1 - at]) for at in origins]
            for values, origins in zip(sides, kept, strict=True)
        ]
        own = [
            [digest for digest in side if digest not in other]
            for side, other in zip(digests, digests[::-1], strict=True)
        ]
        state = next((name for values, of in zip(sides, own, strict=True) for name in _states_of(values, of)), None)
        is_loaded = any(_is_loaded(values, origins) for values, origins in zip(sides, kept, strict=True))
        writes = root.op.partition(".")[2].partition(".")[0].endswith("_")
        is_part = root.phase is Phase.OTHER and not (root.module or writes or any(own))
        cause, kind, name = RootCause.INITIAL_STATE, ValueKind.OUTSIDE, root.module
        if state is not None:
            kind, name = state.kind, state.name
        elif root.phase is Phase.OPTIMIZER:
            kind, name = ValueKind.OPTIMIZER_STATE, ""
        elif is_loaded or is_part:
            cause, kind, name = RootCause.INPUT_DATA, ValueKind.DATA_POSITION, ""
        elif buffers := [each.name for each in sides[0].names if each.kind is ValueKind.BUFFER]:
            of_module = [buffer for buffer in buffers if buffer.rpartition(".")[0] == root.module]
            kind, name = (ValueKind.BUFFER, of_module[0]) if of_module else (kind, name)
        return replace(root, cause=cause, kind=kind, name=name, why=reasons.of_earlier_state(kind))

    def unwritten_origin(self, call: int) -> Place | None:
        """The call that gave memory without writing it, where what ``call`` read goes back to one."""
        values = self.pairs.first
        rewritten = dict(values.keeps.tolist())
        visited: set[int] = set()
        left = values.origins_of(call).tolist()
        while left:
            origin = left.pop()
            if origin < 0 or origin in visited:
                continue
            visited.add(origin)
            if int(values.mark_bits[origin]) & Mark.UNWRITTEN:
                return place(values, origin)
            if origin in rewritten:
                left.append(rewritten[origin])
        return None

    def _unwritten(self, root: Root, candidate: Candidate) -> Root:
        origin = None if candidate.way is Way.ENTERED else self.unwritten_origin(root.call)
        trace = self.recordings[0].trace
        for read in trace.unwritten_reads if origin is None and trace is not None else ():
            if (read.op, read.location, read.module) == (root.op, root.location, root.module):
                origin = Place(op=read.allocated_by, location=read.allocated_at, called_from=read.allocated_from)
        at = f" at {origin.location}" if origin is not None and origin.location else ""
        source = f", allocated by {origin.op}{at}" if origin is not None else ""
        return replace(root, earlier=origin, why=f"it reads unwritten memory{source}")

    def _settings(self, root: Root, candidate: Candidate) -> Root:
        changed = self.settings[0]
        why = reasons.of_settings(self.settings)
        return replace(root, name=changed.name, first=changed.first, second=changed.second, why=why)

    def _structure(self, root: Root, candidate: Candidate) -> Root:
        gap = self.pairs.gaps[candidate.node - self.pairs.size]
        first, second = self.pairs.first, self.pairs.second
        ours = place(first, gap.first) if gap.first < len(first) else None
        theirs = place(second, gap.second) if gap.second < len(second) else None
        before = place(first, gap.first - 1) if gap.first > self.pairs.begins[0] else None
        only = (gap.first_end - gap.first, gap.second_end - gap.second)
        words = [here.words if here is not None else "" for here in (ours, theirs)]
        why = reasons.of_structure(before, (ours, theirs), only)
        return replace(root, earlier=before, first=words[0], second=words[1], why=why)


class Evidence:
    """Two recordings' evidence on one root, each piece read on demand."""

    def __init__(self, classifier: Classifier, candidate: Candidate) -> None:
        self._classifier, self._candidate, self._pairs = classifier, candidate, classifier.pairs

    @cached_property
    def _calls(self) -> tuple[tuple[Values, int], tuple[Values, int]]:
        """Both calls, each with its recording."""
        node, pairs = self._candidate.node, self._pairs
        return (pairs.first, int(pairs.at[0][node])), (pairs.second, int(pairs.at[1][node]))

    @cached_property
    def _call_marks(self) -> Mark:
        """The marks of both calls."""
        ours, theirs = (int(values.mark_bits[call]) for values, call in self._calls)
        return Mark(ours | theirs)

    @property
    def is_collective(self) -> bool:
        """Whether other processes contribute to its result."""
        return Mark.COLLECTIVE in self._call_marks

    @cached_property
    def _group(self) -> Group:
        values, call = self._calls[0]
        return values.groups[int(values.group[call])]

    @property
    def is_deterministic_by_tables(self) -> bool:
        """Whether the tables call it deterministic."""
        return self._classifier.tables.calls_deterministic(self._group)

    @property
    def is_called_deterministic(self) -> bool:
        """Whether the tables call it deterministic, and no trial contradicted them."""
        tried = self._classifier.tables.tried(self._group)
        return self.is_deterministic_by_tables and not (tried is not None and tried.has_varied)

    @property
    def is_opaque(self) -> bool:
        """Whether it is a custom op that the tables do not list."""
        finding = self._classifier.tables.worst.get(_key(self._group))
        return finding is not None and finding.cause is Cause.OPAQUE

    @property
    def was_tried(self) -> bool:
        """Whether it was replayed."""
        tried = self._classifier.tables.tried(self._group)
        return tried is not None and tried.trials > 0

    @property
    def hangs_on_forks(self) -> bool:
        """Whether branches of ``torch.jit.fork`` make it, or call it with what they made in another order."""
        node, pairs = self._candidate.node, self._pairs
        if pairs.is_gap(node):
            gap = pairs.gaps[node - pairs.size]
            begins = ((pairs.first, gap.first, gap.first_end), (pairs.second, gap.second, gap.second_end))
            return any(values.groups[int(values.group[at])].is_forked for values, at, end in begins if at < end)
        if self.entered is not None or self.reads_unwritten or self.is_undigested:
            return False
        beside = self._group.phase is Phase.BACKWARD and any(group.is_forked for group in pairs.first.groups)
        return (self._group.is_forked or beside) and reads_another(pairs, node)

    @property
    def runs_beside_threads(self) -> bool:
        """Whether the program started threads of its own."""
        return bool(self._classifier.threads)

    @property
    def runs_other_code(self) -> bool:
        """Whether it is a region that was compiled to other code in the second recording."""
        traces = self._classifier.traces
        regions = [region for trace in traces for region in trace.regions if region.id == self._group.region]
        if not self._group.region or len(regions) != len(self._classifier.recordings):
            return False
        # A graph from the compiler's cache is printed differently from one that was just traced.
        graphs = {region.graph for region in regions} if regions[0].origin is regions[1].origin else set()
        return any(len(digests) > 1 and "" not in digests for digests in (graphs, {region.code for region in regions}))

    @property
    def settings_differ(self) -> bool:
        """Whether settings or versions differ that kernels read."""
        return bool(self._classifier.settings)

    @cached_property
    def entered(self) -> ValueKind | None:
        """The kind of input that differs."""
        return self._classifier.entry(self._candidate).kind if self._candidate.row >= 0 else None

    @property
    def reads_unwritten(self) -> bool:
        """Whether it read unwritten memory."""
        if Mark.READ_UNWRITTEN in self._call_marks:
            return self._candidate.way is not Way.ENTERED or self.entered is ValueKind.OUTSIDE
        is_read = self._candidate.way is Way.READ
        return is_read and self._classifier.unwritten_origin(self._calls[0][1]) is not None

    @property
    def reads_kept(self) -> bool:
        """Whether a resumed run reads a state of earlier steps that the recording has no name for."""
        if not self._pairs.is_resumed or self.entered not in (None, ValueKind.OUTSIDE):
            return False
        return self.entered is not None or self._pairs.reads_from_before(self._candidate.node)

    @property
    def is_undigested(self) -> bool:
        """Whether it read something that was not digested."""
        if Mark.INPUT_NOT_DIGESTED in self._call_marks:
            return True
        if self._candidate.way is Way.WROTE:
            return False
        return any(
            origin >= 0 and int(values.mark_bits[origin]) & Mark.OUTPUT_NOT_DIGESTED
            for values, call in self._calls
            for origin in values.origins_of(call).tolist()
        )

    @property
    def is_given_other_tensors(self) -> bool:
        """Whether it gets other tensors, or the same in another order; or writes to one of which it reads nothing."""
        if self._candidate.way is Way.READ:
            return reads_another(self._pairs, self._candidate.node)
        return packet_of(self._group.op).endswith("_") and not any(values.inputs[call] for values, call in self._calls)

    @property
    def reads_part(self) -> bool:
        """Whether it reads data from outside, of which an earlier call may have read another part."""
        return self._classifier.data_read(self._calls[0][1]) is not None

    @property
    def reads_other_layout(self) -> bool:
        """Whether it reads the same bytes in another memory layout."""
        return bool(lie_otherwise(self._pairs, [self._candidate.node]).any())


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


def _draw_of(place: Place) -> str:
    return f"{place.op} at {place.location or place.called_from or 'an unknown line'}"


def _sources(values: Values, call: int) -> list[str]:
    """Return the origin of each input of a call, in words."""
    sources = []
    for origin in values.origins_of(call).tolist():
        if origin >= 0:
            sources.append(f"call {origin:,}, {place(values, origin).words}")
        else:
            name = values.names[int(values.entries.name[-1 - origin])]
            sources.append(f"the {name.kind.value} {name.name}".rstrip())
    return sources


#: States that a program keeps from step to step.
_KEPT = (ValueKind.BUFFER, ValueKind.SCALER, ValueKind.OPTIMIZER_STATE, ValueKind.PARAMETER)


def _states_of(values: Values, digests: Iterable[int]) -> Iterator[Name]:
    """The states that had one of ``digests``."""
    moments = values.moments
    for row in np.flatnonzero(np.isin(moments.digest, list(digests))).tolist():
        name = values.names[int(moments.name[row])]
        if name.kind in _KEPT:
            yield name


def _is_loaded(values: Values, origins: list[int]) -> bool:
    """Return whether one of ``origins`` goes back to a loader's batch by calls that prepare data alone."""
    visited: set[int] = set()
    left = list(origins)
    while left:
        origin = left.pop()
        if origin < 0:
            if values.names[int(values.entries.name[-1 - origin])].kind is ValueKind.BATCH:
                return True
        elif origin not in visited:
            visited.add(origin)
            group = values.groups[int(values.group[origin])]
            if group.phase is Phase.OTHER and not group.module:
                if loads_in(origin, values) is not None:
                    return True
                left += values.origins_of(origin).tolist()
    return False


def _at(values: Values, call: int, **fields: object) -> Root:
    group = values.groups[int(values.group[call])]
    group_fields: Mapping[str, object] = {
        name: getattr(group, name)
        for name in ("op", "phase", "module", "location", "function", "called_from", "region")
    }
    fields = {**group_fields, **fields}
    return Root(cause=RootCause.UNKNOWN, step=values.step_of(call), call=call, **fields)  # type: ignore[arg-type]


def _batches(values: Values, name: str) -> dict[int, int]:
    """Position -> digest of the batches of one loader, its first epoch."""
    wanted = (ValueKind.BATCH, name)
    numbers = [number for number, named in enumerate(values.names) if (named.kind, named.name) == wanted]
    moments = values.moments
    rows = np.flatnonzero(np.isin(moments.name, numbers)).tolist()
    digests: dict[int, int] = {}
    for row in rows:
        digests.setdefault(int(moments.position[row]), int(moments.digest[row]))
    return digests


def _seeded(name: str, recording: Recording) -> Seed | None:
    """Return the seeding of a generator, as the first run's trace has it."""
    for generator in recording.trace.generators if recording.trace is not None else ():
        is_machines = generator.origin is SeedOrigin.MACHINE
        if generator.name == name and (is_machines or generator.seeded_at):
            return Seed(location=generator.seeded_at, is_machines=is_machines)
    return None


_Key = tuple[str, ...]


class Tables:
    """The tables' verdicts on the first recording's calls."""

    def __init__(self, recording: Recording, findings: Sequence[Finding] | None, replayed: Trace | None = None) -> None:
        """``replayed``: a further recording, in which calls were replayed on the spot."""
        self._tried: dict[_Key, Tried] = {}
        self._tried_regions: dict[str, Tried] = {}
        for trace in (recording.trace, replayed):
            if trace is not None:
                self._tried |= {_key(call): call.tried for call in trace.calls if call.tried is not None}
                self._tried_regions |= {region.id: region.tried for region in trace.regions if region.tried is not None}
        self.worst: dict[_Key, Finding] = {}
        self.judged: frozenset[_Key] = frozenset()
        self._regions: dict[str, Region] = {}
        self._judged_regions: frozenset[str] = frozenset()
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
        self._judged_regions = frozenset(call.region for call in trace.calls if call.region is not None)
        for finding in findings:
            if finding.about is not About.CALL:
                continue
            for region in finding.regions:
                self._inside.setdefault(region, []).append(finding)
            worst = self.worst.get(_key(finding))
            if worst is None or _severity(finding) < _severity(worst):
                self.worst[_key(finding)] = finding
        for several in self._inside.values():
            several.sort(key=_severity)

    def beside(self, root: Root, values: Values) -> Root:
        """The root with what the tables say of its call."""
        if root.region:
            return self._in_region(root) if root.cause.is_of_op else root
        rule, verdict = self._of(values.groups[int(values.group[root.call])])
        contradicts = root.cause is RootCause.KERNEL and verdict in SAFE
        root = replace(root, rule=rule, verdict=verdict, contradicts=contradicts)
        is_of_tables = root.cause.is_of_op or (root.shows is not None and root.shows.is_against_tables)
        return replace(root, why=root.why + reasons.of_tables(root)) if is_of_tables else root

    def tried(self, group: Group) -> Tried | None:
        """Return the outcome of replaying these calls on the spot; ``None`` if they were not."""
        return self._tried_regions.get(group.region) if group.region else self._tried.get(_key(group))

    def calls_deterministic(self, group: Group) -> bool:
        """Return whether the tables list nothing that varies in these calls."""
        if not group.region:
            return self._of(group)[1] in SAFE
        region = self._regions.get(group.region)
        inside = self._inside.get(group.region, [])
        adds = region is not None and any(kernel.adds_in_any_order for kernel in region.kernels)
        return group.region in self._judged_regions and not adds and all(finding.verdict in SAFE for finding in inside)

    def _of(self, group: Group) -> tuple[str, Verdict | None]:
        """Rule and verdict at these calls; no verdict where no table was asked about them."""
        finding = self.worst.get(_key(group))
        if finding is not None:
            return finding.rule, finding.verdict
        return "", Verdict.DETERMINISTIC if _key(group) in self.judged else None

    # --- compiled regions ---

    def _in_region(self, root: Root) -> Root:
        """With the line in it that is suspected, and its kernels that add atomically."""
        region = self._regions.get(root.region)
        inside = self._inside.get(root.region, [])
        adding = () if region is None else tuple(kernel.name for kernel in region.kernels if kernel.adds_in_any_order)
        varying = [finding for finding in inside if finding.verdict in AT_RISK]
        suspects = [finding for finding in varying if set(finding.kernels) & set(adding)] or varying
        if suspects:
            worst = suspects[0]
            root = replace(
                root,
                module=worst.module or root.module,
                location=worst.location or root.location,
                function=worst.function or root.function,
                called_from=worst.called_from if worst.location else root.called_from,
                rule=worst.rule,
                verdict=worst.verdict,
            )
        elif not adding and root.region in self._judged_regions:
            verdict = inside[0].verdict if inside else Verdict.DETERMINISTIC
            contradicts = root.cause is RootCause.KERNEL and verdict in SAFE
            root = replace(root, verdict=verdict, contradicts=contradicts)
        places = [Place(op=finding.op, location=finding.location) for finding in suspects]
        return replace(root, why=root.why + reasons.of_region(root, adding, places))


def _key(record: object) -> _Key:
    return tuple(str(getattr(record, name)) for name in ("op", "phase", "module", "location", "called_from"))


def _severity(finding: Finding) -> int:
    return SEVERITY.index(finding.verdict)


# --- settings that differ ---------------------------------------------------------------------------------

#: Fields that say how the generators stood: another seed is a draw's matter.
_SEEDS = ("torch_seed", "cuda_seed")
#: Variables that no kernel reads: they make other orders of sets, other bytes in fresh memory.
NO_KERNELS = frozenset({"PYTHONHASHSEED", "MALLOC_PERTURB_", "RANK", "LOCAL_RANK"})


def changed_settings(first: Recording, second: Recording) -> tuple[Changed, ...]:
    """Everything of the environments that differs, and what the programs set otherwise while they ran."""
    ours, theirs = first.environment, second.environment
    if ours is None or theirs is None:
        return ()
    changed = {setting.name: setting for setting in (*_of_environments(ours, theirs), *_of_events(first, second))}
    return tuple(changed.values())


def _of_environments(first: Environment, second: Environment) -> Iterator[Changed]:
    """What differs, but for seeds; what could not be read on one side is not known to differ."""
    for name, (ours, theirs) in differing_settings((first, second)):
        is_variable = name in first.variables or name in second.variables
        if name not in _SEEDS and (is_variable or NOT_SET not in (ours, theirs)):
            yield Changed(name=name, first=ours, second=theirs)


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
        ours, theirs = (side.get(key, NOT_SET) for side in sides)
        if ours != theirs:
            yield Changed(name=key[0], first=ours, second=theirs)
