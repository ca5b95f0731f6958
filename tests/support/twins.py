"""A planted program's clean twin, which stands in the same file.

At the end of a line, ``# clean: CODE`` is what stands in the line's place in the twin, and ``# clean:`` alone takes the
line out; on a line of its own, the rest of the line is added. Other marks stand before it.
"""

from __future__ import annotations

import re

_CLEAN = re.compile(r"^(\s*)([^#\s].*?)?(?:\s*# (?:parts|planted):.*?)?\s*# clean: ?(.*)$")


def clean_twin(text: str) -> str:
    """The program ``text`` without what was planted."""
    lines = []
    for line in text.splitlines():
        found = _CLEAN.match(line)
        if found is None:
            lines.append(line)
        elif not found[2]:
            lines.append(found[3])
        elif found[3]:
            lines.append(found[1] + found[3])
    return "\n".join(lines) + "\n"
