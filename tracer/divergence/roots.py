"""Roots from candidates: the cause of each, what the tables say beside it, and which settings differ."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property

import numpy as np
from msgspec.structs import replace

from tracer.divergence.causes import RootCause, Shows
from tracer.divergence.following import Candidate, lie_otherwise, reads_another
from tracer.divergence.model import CallPlace, Loading, Recording, Root, Seed
from tracer.divergence.pairing import AlignedCalls
from tracer.divergence.resuming import states_at
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
    RootKind,
    SeedOrigin,
    Verdict,
)
from tracer.ops import bare_name
from tracer.trace.differences import NOT_SET, SettingDifference, differing_settings
from tracer.trace.file import Trace
from tracer.trace.records import Environment, Event, Tried
from tracer.trace.values import Group, Mark, ValueKind, Values
from tracer.trace.values.columns import NO_DIGEST, Name, places_of, without_places

#: The most names that a sentence lists.
_MOST = 3
#: Why a table is contradicted.
_VARIED = ", and is wrong here: it varied when it was replayed on the spot"
#: What a resumed run reads that earlier steps left.
_EARLIER_STATES = {
    ValueKind.OPTIMIZER_STATE: "the optimizer's state of earlier steps",
    ValueKind.DATA_POSITION: "data from before the resumed part",
    ValueKind.SCALER: "the scaler's state",
}
#: States that a program keeps from step to step.
_KEPT = (ValueKind.BUFFER, ValueKind.SCALER, ValueKind.OPTIMIZER_STATE, ValueKind.PARAMETER)


class Compared:
    """What all roots of two recordings have in common."""

    def __init__(
        self,
        pairs: AlignedCalls,
        recordings: tuple[Recording, Recording],
        settings: Iterable[SettingDifference],
        tables: Tables,
    ) -> None:
        self.pairs, self.recordings, self.tables = pairs, recordings, tables
        self.values = (pairs.first, pairs.second)
        self.traces = [recording.trace for recording in recordings if recording.trace is not None]
        self.settings = [setting for setting in settings if setting.name not in NO_KERNELS]
        """Those that differ, and that kernels may read."""
        spots = (spot for trace in self.traces for spot in trace.blind_spots if spot.kind is BlindSpotKind.OTHER_THREAD)
        self.threads = tuple(dict.fromkeys(spot.location for spot in spots))
        """The lines that started threads; an empty place for those that ran before recording began."""


class RootEvidence:
    """What two recordings show of one root, each piece read on demand, and the words for it."""

    def __init__(self, compared: Compared, candidate: Candidate) -> None:
        self.compared, self.candidate, self.pairs = compared, candidate, compared.pairs
        self.first, self.second = compared.values

    def root(self) -> Root:
        """The root with its cause and reason; what follows from it is not counted yet."""
        node, way, shows = self.candidate.node, self.candidate.way, Shows.at(self.candidate.way, self)
        if not self.pairs.is_gap(node):
            root = _root_at(self.first, int(self.pairs.at[0][node]), other_call=int(self.pairs.at[1][node]))
        else:
            gap = self.pairs.gaps[node - self.pairs.size]
            has_first = gap.first < gap.first_end
            root = _root_at(self.first, gap.first) if has_first else _root_at(self.second, gap.second, only_second=True)
        root = replace(root, cause=shows.cause, shows=shows, why=shows.says)
        if shows in _DETAILS:
            root = _DETAILS[shows](self, root)
        if shows is Shows.PART and (part := self.read_part) is not None:
            root = replace(root, kind=part.kind, name=part.name)
        is_loaded = root.cause in (RootCause.INPUT_DATA, RootCause.ARGUMENT) and root.loading is None
        if is_loaded and not root.only_second and (loads := loads_in(root.call, self.first)) is not None:
            loading = self._loading(loads[0], root, position=loads[1])
            root = replace(root, loading=loading, why=root.why + loading.says)
        return root if way in (RootKind.GAP, RootKind.AHEAD) else self.compared.tables.beside(root, self.first)

    # --- what conditions read ---

    @cached_property
    def _calls(self) -> tuple[tuple[Values, int], tuple[Values, int]]:
        """Both calls, each with its recording."""
        first, second = (int(at[self.candidate.node]) for at in self.pairs.at)
        return (self.first, first), (self.second, second)

    @cached_property
    def _marks(self) -> Mark:
        """The marks of both calls."""
        ours, theirs = (int(values.mark_bits[call]) for values, call in self._calls)
        return Mark(ours | theirs)

    @cached_property
    def _group(self) -> Group:
        values, call = self._calls[0]
        return values.group_of(call)

    @cached_property
    def tried(self) -> Tried:
        """The outcome of replaying these calls."""
        return self.compared.tables.tried.get(_key(self._group), Tried())

    @cached_property
    def _entry(self) -> Name:
        """The input that differs."""
        values = self.compared.values[self.candidate.side]
        return values.names[int(values.entries.name[self.candidate.row])]

    @property
    def entered(self) -> ValueKind | None:
        """The kind of input that differs."""
        return self._entry.kind if self.candidate.row >= 0 else None

    @property
    def is_beside_threads(self) -> bool:
        """Whether the tables call it deterministic, and threads that are not recorded ran beside it."""
        return bool(self.compared.threads) and self.compared.tables.calls_deterministic(self._group)

    @property
    def is_called_deterministic(self) -> bool:
        """Whether the tables call it deterministic, and no trial contradicted them."""
        return not self.tried.varied and self.compared.tables.calls_deterministic(self._group)

    @property
    def is_opaque(self) -> bool:
        """Whether it is a custom op that the tables do not list."""
        finding = self.compared.tables.worst.get(_key(self._group))
        return finding is not None and finding.cause is Cause.OPAQUE

    @property
    def hangs_on_forks(self) -> bool:
        """Whether branches of ``torch.jit.fork`` make it, or call it with what they made in another order."""
        node, pairs = self.candidate.node, self.pairs
        if pairs.is_gap(node):
            stretches = pairs.stretches(pairs.gaps[node - pairs.size])
            return any(values.group_of(begin).is_forked for values, begin, _ in stretches)
        if self.entered is not None or self.reads_unwritten or self.is_undigested:
            return False
        beside = self._group.phase is Phase.BACKWARD and any(group.is_forked for group in pairs.first.groups)
        return (self._group.is_forked or beside) and reads_another(pairs, node)

    @property
    def is_collective(self) -> bool:
        """Whether its result depends on other processes."""
        return Mark.COLLECTIVE in self._marks

    @property
    def runs_other_code(self) -> bool:
        """Whether it is a region that was compiled to other code in the second recording."""
        regions = [
            region for trace in self.compared.traces for region in trace.regions if region.id == self._group.region
        ]
        if not self._group.region or len(regions) != len(self.compared.recordings):
            return False
        # A graph from the compiler's cache is printed differently from one that was just traced.
        graphs = {region.graph for region in regions} if regions[0].origin is regions[1].origin else set()
        return any(len(digests) > 1 and "" not in digests for digests in (graphs, {region.code for region in regions}))

    @property
    def reads_unwritten(self) -> bool:
        """Whether it read unwritten memory."""
        way = self.candidate.way
        if Mark.READ_UNWRITTEN in self._marks:
            return way is not RootKind.ENTERED or self.entered is ValueKind.OUTSIDE
        return way is RootKind.READ and self._unwritten_origin(self._calls[0][1]) is not None

    @property
    def reads_kept(self) -> bool:
        """Whether a resumed run reads a state of earlier steps that the recording has no name for."""
        if not self.pairs.is_resumed or self.entered not in (None, ValueKind.OUTSIDE):
            return False
        return self.entered is not None or self.pairs.reads_from_before(self.candidate.node)

    @property
    def is_undigested(self) -> bool:
        """Whether it read something that was not digested."""
        if Mark.INPUT_NOT_DIGESTED in self._marks:
            return True
        return self.candidate.way is not RootKind.WROTE and any(
            origin >= 0 and int(values.mark_bits[origin]) & Mark.OUTPUT_NOT_DIGESTED
            for values, call in self._calls
            for origin in values.origins_of(call).tolist()
        )

    @property
    def is_given_other_tensors(self) -> bool:
        """Whether it gets other tensors, or the same in another order; or writes to one of which it reads nothing."""
        if self.candidate.way is RootKind.READ:
            return reads_another(self.pairs, self.candidate.node)
        return bare_name(self._group.op).endswith("_") and not any(values.inputs[call] for values, call in self._calls)

    @cached_property
    def read_part(self) -> Name | None:
        """The data from outside that the first run's call reads, of which an earlier one may have read another part."""
        values, call = self._calls[0]
        names = (values.entered_by(origin) for origin in values.origins_of(call).tolist() if origin < 0)
        return next((name for name in names if name.kind in (ValueKind.OUTSIDE, ValueKind.BATCH)), None)

    @property
    def reads_other_layout(self) -> bool:
        """Whether it reads the same bytes in another memory layout."""
        return bool(lie_otherwise(self.pairs, [self.candidate.node]).any())

    def _unwritten_origin(self, call: int) -> CallPlace | None:
        """The call that gave memory without writing it, where what ``call`` read goes back to one."""
        rewritten = dict(self.first.keeps.tolist())
        visited: set[int] = set()
        left = self.first.origins_of(call).tolist()
        while left:
            origin = left.pop()
            if origin < 0 or origin in visited:
                continue
            visited.add(origin)
            if int(self.first.mark_bits[origin]) & Mark.UNWRITTEN:
                return place(self.first, origin)
            if origin in rewritten:
                left.append(rewritten[origin])
        return None

    # --- what the root says beyond its cause ---

    def _entered(self, root: Root) -> Root:
        kind, name = self._entry.kind, self._entry.name
        named = f" {name}" if name else ""
        if kind is ValueKind.OUTSIDE_CHANGE:
            why = f"the bytes of{named or ' what it reads'} changed while no op wrote, differently in the two runs"
            why += self._threads()
        elif kind is ValueKind.OUTSIDE:
            why = f"it reads data from outside the recorded calls{f' ({name})' if name else ''}, and they differ"
        else:
            steps = self.first.steps[1]
            is_first = root.step <= int(steps[0]) if len(steps) else not root.step
            when = "before the first step" if is_first else f"when it was first read, in step {root.step}"
            why = f"the {kind.value.replace('-', ' ')}{named} differs {when}"
        return replace(root, cause=RootCause.of_entered(kind), kind=kind, name=name, why=why)

    def _threads(self) -> str:
        """The threads that the program started: they may have written what the call reads."""
        if not self.compared.threads:
            return ""
        started = " and ".join(list(filter(None, self.compared.threads))[:2])
        which, are = ("a thread", "is") if len(self.compared.threads) == 1 else ("threads", "are")
        where = f" that the program started at {started}" if started else " that ran before"
        return f"; {which}{where} may have written it, and {are} not recorded"

    def _batch(self, root: Root) -> Root:
        """A batch that differs: which loader and position, and whether the first run has it elsewhere."""
        name = self._entry.name
        loader = name.partition(", [")[0]  # without the path within the batch
        position = int(self.compared.values[self.candidate.side].entries.position[self.candidate.row])
        batches: tuple[dict[int, int], dict[int, int]] = {}, {}
        for values, digests in zip(self.compared.values, batches, strict=True):
            for row in values.moments_of(ValueKind.BATCH, loader).tolist():
                digests.setdefault(int(values.moments.position[row]), int(values.moments.digest[row]))
        wanted = batches[1].get(position)
        elsewhere = next((str(at) for at, digest in batches[0].items() if digest == wanted and at != position), "")
        loading = self._loading(loader, root)
        at = str(position) if position >= 0 else ""
        why = f"{name or 'the loader'} yielded a different batch{at and f' at position {at}'}"
        if elsewhere:
            why += f": the second run's is the first run's batch {elsewhere}, so their order differs"
        why += loading.says
        return replace(root, kind=ValueKind.BATCH, name=name, why=why, loading=loading, first=at, second=elsewhere)

    def _loading(self, name: str, root: Root, position: int | None = None) -> Loading:
        """What both recordings show of a loader until it gave the batch that ``root`` reads, or loads ``position``."""
        sides = (self.first, root.call), (self.second, root.call if root.other_call is None else root.other_call)

        def agree(kind: ValueKind, of: str, *, only_last: bool) -> bool | None:
            """Return whether both runs had the same states until then; ``None`` without any."""
            ours, theirs = (_digests(kind, of, values, call) for values, call in sides)
            if not ours or not theirs or NO_DIGEST in (*ours, *theirs):
                return None
            return ours[-1:] == theirs[-1:] if only_last else ours == theirs

        line = name.removeprefix("DataLoader at ")
        loaders = []
        for trace in self.compared.traces:
            there = [loader for loader in trace.loaders if line in loader.iterated_at]
            loaders += there if len(there) == 1 else []  # of several at one line nobody knows which
        is_resumed = self.pairs.is_resumed  # and has not loaded what came before
        indices_agree = agree(ValueKind.INDICES, name, only_last=is_resumed)
        seeds_agree = agree(ValueKind.WORKER_SEED, name, only_last=is_resumed)
        order_from = _order_from(line, sides) if indices_agree is False else ""
        said = [] if position is None else [f"{name} loads batch {position} here"]
        if indices_agree is not None:
            order = f": it drew them from generator {order_from} in another state" if order_from else ""
            said.append(f"the sampler's indices {'agree' if indices_agree else 'differ'}{order}")
        elif loaders:
            of_itself = "its data set gives the order itself, so there are no indices to compare"
            said.append("its indices were not seen" if loaders[0].sampler else of_itself)
        if seeds_agree is not None:
            said.append(f"its workers' seeds {'agree' if seeds_agree else 'differ'}")
        for loader in loaders[:1]:
            method = f" in {loader.fetched_by} ({loader.fetched_at})" if loader.fetched_by else ""
            kinds = [kind for kind in _OF_HOST if agree(ValueKind.GENERATOR, kind.value, only_last=True) is False]
            if loader.workers:
                said.append(f"what its workers drew{method} was not seen")
            elif kinds:
                moved = " and ".join(map(_OF_HOST.__getitem__, kinds))
                said.append(f"it is loaded in the training process{method}, where {moved} was in another state")
        says = "".join(f"; {words}" for words in said)
        return Loading(
            loader=name, indices_agree=indices_agree, seeds_agree=seeds_agree, order_from=order_from, says=says
        )

    def _drawn(self, root: Root) -> Root:
        """Where the generator came to another state, and who seeded it, with the numbers of both runs."""
        candidate = self.candidate
        name = self.first.names[int(self.first.draws[1][candidate.row])].name
        earlier = place(self.first, int(self.pairs.at[0][candidate.earlier])) if candidate.earlier >= 0 else None
        root = replace(root, kind=ValueKind.GENERATOR, name=name, earlier=earlier)
        if self.pairs.is_resumed and earlier is None:
            return self._restored(root)
        trace, seed = self.compared.recordings[0].trace, None
        for generator in trace.generators if trace is not None and earlier is None else ():
            is_machines = generator.origin is SeedOrigin.MACHINE
            if seed is None and generator.name == name and (is_machines or generator.seeded_at):
                seed = Seed(location=generator.seeded_at, is_machines=is_machines)
        first, second = (
            {event.location: event.seed for event in _seeds_of(recording, name) if event.seed}
            for recording in self.compared.recordings
        )
        both = {at: (number, second[at]) for at, number in first.items() if at in second}
        differing = (at for at, (ours, theirs) in both.items() if ours != theirs)
        if (at := seed.location if seed is not None else next(differing, "")) in both:
            seed = replace(seed or Seed(location=at), first=both[at][0], second=both[at][1])
        since = " before its first recorded draw"
        if earlier is not None and GeneratorKind.spelt(name) is GeneratorKind.PASSED:
            root, since = replace(root, earlier=None), ""  # several have that name: the draw may be another's
        elif earlier is not None:
            by = "something other than a recorded call advanced or seeded it"
            since = f", though earlier draws agree: after {_draw_of(earlier)} {by}"
        why = f"the generator {name} was in a different state{since}{_seeded_from(seed)}"
        return replace(root, seed=seed, why=why)

    def _restored(self, root: Root) -> Root:
        """A resumed run draws from a generator in another state: with the draw that found it in the first run's, and
        advanced it, or where it was given another saved state."""
        second = self.second
        calls, names, states = second.draws
        is_wanted = (states == self.first.draws[2][self.candidate.row]) & (calls < (root.other_call or 0))
        rows = [at for at in np.flatnonzero(is_wanted).tolist() if second.names[int(names[at])].name == root.name]
        earlier = place(second, int(calls[rows[-1]])) if rows else None
        seeds = _seeds_of(self.compared.recordings[1], root.name)
        given = [event.location for event in seeds if event.value == SeedOrigin.RESTORED]
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
        seed = Seed(location=given[-1]) if given else None
        why = f"the generator {root.name} was in a different state{since}"
        return replace(root, earlier=earlier, seed=seed, why=why)

    def _ahead(self, root: Root) -> Root:
        """It draws otherwise, and the draw that finds the generator in another state comes later."""
        calls, names, _ = self.first.draws
        name = self.first.names[int(names[self.candidate.shows_in])].name
        next_draw = place(self.first, int(calls[self.candidate.shows_in]))
        if self.pairs.is_gap(self.candidate.node):
            root = self._structure(root)
            draws = f"only the {'second' if root.only_second else 'first'} run draws here"
        else:
            root = self._numbers(root)
            counts = parted(root.first, root.second)
            how = f"different numbers of values: {' and '.join(counts)}" if all(counts) else "differently"
            draws = f"it draws {how}"
        why = f"{draws}, so the generator {name} is in a different state before the next common draw, {next_draw.words}"
        return replace(root, kind=ValueKind.GENERATOR, name=name, earlier=None, why=why)

    def _numbers(self, root: Root) -> Root:
        """Numbers among the arguments, or the parts of tensors that it was given."""
        first, second = (values.texts.get(int(values.numbers[call]), "") for values, call in self._calls)
        numbers, others = without_places(first), without_places(second)
        if numbers == others:
            parts = parted(places_of(first) or "a whole tensor", places_of(second) or "a whole tensor")
            why = f"it is given different parts of a tensor: {' and '.join(parts)}"
        else:
            pair = f": {' and '.join(parted(numbers, others))}" if numbers and others else ""
            why = f"one of its arguments differs{pair}"
        return replace(root, first=first, second=second, why=why)

    def _other_tensors(self, root: Root) -> Root:
        """No op shows why it is given other tensors: Python chose them."""
        sources: list[list[str]] = [[], []]
        for (values, call), words in zip(self._calls, sources, strict=True):
            for origin in values.origins_of(call).tolist():
                name = values.entered_by(origin) if origin < 0 else None
                from_call = "" if name else f"call {origin:,}, {place(values, origin).words}"
                words.append(f"the {name.kind.value} {name.name}".rstrip() if name else from_call)
        ours, theirs = next((pair for pair in zip(*sources, strict=False) if pair[0] != pair[1]), ("", ""))
        pairs = f": {ours} in the first run, {theirs} in the second" if ours and theirs else ""
        return replace(root, first=ours, second=theirs, why=root.why + pairs)

    def _resumed_state(self, root: Root) -> Root:
        """A resumed run reads what was there before it went on, and it is another one: its digest says what, where a
        state had it; else whether a loader gave it, whether its module has buffers, whether it is a part of more."""
        sides = self.compared.values
        kept = [self.pairs.kept_by(side, self.candidate.node) for side in (0, 1)]
        digests = [
            {int(values.outputs[at] if at >= 0 else values.entries.digest[-1 - at]) for at in origins}
            for values, origins in zip(sides, kept, strict=True)
        ]
        own = (digests[0] - digests[1], digests[1] - digests[0])
        # A small number is met elsewhere too, so a state that agrees in this step is not what is read.
        calls = root.call, root.call if root.other_call is None else root.other_call
        now = [states_at(values, values.step_of(call)) for values, call in zip(sides, calls, strict=True)]
        both = {key for key, (digest, _) in now[0].items() if now[1].get(key, (None,))[0] == digest}
        several = (
            values.names[name]
            for values, of in zip(sides, own, strict=True)
            for name in values.moments.name[np.isin(values.moments.digest, list(of))].tolist()
        )
        state = next((each for each in several if each.kind in _KEPT and (each.kind, each.name) not in both), None)
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
        what = _EARLIER_STATES.get(kind, "a state of earlier steps")
        why = f"it reads {what}, which differs in the resumed run"
        return replace(root, cause=cause, kind=kind, name=name, why=why)

    def _unwritten(self, root: Root) -> Root:
        origin = None if self.candidate.way is RootKind.ENTERED else self._unwritten_origin(root.call)
        trace = self.compared.recordings[0].trace
        for read in trace.unwritten_reads if origin is None and trace is not None else ():
            if (read.op, read.location, read.module) == (root.op, root.location, root.module):
                origin = CallPlace(op=read.allocated_by, location=read.allocated_at, called_from=read.allocated_from)
        source = f", allocated by {origin.words}" if origin is not None else ""
        return replace(root, earlier=origin, why=f"it reads unwritten memory{source}")

    def _settings(self, root: Root) -> Root:
        changed = self.compared.settings
        named = ", ".join(f"{setting.name} ({', '.join(setting.values)})" for setting in changed[:_MOST])
        named += f" and {len(changed) - _MOST} more" if len(changed) > _MOST else ""
        why = f"everything that it read agrees, what it wrote differs, and so do settings of the runs: {named}"
        return replace(root, name=changed[0].name, first=changed[0].values[0], second=changed[0].values[1], why=why)

    def _structure(self, root: Root) -> Root:
        """Where the sequences diverge, both continuations, and how many calls each has alone."""
        gap = self.pairs.gaps[self.candidate.node - self.pairs.size]
        before = place(self.first, gap.first - 1) if gap.first > self.pairs.begins[0] else None
        begins = ((self.first, gap.first), (self.second, gap.second))
        words = [place(values, call).words if call < len(values) else "" for values, call in begins]
        if words[0] == words[1]:  # it is another module's
            words = [f"{words[0]} in {values.group_of(call).module or 'no module'}" for values, call in begins]
        first, second = (f"continues with {call}" if call else "ends" for call in words)
        only = zip((gap.first_end - gap.first, gap.second_end - gap.second), ("first", "second"), strict=True)
        extra = " and ".join(f"{n:,} call{'s' if n > 1 else ''} of the {run} run" for n, run in only if n)
        after = "from the beginning" if before is None else f"after {before.words}"
        both = f"both continue with {words[0]}" if first == second else f"the first run {first}, the second {second}"
        why = f"{after} {both} ({extra} not in the other)"
        return replace(root, earlier=before, first=words[0], second=words[1], why=why)


