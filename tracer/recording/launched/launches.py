"""Launches and captured graphs of one recording, and what they do to its counts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from msgspec.structs import replace

from tracer.recording.blind_spots import BlindSpots
from tracer.recording.calls.groups import CallCounter
from tracer.recording.compiled.executions import Run
from tracer.recording.launched import triton_launches
from tracer.recording.launched.cuda_graphs import Captures
from tracer.recording.launched.triton_launches import Launches
from tracer.recording.origin.attribution import Attribution
from tracer.trace.records import CallGroup, Kernel, Region

Counted = Callable[[], Iterable[CallCounter | Run]]


class LaunchedRecord:
    """``counted`` gives what else the recording counts: calls by group, executions of compiled regions."""

    def __init__(
        self,
        attribution: Attribution,
        working_directory: str,
        counted: Counted,
        blind_spots: BlindSpots,
        on_unseen: Callable[[], None],
    ) -> None:
        self._counted = counted
        self._launches = Launches(attribution, working_directory)
        self._captures = Captures(attribution.sites, working_directory, self._counts)
        self._launches.on_unread = self._captures.on_unseen = blind_spots.note
        self._launches.on_launch = self._captures.on_replay = on_unseen

    def keep_lines(self) -> None:
        """Keep lines of source with the kernels."""
        self._launches.keeps_lines = True

    def start(self) -> None:
        """Begin to watch."""
        self._launches.start()
        self._captures.start()

    def stop(self) -> None:
        """Watch no more."""
        self._launches.stop()
        self._captures.stop()

    def look_again(self) -> None:
        """Watch what was loaded since."""
        if not triton_launches.WATCHES.placed and triton_launches.is_loaded():
            triton_launches.WATCHES.look_again()

    def _counts(self) -> Mapping[Any, int]:
        """Calls on the host do not go into a graph."""
        counts: dict[Any, int] = {
            source: source.count
            for source in self._counted()
            if isinstance(source, Run) or (source.raw is not None and source.raw[1].type != "cpu")
        }
        return counts | {source: source.count for source in self._launches.counters.values()}

    def times(self, run: Run) -> int:
        """How often a compiled region ran, captured ones at each replay."""
        return run.count - self._captures.in_graphs(run) + self._captures.runs_of(run)

    def split(self, counted: Iterable[tuple[Any, tuple[int, CallGroup]]]) -> Iterator[tuple[int, CallGroup]]:
        """The groups of counters, in a graph and outside, each with its position."""
        for counter, (order, group) in counted:
            captured = self._captures.in_graphs(counter)
            if group.count > captured:
                yield order, replace(group, count=group.count - captured) if captured else group
            for name, count in self._captures.of(counter):
                yield order, replace(group, count=count, region=name)

    def groups(self) -> Iterator[tuple[int, CallGroup]]:
        """The launches, each group with its position."""
        counters = self._launches.counters.values()
        return self.split((counter, (counter.order, self._launches.group(counter))) for counter in counters)

    def kernels(self) -> tuple[Kernel, ...]:
        """The kernels that were launched."""
        return self._launches.kernels()

    def regions(self) -> tuple[Region, ...]:
        """The graphs that were captured or replayed."""
        return tuple(self._captures.regions())
