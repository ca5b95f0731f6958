"""Refusals that were predicted, held against those that happened."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Counts:
    """Refusals predicted and refusals met."""

    hits: int = 0
    misses: int = 0
    inventions: int = 0
    quiet: int = 0

    def count(self, *, predicted: bool, refused: bool) -> None:
        """Count what was said of one sample, and what torch did."""
        self.hits += predicted and refused
        self.misses += refused and not predicted
        self.inventions += predicted and not refused
        self.quiet += not predicted and not refused

    @property
    def total(self) -> int:
        """Everything that was counted."""
        return self.hits + self.misses + self.inventions + self.quiet

    @property
    def precision(self) -> float:
        """Of the refusals predicted, the share that happened."""
        return share(self.hits, self.hits + self.inventions)

    @property
    def recall(self) -> float:
        """Of the refusals that happened, the share that was predicted."""
        return share(self.hits, self.hits + self.misses)


def share(part: int, whole: int) -> float:
    """``part / whole``; 1 of nothing."""
    return part / whole if whole else 1.0
