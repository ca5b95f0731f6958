"""One recording: enters and leaves the mode, hooks and watches, and builds the trace."""

from __future__ import annotations

import os
from _thread import get_ident
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from functools import cached_property, partial
from itertools import chain
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import torch
from msgspec.structs import replace

from tracer.facts.argument_readers import MISSING
from tracer.names import BlindSpotKind, Gradients, HostCode, Phase
from tracer.ops.op import Touch
from tracer.ops.rows import packet_of, row_of
from tracer.recording.blind_spots import BlindSpots
from tracer.recording.calls import draws
from tracer.recording.calls import fact_readers as facts
from tracer.recording.calls.argument_forms import named_arguments
from tracer.recording.calls.draws import DRAW
from tracer.recording.calls.groups import ON_HOST, CallCounter, OverloadInfo, changed_by_recording, overridden
from tracer.recording.compiled.executions import RUNS, Executions
from tracer.recording.copies_in_flight import WAITS
from tracer.recording.launched.launches import LaunchedRecord
from tracer.recording.memory_observers import StorageObservers
from tracer.recording.mode import RecordingMode
from tracer.recording.observers import Observer
from tracer.recording.options import RecordOptions
from tracer.recording.origin.attribution import Attribution
from tracer.recording.origin.gradients import GradientWatch
from tracer.recording.origin.modules import ModuleStack, follow_loaders
from tracer.recording.origin.optimizers import OptimizerWatch
from tracer.recording.origin.sites import Sites, spell
from tracer.recording.own_code import leave_to_python
from tracer.recording.process import environment as process
from tracer.recording.process.first_uses import first_calls, with_first_calls
from tracer.recording.process_watch import ProcessWatch
from tracer.recording.randomness.generators import SEEDS
from tracer.recording.randomness.host_generators import HOST
from tracer.recording.randomness.provenance import Drawn, GeneratorRecord
from tracer.recording.shared_parameters import SharedParameters
from tracer.recording.storage.registry import ESCAPES
from tracer.recording.torch_private import seams
from tracer.tables.settings.declared import CHOSEN_IN_FORWARD, FORWARD
from tracer.trace.file import Trace
from tracer.trace.merging import merged
from tracer.trace.records import BlindSpot, CallGroup, Environment, FactValue, TraceSource

_FORWARD = (Phase.FORWARD, Phase.RECOMPUTE)


class RecordingState:
    """Answers for one recording; see ``events.Calls``."""

    def __init__(self, attribution: Attribution, mode: RecordingMode) -> None:
        self._modules = attribution.modules
        self._optimizer = attribution.optimizer
        self._mode = mode
        self.place_in_values: Callable[[], int | None] = lambda: None
        """Returns the number of calls in the file of values; ``None`` if none is written."""
        self.first_values: dict[str, str] = {}
        """The values with which this recording began, of settings that changed since."""
        self._at_end: dict[str, str] = {}
        """The values of settings as the recording ended last."""
        self._step_began_at = 0
        """The lowest sequence number that an autograd node of this training step can have."""

    def step_begins(self) -> None:
        """A new training step begins."""
        self._step_began_at = seams.next_sequence_number()

    def phase(self) -> Phase:
        """The phase that this thread is in; ``other`` on threads that are not recorded."""
        if seams.graph_task_id() != -1:
            return Phase.RECOMPUTE if self._modules.recompute_depth else Phase.BACKWARD
        if get_ident() != self._modules.thread:
            return Phase.OTHER
        if self._optimizer.active:
            return Phase.OPTIMIZER
        return Phase.FORWARD if self._modules.scope.is_module else Phase.OTHER

    def counted(self) -> tuple[int, int, int]:
        """Calls recorded so far: forward (and recomputed), backward, all."""
        forward = backward = total = 0
        for info in tuple(self._mode.infos.values()):
            for counter in info.every_counter():
                total += counter.count
                if counter.origin.phase in _FORWARD:
                    forward += counter.count
                elif counter.origin.phase is Phase.BACKWARD:
                    backward += counter.count
        return forward, backward, total

    def setting_changed(self, name: str, before: str, value: str) -> None:
        """The setting ``name`` took another value: calls from here on are counted apart, if it can decide on them."""
        if process.is_judged_by(name):
            self.first_values.setdefault(name, before)
            self._mode.setting_changed(name, value)

    def settings_at_end(self) -> None:
        """The recording ends: settings that change from here on are looked at when it goes on."""
        self._at_end = process.values_now()

    def settings_since(self) -> None:
        """The recording begins, or goes on under settings that may have changed."""
        now = process.values_now() if self._at_end else {}
        for name, value in now.items():
            if value != self._at_end[name]:
                self.setting_changed(name, self._at_end[name], value)

    def step_has_forward(self) -> bool:
        """Return whether autograd made a node in this step; ``True`` if torch does not number nodes."""
        return not seams.HAS_FORWARD_LINK or seams.next_sequence_number() != self._step_began_at


