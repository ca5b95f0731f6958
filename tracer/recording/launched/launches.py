"""Launches and captured graphs of one recording, and how they change its counts."""

from __future__ import annotations

import os
import sys
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from types import FrameType
from typing import Any

import msgspec
from msgspec.structs import replace

from tracer.names import BlindSpotKind, RegionGap, RegionInside, RegionKind, RegionOrigin
from tracer.recording.blind_spots import BlindSpots
from tracer.recording.calls.groups import CallCounter
from tracer.recording.compiled.executions import Run
from tracer.recording.launched import triton_launches
from tracer.recording.launched.triton_launches import Launches
from tracer.recording.origin.attribution import Attribution
from tracer.recording.origin.sites import Site, placed
from tracer.recording.patching import Call
from tracer.recording.torch_private import compile_seams
from tracer.recording.torch_private.seams import loaded
from tracer.recording.watchers import Target, Watchers
from tracer.trace.records import CallGroup, Region

_INDUCTOR = os.path.join("torch", "_inductor", "")
#: The caller of torch's own helper for captures and replays is at most so many frames up.
_NEAR = 8


class Capture(msgspec.Struct):
    """One captured graph."""

    name: str
    site: Site
    called_from: Site
    is_seen: bool
    """Whether it was captured while recording."""
    calls: dict[Any, int] = msgspec.field(default_factory=dict)
    """The calls that were captured, by counter."""
    replays: int = 0


class LaunchedRecord:
    """``counted`` gives what else is counted; ``on_unseen`` is called before work that may write to any tensor."""

    def __init__(
        self,
        attribution: Attribution,
        counted: Callable[[], Iterable[CallCounter | Run]],
        blind_spots: BlindSpots,
        on_unseen: Callable[[], None],
    ) -> None:
        self._sites = attribution.sites
        self._counted = counted
        self._note = blind_spots.note
        self._on_unseen = on_unseen
        self.launches = Launches(attribution, blind_spots.note, on_unseen)
        self._by_object: dict[int, tuple[Callable[[], Any], Capture]] = {}
        self._running: dict[int, tuple[dict[Any, int], tuple[Site, Site]]] = {}
        """By ``id`` of the graph that captures: the counts when it began, and where that was."""
        self._graphs: list[Capture] = []

    def start(self) -> None:
        """Begin to watch."""
        triton_launches.WATCHES.add(self.launches)
        CAPTURES.add(self)

    def stop(self) -> None:
        """Watch no more."""
        triton_launches.WATCHES.discard(self.launches)
        CAPTURES.discard(self)

    def look_again(self) -> None:
        """Watch Triton if it was loaded since."""
        if not triton_launches.WATCHES.placed and "triton.runtime.jit" in sys.modules:
            triton_launches.WATCHES.look_again()

    def _counts(self) -> dict[Any, int]:
        """Counts of everything that runs on a device; calls on the host are not captured."""
        counts: dict[Any, int] = {
            source: source.count
            for source in self._counted()
            if isinstance(source, Run) or (source.raw is not None and source.raw[1].type != "cpu")
        }
        return counts | {source: source.count for source in self.launches.counters.values()}

    # --- captured graphs: called by the watches ---

    def begins(self, call: Call) -> None:
        """A capture begins."""
        if not _is_inductors(call.frame):
            self._running[id(call.first)] = self._counts(), self._place(call)

    def ended(self, call: Call) -> None:
        """A capture ended."""
        if id(call.first) in self._running:
            before, place = self._running.pop(id(call.first))
            added = {key: count - before.get(key, 0) for key, count in self._counts().items()}
            self._new(call.first, place, is_seen=True).calls = {key: count for key, count in added.items() if count > 0}

    def replayed(self, call: Call) -> None:
        """A graph is about to run."""
        if _is_inductors(call.frame):
            return
        self._on_unseen()
        reference, capture = self._by_object.get(id(call.first), (None, None))
        if reference is None or capture is None or reference() is not call.first:
            capture = self._new(call.first, self._place(call), is_seen=False)
        capture.replays += 1
        if not capture.is_seen:
            detail = "a CUDA graph that was captured before recording began was replayed"
            self._note(BlindSpotKind.CUDA_GRAPH, detail, call.frame)

    def _place(self, call: Call) -> tuple[Site, Site]:
        return self._sites.innermost(call.frame), self._sites.users_own(call.frame)

    def _new(self, graph: Any, place: tuple[Site, Site], *, is_seen: bool) -> Capture:
        capture = Capture(f"cuda-graph {len(self._graphs) + 1}", *place, is_seen)
        self._graphs.append(capture)
        number = id(graph)
        reference: Callable[[], Any] = lambda: graph  # noqa: E731
        with suppress(TypeError):  # an object without weak references is kept, or its number might come again
            reference = weakref.ref(graph, lambda _: self._by_object.pop(number, None))
        self._by_object[number] = (reference, capture)
        return capture

    # --- what a trace holds ---

    def _in_graphs(self, key: Any) -> int:
        """Calls of a counter that were captured, and did not run then."""
        return sum(capture.calls.get(key, 0) for capture in self._graphs)

    def _of(self, key: Any) -> Iterator[tuple[str, int]]:
        """The graphs that contain a counter's calls, each with how often they ran there."""
        for capture in self._graphs:
            if key in capture.calls and capture.replays:
                yield capture.name, capture.calls[key] * capture.replays

    def regions(self) -> Iterator[Region]:
        """A region for each graph."""
        for capture in self._graphs:
            yield Region(
                id=capture.name,
                kind=RegionKind.CUDA_GRAPH,
                **placed(capture.site, capture.called_from),
                device="cuda",
                origin=RegionOrigin.UNKNOWN if capture.is_seen else RegionOrigin.EARLIER,
                executions=capture.replays,
                inside=RegionInside.OPS if capture.is_seen else RegionInside.UNSEEN,
                why=(None if capture.replays else RegionGap.NEVER_RAN) if capture.is_seen else RegionGap.EARLIER,
                ops=sum(capture.calls.values()),
            )

    def times(self, run: Run) -> int:
        """Return how often a compiled region ran, captured ones at each replay."""
        return run.count - self._in_graphs(run) + sum(count for _, count in self._of(run))

    def split(self, counted: Iterable[tuple[Any, tuple[int, CallGroup]]]) -> Iterator[tuple[int, CallGroup]]:
        """The groups of counters, in a graph and outside, each with its position."""
        for counter, (order, group) in counted:
            captured = self._in_graphs(counter)
            if group.count > captured:
                yield order, replace(group, count=group.count - captured) if captured else group
            for name, count in self._of(counter):
                yield order, replace(group, count=count, region=name)

    def groups(self) -> Iterator[tuple[int, CallGroup]]:
        """The launches, each group with its position."""
        counters = self.launches.counters.values()
        return self.split((counter, (counter.order, self.launches.group(counter))) for counter in counters)


def _is_inductors(frame: FrameType | None) -> bool:
    for _ in range(_NEAR):
        if frame is None:
            break
        if _INDUCTOR in frame.f_code.co_filename:
            return True
        frame = frame.f_back
    return False


def _watched_captures() -> Iterator[Target]:
    graph = loaded(*compile_seams.CUDA_GRAPH)
    yield Target([(graph, "capture_begin")], before=LaunchedRecord.begins)
    yield Target([(graph, "capture_end")], after=LaunchedRecord.ended)
    yield Target([(graph, "replay")], before=LaunchedRecord.replayed)


CAPTURES: Watchers[LaunchedRecord] = Watchers(_watched_captures)
