"""Where a generator's state came from, by the number that it was seeded with. Imports no torch.

A generator tells the seed that its state grew from, whoever holds it: so a draw needs no more than that number to
find the line that seeded it, through copies, saved states and forks.
"""

from __future__ import annotations

from collections.abc import Hashable

from tracer.names import SeedOrigin
from tracer.recording.origin.sites import NOWHERE, Site

#: Seeds that are remembered per line: a program that seeds in each step must not fill the memory.
_KEPT = 256


class Provenance:
    """Where states come from; one object for each origin and line, compared by identity."""

    __slots__ = ("origin", "site")

    def __init__(self, origin: SeedOrigin, site: Site = NOWHERE) -> None:
        self.origin = origin
        self.site = site


#: A program seeded it, at a line that was not seen.
PROGRAM = Provenance(SeedOrigin.PROGRAM)
#: It was left to the machine.
MACHINE = Provenance(SeedOrigin.MACHINE)
FIXED = Provenance(SeedOrigin.FIXED)
UNSEEN = Provenance(SeedOrigin.UNSEEN)

#: It does not matter: nothing hangs on what is drawn.
UNUSED = Provenance(SeedOrigin.UNSEEN)


class Origins:
    """One ``Provenance`` for each origin and line: as many as the program has lines that seed."""

    def __init__(self) -> None:
        self._known: dict[tuple[SeedOrigin, Site], Provenance] = {}

    def at(self, origin: SeedOrigin, site: Site) -> Provenance:
        """The one object of this origin and line."""
        provenance = self._known.get((origin, site))
        if provenance is None:
            provenance = self._known[origin, site] = Provenance(origin, site)
        return provenance


class Newest:
    """Which line made a value: of each line, the newest values only."""

    def __init__(self) -> None:
        self._of_value: dict[Hashable, Provenance] = {}
        self._of_line: dict[Provenance, dict[Hashable, None]] = {}
        self.get = self._of_value.get
        """The provenance of a value, or ``None``."""

    def __len__(self) -> int:
        return len(self._of_value)

    def note(self, value: Hashable, provenance: Provenance) -> None:
        """``value`` was made by ``provenance`` last."""
        before = self._of_value.get(value)
        if before is not None:
            del self._of_line[before][value]
        newest = self._of_line.setdefault(provenance, {})
        newest[value] = None
        self._of_value[value] = provenance
        if len(newest) > _KEPT:
            oldest = next(iter(newest))
            del newest[oldest], self._of_value[oldest]

    def clear(self) -> None:
        """Forget everything."""
        self._of_value.clear()
        self._of_line.clear()
