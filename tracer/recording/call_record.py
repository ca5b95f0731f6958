"""The counted calls of one recording, as its trace has them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from tracer.facts.fact import MISSING
from tracer.names import BlindSpotKind, HostCode, Phase
from tracer.ops import Touch, packet_of, row_of
from tracer.recording.blind_spots import BlindSpots
from tracer.recording.calls import draws
from tracer.recording.calls import fact_readers as facts
from tracer.recording.calls.argument_forms import named_arguments
from tracer.recording.calls.groups import ON_HOST, CallCounter, OverloadInfo, changed_by_recording, overridden
from tracer.recording.compiled.executions import Executions
from tracer.recording.launched import LaunchedRecord
from tracer.recording.memory_observers import StorageObservers
from tracer.recording.origin.sites import spell
from tracer.recording.process import environment as process
from tracer.recording.process.torch_events import first_calls, with_first_calls
from tracer.recording.randomness.host_generators import Drawn
from tracer.recording.recording_state import RecordingState
from tracer.recording.torch_private import seams
from tracer.tables.settings import CHOSEN_IN_FORWARD, FORWARD
from tracer.trace.merging import merged
from tracer.trace.records import BlindSpot, CallGroup, FactValue

if TYPE_CHECKING:  # loaded where they are asked for
    from tracer.recording.compiled.listing import RegionList
    from tracer.recording.trials.call_trials import TrialObserver


class CallRecord:
    """Eager calls, executions of compiled regions, and launches."""

    def __init__(
        self,
        state: RecordingState,
        storages: StorageObservers,
        blind_spots: BlindSpots,
        asked_compiled: Callable[[], Mapping[str, frozenset[str]]],
    ) -> None:
        self._state, self._mode, self._watch = state, state.mode, state.watch
        self._asked_compiled = asked_compiled
        self.trials: TrialObserver | None = None
        self.executions = Executions(self._mode.attribution, storages, lambda: self._watch.compilations)
        self.executions.on_unseen = blind_spots.region_unseen
        self.launched = LaunchedRecord(self._mode.attribution, self._sources, blind_spots, storages.give_up_all)

    @cached_property
    def regions(self) -> RegionList:
        """Describes compiled regions; loaded with the first one."""
        from tracer.recording.compiled.listing import RegionList

        attribution = self._mode.attribution
        model_class = attribution.modules.model_class
        return RegionList(attribution.sites, self._asked_compiled, model_class=model_class)

    def counted(self) -> list[tuple[OverloadInfo, CallCounter]]:
        """Each group of calls while it is counted, with its overload, in the order of their first calls."""
        infos = self._mode.infos.values()
        counted = ((info, counter) for info in infos for counter in info.every_counter() if counter.count)
        return sorted(counted, key=lambda pair: pair[1].order)

    def _sources(self) -> tuple[Any, ...]:
        """All that counts calls: groups of eager calls, executions of regions."""
        return (*(counter for _, counter in self.counted()), *self.executions.runs.values())

    def fields(self) -> dict[str, Iterable[Any]]:
        """What the trace has of calls and regions."""
        counted, launched, watch = self.counted(), self.launched, self._watch
        settings = self._settings_of(counter for _, counter in counted)
        runs, log, times = list(self.executions.runs.values()), watch.compilations, launched.times
        is_compiled = bool(runs) or (log is not None and bool(log.codes or log.programs))
        regions = self.regions.regions(log, runs, times) if log is not None and is_compiled else ()
        eager = [
            (counter, (counter.order, replace(self._observed(info, counter), settings=settings(counter))))
            for info, counter in counted
        ]
        compiled = list(self.regions.groups(runs, times)) if runs else []
        launches = list(launched.groups())
        if self.trials is not None:
            launches = [(place, self.trials.unreached(group)) for place, group in launches]
        in_order = [*launched.split(eager), *compiled, *launches]
        groups = merged(group for _, group in sorted(in_order, key=lambda pair: pair[0]))
        regions = (*regions, *launched.regions())
        if self.trials is not None:
            regions, groups = self.trials.regions.tried(regions, groups)
        events = watch.log.listed()
        return {
            "calls": groups,
            "regions": regions,
            "launched": launched.kernels(),
            "events": with_first_calls(events, first_calls(counted, events)),
            "blind_spots": _blind_spots(counted, sum(group.count for group in groups if group.forward_unknown)),
            "unwritten_reads": self.regions.unwritten_reads(runs, times) if runs else (),
        }

    def group(self, info: OverloadInfo, counter: CallCounter) -> CallGroup:
        """The group that ``counter`` counts, without what observers add."""
        return CallGroup(
            op=info.name,
            **counter.origin.in_words(),
            count=counter.count,
            node=counter.node,
            forward_unknown=not counter.origin.is_linked,
            fake=counter.is_fake,
            facts=_facts(info, counter),
            given=named_arguments(info.func, counter.form, "" if counter.raw is None else counter.raw[1].type),
            host=self._host_of(counter),
        )

    def _observed(self, info: OverloadInfo, counter: CallCounter) -> CallGroup:
        fields: dict[str, Any] = {}
        for observer in self._mode.observers:
            fields |= observer.group_fields(counter)
        return replace(self.group(info, counter), **fields)

    def _host_of(self, counter: CallCounter) -> HostCode | None:
        if counter.raw is not None and counter.raw[1].type != "cpu":
            return None
        is_beside = counter.extra == ON_HOST and self._mode.lies_on_device
        return counter.origin.scope.host or (HostCode.DEVICE if is_beside else None)

    def _settings_of(self, counters: Iterable[CallCounter]) -> Callable[[CallCounter], dict[str, FactValue]]:
        """Returns what gives a counter's values of settings with several, and its forward's if torch chose there."""
        first = self._state.first_values
        distinct = {settings for counter in counters for settings in (counter.settings, counter.origin.settings)}
        texts = {settings: {**first, **dict(settings or ())} for settings in distinct}
        values = {
            settings: process.values_of({name: text for name, text in named.items() if name in process.JUDGED})
            for settings, named in texts.items()
        }
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


def _facts(info: OverloadInfo, counter: CallCounter) -> dict[str, FactValue]:
    read = facts.common_facts(counter.raw)
    if counter.asked is not None:
        for key, value in zip(info.readers, counter.asked, strict=True):
            if value is MISSING:
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


def _blind_spots(counted: Iterable[tuple[OverloadInfo, CallCounter]], unlinked: int) -> Iterator[BlindSpot]:
    """What was counted and not seen; ``unlinked`` backward calls have no forward call."""
    if not seams.HAS_FORWARD_LINK:
        detail = "this torch does not expose autograd's sequence numbers: backward calls bear no forward line"
        yield BlindSpot(kind=BlindSpotKind.NO_FORWARD_LINK, detail=detail)
    elif unlinked:
        where = "they bear the line that asked for the gradient"
        detail = f"backward calls whose forward op was not recorded, or left no trace: {where}"
        yield BlindSpot(kind=BlindSpotKind.NO_FORWARD_LINK, detail=detail, count=unlinked)
    changed = (told(info, counter) for told in (changed_by_recording, overridden) for info, counter in counted)
    yield from merged(spot for spot in changed if spot is not None)
    for info, counter in counted:
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


def drawn_by(counted: Iterable[tuple[OverloadInfo, CallCounter]]) -> Iterator[Drawn]:
    """Yield the generators that groups of calls drew from; draws of inner calls count for those."""
    for info, counter in counted:
        if draws.DRAW in info.readers and counter.asked is not None and counter.extra in (None, ON_HOST):
            drawn = dict(zip(info.readers, counter.asked, strict=True))[draws.DRAW]
            if drawn is not MISSING:
                yield drawn
