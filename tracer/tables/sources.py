"""What a line is that gives other values in each run: ``sources.toml``, the one table of such calls."""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path
from typing import Literal

import msgspec

from tracer.tables.rules import load

#: What makes a glob of a name.
_WILD = frozenset("*?")


class Source(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A kind of call."""

    id: str
    name: str
    """What the line does, behind its text: ``reads the clock``."""
    remedy: str
    calls: tuple[str, ...] = ()
    """Qualified names, or globs of them."""
    generator: Literal["", "python", "numpy", "torch", "cuda"] = ""
    """The global generator that it draws from."""
    waits: bool = False
    """Whether it takes what other threads or processes give."""
    is_order: bool = False
    """Whether it takes that in the order in which it is done, which differs though what is given does not."""
    varies: bool = False
    """Whether it gives another value in each run, whatever it is given."""
    circumstances: tuple[Literal["addresses", "environment", "folder", "hash-seed", "memory"], ...] = ()
    """Those of ``tracer repeat --hold`` that, held, make it give the same."""


class SourceTable(msgspec.Struct, forbid_unknown_fields=True):
    """Every kind of call that is known."""

    source: list[Source]


#: The table, in the order in which rows are asked. It is read under the lock of the import: msgspec crashes where two
#: threads make it read a type for the first time.
SOURCES = tuple(load(Path(__file__).with_name("sources.toml"), SourceTable).source)


def source_of(calls: Iterable[str], generator: str = "") -> Source | None:
    """The row for a line that makes ``calls``, or draws from a global generator; ``None`` without one."""
    return _first_row(tuple(calls), generator)


@lru_cache(1 << 14)  # a comparison asks for the same lines again and again
def _first_row(calls: tuple[str, ...], generator: str) -> Source | None:
    for row in SOURCES:
        if generator and row.generator and generator.startswith(row.generator):
            return row
        if not generator and any(_matches(call, glob) for glob in row.calls for call in calls):
            return row
    return None


def _matches(call: str, glob: str) -> bool:
    # Most are no globs, which are costly to compile.
    return call == glob or (not _WILD.isdisjoint(glob) and fnmatchcase(call, glob))


def source_by_id(name: str) -> Source | None:
    """The row with this id; ``None`` without one."""
    return next((row for row in SOURCES if row.id == name), None)
