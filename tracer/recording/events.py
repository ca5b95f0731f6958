"""Settings, seeds and first uses, in order, each with its line. Imports no torch, because it begins before."""

from __future__ import annotations

import itertools
import os
from types import FrameType
from typing import Protocol

from tracer.names import EventKind, Phase, Subsystem
from tracer.recording.origin.sites import Site, Sites, placed
from tracer.trace.records import Event

#: Positions of events and of groups' first calls, counted together, so that one can be told to come before another.
ORDER = itertools.count(1)

#: How often one event is held against the calls: counting them takes a look at every group.
_LOOKS = 8
#: Once so many events are known, the value before no longer tells two of them apart.
_MANY = 4096


class Calls(Protocol):
    """The calls of the recording that runs, as far as an event needs them."""

    def phase(self) -> Phase:
        """The phase that this thread is in."""

    def counted(self) -> tuple[int, int, int]:
        """Calls recorded so far: forward (and recomputed), backward, all."""

    def step_has_forward(self) -> bool:
        """Did this training step make anything that a backward pass could go through?"""

    def step_begins(self) -> None:
        """A training step begins, or the recording does."""


class EventEntry:
    """One event while it is counted."""

    __slots__ = (
        "after_calls",
        "after_draws",
        "count",
        "first",
        "is_followed",
        "key",
        "last",
        "own",
        "parted_at",
        "parts_phases",
        "site",
        "value",
        "values_differ",
    )

    def __init__(self, key: tuple[object, ...], value: str, site: Site, own: Site, position: int) -> None:
        self.key = key
        self.value = value
        self.site = site
        self.own = own
        self.first = self.last = position
        self.values_differ = False
        self.parts_phases = False
        self.after_calls = False
        self.parted_at: int | None = None
        """Calls recorded when it first came after forward calls."""
        self.is_followed = False
        self.after_draws = False
        self.count = 0


