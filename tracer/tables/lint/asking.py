"""``python -m tracer.tables.lint.asking`` regenerates ``asked.json``: what a recorder must record for the tables."""

from __future__ import annotations

from tracer.plain import json_lines
from tracer.tables.asked import FILE, asked_by_tables


def asked_text() -> str:
    """The file's content, sorted."""
    asked = asked_by_tables()
    facts = {op: sorted(keys) for op, keys in sorted(asked.facts.items())}
    held = {"tables": asked.tables, "variables": sorted(asked.variables), "settings": asked.settings, "facts": facts}
    return json_lines(held, depth=2) + "\n"


if __name__ == "__main__":
    FILE.write_text(asked_text(), encoding="utf-8")
