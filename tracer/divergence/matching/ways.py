"""In which way a root shows itself. Imports no NumPy: circumstances name causes before a script's first line."""

from __future__ import annotations

from tracer.names import Word


class Way(Word):
    """In which way a root shows itself; ``causes`` makes a cause of it."""

    ENTERED = "entered"
    DRAWN = "drawn"
    NUMBERS = "numbers"
    READ = "read"
    """Its inputs differ, and who wrote them agrees."""
    WROTE = "wrote"
    """All that it read agrees."""
    GAP = "gap"
    AHEAD = "ahead"
    """It draws otherwise (another number of values, or in one run alone), so that a later draw finds another state."""
    RANKS = "ranks"
    """The first call of an optimizer that reads otherwise on two ranks."""