_DETAILS: Mapping[Shows, Callable[[RootEvidence, Root], Root]] = {
    Shows.STRUCTURE: RootEvidence._structure,
    Shows.DRAWN_AHEAD: RootEvidence._ahead,
    Shows.DRAW: RootEvidence._drawn,
    Shows.NUMBERS: RootEvidence._numbers,
    Shows.UNWRITTEN: RootEvidence._unwritten,
    Shows.KEPT: RootEvidence._resumed_state,
    Shows.BATCH: RootEvidence._batch,
    Shows.ENTERED: RootEvidence._entered,
    Shows.OTHER_TENSORS: RootEvidence._other_tensors,
    Shows.CHANGED_OUTSIDE: lambda evidence, root: replace(root, why=root.why + evidence._threads()),
    Shows.THREADS: lambda evidence, root: replace(root, why=root.why + evidence._threads()),
    Shows.SETTINGS: RootEvidence._settings,
}
"""What adds the words that depend on the values that differ."""


def parted(first: str, second: str) -> tuple[str, str]:
    """Return the arguments that differ, a list among them whole, if both texts have the same number of arguments, or
    were cut off."""
    ours, theirs = (re.split(r", (?![^\[\]()]*[\])])", text) for text in (first, second))
    if any(text.endswith("...") for text in (first, second)):
        ours, theirs = (texts[: min(len(ours), len(theirs)) - 1] for texts in (ours, theirs))
    if len(ours) != len(theirs) or ours == theirs:
        return first, second
    differing = [pair for pair in zip(ours, theirs, strict=True) if pair[0] != pair[1]]
    return ", ".join(words for words, _ in differing), ", ".join(words for _, words in differing)


