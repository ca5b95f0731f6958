"""What was asked for around single calls: their data looked at before, and the call made again after."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec.structs import replace

from tracer.names import TrialArm, Untried
from tracer.recording.calls.groups import CallCounter, OverloadInfo
from tracer.trace.records import CallGroup, Environment, Region

if TYPE_CHECKING:
    from tracer.recording.compiled.listing import RegionList
    from tracer.recording.data_facts.looking import DataFacts
    from tracer.recording.data_facts.ties import Look
    from tracer.recording.inputs.keeping import KeptInputs
    from tracer.recording.trials.trying import Prepared, Trials

Placed = tuple[int, CallGroup]
"""A group, and its place in the order of first calls."""
Awaited = tuple[CallCounter, "Look | None", "Prepared | None"]
"""A call, what is looked at once it has chosen, and what is made again."""
Describe = Callable[[OverloadInfo, CallCounter], CallGroup]


class Around(NamedTuple):
    """What is asked for."""

    trials: int = 0
    """How often a call is made again."""
    tries_all: bool = False
    """Are calls tried too that no table holds for a risk?"""
    trial_bytes: int | None = None
    """What the trials of one call may copy and hold; ``None``: ``DEFAULT_BYTES``."""
    on_other_threads: bool = False
    """Are calls tried on another number of threads too?"""
    data_facts: bool = False
    """Is looked at what the data of calls settle?"""
    keep_inputs: tuple[str, ...] = ()
    """Globs of the ops, lines, files and modules whose calls' data are kept."""
    keep_bytes: int | None = None
    """What these may take together; ``None``: ``DEFAULT_BYTES``."""

    def calls(self, describe: Describe, regions: RegionList) -> AroundCalls | None:
        """What does it for one recording; ``None`` where nothing is asked for."""
        trials = data = kept = None
        if self.trials:
            from tracer.recording.trials.trying import DEFAULT_BYTES, Trials  # it loads what digests

            limit = DEFAULT_BYTES if self.trial_bytes is None else self.trial_bytes
            arms = (TrialArm.THREADS,) if self.on_other_threads else ()
            trials = Trials(self.trials, describe, regions, tries_all=self.tries_all, limit=limit, arms=arms)
        if self.data_facts:
            from tracer.recording.data_facts.looking import DataFacts

            data = DataFacts()
        if self.keep_inputs:
            from tracer.recording.inputs.keeping import DEFAULT_BYTES as FOR_INPUTS
            from tracer.recording.inputs.keeping import KeptInputs

            room = FOR_INPUTS if self.keep_bytes is None else self.keep_bytes
            kept = KeptInputs(self.keep_inputs, describe, room)
        return None if trials is None and data is None and kept is None else AroundCalls(trials, data, kept)


NOTHING_AROUND = Around()


class AroundCalls:
    """For one recording."""

    def __init__(self, trials: Trials | None, data: DataFacts | None, kept: KeptInputs | None = None) -> None:
        self.trials = trials
        self.data = data
        self.kept = kept

    def start(self, environment: Environment) -> None:
        """Recording begins, under these settings."""
        if self.trials is not None:
            self.trials.start(environment)

    def before(
        self, info: OverloadInfo, counter: CallCounter, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> Awaited | None:
        """A call is about to be made, and was counted; returns what is to be done after it."""
        if self.kept is not None:
            self.kept.before(info, counter, args, kwargs)
        look = None if self.data is None else self.data.before(info, counter, args, kwargs)
        prepared = None if self.trials is None else self.trials.before(info, counter, args, kwargs)
        return None if look is None and prepared is None else (counter, look, prepared)

    def after(
        self, awaited: Awaited, info: OverloadInfo, args: tuple[Any, ...], kwargs: Mapping[str, Any], result: Any
    ) -> None:
        """It returned."""
        counter, look, prepared = awaited
        if look is not None and self.data is not None:
            self.data.after(look, counter, args, kwargs, result)
        if prepared is not None and self.trials is not None:
            self.trials.after(prepared, info, args, kwargs, result)

    def passed_over(self, info: OverloadInfo, counter: CallCounter, reason: Untried) -> None:
        """A call was made that cannot be made again."""
        if self.trials is not None:
            self.trials.pass_over(info, counter, reason)

    def told(self, groups: Iterable[Placed], counters: Iterable[CallCounter]) -> list[Placed]:
        """Groups with what was found of them; ``counters`` are theirs, one by one."""
        return [(place, self._told(group, counter)) for (place, group), counter in zip(groups, counters, strict=True)]

    def _told(self, group: CallGroup, counter: CallCounter) -> CallGroup:
        tried = None if self.trials is None else self.trials.of(counter)
        data = {} if self.data is None else self.data.of(counter)
        inputs = "" if self.kept is None else self.kept.of(counter)
        if tried is None and not data and not inputs:
            return group
        return replace(group, tried=tried, data=data, inputs=inputs)

    def launched(self, launches: Iterable[Placed]) -> list[Placed]:
        """Groups of kernels that the program launched itself, which are not launched again."""
        trials = self.trials
        return list(launches) if trials is None else [(place, trials.unreached(group)) for place, group in launches]

    def in_regions(
        self, regions: tuple[Region, ...], groups: tuple[CallGroup, ...]
    ) -> tuple[tuple[Region, ...], tuple[CallGroup, ...]]:
        """Regions that were run again, and their calls, with what that showed."""
        if self.trials is None:
            return regions, groups
        regions = self.trials.regions.in_regions(regions, groups)
        return regions, self.trials.regions.in_groups(regions, groups)
