"""What a column is: its name, what its cells hold and how one is made; every table of a report is made of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Generic, TypeVar

Cell = str | int | bool
Row = TypeVar("Row")


class Holds(Enum):
    """What the cells of a column are."""

    TEXT = str
    NUMBER = int
    FLAG = bool


@dataclass(frozen=True, kw_only=True)
class Column(Generic[Row]):
    """One column of a table that programs read."""

    name: str
    """As headers and programs spell it; it never changes."""
    cell: Callable[[Row], Cell]
    holds: Holds = Holds.TEXT