class EventLog:
    """Events of one process, grouped by what happened and where. A forked child adds nothing to its copy."""

    def __init__(self, sites: Sites, working_directory: str) -> None:
        self._sites = sites
        self._working_directory = working_directory
        self._process = os.getpid()
        self._entries: dict[tuple[object, ...], EventEntry] = {}
        self._used: set[Subsystem] = set()
        self._open: dict[EventEntry, int] = {}
        """Events of this training step, with the backward calls that were recorded before them."""
        self._changes: dict[tuple[EventKind, str], tuple[EventEntry, str, object]] = {}
        """The last change of each name: its event, the value before, and what had happened until then."""
        self._calls: Calls | None = None

    def recording_began(self, calls: Calls) -> None:
        """From here on events happen while recording."""
        self._calls = calls
        calls.step_begins()

    def recording_ended(self) -> None:
        """From here on they do not; the step that was begun is over for them."""
        self.step_ended()
        self._follow()
        self._calls = None

    def phase(self) -> Phase:
        """The phase of the recording that runs; ``other`` where none does."""
        return Phase.OTHER if self._calls is None else self._calls.phase()

    def note(
        self,
        kind: EventKind,
        name: str,
        *,
        frame: FrameType | None,
        before: str = "",
        value: str = "",
        phase: Phase = Phase.OTHER,
        while_recording: bool = False,
        parts_phases: bool = False,
    ) -> EventEntry | None:
        """Note one event at the line of ``frame`` that is outside torch; the fields are those of ``Event``.

        While a recording runs, phase, ``while_recording``, ``parts_phases`` and ``after_calls`` are worked out here.
        """
        if os.getpid() != self._process:
            return None
        calls = self._calls
        if calls is not None:
            phase, while_recording = calls.phase(), True
        site = self._sites.innermost(frame)
        own = self._sites.users_own(frame)
        if len(self._entries) >= _MANY:
            before = ""
        key = (kind, name, before, site, own, phase, while_recording)
        entry = self._entries.get(key)
        position = next(ORDER)
        if entry is None:
            entry = self._entries[key] = EventEntry(key, value, site, own, position)
        entry.values_differ |= entry.value != value
        entry.parts_phases |= parts_phases
        entry.last = position
        entry.count += 1
        if calls is not None and kind is not EventKind.FIRST_USE:
            self._hold_against(calls, entry)
        return entry

    def changed(self, kind: EventKind, name: str, *, frame: FrameType | None, before: str, value: str) -> None:
        """Note that ``name`` took another value.

        What puts an earlier value back before anything could have read the one between is no change, and takes the
        earlier event back.
        """
        if before == value or os.getpid() != self._process:
            return
        until_now = self._happened(kind)
        last = self._changes.pop((kind, name), None)
        if last is not None and (last[1], last[2]) == (value, until_now):
            self._take_back(last[0])
            return
        entry = self.note(kind, name, frame=frame, before=before, value=value)
        if entry is not None:
            self._changes[kind, name] = (entry, before, until_now)

    def first_use(self, subsystem: Subsystem, frame: FrameType | None) -> None:
        """Note that ``subsystem`` was used; only the first time counts."""
        if subsystem not in self._used and os.getpid() == self._process:
            self._used.add(subsystem)
            self.note(EventKind.FIRST_USE, str(subsystem), frame=frame)

    def was_used(self, subsystem: Subsystem) -> bool:
        """Was the first use of ``subsystem`` recorded?"""
        return subsystem in self._used

    def step_ended(self) -> None:
        """A training step ended: what came after the open events belongs to the next one."""
        self._close_steps()
        self._open.clear()
        if self._calls is not None:
            self._calls.step_begins()

    def listed(self) -> tuple[Event, ...]:
        """All events, by their first position."""
        self._close_steps()
        self._follow()
        return tuple(
            Event(
                kind=kind,  # type: ignore[arg-type]
                name=name,  # type: ignore[arg-type]
                before=before,  # type: ignore[arg-type]
                value=entry.value,
                values_differ=entry.values_differ,
                **placed(entry.site, entry.own, self._working_directory),
                phase=phase,  # type: ignore[arg-type]
                while_recording=while_recording,  # type: ignore[arg-type]
                parts_phases=entry.parts_phases,
                after_calls=entry.after_calls,
                is_followed=entry.is_followed or not entry.after_calls,
                after_draws=entry.after_draws,
                first=entry.first,
                last=entry.last,
                count=entry.count,
            )
            for (kind, name, before, _, _, phase, while_recording), entry in sorted(
                self._entries.items(), key=lambda item: item[1].first
            )
        )

    def _happened(self, kind: EventKind) -> object:
        """Equal at two moments if nothing between them can have read what changed.

        Variables are read at first uses. Calls read settings; where nobody counts them, no two moments are equal.
        """
        if self._calls is not None:
            return len(self._used), self._calls.counted()[2]
        return len(self._used) if kind is EventKind.VARIABLE else object()

    def _hold_against(self, calls: Calls, entry: EventEntry) -> None:
        if entry.count > _LOOKS or (entry.after_calls and entry.parts_phases):
            return
        forward, backward, total = calls.counted()
        entry.after_calls |= forward > 0
        if forward and entry.parted_at is None:
            entry.parted_at = total
        if forward and calls.step_has_forward():
            self._open.setdefault(entry, backward)

    def _follow(self) -> None:
        """Note which events had calls after them, too."""
        if self._calls is not None:
            total = self._calls.counted()[2]
            for entry in self._entries.values():
                entry.is_followed |= entry.parted_at is not None and total > entry.parted_at

    def _close_steps(self) -> None:
        if self._open and self._calls is not None:
            backward = self._calls.counted()[1]
            for entry, before in self._open.items():
                entry.parts_phases |= backward > before

    def _take_back(self, entry: EventEntry) -> None:
        entry.count -= 1
        if not entry.count:
            self._entries.pop(entry.key, None)
            self._open.pop(entry, None)
