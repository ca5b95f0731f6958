"""Comments in the user's code: ``# tracer: ignore[rule] reason`` speaks for a finding, ``# tracer: host`` says that the
line's calls run on the host. At the end of a statement over several lines a comment counts for all of these."""

from __future__ import annotations

import ast
import glob
import io
import re
import tokenize
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

from tracer.files import read_text
from tracer.findings import Finding
from tracer.trace.records import CallGroup, split_place

_HOST = re.compile(r"#\s*tracer:\s*host\b")
_COMMENT = re.compile(r"#\s*tracer:\s*ignore\[([^\]]*)\]\s*(.*)$")


class Comment(NamedTuple):
    """One comment that silences rules at its line."""

    location: str
    """``path:line``."""
    rules: tuple[str, ...]
    """Rule ids or globs of them."""
    reason: str


def host_lines(calls: Iterable[CallGroup], root: Path) -> tuple[str, ...]:
    """The lines of ``calls`` that a comment names as the host's, as ``judge(..., host=...)`` takes them."""
    comments = Suppressions(root)
    lines = dict.fromkeys(place for group in calls for place in (group.location, group.called_from) if place)
    return tuple(glob.escape(place) for place in lines if comments.names_host(place))


class Suppressions:
    """The comments at the lines that findings name, below ``root``; each file is read once."""

    def __init__(self, root: Path) -> None:
        self._root = root.resolve()
        self._files: dict[str, Mapping[int, tuple[str, ...]]] = {}

    def silences(self, finding: Finding) -> bool:
        """Return whether a comment at the finding's line, or at the user's line that led to it, names its rule."""
        return self.comment_on(finding) is not None

    def comment_on(self, finding: Finding) -> Comment | None:
        """The comment that silences ``finding``, where there is one."""
        for comment in (*self._at(finding.location), *self._at(finding.called_from)):
            if any(fnmatchcase(finding.rule, rule) for rule in comment.rules):
                return comment
        return None

    def names_host(self, location: str) -> bool:
        """Return whether a comment says that the line's calls run on the host."""
        return any(_HOST.search(line) for line in self._lines_at(location))

    def _lines_at(self, location: str) -> tuple[str, ...]:
        path, number = split_place(location)
        return self._speaking_for(path).get(number, ()) if number is not None else ()

    def _at(self, location: str) -> Iterator[Comment]:
        for line in self._lines_at(location):
            if comment := _COMMENT.search(line):
                rules = tuple(rule.strip() for rule in comment[1].split(",") if rule.strip())
                yield Comment(location, rules, comment[2].strip())

    def _speaking_for(self, path: str) -> Mapping[int, tuple[str, ...]]:
        """The file's comments by the lines that they speak for; none where it is not below the root, or is no text."""
        if path not in self._files:
            try:
                file = (self._root / path).resolve()
                text = read_text(file, encoding="utf-8-sig") if file.is_relative_to(self._root) else ""
            except (OSError, ValueError, RuntimeError):  # the last: links in a circle, on Python 3.12 and older
                text = ""
            self._files[path] = _by_line(text)
        return self._files[path]


def _by_line(text: str) -> Mapping[int, tuple[str, ...]]:
    lines = enumerate(text.split("\n"), 1)
    comments = {number: line for number, line in lines if _COMMENT.search(line) or _HOST.search(line)}
    if not comments:
        return {}
    speaking = {number: (line,) for number, line in comments.items()}
    try:
        tokens = tokenize.generate_tokens(io.StringIO(text).readline)
        comments = {token.start[0]: token.string for token in tokens if token.type == tokenize.COMMENT}
        statements = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.stmt)]
    except (SyntaxError, ValueError, RecursionError, MemoryError, tokenize.TokenError):
        return speaking  # a notebook's cell, or another Python's file: its lines must do
    speaking = {number: (comment,) for number, comment in comments.items()}
    for statement in statements:
        first, last = statement.lineno, statement.end_lineno or statement.lineno
        if first < last and last in comments and not hasattr(statement, "body") and not hasattr(statement, "cases"):
            for number in range(first, last):
                speaking[number] = (*speaking.get(number, ()), comments[last])
    return speaking