def place(values: Values, call: int) -> CallPlace:
    """A call, as sentences speak of it."""
    group = values.group_of(call)
    at = {name: getattr(group, name) for name in ("op", "phase", "module", "location", "called_from")}
    return CallPlace(**at, step=values.step_of(call), call=call)


def _root_at(values: Values, call: int, **fields: object) -> Root:
    group = values.group_of(call)
    names = ("op", "phase", "module", "location", "function", "called_from", "region")
    at: Mapping[str, object] = {name: getattr(group, name) for name in names}
    return Root(cause=RootCause.UNKNOWN, step=values.step_of(call), call=call, **at, **fields)  # type: ignore[arg-type]


def _draw_of(draw: CallPlace) -> str:
    return f"{draw.op} at {draw.location or draw.called_from or 'an unknown line'}"


def _is_loaded(values: Values, origins: list[int]) -> bool:
    """Return whether one of ``origins`` goes back to a loader's batch by calls that prepare data alone."""
    visited: set[int] = set()
    left = list(origins)
    while left:
        origin = left.pop()
        if origin < 0:
            if values.entered_by(origin).kind is ValueKind.BATCH:
                return True
        elif origin not in visited:
            visited.add(origin)
            group = values.group_of(origin)
            if group.phase is Phase.OTHER and not group.module:
                if loads_in(origin, values) is not None:
                    return True
                left += values.origins_of(origin).tolist()
    return False


