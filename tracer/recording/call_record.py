"""The counted calls of one recording, as its trace has them."""

from __future__ import annotations

import os
import weakref
from _thread import get_ident
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from itertools import chain, starmap
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import torch
from msgspec.structs import replace

from tracer.facts import MISSING
from tracer.names import BlindSpotKind, Gradients, HostCode, Phase
from tracer.ops import Touch, bare_name, row_of
from tracer.recording import calls as facts
from tracer.recording.blind_spots import BlindSpots
from tracer.recording.calls.groups import ON_HOST, CallCounter, OverloadInfo, unlike_plain_runs
from tracer.recording.compiled.executions import Executions
from tracer.recording.launched import LaunchedRecord
from tracer.recording.memory_observers import StorageObservers
from tracer.recording.mode import RecordingMode
from tracer.recording.options import RecordOptions
from tracer.recording.origin import spell
from tracer.recording.process import environment as process
from tracer.recording.process.environment import first_calls, with_first_calls
from tracer.recording.process_watch import ProcessWatch
from tracer.recording.randomness.host_generators import Drawn
from tracer.recording.torch_private import seams
from tracer.tables.settings import CHOSEN_IN_FORWARD, FORWARD
from tracer.trace.merging import merged
from tracer.trace.records import BlindSpot, CallGroup, Environment, FactValue, TraceSource

if TYPE_CHECKING:
    from tracer.recording.compiled.listing import RegionList
    from tracer.recording.trials.call_trials import TrialObserver
    from tracer.trace.values import Header


#: The algorithms behind the digests: on the host, and on devices.
DIGEST = "xxh3-64-by-content mix-64"
_TRAINING = (Phase.FORWARD, Phase.RECOMPUTE, Phase.BACKWARD)


