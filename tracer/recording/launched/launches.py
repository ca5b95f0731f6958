"""Launches and captured graphs of one recording, and how they change its counts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from msgspec.structs import replace

from tracer.recording.blind_spots import BlindSpots
from tracer.recording.calls.groups import CallCounter
from tracer.recording.compiled.executions import Run
from tracer.recording.launched import cuda_graphs, triton_launches
from tracer.recording.launched.cuda_graphs import Captures
from tracer.recording.launched.triton_launches import Launches
from tracer.recording.origin.attribution import Attribution
from tracer.trace.records import CallGroup


class LaunchedRecord:
    """``counted`` gives what else the recording counts: calls by group, executions of compiled regions.

    ``on_unseen`` is called before work that may write to any tensor.
    """

    def __init__(
        self,
        attribution: Attribution,
        counted: Callable[[], Iterable[CallCounter | Run]],
        blind_spots: BlindSpots,
        on_unseen: Callable[[], None],
    ) -> None:
        self._counted = counted
        self.launches = Launches(attribution, blind_spots.note, on_unseen)
        self.captures = Captures(attribution.sites, self._counts, blind_spots.note, on_unseen)

    def start(self) -> None:
        """Begin to watch."""
        triton_launches.WATCHES.add(self.launches)
        cuda_graphs.WATCHES.add(self.captures)

    def stop(self) -> None:
        """Watch no more."""
        triton_launches.WATCHES.discard(self.launches)
        cuda_graphs.WATCHES.discard(self.captures)

    def look_again(self) -> None:
        """Watch Triton if it was loaded since."""
        if not triton_launches.WATCHES.placed and triton_launches.is_loaded():
            triton_launches.WATCHES.look_again()

    def _counts(self) -> Mapping[Any, int]:
        """Counts of everything that runs on a device; calls on the host are not captured."""
        counts: dict[Any, int] = {
            source: source.count
            for source in self._counted()
            if isinstance(source, Run) or (source.raw is not None and source.raw[1].type != "cpu")
        }
        return counts | {source: source.count for source in self.launches.counters.values()}

    def times(self, run: Run) -> int:
        """Return how often a compiled region ran, captured ones at each replay."""
        return run.count - self.captures.in_graphs(run) + self.captures.runs_of(run)

    def split(self, counted: Iterable[tuple[Any, tuple[int, CallGroup]]]) -> Iterator[tuple[int, CallGroup]]:
        """The groups of counters, in a graph and outside, each with its position."""
        for counter, (order, group) in counted:
            captured = self.captures.in_graphs(counter)
            if group.count > captured:
                yield order, replace(group, count=group.count - captured) if captured else group
            for name, count in self.captures.of(counter):
                yield order, replace(group, count=count, region=name)

    def groups(self) -> Iterator[tuple[int, CallGroup]]:
        """The launches, each group with its position."""
        counters = self.launches.counters.values()
        return self.split((counter, (counter.order, self.launches.group(counter))) for counter in counters)
