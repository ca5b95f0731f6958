"""Switches for findings inside libraries, read from ``switches.toml``: what users turn, editing no package."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path

import msgspec

from tracer.tables.model import SCHEMA
from tracer.tables.reading import parse, read

#: Where the table lies.
SWITCHES = Path(__file__).parent.parent / "switches.toml"


class Switch(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a library lets its users choose, and the rules whose findings in its code that settles."""

    library: str
    """Top-level name of the package, as a place begins: ``transformers``."""
    rules: tuple[str, ...]
    what: str
    """What to do, as a sentence."""
    ref: str
    """Where the library says so: its version, file and name."""


class Switches(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Every switch that is known."""

    schema: int
    in_hand: tuple[str, ...]
    """Rules whose own remedy is made from outside of the line."""
    switch: tuple[Switch, ...]

    def find(self, library: str, rule: str) -> Switch | None:
        """The switch of ``library`` for findings of ``rule``; a rule that a table took over goes by its origin, too."""
        return next(
            (switch for switch in self.switch if switch.library == library and _named(rule, switch.rules)), None
        )

    def is_in_hand(self, rule: str) -> bool:
        """Is the remedy of ``rule`` made from outside of the line?"""
        return _named(rule, self.in_hand)


def _named(rule: str, rules: tuple[str, ...]) -> bool:
    return rule in rules or rule.partition("-")[2] in rules


def _misspelt(table: Switches) -> Iterator[tuple[str, str]]:
    if table.schema != SCHEMA:
        yield "$.schema", f"schema {table.schema} is not {SCHEMA}, the one that this release reads"
    for number, one in enumerate(table.switch):
        if not one.library.isidentifier():
            yield f"$.switch[{number}]", f"{one.library!r} is not the name of a package"


@cache
def load_switches() -> Switches:
    """The project's own switches."""
    return parse(read(SWITCHES), SWITCHES.name, Switches, _misspelt)
