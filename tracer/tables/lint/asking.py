"""``python -m tracer.tables.lint.asking`` regenerates ``asked.json``: what the tables ask of a recorder."""

from __future__ import annotations

from tracer.plain import json_text
from tracer.tables.asked import FILE, asked_by_tables


def asked_text() -> str:
    """What the file holds, in one order."""
    asked = asked_by_tables()
    facts = {op: sorted(keys) for op, keys in sorted(asked.facts.items())}
    held = {"tables": asked.tables, "variables": sorted(asked.variables), "settings": asked.settings, "facts": facts}
    return json_text(held) + "\n"


if __name__ == "__main__":
    FILE.write_text(asked_text(), encoding="utf-8")
