"""C++ as Inductor writes it, as blocks within blocks: what a loop, a condition or a pragma holds, and statements.

It reads the few forms that generated kernels have, and is no parser of C++: what it cannot follow is refused.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_KEYWORD = re.compile(r"(?:for|if|else|while|switch|do)\b")
#: What ends, opens or closes something, or hides it.
_MARK = re.compile(r'[;{}()"]')
_KERNEL = re.compile(r"\bvoid\s+kernel\s*\(")
_SPACE = re.compile(r"(?:\s+|//[^\n]*)+")


class Block(NamedTuple):
    """What stands between braces."""

    header: str
    """``for(...)``, ``if(...)``; empty for braces alone."""
    pragmas: tuple[str, ...]
    """What stands above it: ``#pragma omp for``."""
    items: tuple[Block | str, ...]
    """Blocks and statements in their order. A function within a statement is a part of it."""


def read_kernel(source: str) -> Block:
    """The body of the one function that ``source`` defines. Raises ``ValueError`` for a text of another form."""
    if len(_KERNEL.findall(source)) != 1:
        raise ValueError("not one kernel")
    start = source.index("{", _KERNEL.search(source).end())  # type: ignore[union-attr]
    items, _ = _items(source, start + 1)
    return Block("", (), items)


def _items(text: str, at: int) -> tuple[tuple[Block | str, ...], int]:
    """What stands from ``at`` to the brace that closes it, and the place behind that."""
    items: list[Block | str] = []
    pragmas: list[str] = []
    while True:
        at = _behind_space(text, at)
        if at >= len(text):
            raise ValueError("a brace is not closed")
        if text[at] == "#":
            end = text.index("\n", at)
            pragmas.append(text[at:end].strip())
            at = end
        elif text[at] == "}":
            return tuple(items), at + 1
        else:
            lead, at = _up_to_brace_or_end(text, at)
            if text[at] == "{":
                inner, at = _items(text, at + 1)
                items.append(Block(lead, tuple(pragmas), inner))
            else:
                at += 1
                if lead:
                    items.append(lead)
            pragmas = []


def _up_to_brace_or_end(text: str, at: int) -> tuple[str, int]:
    """A statement, or what leads a block, in one line; and where its semicolon or its brace stands."""
    start, depth = at, 0
    opens_block = _KEYWORD.match(text, at) is not None or text[at] == "{"
    while True:
        found = _MARK.search(text, at)
        if found is None:
            raise ValueError("a statement does not end")
        mark, at = found[0], found.start()
        if mark == '"':
            at = _behind_text(text, at)
            continue
        if depth == 0 and (mark == ";" or (mark == "{" and opens_block)):
            return " ".join(text[start:at].split()), at
        depth += 1 if mark in "({" else -1 if mark in ")}" else 0
        if depth < 0:
            raise ValueError("something is closed that was not opened")
        at += 1


def _behind_text(text: str, at: int) -> int:
    at += 1
    while text[at] != '"':
        at += 2 if text[at] == "\\" else 1
    return at + 1


def _behind_space(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return at if found is None else found.end()
