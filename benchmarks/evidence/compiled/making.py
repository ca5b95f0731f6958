"""What the programs are made with: how one is declared, and the tensors and backends that many of them share.

A line that may vary bears a comment with the backends for which it may: ``# varies: cpu cuda``. A program without such
a comment must get no finding. Programs draw their inputs before ``step`` where they can, so that the step is the
region alone.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

#: The backends that each program is judged for.
BACKENDS = ("cpu", "cuda")
#: Rows, numbers in each, and slots that they are added to: enough work for several threads.
ROWS, WIDE, SLOTS = 20_000, 16, 50
_VARIES = re.compile(r"# varies: (?P<backends>[a-z ]+?)(?: \((?P<kind>[a-z]+)\))?$")

Program = Callable[[], Any]


@dataclass(frozen=True)
class Twin:
    """One program."""

    name: str
    run: Program
    made: str = "2026-11-23"
    """The day on which it was written."""
    unseen: bool = True
    """No rule had been written or mended by it when the tables were first judged by it."""
    elsewhere: frozenset[str] = field(default=frozenset())
    """Backends for which it must be accused without a line of its own: of a region, or of the process."""

    @cached_property
    def lines(self) -> dict[str, frozenset[int]]:
        """By backend: the lines that may vary."""
        text, first = inspect.getsourcelines(self.run)
        marked = [(number, _VARIES.search(line.rstrip())) for number, line in enumerate(text, start=first)]
        return {
            backend: frozenset(number for number, match in marked if match and backend in match["backends"].split())
            for backend in BACKENDS
        }

    @property
    def path(self) -> Path:
        """The file that it stands in."""
        return Path(inspect.getsourcefile(self.run) or "")

    def varies(self, backend: str) -> bool:
        """May two runs of it differ?"""
        return bool(self.lines[backend]) or backend in self.elsewhere


PROGRAMS: dict[str, Twin] = {}


def program(function: Program) -> Program:
    """Declare a program; its name is its function's."""
    PROGRAMS[function.__name__] = Twin(function.__name__, function)
    return function


def accused_as_a_whole(*backends: str) -> Callable[[Program], Program]:
    """Declare a program that must be accused without a line of its own."""

    def declare(function: Program) -> Program:
        PROGRAMS[function.__name__] = Twin(function.__name__, function, elsewhere=frozenset(backends))
        return function

    return declare


def rows(*shape: int) -> torch.Tensor:
    """Numbers, ``ROWS`` by ``WIDE`` unless a shape is asked for."""
    return torch.randn(*(shape or (ROWS, WIDE)))


def slots(count: int = ROWS) -> torch.Tensor:
    """Indices with many duplicates."""
    return torch.randint(0, SLOTS, (count,))


def table() -> torch.Tensor:
    """What rows are added to."""
    return torch.zeros(SLOTS, WIDE)