class CallRecord:
    """Eager calls, executions of compiled regions, and launches; answers events, as ``events.RecordedCalls``."""

    def __init__(
        self,
        options: RecordOptions,
        mode: RecordingMode,
        watch: ProcessWatch,
        storages: StorageObservers,
        blind_spots: BlindSpots,
        asked_compiled: Callable[[], Mapping[str, frozenset[str]]],
    ) -> None:
        self._options, self._mode, self._watch = options, mode, watch
        self._attribution = mode.attribution
        self._asked_compiled = asked_compiled
        self.gradients = GradientWatch()
        self.trials: TrialObserver | None = None
        self.executions = Executions(self._attribution, storages, lambda: watch.compilations)
        self.executions.on_unseen = blind_spots.region_unseen
        self.launched = LaunchedRecord(self._attribution, blind_spots, storages.give_up_all)
        self._first_values: dict[str, str] = {}
        """The values with which this recording began, of settings that changed since."""
        self._at_end: dict[str, str] = {}
        """The values of settings as the recording ended last."""
        self._step_began_at = 0
        """The lowest sequence number that an autograd node of this training step can have."""

    def start(self) -> None:
        self._watch.log.recording_began(self)
        now = process.values_now() if self._at_end else {}
        for name, value in now.items():
            if value != self._at_end[name]:
                self.setting_changed(name, self._at_end[name], value)

    def stop(self) -> None:
        self._at_end = process.values_now()
        self._watch.log.recording_ended()

    @cached_property
    def regions(self) -> RegionList:
        """Describes compiled regions; loaded with the first one."""
        from tracer.recording.compiled.listing import RegionList

        model_class = self._attribution.modules.model_class
        return RegionList(self._attribution.sites, self._asked_compiled, model_class=model_class)

    def counted(self) -> list[tuple[OverloadInfo, CallCounter]]:
        """Each group of calls while it is counted, with its overload, in the order of their first calls."""
        infos = tuple(self._mode.infos.values())
        counted = ((info, counter) for info in infos for counter in info.every_counter() if counter.count)
        return sorted(counted, key=lambda pair: pair[1].order)

    def fields(self) -> dict[str, Iterable[Any]]:
        counted, launched, watch = self.counted(), self.launched, self._watch
        settings = self._settings_of(counter for _, counter in counted)
        runs, log = list(self.executions.runs.values()), watch.compilations
        is_compiled = bool(runs) or (log is not None and bool(log.codes or log.programs))
        regions = self.regions.regions(log, runs) if log is not None and is_compiled else ()
        eager = []
        for info, counter in counted:
            fields: dict[str, Any] = {"settings": settings(counter)}
            for observer in self._mode.observers:
                fields |= observer.group_fields(counter)
            eager.append((counter.order, replace(self.group(info, counter), **fields)))
        apart = list(self.regions.groups(runs)) if runs else []
        apart += launched.groups() if launched.launches else ()
        if self.trials is not None:
            apart = list(self.trials.unreached(apart, regions))
        groups = merged(group for _, group in sorted([*eager, *apart], key=itemgetter(0)))
        events = watch.log.listed()
        return {
            "calls": groups,
            "regions": regions,
            "launched": launched.kernels() if launched.launches else (),
            "events": with_first_calls(events, first_calls(counted, events)),
            "blind_spots": _blind_spots(counted, sum(group.count for group in groups if group.forward_unknown)),
            "unwritten_reads": self.regions.unwritten_reads(runs) if runs else (),
        }

    def group(self, info: OverloadInfo, counter: CallCounter) -> CallGroup:
        """The group that ``counter`` counts, without what observers add."""
        is_on_host = counter.raw is None or counter.raw[1].type == "cpu"
        beside_device = HostCode.DEVICE if counter.extra == ON_HOST and self._mode.lies_on_device else None
        return CallGroup(
            op=info.name,
            **counter.origin.in_words(),
            count=counter.count,
            node=counter.node,
            forward_unknown=not counter.origin.is_linked,
            fake=counter.is_fake,
            facts=_facts(info, counter),
            given=counter.given or {},
            host=(counter.origin.scope.host or beside_device) if is_on_host else None,
        )

    def _settings_of(self, counters: Iterable[CallCounter]) -> Callable[[CallCounter], dict[str, FactValue]]:
        """Return what gives a counter's values of settings with several, and its forward's if torch chose there."""
        values: dict[Any, dict[str, FactValue]] = {}
        for settings in {each for counter in counters for each in (counter.settings, counter.origin.settings)}:
            texts = {**self._first_values, **dict(settings or ())}
            values[settings] = process.values_of({name: texts[name] for name in process.JUDGED & texts.keys()})
        by_key = defaultdict[str, set[FactValue]](set)
        for key, value in chain.from_iterable(each.items() for each in values.values()):
            by_key[key].add(value)

        def of(counter: CallCounter) -> dict[str, FactValue]:
            own, forward = values[counter.settings], values[counter.origin.settings]
            held = {key: value for key, value in own.items() if len(by_key[key]) > 1}
            if counter.origin.phase is Phase.BACKWARD and counter.origin.settings is not None:
                held |= {FORWARD + key: forward[key] for key in CHOSEN_IN_FORWARD if own.get(key) != forward.get(key)}
            return held

        return of

    # --- what an event needs of the calls ---

    def step_begins(self) -> None:
        self._step_began_at = seams.next_sequence_number()

    def step_has_forward(self) -> bool:
        """Return whether autograd made a node in this step; ``True`` if torch does not number nodes."""
        return not seams.HAS_FORWARD_LINK or seams.next_sequence_number() != self._step_began_at

    def phase(self) -> Phase:
        """The phase that this thread is in; ``other`` on threads that are not recorded."""
        modules = self._attribution.modules
        if seams.graph_task_id() != -1:
            return Phase.RECOMPUTE if modules.recompute_depth else Phase.BACKWARD
        if get_ident() != modules.thread:
            return Phase.OTHER
        if self._attribution.optimizer.active:
            return Phase.OPTIMIZER
        return Phase.FORWARD if modules.scope.is_module else Phase.OTHER

    def totals(self) -> tuple[int, int, int]:
        """Calls recorded so far: forward (and recomputed), backward, all."""
        counts: Counter[Phase] = Counter()
        for info in tuple(self._mode.infos.values()):
            for counter in info.every_counter():
                counts[counter.origin.phase] += counter.count
        return counts[Phase.FORWARD] + counts[Phase.RECOMPUTE], counts[Phase.BACKWARD], counts.total()

    def setting_changed(self, name: str, before: str, value: str) -> None:
        """The setting ``name`` took another value: calls from here on are counted apart."""
        if name in process.HAVE_VALUES:
            self._first_values.setdefault(name, before)
            self._mode.setting_changed(name, value)

    # --- what is said of the recording ---

    def settled(self, environment: Environment) -> Environment:
        """``environment`` with the settings that the calls ran under.

        A block such as ``with torch.backends.cudnn.flags(...)`` restores a value that no call ran under. Calls of
        forward and backward count, or all if there are none. A setting with calls under several values is left out.
        """
        trained, every = defaultdict[str, set[str]](set), defaultdict[str, set[str]](set)
        for _, counter in self.counted() if self._first_values else ():
            for name, value in {**self._first_values, **dict(counter.settings)}.items():
                every[name].add(value)
                if counter.origin.phase in _TRAINING:
                    trained[name].add(value)
        ran = {name: trained[name] or values for name, values in every.items()}
        self._watch.log.settings_of_calls = {name: min(values) for name, values in ran.items() if len(values) == 1}
        return process.under(self._watch.with_inductor(environment), self._watch.log.settings_of_calls)

    def header(self, environment: Environment) -> Header:
        from tracer import __version__
        from tracer.trace.values import Header

        options, places = self._options, self._options.places
        return Header(
            tracer_version=__version__,
            name=options.name,
            **rank_and_world_size(),
            digest=DIGEST,
            environment=self.settled(environment),
            digests=bool(options.values),
            magnitudes=bool(options.magnitudes),
            shaken=places.shake,
            shaken_in=places.shake_in,
            rows_of="" if places.is_whole else places.rows_of,
            rows_in=places.rows_in,
        )

    def source(self, calls: Iterable[CallGroup], partial: str) -> TraceSource:
        options, optimizer, gradients = self._options, self._attribution.optimizer, self.gradients.asked
        by_hand = optimizer.steps_by_hand
        return TraceSource(
            name=options.name,
            **rank_and_world_size(),
            optimizer_steps=optimizer.steps - by_hand or optimizer.compiled_steps,
            steps_by_hand=by_hand if gradients is Gradients.ASKED else 0,
            gradients=gradients,
            calls=sum(group.count for group in calls),
            fake_calls=self._mode.fake_calls,
            values=bool(options.values),
            magnitudes=bool(options.magnitudes),
            shaken=options.places.shake,
            partial=partial,
        )


