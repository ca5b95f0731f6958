"""Comments in the user's code that speak for a finding: ``# tracer: ignore[rule] reason``.

A comment counts for its own line, read from the file as it is now; a file that moved or changed silences nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

from tracer.baseline import file_of
from tracer.findings import Finding

_COMMENT = re.compile(r"#\s*tracer:\s*ignore\[([^\]]*)\]\s*(.*)$")


class Comment(NamedTuple):
    """One comment that silences rules at its line."""

    location: str
    """``path:line``."""
    rules: tuple[str, ...]
    """Rule ids or globs of them."""
    reason: str


class Suppressions:
    """The comments at the lines that findings name, below ``root``; each file is read once."""

    def __init__(self, root: Path) -> None:
        self._root = root.resolve()
        self._files: dict[str, list[str]] = {}
        self.used: dict[Comment, int] = {}
        """Comments that silenced something, with how many findings."""

    def silences(self, finding: Finding) -> bool:
        """Does a comment at the finding's line, or at the user's line that led to it, name its rule?"""
        comment = self.comment_on(finding)
        if comment is not None:
            self.used[comment] = self.used.get(comment, 0) + 1
        return comment is not None

    def comment_on(self, finding: Finding) -> Comment | None:
        """The comment that silences ``finding``, where there is one."""
        comments = (one for location in (finding.location, finding.called_from) for one in self._at(location))
        return next((one for one in comments if any(fnmatchcase(finding.rule, rule) for rule in one.rules)), None)

    def _at(self, location: str) -> Iterator[Comment]:
        path = file_of(location)
        number = location.removeprefix(f"{path}:")
        if not path or not number.isdigit():
            return
        lines = self._lines_of(path)
        found = _COMMENT.search(lines[int(number) - 1]) if 0 < int(number) <= len(lines) else None
        if found:
            rules = tuple(rule.strip() for rule in found[1].split(",") if rule.strip())
            yield Comment(location, rules, found[2].strip())

    def _lines_of(self, path: str) -> list[str]:
        """The file's lines; none for one that is not below the root, is gone, or is no text."""
        if path not in self._files:
            file = (self._root / path).resolve()
            try:
                is_below = file.is_relative_to(self._root)
                self._files[path] = file.read_text(encoding="utf-8").split("\n") if is_below else []
            except (OSError, ValueError):
                self._files[path] = []
        return self._files[path]