if TYPE_CHECKING:  # loaded where they are asked for
    from tracer.recording.compiled.listing import RegionList
    from tracer.recording.kept_inputs import KeptInputs
    from tracer.recording.magnitudes.decisions import Decisions
    from tracer.recording.magnitudes.place_recorder import PlaceRecorder
    from tracer.recording.magnitudes.shaking import Shaking
    from tracer.recording.trials.call_trials import TrialObserver
    from tracer.recording.values.value_recorder import ValuesRecording
    from tracer.trace.values import Header

#: The algorithms behind the digests: on the host, and on devices.
DIGEST = "xxh3-64-by-content mix-64"


class Recorder:
    """Records from ``start`` to ``stop``, any number of times; ``trace`` builds what was recorded so far.

    ``options`` are what the user asked for; ``asked`` says which further facts the rules want of an op,
    ``asked_compiled`` of one that ran in a compiled region (called when there is one), ``variables`` which environment
    variables to keep;
    ``watch`` is one that goes on for longer than the recording, ``values`` the file that digests go to, if any, and
    ``magnitudes`` the one that magnitudes go to. ``keeps_lines`` keeps lines of generated code with a region's kernels.
    """

    def __init__(
        self,
        model: torch.nn.Module | None,
        options: RecordOptions = RecordOptions(),  # noqa: B008  (frozen)
        *,
        asked: Mapping[str, frozenset[str]],
        asked_compiled: Callable[[], Mapping[str, frozenset[str]]],
        variables: Iterable[str],
        on_step: Callable[[int], None] | None = None,
        watch: ProcessWatch | None = None,
        values: Path | None = None,
        magnitudes: Path | None = None,
        keeps_lines: bool = False,
        tracer_version: str = "",
    ) -> None:
        self.name = options.name
        self.partial = ""
        self._on_step = on_step
        frames = self._frames = Sites(options.library)
        self.blind_spots = BlindSpots(frames, leave_to_python)
        frames.on_compiled = self.blind_spots.compiled_code_ran
        frames.on_line = self.blind_spots.look_for_natives
        self.optimizer = OptimizerWatch(self._step_ended)
        self.gradients = GradientWatch()
        stack = ModuleStack(
            frames,
            model,
            on_other_thread=self.blind_spots.module_on_other_thread,
            on_module=self.blind_spots.module_met,
            on_outermost=self._look_again,
            on_left=self._left,
        )
        self.attribution = Attribution(frames, stack, self.optimizer)
        self.storages = StorageObservers()
        self.shared_parameters = SharedParameters(frames)
        self.optimizer.begins = self._step_begins
        self._asked_compiled, self._keeps_lines = asked_compiled, keeps_lines
        self._tracer_version = tracer_version
        self.values: ValuesRecording | None = None
        if values is not None:
            from tracer.recording.values.value_recorder import ValuesRecording

            self.values = ValuesRecording(
                values,
                attribution=self.attribution,
                followed=self.storages,
                regions=lambda: self.regions,
                header=self._header,
            )
            self.blind_spots.on_unrecorded_module = self.values.moments.runs_unrecorded
            self.values.calls.memory.on_unrecorded_write = self.blind_spots.memory_changed
            self.values.moments.has_unrecorded_threads = lambda: self.blind_spots.threads_computed
        self.magnitudes: PlaceRecorder | None = None
        if magnitudes is not None:
            from tracer.recording.magnitudes.place_recorder import PlaceRecorder

            self.magnitudes = PlaceRecorder(
                magnitudes, self._header, self.attribution, lambda: None if self.values is None else self.values.writer
            )
            self.magnitudes.calls_of = options.places.calls_of
            if options.places.rows_of:
                self.magnitudes.lay_out_as(options.places, *_rank_and_world_size())
        places = self._places = options.places
        self._shaking: Shaking | None = None
        if places.shake is not None:
            from tracer.recording.magnitudes.shaking import Shaking

            running = (lambda node: "") if self.magnitudes is None else self.magnitudes.running
            self._shaking = Shaking(places.shake, places.shake_in, places.shake_not, running=running)
        self._decisions: Decisions | None = None
        if self.magnitudes is not None and (places.keeps_decisions or places.decides_as):
            from tracer.recording.magnitudes.decisions import Decisions

            self._decisions = Decisions(self.magnitudes, places.keeps_decisions, places.decides_as)
        self.mode = RecordingMode(self.attribution, asked, self.storages)
        self.storages.copies.on_first = self.mode.ask_again
        self.kept_inputs: KeptInputs | None = None
        """The inputs to save, if any were asked for."""
        self._trials: TrialObserver | None = None
        self.mode.observers += tuple(self._asked_observers(options))
        self.blind_spots.on_compiled_call = self.optimizer.compiled_code_runs
        self.blind_spots.on_unseen = self.storages.give_up_all
        self.watch = ProcessWatch(frames, variables) if watch is None else watch
        self.executions = Executions(self.attribution, self.storages, lambda: self.watch.compilations)
        self.executions.on_unseen = self.blind_spots.region_unseen
        self.executions.observers = tuple(part.regions for part in (self.values, self._trials) if part is not None)
        if self.magnitudes is not None:
            self.executions.observers += (self.magnitudes,)
        self.launched = LaunchedRecord(
            self.attribution,
            lambda: (*(counter for _, counter in self._counted()), *self.executions.runs.values()),
            self.blind_spots,
            self.storages.give_up_all,
        )
        self.launched.launches.keeps_lines = keeps_lines
        self.watch.on_compiler = self._compiler_loaded
        self._moments = RecordingState(self.attribution, self.mode)
        if self.values is not None:
            self._moments.place_in_values = self.values.place
        self.generators = GeneratorRecord(SEEDS, HOST)
        self._environment: Environment | None = None
        self._undo = ExitStack()

    @cached_property
    def regions(self) -> RegionList:
        """Describes compiled regions; loaded with the first one."""
        from tracer.recording.compiled.listing import RegionList

        model_class = self.attribution.modules.model_class
        return RegionList(self._frames, self._asked_compiled, keeps_lines=self._keeps_lines, model_class=model_class)

    def start(self) -> None:
        """Begin to record on this thread."""
        if self._environment is None:
            self._environment = process.capture_environment(before_calls=True)
        log, modules, registry, values = self.watch.log, self.attribution.modules, self.storages.registry, self.values
        with ExitStack() as undo:  # an interrupt between two of these undoes what was done

            def begin(start: Callable[..., None], stop: Callable[[], None], *arguments: Any) -> None:
                undo.callback(stop)
                start(*arguments)

            begin(self.watch.enter, self.watch.leave)
            begin(self.watch.children.start, self.watch.children.stop)
            seams.register_with_higher_order_ops(RecordingMode)
            begin(modules.install, modules.remove)
            undo.callback(follow_loaders(modules))
            begin(self.optimizer.install, self.optimizer.remove)
            begin(self.blind_spots.start, self.blind_spots.stop)
            begin(RUNS.add, partial(RUNS.discard, self.executions), self.executions)
            begin(self.launched.start, self.launched.stop)
            self.attribution.start()
            begin(self.gradients.start, self.gradients.stop)
            begin(log.recording_began, log.recording_ended, self._moments)
            begin(self._moments.settings_since, self._moments.settings_at_end)
            begin(self.generators.start, self.generators.stop)
            begin(self.shared_parameters.start, self.shared_parameters.stop)
            undo.callback(registry.forget)
            begin(ESCAPES.add, partial(ESCAPES.discard, registry), registry)
            begin(WAITS.add, partial(WAITS.discard, self.storages.copies), self.storages.copies)
            if values is not None:
                begin(values.start, lambda: values.stop(self.partial), self._environment)
            if self.magnitudes is not None:
                begin(self.magnitudes.start, lambda: self._end_magnitudes(), self._environment)
            for observer in self.mode.observers:
                observer.start(self._environment)
            if self._decisions is not None:
                begin(self._decisions.start, self._decisions.stop)
            if self._shaking is not None:
                begin(self._shaking.start, self._shaking.stop)
            begin(leave_to_python, leave_to_python)  # the last to begin and to end: while everything is in its place
            self.mode.__enter__()  # type: ignore[no-untyped-call]
            undo.callback(seams.leave_mode, self.mode)
            self._undo = undo.pop_all()

    def stop(self) -> None:
        """Stop recording; undo everything that ``start`` did."""
        self._undo.close()
        if self._environment is not None:
            self._environment = process.completed(self._environment)

    def trace(self, version: str) -> Trace:
        """Return the recording so far as a trace."""
        counted = sorted(self._counted(), key=lambda pair: pair[1].order)
        settings = self._settings_of(counter for _, counter in counted)
        runs, log, times = list(self.executions.runs.values()), self.watch.compilations, self.launched.times
        is_compiled = bool(runs) or (log is not None and bool(log.codes or log.programs))
        regions = self.regions.regions(log, runs, times) if log is not None and is_compiled else ()
        eager = [
            (counter, (counter.order, replace(self._observed(info, counter), settings=settings(counter))))
            for info, counter in counted
        ]
        compiled = list(self.regions.groups(runs, times)) if runs else []
        launches = list(self.launched.groups())
        if self._trials is not None:
            launches = [(place, self._trials.unreached(group)) for place, group in launches]
        in_order = [*self.launched.split(eager), *compiled, *launches]
        groups = merged(group for _, group in sorted(in_order, key=lambda pair: pair[0]))
        regions = (*regions, *self.launched.captures.regions())
        if self._trials is not None:
            regions, groups = self._trials.regions.tried(regions, groups)
        self.generators.look()
        writes = self.storages.writes
        events = self.watch.log.listed()
        reads = (*writes.unwritten_reads(), *(self.regions.unwritten_reads(runs, times) if runs else ()))
        return Trace(
            tracer_version=version,
            environment=process.under(
                self.watch.with_inductor(self._environment or process.capture_environment()),
                self.watch.log.settings_of_calls(),
            ),
            calls=groups,
            blind_spots=(*self.blind_spots.listed(), *self.watch.children.listed(), *self._own_blind_spots(groups)),
            sources=(self._source(sum(group.count for group in groups)),),
            watched_from_start=self.watch.from_start,
            events=with_first_calls(events, first_calls(counted, events)),
            generators=tuple(self.generators.generators(_drawn_by(counted))),
            loaders=self.watch.loaders.listed() if self.watch.loaders is not None else (),
            own_generators=self.watch.own_generators.listed(),
            allocations=merged(writes.allocations()),
            unwritten_reads=merged(reads),
            regions=regions,
            launched=self.launched.launches.kernels(),
            overlaps=merged(
                (*writes.overlapping_writes(), *self.storages.copies.listed(), *self.shared_parameters.listed())
            ),
        )

    def _end_magnitudes(self) -> None:
        if self.magnitudes is not None:
            self.magnitudes.stop(self.partial)

    def _header(self, environment: Environment) -> Header:
        """Return the header of a file of values."""
        from tracer.trace.values import Header

        rank, world_size = _rank_and_world_size()
        return Header(
            tracer_version=self._tracer_version,
            name=self.name,
            rank=rank,
            world_size=world_size,
            digest=DIGEST,
            environment=process.under(
                self.watch.with_inductor(self._environment or process.capture_environment()),
                self.watch.log.settings_of_calls(),
            ),
            digests=self.values is not None,
            magnitudes=self.magnitudes is not None,
            shaken=self._places.shake,
            shaken_in=self._places.shake_in,
            rows_of="" if self._places.is_whole else self._places.rows_of,
            rows_in=self._places.rows_in,
        )

    def _look_again(self) -> None:
        self.gradients.enters()
        self.blind_spots.look_again()
        self.launched.look_again()

    def _left(self, module: torch.nn.Module, output: Any) -> None:
        """An outermost module returned ``output``, or failed."""
        self.gradients.leaves(module)
        if self.values is not None:
            self.values.model_returned(module, output)

    def _compiler_loaded(self) -> None:
        RUNS.look_again()
        leave_to_python()

    def _step_begins(self, optimizer: Any, frame: FrameType) -> None:
        self.shared_parameters.step_begins(optimizer)
        self.storages.writes.optimizer_steps(optimizer, self.attribution.step_origin(frame))

    def _step_ended(self, count: int) -> None:
        self.attribution.turn()
        self.shared_parameters.step_ended()
        if self.magnitudes is not None:
            self.magnitudes.step_ended(count)
        if self.values is not None:
            self.values.step_ended(count)
        self.storages.registry.prune()
        self.watch.log.step_ended()
        if self._on_step is not None:
            self._on_step(count)

    def _counted(self) -> list[tuple[OverloadInfo, CallCounter]]:
        infos = self.mode.infos.values()
        return [(info, counter) for info in infos for counter in info.every_counter() if counter.count]

    def _asked_observers(self, options: RecordOptions) -> Iterator[Observer]:
        """The observers that were asked for. The others' modules are not loaded."""
        if self.values is not None:
            yield self.values.calls
        if self.magnitudes is not None:
            from tracer.recording.magnitudes.place_recorder import CallPlaces, Draws

            yield self.magnitudes.gradients
            yield Draws(self.magnitudes)
            if self.magnitudes.calls_of:
                yield CallPlaces(self.magnitudes)
        if options.keep is not None:
            from tracer.recording.kept_inputs import KeptInputs

            self.kept_inputs = KeptInputs(options.keep, self._group)
            yield self.kept_inputs
        if options.data_facts:
            from tracer.recording.trials.data_facts import DataFacts

            yield DataFacts()
        if options.trials.times:
            from tracer.recording.trials.call_trials import TrialObserver

            self._trials = TrialObserver(options.trials, self._group, self.regions)
            yield self._trials

    def _settings_of(self, counters: Iterable[CallCounter]) -> Callable[[CallCounter], dict[str, FactValue]]:
        """Returns what gives a counter's own values of those settings that calls ran under several values of, and those
        of its forward where they were others and torch chooses by them there."""
        first = self._moments.first_values
        distinct = {settings for counter in counters for settings in (counter.settings, counter.origin.settings)}
        values = {settings: process.values_of({**first, **dict(settings or ())}) for settings in distinct}
        by_key: dict[str, set[FactValue]] = {}
        for key, value in chain.from_iterable(each.items() for each in values.values()):
            by_key.setdefault(key, set()).add(value)

        def of(counter: CallCounter) -> dict[str, FactValue]:
            own, forward = values[counter.settings], values[counter.origin.settings]
            held = {key: value for key, value in own.items() if len(by_key[key]) > 1}
            if counter.origin.phase is Phase.BACKWARD and counter.origin.settings is not None:
                held |= {FORWARD + key: forward[key] for key in CHOSEN_IN_FORWARD if own.get(key) != forward.get(key)}
            return held

        return of

    def _observed(self, info: OverloadInfo, counter: CallCounter) -> CallGroup:
        """The group of a counter, with the fields that observers add to it."""
        fields: dict[str, Any] = {}
        for observer in self.mode.observers:
            fields |= observer.group_fields(counter)
        group = self._group(info, counter)
        return replace(group, **fields) if fields else group

    def _group(self, info: OverloadInfo, counter: CallCounter) -> CallGroup:
        return CallGroup(
            op=info.name,
            **counter.origin.in_words(),
            count=counter.count,
            node=counter.node,
            forward_unknown=not counter.origin.is_linked,
            fake=counter.is_fake,
            facts=self._facts(info, counter),
            given=named_arguments(info.func, counter.form, "" if counter.raw is None else counter.raw[1].type),
            host=self._host_of(counter),
        )

    def _host_of(self, counter: CallCounter) -> HostCode | None:
        if counter.raw is not None and counter.raw[1].type != "cpu":
            return None
        is_beside = counter.extra == ON_HOST and self.mode.lies_on_device
        return counter.origin.scope.host or (HostCode.DEVICE if is_beside else None)

    def _facts(self, info: OverloadInfo, counter: CallCounter) -> dict[str, FactValue]:
        read = facts.common_facts(counter.raw)
        if counter.asked is not None:
            for key, value in zip(info.readers, counter.asked, strict=True):
                if value is facts.MISSING:
                    continue
                if key != draws.DRAW:
                    read[key] = value
                elif counter.extra in (None, ON_HOST):  # else the calls inside draw, and say so
                    read |= draws.draw_facts(value)
        read |= dict.fromkeys(counter.origin.scope.facts, True)
        if counter.extra not in (None, ON_HOST):
            name, value = counter.extra
            if name == "subclass":
                read |= {"subclass": value, "subclass_inner": counter.inner_seen}
            else:
                read[name] = value or counter.inner_seen
        return read

    def _source(self, calls: int) -> TraceSource:
        rank, world_size = _rank_and_world_size()
        optimizer, gradients = self.optimizer, self.gradients.asked
        by_hand = optimizer.steps_by_hand
        return TraceSource(
            name=self.name,
            rank=rank,
            world_size=world_size,
            optimizer_steps=optimizer.steps - by_hand or optimizer.compiled_steps,
            steps_by_hand=by_hand if gradients is Gradients.ASKED else 0,
            gradients=gradients,
            calls=calls,
            fake_calls=self.mode.fake_calls,
            values=self.values is not None,
            magnitudes=self.magnitudes is not None,
            shaken=self._places.shake,
            partial=self.partial,
        )

    def _own_blind_spots(self, groups: Iterable[CallGroup]) -> Iterable[BlindSpot]:
        counters = self._counted()
        unlinked = sum(group.count for group in groups if group.forward_unknown)
        if not seams.HAS_FORWARD_LINK:
            detail = "this torch does not expose autograd's sequence numbers: backward calls bear no forward line"
            yield BlindSpot(kind=BlindSpotKind.NO_FORWARD_LINK, detail=detail)
        elif unlinked:
            where = "they bear the line that asked for the gradient"
            detail = f"backward calls whose forward op was not recorded, or left no trace: {where}"
            yield BlindSpot(kind=BlindSpotKind.NO_FORWARD_LINK, detail=detail, count=unlinked)
        changed = (told(info, counter) for told in (changed_by_recording, overridden) for info, counter in counters)
        yield from merged(spot for spot in changed if spot is not None)
        for info, counter in counters:
            if counter.extra is None or counter.inner_seen or counter.extra[1] is True:
                continue
            is_subclass = counter.extra[0] == "subclass"
            if is_subclass and row_of(packet_of(info.name)).touches is Touch.METADATA:
                continue
            kind = BlindSpotKind.SUBCLASS if is_subclass else BlindSpotKind.HIGHER_ORDER
            yield BlindSpot(
                kind=kind,
                detail=kind.of(f"{info.name} on {counter.extra[1]}" if is_subclass else info.name),
                location=spell(counter.origin.site),
                count=counter.count,
            )


def _rank_and_world_size() -> tuple[int | None, int | None]:
    rank, world_size = (os.environ.get(name, "") for name in ("RANK", "WORLD_SIZE"))
    return int(rank) if rank.isdigit() else None, int(world_size) if world_size.isdigit() else None


def _drawn_by(counted: Iterable[tuple[OverloadInfo, CallCounter]]) -> Iterator[Drawn]:
    """Yield the generators that groups of calls drew from; draws of inner calls count for those."""
    for info, counter in counted:
        if DRAW in info.readers and counter.asked is not None and counter.extra in (None, ON_HOST):
            drawn = dict(zip(info.readers, counter.asked, strict=True))[DRAW]
            if drawn is not MISSING:
                yield drawn
