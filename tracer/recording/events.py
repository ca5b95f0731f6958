"""What the program set, seeded and first used, in order, each with its line. Imports no torch: it begins before."""

from __future__ import annotations

import itertools
from types import FrameType

from tracer.names import EventKind, Phase
from tracer.recording.sites import Site, Sites, spell
from tracer.trace.process import Event

#: Positions of events and of groups' first calls, counted together, so that one can be told to come before another.
ORDER = itertools.count(1)


class EventLog:
    """Events of one process, grouped by what happened and where."""

    def __init__(self, sites: Sites, working_directory: str) -> None:
        self._sites = sites
        self._working_directory = working_directory
        self._noted: dict[tuple[object, ...], _Noted] = {}

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
    ) -> None:
        """Note one event at the line of ``frame`` that is outside torch; the fields are those of ``Event``."""
        site = self._sites.innermost(frame)
        own = self._sites.users_own(frame)
        key = (kind, name, before, site, own, phase, while_recording)
        noted = self._noted.get(key)
        position = next(ORDER)
        if noted is None:
            noted = self._noted[key] = _Noted(value, site, own, position)
        noted.values_differ |= noted.value != value
        noted.parts_phases |= parts_phases
        noted.last = position
        noted.count += 1

    def listed(self) -> tuple[Event, ...]:
        """All events, by their first position."""
        return tuple(
            Event(
                kind=kind,  # type: ignore[arg-type]
                name=name,  # type: ignore[arg-type]
                before=before,  # type: ignore[arg-type]
                value=noted.value,
                values_differ=noted.values_differ,
                location=spell(noted.site, self._working_directory),
                function=noted.site.function,
                called_from=spell(noted.own, self._working_directory) if noted.own != noted.site else "",
                phase=phase,  # type: ignore[arg-type]
                while_recording=while_recording,  # type: ignore[arg-type]
                parts_phases=noted.parts_phases,
                first=noted.first,
                last=noted.last,
                count=noted.count,
            )
            for (kind, name, before, _, _, phase, while_recording), noted in sorted(
                self._noted.items(), key=lambda item: item[1].first
            )
        )


class _Noted:
    """One event while it is counted."""

    __slots__ = ("count", "first", "last", "own", "parts_phases", "site", "value", "values_differ")

    def __init__(self, value: str, site: Site, own: Site, position: int) -> None:
        self.value = value
        self.site = site
        self.own = own
        self.first = self.last = position
        self.values_differ = False
        self.parts_phases = False
        self.count = 0