def _facts(info: OverloadInfo, counter: CallCounter) -> dict[str, FactValue]:
    read = facts.common_facts(counter.raw)
    if counter.asked is not None:
        for key, value in zip(info.readers, counter.asked, strict=True):
            if value is MISSING:
                continue
            if key != facts.DRAW:
                read[key] = value
            elif counter.extra in (None, ON_HOST):  # else the calls inside draw, and say so
                read |= facts.draw_facts(value)
    read |= dict.fromkeys(counter.origin.scope.facts, True)
    if counter.extra not in (None, ON_HOST):
        name, value = counter.extra
        if name == "subclass":
            read |= {"subclass": value, "subclass_inner": counter.inner_seen}
        else:
            read[name] = value or counter.inner_seen
    return read


def _blind_spots(counted: Iterable[tuple[OverloadInfo, CallCounter]], unlinked: int) -> Iterator[BlindSpot]:
    """What was counted and not seen; ``unlinked`` backward calls have no forward call."""
    if not seams.HAS_FORWARD_LINK:
        detail = "this torch does not expose autograd's sequence numbers: backward calls bear no forward line"
        yield BlindSpot(kind=BlindSpotKind.NO_FORWARD_LINK, detail=detail)
    elif unlinked:
        where = "they bear the line that asked for the gradient"
        detail = f"backward calls whose forward op was not recorded, or left no trace: {where}"
        yield BlindSpot(kind=BlindSpotKind.NO_FORWARD_LINK, detail=detail, count=unlinked)
    yield from merged(chain.from_iterable(starmap(unlike_plain_runs, counted)))
    for info, counter in counted:
        if counter.extra is None or counter.inner_seen or counter.extra[1] is True:
            continue
        is_subclass = counter.extra[0] == "subclass"
        if is_subclass and row_of(bare_name(info.name)).touches is Touch.METADATA:
            continue
        kind = BlindSpotKind.SUBCLASS if is_subclass else BlindSpotKind.HIGHER_ORDER
        yield BlindSpot(
            kind=kind,
            detail=kind.of(f"{info.name} on {counter.extra[1]}" if is_subclass else info.name),
            location=spell(counter.origin.site),
            count=counter.count,
        )