def _seeds_of(recording: Recording, generator: str) -> Iterator[Event]:
    """The times at which the program seeded or restored this kind of generator."""
    for event in recording.trace.events if recording.trace is not None else ():
        if event.kind is EventKind.SEED and GeneratorKind.spelt(event.name) is GeneratorKind.spelt(generator):
            yield event


def _seeded_from(seed: Seed | None) -> str:
    """Who seeded a generator, and from what, in words."""
    if seed is None:
        return ""
    if seed.is_machines:
        at = f" (at {seed.location})" if seed.location else ""
        return f": it was never seeded, so the machine chose its state{at}"
    numbers = f"with {seed.first} in both" if seed.first else ""
    if seed.first != seed.second:
        numbers = f"with {seed.first}, in the second run with {seed.second}"
    return f": it was seeded at {seed.location} {numbers}".rstrip()


# --- what the tables say ----------------------------------------------------------------------------------

_Key = tuple[str, ...]


class Tables:
    """The tables' verdicts on the first recording's calls."""

    def __init__(self, recording: Recording, findings: Sequence[Finding] | None, replayed: Trace | None = None) -> None:
        """``replayed``: a further recording, in which calls were replayed on the spot."""
        self.tried: dict[_Key, Tried] = {}
        """The outcome of replaying calls on the spot."""
        for trace in (recording.trace, replayed):
            if trace is not None:
                self.tried |= {_key(call): call.tried for call in trace.calls if call.tried is not None}
        self.worst: dict[_Key, Finding] = {}
        self._inside = defaultdict[str, list[Finding]](list)
        """By region: what was found in it, the worst first."""
        self._judged = set[str | _Key]()
        """Calls that were judged, and regions whose ops were."""
        self._adding: dict[str, list[str]] = {}
        """By region: its kernels that add atomically."""
        if (trace := recording.trace) is None:
            return
        for region in trace.regions:
            self._adding[region.id] = [kernel.name for kernel in region.kernels if kernel.adds_in_any_order]
        if findings is not None:
            self._judged = {call.region or _key(call) for call in trace.calls}
        for finding in sorted(findings or (), key=lambda finding: SEVERITY.index(finding.verdict)):
            if finding.about is About.CALL:
                self.worst.setdefault(_key(finding), finding)
                for region_id in finding.regions:
                    self._inside[region_id].append(finding)

    def beside(self, root: Root, values: Values) -> Root:
        """The root with what the tables say of its call."""
        if root.region:
            return self._in_region(root) if root.cause.is_of_op else root
        rule, verdict = self._of(values.group_of(root.call))
        contradicts = root.cause is RootCause.KERNEL and verdict in SAFE
        root = replace(root, rule=rule, verdict=verdict, contradicts=contradicts)
        is_of_tables = root.cause.is_of_op or (root.shows is not None and root.shows.is_against_tables)
        return replace(root, why=root.why + of_tables(root)) if is_of_tables else root

    def calls_deterministic(self, group: Group) -> bool:
        """Return whether the tables list nothing that varies in these calls."""
        if not group.region:
            return self._of(group)[1] in SAFE
        is_safe = all(finding.verdict in SAFE for finding in self._inside[group.region])
        return group.region in self._judged and not self._adding.get(group.region) and is_safe

    def _of(self, group: Group) -> tuple[str, Verdict | None]:
        """Rule and verdict at these calls; no verdict where no table was asked about them."""
        finding = self.worst.get(_key(group))
        if finding is not None:
            return finding.rule, finding.verdict
        return "", Verdict.DETERMINISTIC if _key(group) in self._judged else None

    def _in_region(self, root: Root) -> Root:
        """With the line in a compiled region that is suspected, and its kernels that add atomically."""
        inside, adding = self._inside[root.region], self._adding.get(root.region, [])
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
        elif not adding and root.region in self._judged:
            root = replace(root, verdict=inside[0].verdict if inside else Verdict.DETERMINISTIC)
        places = dict.fromkeys(CallPlace(op=finding.op, location=finding.location).words for finding in suspects)
        ops = " and ".join(list(places)[:_MOST])
        said = ""
        if adding:
            names = " and ".join(adding[:_MOST])
            names += f" and {len(adding) - _MOST} more" if len(adding) > _MOST else ""
            are, add = ("are its kernels", "add") if len(adding) > 1 else ("is its kernel", "adds")
            said = f"; suspected {are} {names}, which {add} atomically{f', of {ops}' if ops else ''}"
        elif ops:
            said = f"; suspected in it: {ops}{of_tables(root)}"
        elif root.verdict is None:
            said = "; what is inside it is unknown"
        return replace(root, why=root.why + said)


