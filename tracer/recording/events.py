"""Settings, seeds and first uses, in order, each with its line. Imports no torch, because it begins before."""

from __future__ import annotations

import itertools
import os
from types import FrameType
from typing import Any, Protocol

import msgspec

from tracer.names import EventKind, Phase, Subsystem
from tracer.recording.origin import Site, Sites, placed
from tracer.trace.records import Event

#: Positions of events and of groups' first calls, counted together, so that one can be told to come before another.
ORDER = itertools.count(1)

#: How often one event is held against the calls: counting them takes a look at every group.
_LOOKS = 8
#: Once so many events are known, the value before no longer tells two of them apart.
_MANY = 4096
#: A seed of more digits is not told: it was given as bytes.
_DIGITS = 40


class RecordedCalls(Protocol):
    """The calls of the recording that runs, as far as an event needs them."""

    def phase(self) -> Phase:
        """The phase that this thread is in."""

    def totals(self) -> tuple[int, int, int]:
        """Calls recorded so far: forward (and recomputed), backward, all."""

    def setting_changed(self, name: str, before: str, value: str) -> None:
        """The setting ``name`` took another value: calls from here on are counted apart."""

    def step_has_forward(self) -> bool:
        """Return whether this training step made anything that a backward pass could go through."""

    def step_begins(self) -> None:
        """A training step begins, or the recording does."""


class EventEntry(msgspec.Struct, eq=False):
    """One event while it is counted."""

    key: tuple[Any, ...]
    """Kind, name, value before, both sites, phase, and whether a recording ran."""
    value: str
    site: Site
    own: Site
    first: int
    last: int
    values_differ: bool = False
    parts_phases: bool = False
    after_calls: bool = False
    parted_at: int | None = None
    """Calls recorded when it first came after forward calls."""
    is_followed: bool = False
    count: int = 0
    seed: str = ""
    is_drawn: bool = False
    drawn_at: str = ""

    def event(self) -> Event:
        kind, name, before, _, _, phase, while_recording = self.key
        return Event(
            kind=kind,
            name=name,
            before=before,
            **placed(self.site, self.own),
            phase=phase,
            while_recording=while_recording,
            is_followed=self.is_followed or not self.after_calls,
            **{field: getattr(self, field) for field in _SAME_IN_EVENT},
        )


_SAME_IN_EVENT = {*EventEntry.__struct_fields__}.intersection(Event.__struct_fields__) - {"is_followed"}


class EventLog:
    """Events of one process, grouped by what happened and where. A forked child adds nothing to its copy."""

    def __init__(self, sites: Sites) -> None:
        self._sites = sites
        self._process = os.getpid()
        self._entries: dict[tuple[Any, ...], EventEntry] = {}
        self.used: set[Subsystem] = set()
        self._open: dict[EventEntry, int] = {}
        """Events of this training step, with the backward calls that were recorded before them."""
        self._changes: dict[tuple[EventKind, str], tuple[EventEntry, str, object]] = {}
        """The last change of each name: its event, the value before, and what had happened until then."""
        self.settings_of_calls: dict[str, str] = {}
        """The values under which the recorded calls ran, of settings that changed meanwhile, by name."""
        self._calls: RecordedCalls | None = None

    def recording_began(self, calls: RecordedCalls) -> None:
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
        seed: object = None,
    ) -> EventEntry | None:
        """Note one event at the innermost line of ``frame`` outside torch; other arguments are fields of ``Event``."""
        if os.getpid() != self._process:
            return None
        calls = self._calls
        site, own = self._sites.innermost(frame), self._sites.users_own(frame)
        before = before if len(self._entries) < _MANY else ""
        key = (kind, name, before, site, own, self.phase(), calls is not None)
        entry = self._entries.get(key)
        position = next(ORDER)
        if entry is None:
            number = str(seed) if isinstance(seed, (int, float)) and len(str(seed)) <= _DIGITS else ""
            entry = self._entries[key] = EventEntry(key, value, site, own, position, position, seed=number)
        entry.values_differ |= entry.value != value
        entry.last = position
        entry.count += 1
        is_settled = entry.count > _LOOKS or (entry.after_calls and entry.parts_phases)
        if calls is not None and kind is not EventKind.FIRST_USE and not is_settled:
            forward, backward, total = calls.totals()
            entry.after_calls |= forward > 0
            if forward and entry.parted_at is None:
                entry.parted_at = total
            if forward and calls.step_has_forward():
                self._open.setdefault(entry, backward)
        return entry

    def changed(self, kind: EventKind, name: str, *, frame: FrameType | None, before: str, value: str) -> None:
        """Note that ``name`` took another value; a value that is taken back before anything read it makes no event."""
        if before == value or os.getpid() != self._process:
            return
        # Equal at two moments if nothing between can have read it: a first use a variable, a call a setting.
        until_now: object = len(self.used) if kind is EventKind.VARIABLE else object()
        if self._calls is not None:
            until_now = len(self.used), self._calls.totals()[2]
            if kind is EventKind.SETTING:
                self._calls.setting_changed(name, before, value)
        last = self._changes.pop((kind, name), None)
        if last is not None and (last[1], last[2]) == (value, until_now):
            last[0].count -= 1
            if not last[0].count:
                self._entries.pop(last[0].key, None)
                self._open.pop(last[0], None)
            return
        entry = self.note(kind, name, frame=frame, before=before, value=value)
        if entry is not None:
            self._changes[kind, name] = (entry, before, until_now)

    def first_use(self, subsystem: Subsystem, frame: FrameType | None) -> None:
        """Note that ``subsystem`` was used; only the first time counts."""
        if subsystem not in self.used and os.getpid() == self._process:
            self.used.add(subsystem)
            self.note(EventKind.FIRST_USE, str(subsystem), frame=frame)

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
        return tuple(entry.event() for entry in sorted(self._entries.values(), key=lambda entry: entry.first))

    def _follow(self) -> None:
        """Mark the events that calls were recorded after."""
        if self._calls is not None:
            total = self._calls.totals()[2]
            for entry in self._entries.values():
                entry.is_followed |= entry.parted_at is not None and total > entry.parted_at

    def _close_steps(self) -> None:
        if self._open and self._calls is not None:
            backward = self._calls.totals()[1]
            for entry, before in self._open.items():
                entry.parts_phases |= backward > before
