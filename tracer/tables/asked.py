"""What a recorder must record for the tables: facts by op, settings and environment variables. Reads no table.

``asked.json`` is generated from the tables (``python -m tracer.tables.asked``) and contains the digest of their text.
If a table has changed since, the tables themselves are read.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import msgspec

_FOLDER = Path(__file__).parent
FILE = _FOLDER / "asked.json"
_ASK_NOTHING = ("examples.toml", "sources.toml", "switches.toml")


class AskedFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The facts, settings and variables that the tables need of a recorder."""

    tables: str
    """Digest of the tables that this was generated from."""
    variables: frozenset[str]
    """Environment variables that may be recorded; no others are."""
    settings: tuple[str, ...]
    """Dotted names of the process's settings, with ``()`` after a function."""
    facts: dict[str, frozenset[str]]
    """Op, as rules name it, to the facts that are read for it, besides the common ones."""


def digest_of_tables() -> str:
    """CRC-32 of the names and the text of the tables: every recording computes it, to notice an edited table."""
    digest = 0
    for path in sorted(path for path in _FOLDER.glob("*.toml") if path.name not in _ASK_NOTHING):
        digest = zlib.crc32(path.read_bytes(), zlib.crc32(path.name.encode(), digest))
    return f"{digest:08x}"


def asked_by_tables() -> AskedFacts:
    """The same, from the tables themselves."""
    from tracer.tables.loading import named_settings as settings
    from tracer.tables.loading import named_variables as variables
    from tracer.tables.loading import required_facts as facts

    return AskedFacts(tables=digest_of_tables(), variables=variables(), settings=settings(), facts=dict(facts()))


def asked_text() -> str:
    """The content of ``asked.json``, sorted."""
    from tracer.plain import json_lines

    told = asked_by_tables()
    facts = {op: sorted(keys) for op, keys in sorted(told.facts.items())}
    held = {"tables": told.tables, "variables": sorted(told.variables), "settings": told.settings, "facts": facts}
    return json_lines(held, depth=2) + "\n"


@cache
def asked() -> AskedFacts:
    """What was generated; if a table has changed since, what the tables themselves ask."""
    try:
        generated = msgspec.json.decode(FILE.read_bytes(), type=AskedFacts)
        if generated.tables == digest_of_tables():
            return generated
    except (OSError, msgspec.DecodeError):
        pass
    return asked_by_tables()


def compiled_facts() -> Mapping[str, frozenset[str]]:
    """See ``tracer.tables.compiled.compiled_facts``, which reads the tables: only compiled code needs it."""
    from tracer.tables import compiled

    return compiled.compiled_facts()


if __name__ == "__main__":
    FILE.write_text(asked_text(), encoding="utf-8")
