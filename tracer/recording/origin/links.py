"""Which forward call made an autograd node: the node's sequence number tells.

Numbers grow by one per node, on each thread apart. A node that is made between two dispatches belongs to the later
one, with two exceptions that are known when they happen: an in-place op on a view makes further nodes after
its dispatch, and the node of a custom ``autograd.Function`` belongs to the line that called ``apply``.

Old numbers are forgotten: after ``GENERATIONS`` optimizer steps, or ``GENERATIONS`` times ``CAPACITY`` nodes. A graph
that is larger, or kept longer, has backward calls without a link, and the trace says so.
"""

from __future__ import annotations

from collections import deque
from typing import Any

GENERATIONS = 8
CAPACITY = 1 << 16


class ForwardLinks:
    """Sequence numbers of one thread, each with the origin that its node's calls are attributed to."""

    __slots__ = ("_older", "current", "last", "turn_at")

    def __init__(self, start: int) -> None:
        self.current: dict[int, Any] = {}
        self._older: deque[dict[int, Any]] = deque(maxlen=GENERATIONS - 1)
        self.last = start
        """The number that the next node will bear, as of the last dispatch."""
        self.turn_at = start + CAPACITY

    def find(self, number: int) -> Any | None:
        """The origin of the node with this number, or ``None`` when it was not seen or is forgotten."""
        origin = self.current.get(number)
        if origin is None:
            for generation in reversed(self._older):
                origin = generation.get(number)
                if origin is not None:
                    break
        return origin

    def turn(self) -> None:
        """Begin a new generation, and forget the oldest."""
        if self.current:
            self._older.append(self.current)
            self.current = {}
        self.turn_at = self.last + CAPACITY
