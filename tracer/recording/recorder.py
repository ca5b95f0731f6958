"""One recording: its parts, begun in order and ended in the reverse one, and the trace that they add to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from tracer.recording import launched
from tracer.recording.blind_spots import BlindSpots
from tracer.recording.call_record import CallRecord, drawn_by, rank_and_world_size
from tracer.recording.compiled.executions import RUNS
from tracer.recording.compiled.hiding import leave_to_python
from tracer.recording.memory_observers import StorageObservers
from tracer.recording.mode import RecordingMode
from tracer.recording.observers import KeptInputs, Observer
from tracer.recording.options import RecordOptions
from tracer.recording.origin import Sites
from tracer.recording.origin.attribution import Attribution
from tracer.recording.origin.modules import ModuleStack
from tracer.recording.origin.optimizers import OptimizerWatch
from tracer.recording.process import environment as process
from tracer.recording.process_watch import ProcessWatch
from tracer.recording.randomness.generators import SEEDS
from tracer.recording.randomness.host_generators import HOST, GeneratorRecord
from tracer.recording.torch_private import seams
from tracer.trace.file import Trace
from tracer.trace.merging import merged
from tracer.trace.records import Environment

if TYPE_CHECKING:  # loaded where they are asked for
    from tracer.recording.magnitudes.place_recorder import PlaceRecorder
    from tracer.recording.values.call_values import ValuesFile
    from tracer.recording.values.value_recorder import ValuesRecording


class RecorderPart(NamedTuple):
    """A part of a recording: what begins it, what ends it, and what it adds to fields of the trace."""

    start: Callable[[], object] = lambda: None
    stop: Callable[[], object] = lambda: None
    fields: Callable[[], Mapping[str, Iterable[Any]]] = dict


class Recorder:
    """Records from ``start`` to ``stop``, any number of times; ``trace`` builds what was recorded so far.

    ``options`` are what the user asked for; ``asked`` says which further facts the rules want of an op,
    ``asked_compiled`` of one that ran in a compiled region (called when there is one), ``variables`` which environment
    variables to keep; ``watch`` is one that goes on for longer than the recording, ``values`` the file that digests and
    magnitudes go to, if any.
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
    ) -> None:
        self.partial, self._on_step, self._undo = "", on_step, ExitStack()
        self._environment: Environment | None = None
        self.file: ValuesFile | None = None
        self.values: ValuesRecording | None = None
        self.magnitudes: PlaceRecorder | None = None
        self.kept_inputs: KeptInputs | None = None
        sites = Sites(options.library)
        self.watch = ProcessWatch(sites, variables) if watch is None else watch
        self.blind_spots = BlindSpots(sites, leave_to_python)
        self.optimizer = OptimizerWatch(self._step_ended)
        modules = ModuleStack(
            sites,
            model,
            on_other_thread=self.blind_spots.module_on_other_thread,
            on_module=self.blind_spots.module_met,
            on_outermost=self._look_again,
            on_left=self._left,
        )
        self.attribution = Attribution(sites, modules, self.optimizer)
        self.storages = StorageObservers()
        self.generators = GeneratorRecord(SEEDS, HOST)
        self.mode = RecordingMode(self.attribution, asked, self.storages)
        calls = self._calls = CallRecord(
            options, self.mode, self.watch, self.storages, self.blind_spots, asked_compiled
        )
        sites.on_compiled, sites.on_line = self.blind_spots.compiled_code_ran, self.blind_spots.look_for_natives
        self.optimizer.failed, steps = self._failed, self.storages.writes.optimizer_steps
        self.optimizer.begins = lambda optimizer, frame: steps(optimizer, self.attribution.step_origin(frame))
        self.storages.copies.on_first = self.mode.ask_again
        self.blind_spots.on_compiled_call = self.optimizer.compiled_code_runs
        self.blind_spots.on_unseen = self.storages.give_up_all
        self.watch.on_compiler = self._compiler_loaded
        children, spots, launches = self.watch.children, self.blind_spots, launched.WATCHES
        self._parts = [
            RecorderPart(self.watch.enter, self.watch.leave, self.watch.fields),
            RecorderPart(modules.start, modules.stop),
            RecorderPart(self.optimizer.start, self.optimizer.stop),
            RecorderPart(spots.start, spots.stop, lambda: {"blind_spots": spots.listed()}),
            RecorderPart(children.start, children.stop, lambda: {"blind_spots": children.listed()}),
            RecorderPart(partial(RUNS.add, calls.executions), partial(RUNS.discard, calls.executions)),
            RecorderPart(partial(launches.add, calls.launched), partial(launches.discard, calls.launched)),
            RecorderPart(self.attribution.start),
            RecorderPart(self._calls.gradients.start, self._calls.gradients.stop),
            RecorderPart(self._calls.start, self._calls.stop),
            RecorderPart(self.generators.start, self.generators.stop),
            RecorderPart(self.storages.start, self.storages.stop, self.storages.fields),
            RecorderPart(fields=calls.fields),
        ]
        self._add_what_was_asked(options, values)
        self._parts.append(RecorderPart(leave_to_python, leave_to_python))  # while everything is in its place

    def _add_what_was_asked(self, options: RecordOptions, path: Path | None) -> None:
        """Add the parts that were asked for. The others' modules are not loaded."""
        places, observers = options.places, list[Observer]()
        if path is not None and options.values:
            from tracer.recording.values.value_recorder import ValuesRecording

            regions = lambda: self._calls.regions  # noqa: E731
            kept = self.values = ValuesRecording(self._file_at(path), self.attribution, self.storages, regions)
            self.blind_spots.on_unrecorded_module = kept.moments.runs_unrecorded
            kept.calls.memory.on_unrecorded_write = self.blind_spots.memory_changed
            kept.moments.has_unrecorded_threads = lambda: self.blind_spots.threads_computed
            self._calls.launched.values = kept.launches
            self._parts.append(RecorderPart(kept.start, kept.stop))
            observers.append(kept.calls)
        if path is not None and options.magnitudes:
            from tracer.recording.magnitudes.place_recorder import CallPlaces, Draws, PlaceRecorder

            file = self._file_at(path)
            found = self.magnitudes = PlaceRecorder(file, self.attribution, places, **rank_and_world_size())
            self._parts.append(RecorderPart(found.start, found.stop))
            observers += [found.gradients, Draws(found), *([CallPlaces(found)] if found.calls_of else [])]
        if options.keep is not None:
            self.kept_inputs = KeptInputs(options.keep, self._calls.group)
            observers.append(self.kept_inputs)
        if options.data_facts:
            from tracer.recording.trials.data_facts import DataFacts

            observers.append(DataFacts())
        if options.rows:
            from tracer.recording.trials.rows_alone import RowTrials

            rows = RowTrials(self.attribution.modules, 0 if options.rows is True else options.rows)
            self._parts.append(RecorderPart(rows.watch, rows.leave, lambda: {"rows": rows.listed()}))
            observers.append(rows)
        if options.trials.times:
            from tracer.recording.trials.call_trials import TrialObserver

            self._calls.trials = TrialObserver(options.trials, self._calls.group)
            observers.append(self._calls.trials)
        self.mode.observers += tuple(observers)
        self._parts += [RecorderPart(partial(self._begin, observer)) for observer in self.mode.observers]
        of_regions = (None if self.values is None else self.values.regions, self.magnitudes)
        self._calls.executions.observers = tuple(observer for observer in of_regions if observer is not None)
        if self.magnitudes is not None and (places.keeps_decisions or places.decides_as):
            from tracer.recording.magnitudes.changed_runs import Decisions

            decisions = Decisions(self.magnitudes, places.keeps_decisions, places.decides_as)
            self._parts.append(RecorderPart(decisions.start, decisions.stop))
        if places.shake is not None:
            from tracer.recording.magnitudes.changed_runs import Shaking

            running = (lambda node: ("",)) if self.magnitudes is None else self.magnitudes.running
            shaking = Shaking(places.shake, places.shake_in, places.shake_not, running=running)
            self._parts.append(RecorderPart(shaking.start, shaking.stop))

    def _file_at(self, path: Path) -> ValuesFile:
        """The file that digests and magnitudes share: it begins before them, and ends after."""
        if self.file is None:
            from tracer.recording.values.call_values import ValuesFile

            file = self.file = ValuesFile(path, self._calls.header, self.optimizer)
            self._parts.append(RecorderPart(partial(self._begin, file), lambda: file.stop(self.partial)))
        return self.file

    def _begin(self, part: Observer | ValuesFile) -> None:
        assert self._environment is not None
        part.start(self._environment)

    def start(self) -> None:
        if self._environment is None:
            self._environment = process.capture_environment(before_calls=True)
        seams.register_with_higher_order_ops(RecordingMode)
        with ExitStack() as undo:  # an interrupt between two of these undoes what was done
            for part in self._parts:
                undo.callback(part.stop)
                part.start()
            self.mode.__enter__()  # type: ignore[no-untyped-call]
            undo.callback(seams.leave_mode, self.mode)
            self._undo = undo.pop_all()

    def stop(self) -> None:
        """Stop recording; undo everything that ``start`` did."""
        self._undo.close()
        if self._environment is not None:
            self._environment = process.completed(self._environment)

    def trace(self, version: str) -> Trace:
        self.generators.look()
        fields: dict[str, Any] = {}
        for part in self._parts:
            for name, listed in part.fields().items():
                fields[name] = (*fields.get(name, ()), *listed)
        for name in ("allocations", "unwritten_reads", "overlaps"):
            fields[name] = merged(fields[name])
        return Trace(
            tracer_version=version,
            environment=self._calls.settled(self._environment or process.capture_environment()),
            sources=(self._calls.source(fields["calls"], self.partial),),
            watched_from_start=self.watch.from_start,
            generators=tuple(self.generators.generators(drawn_by(self._calls.counted()))),
            **fields,
        )

    def _look_again(self) -> None:
        self._calls.gradients.enters()
        self.blind_spots.look_again()
        self._calls.launched.look_again()

    def _left(self, module: torch.nn.Module, output: Any) -> None:
        """An outermost module returned ``output``, or failed."""
        self._calls.gradients.leaves(module)
        if self.values is not None:
            self.values.model_returned(module, output)

    def _compiler_loaded(self) -> None:
        RUNS.look_again()
        leave_to_python()

    def _failed(self, problem: Exception) -> None:
        """A failure of the recorder must not reach the program: the recording is incomplete."""
        self.partial = self.partial or type(problem).__name__

    def _step_ended(self, count: int) -> None:
        try:
            self.attribution.turn()
            for part in (self.magnitudes, self.values, self.file):
                if part is not None:
                    part.step_ended()
            self.storages.registry.prune()
            self.watch.log.step_ended()
        except Exception as problem:
            self._failed(problem)
        if self._on_step is not None:
            self._on_step(count)