def of_tables(root: Root) -> str:
    """Return the tables' verdict on it, in words, whether they agree or not."""
    if root.verdict is None:
        return ""
    named = f" (rule {root.rule})" if root.rule else ""
    if root.verdict in SAFE:
        return f"; the table calls it {root.verdict}{named}{_VARIED if root.contradicts else ''}"
    if root.verdict is Verdict.UNKNOWN:
        return f"; the table has no answer{named}"
    return f"; the table expects it{named}: {root.verdict}"


def _key(record: object) -> _Key:
    return tuple(str(getattr(record, name)) for name in ("op", "phase", "module", "location", "called_from"))


# --- settings that differ ---------------------------------------------------------------------------------

#: Fields that say how the generators stood: another seed is a draw's matter.
_SEEDS = ("torch_seed", "cuda_seed")
#: Variables that no kernel reads: they make other orders of sets, other bytes in fresh memory.
NO_KERNELS = frozenset({"PYTHONHASHSEED", "MALLOC_PERTURB_", "RANK", "LOCAL_RANK"})


def changed_settings(
    environments: Sequence[Environment | None], traces: Sequence[Trace | None]
) -> tuple[SettingDifference, ...]:
    """Everything of two runs' environments that differs but for seeds, and what the programs set otherwise while they
    ran. What could not be read on one side is not known to differ."""
    known = [environment for environment in environments if environment is not None]
    if len(known) < 2:
        return ()
    changed = {}
    for setting in differing_settings(known):
        is_variable = any(setting.name in environment.variables for environment in known)
        if setting.name not in _SEEDS and (is_variable or NOT_SET not in setting.values):
            changed[setting.name] = setting
    kinds = (EventKind.SETTING, EventKind.VARIABLE)
    sides = [
        {(event.name, event.location): event.value for event in trace.events if event.kind in kinds}
        for trace in traces
        if trace is not None
    ]
    keys = dict.fromkeys(key for side in sides for key in side) if len(sides) == len(traces) else ()
    for key in keys:
        made = tuple(side.get(key, NOT_SET) for side in sides)
        if made[0] != made[1]:
            changed[key[0]] = SettingDifference(name=key[0], values=made)
    return tuple(changed.values())


