"""CUDA graphs that a program captures: what is dispatched during a capture runs at each replay, and not before.

What the recording counted between the beginning and the end of a capture is the graph's; its calls count as often as
the graph was replayed. A replay is one call that dispatches nothing. Graphs that Inductor captures belong to its
regions, whose calls are counted by themselves.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Iterator, Mapping
from types import FrameType
from typing import Any

from tracer.names import BlindSpotKind, RegionGap, RegionInside, RegionKind, RegionOrigin
from tracer.recording.origin.sites import Site, Sites, placed
from tracer.recording.patching import Call
from tracer.recording.torch_private import compile_seams
from tracer.recording.watchers import Target, Watchers
from tracer.trace.records import Region

_INDUCTOR = os.path.join("torch", "_inductor", "")
#: So far up stands whoever asked torch's own helper for a capture or a replay.
_NEAR = 8

Counts = Callable[[], Mapping[Any, int]]


class Capture:
    """One captured graph."""

    def __init__(self, name: str, site: Site, called_from: Site, *, is_seen: bool) -> None:
        self.name = name
        self.site = site
        self.called_from = called_from
        self.is_seen = is_seen
        """Was it captured while recording?"""
        self.held: dict[Any, int] = {}
        """What was counted during the capture: by the counter, its calls."""
        self.replays = 0


class Captures:
    """The graphs of one recording. ``counts``: what was counted so far of all that runs on a device."""

    def __init__(self, sites: Sites, working_directory: str, counts: Counts) -> None:
        self._sites = sites
        self._working_directory = working_directory
        self._counts = counts
        self._by_object: dict[int, tuple[Any, Capture]] = {}
        self._running: dict[int, tuple[dict[Any, int], Site, Site]] = {}
        """By the object that captures: what was counted when it began, and where that was."""
        self.graphs: list[Capture] = []
        self.on_replay: Callable[[], None] = lambda: None
        """Called before a replay: it may write to any tensor."""
        self.on_unseen: Callable[[BlindSpotKind, str, FrameType | None], None] = lambda kind, detail, frame: None
        """Called for each replay of a graph that was captured before recording."""

    def start(self) -> None:
        """Begin to watch."""
        WATCHES.add(self)

    def stop(self) -> None:
        """Watch no more."""
        WATCHES.discard(self)

    # --- called by the watches ---

    def begins(self, call: Call) -> None:
        """A capture begins."""
        if not _is_inductors(call.frame):
            site, own = self._sites.innermost(call.frame), self._sites.users_own(call.frame)
            self._running[id(call.first)] = dict(self._counts()), site, own

    def ended(self, call: Call) -> None:
        """... and ended."""
        running = self._running.pop(id(call.first), None)
        if running is None:
            return
        before, site, own = running
        capture = self._new(call.first, site, own, is_seen=True)
        now = self._counts()
        capture.held = {key: count - before.get(key, 0) for key, count in now.items() if count > before.get(key, 0)}

    def replayed(self, call: Call) -> None:
        """A graph is about to run."""
        if _is_inductors(call.frame):
            return
        self.on_replay()
        entry = self._by_object.get(id(call.first))
        if entry is None or entry[0]() is not call.first:
            site, own = self._sites.innermost(call.frame), self._sites.users_own(call.frame)
            capture = self._new(call.first, site, own, is_seen=False)
        else:
            capture = entry[1]
        capture.replays += 1
        if not capture.is_seen:
            detail = "a CUDA graph that was captured before recording began was replayed"
            self.on_unseen(BlindSpotKind.CUDA_GRAPH, detail, call.frame)

    def _new(self, graph: Any, site: Site, called_from: Site, *, is_seen: bool) -> Capture:
        capture = Capture(f"cuda-graph {len(self.graphs) + 1}", site, called_from, is_seen=is_seen)
        self.graphs.append(capture)
        number = id(graph)
        try:
            reference: Any = weakref.ref(graph, lambda _: self._by_object.pop(number, None))
        except TypeError:  # an object that cannot be referred to weakly: its number may come again
            reference = lambda: graph  # noqa: E731
        self._by_object[number] = (reference, capture)
        return capture

    # --- what a trace holds ---

    def in_graphs(self, key: Any) -> int:
        """Calls of a counter that were captured, and did not run then."""
        return sum(capture.held.get(key, 0) for capture in self.graphs)

    def runs_of(self, key: Any) -> int:
        """Runs that replays made of what a counter counted."""
        return sum(capture.held.get(key, 0) * capture.replays for capture in self.graphs)

    def of(self, key: Any) -> Iterator[tuple[str, int]]:
        """The graphs that a counter's calls are in, each with how often they ran there."""
        for capture in self.graphs:
            if key in capture.held and capture.replays:
                yield capture.name, capture.held[key] * capture.replays

    def regions(self) -> Iterator[Region]:
        """A region for each graph."""
        for capture in self.graphs:
            yield Region(
                id=capture.name,
                kind=RegionKind.CUDA_GRAPH,
                **placed(capture.site, capture.called_from, self._working_directory),
                device="cuda",
                origin=RegionOrigin.UNKNOWN if capture.is_seen else RegionOrigin.EARLIER,
                executions=capture.replays,
                inside=RegionInside.OPS if capture.is_seen else RegionInside.UNSEEN,
                why=(None if capture.replays else RegionGap.NEVER_RAN) if capture.is_seen else RegionGap.EARLIER,
                ops=sum(capture.held.values()),
            )


def _is_inductors(frame: FrameType | None) -> bool:
    for _ in range(_NEAR):
        if frame is None:
            break
        if _INDUCTOR in frame.f_code.co_filename:
            return True
        frame = frame.f_back
    return False


def _watched() -> Iterator[Target]:
    graph = compile_seams.cuda_graph_class()
    yield Target([(graph, "capture_begin")], before=lambda listener, call: listener.begins(call))
    yield Target([(graph, "capture_end")], after=lambda listener, call: listener.ended(call))
    yield Target([(graph, "replay")], before=lambda listener, call: listener.replayed(call))


#: The watches of this process.
WATCHES: Watchers[Captures] = Watchers(_watched)