def drawn_by(counted: Iterable[tuple[OverloadInfo, CallCounter]]) -> Iterator[Drawn]:
    """Yield the generators that groups of calls drew from; draws of inner calls count for those."""
    for info, counter in counted:
        if facts.DRAW in info.readers and counter.asked is not None and counter.extra in (None, ON_HOST):
            drawn = dict(zip(info.readers, counter.asked, strict=True))[facts.DRAW]
            if drawn is not MISSING:
                yield drawn


class GradientWatch:
    """Whether anything asks for a gradient: autograd's sequence numbers, looked at at the edges of outermost modules.

    A number that advanced means a graph. Inside a module in training mode with parameters to train, it is a training's;
    inside another, an evaluation's that left gradients on. Outside modules it counts where no module made one (a head
    on a frozen model), but not before the first module's call (adapters that are merged), unless no module is called.
    """

    def __init__(self) -> None:
        self._is_asked = False
        self._has_run = False
        """Whether a module was called."""
        self._before_modules = False
        """Whether a graph was made before any module was called."""
        self._by_modules = False
        """Whether a module made a graph."""
        self._number = 0
        """The next node's number at the last edge of an outermost module."""
        self._is_running = False
        self._evaluating: weakref.WeakSet[torch.nn.Module] = weakref.WeakSet()
        """Modules that were looked through, and train nothing."""

    def start(self) -> None:
        self._number = seams.next_sequence_number()
        self._is_running = True

    def stop(self) -> None:
        self._look_outside()
        self._is_running = False

    def enters(self) -> None:
        if not self._is_asked:
            self._look_outside()
            self._has_run = True

    def leaves(self, module: torch.nn.Module) -> None:
        number = seams.next_sequence_number()
        if not self._is_asked and number != self._number:
            self._number = number
            self._by_modules = True
            self._is_asked = torch.is_grad_enabled() and self._trains(module)

    @property
    def asked(self) -> Gradients:
        if not seams.HAS_FORWARD_LINK:
            return Gradients.UNKNOWN
        if self._is_running:
            self._look_outside()
        if self._is_asked or (self._before_modules and not self._has_run):
            return Gradients.ASKED
        return Gradients.EVALUATING if self._by_modules else Gradients.NONE

    def _look_outside(self) -> None:
        """Nodes that were made outside modules; behind a module's own graph they are what is computed of its output."""
        number = seams.next_sequence_number()
        if number != self._number and not self._by_modules:
            if not self._has_run:
                self._before_modules = True
            elif torch.is_grad_enabled():  # a custom function takes a number under ``no_grad`` too
                self._is_asked = True
        self._number = number

    def _trains(self, module: torch.nn.Module) -> bool:
        """Return whether a part of ``module`` in training mode has a parameter to train; losses have none."""
        if not module.training and module in self._evaluating:
            return False
        parts = (part for part in module.modules() if part.training)
        parameters = chain.from_iterable(part._parameters.values() for part in parts)
        if any(parameter is not None and parameter.requires_grad for parameter in parameters):
            return True
        self._evaluating.add(module)
        return False


def rank_and_world_size() -> dict[str, Any]:
    """Those of this process's environment variables."""
    texts = {name: os.environ.get(name.upper(), "") for name in ("rank", "world_size")}
    return {name: int(text) if text.isdigit() else None for name, text in texts.items()}