# --- how a batch came about ---


#: Global generators that a data set may draw from in the training process.
_OF_HOST = {GeneratorKind.PYTHON: "Python's `random`", GeneratorKind.NUMPY: "NumPy's `numpy.random`"}
#: Draws from which a sampler's order comes: a seed for a generator of its own, and the permutation.
_OF_ORDER = 2


def loads_in(call: int, values: Values) -> tuple[str, int] | None:
    """The loader that made ``call`` to load a batch in the training process, and the number of that batch."""
    moments = values.moments
    for name in (named.name for named in values.names if named.kind is ValueKind.INDICES):
        rows = values.moments_of(ValueKind.INDICES, name)
        asked = rows[moments.call[rows] <= call]
        if len(asked) > len(_digests(ValueKind.BATCH, name, values, call)):
            return name, int(moments.position[asked[-1]])
    return None


def _order_from(line: str, sides: Iterable[tuple[Values, int]]) -> str:
    """The generator that was in another state when the sampler of a loader drew its order; empty if none was."""
    drawn = []
    for values, call in sides:
        at_line = [line in (group.location, group.called_from) and not group.module for group in values.groups]
        calls, names, states = values.draws
        rows = np.flatnonzero(np.array(at_line, np.bool_)[values.group[calls]] & (calls <= call))[-_OF_ORDER:]
        drawn.append([(values.names[int(names[row])].name, int(states[row])) for row in rows.tolist()])
    both = [side[-min(map(len, drawn)) or _OF_ORDER :] for side in drawn]  # the last ones of both
    return next((ours[0] for ours, theirs in zip(*both, strict=False) if ours != theirs), "")


def _digests(kind: ValueKind, name: str, values: Values, call: int) -> list[int]:
    rows = values.moments_of(kind, name)
    digests: list[int] = values.moments.digest[rows[values.moments.call[rows] <= call]].tolist()
    return digests
