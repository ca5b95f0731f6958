"""Making any string safe to show: names come from the user's code and may hold anything.

A lone surrogate crashes every encoder, an escape sequence drives a terminal, and a bidirectional override
makes a line read as what it is not. All become visible escapes; letters of every script stay as they are.
"""

from __future__ import annotations

import re

#: C0 and C1 controls but tab and newline, DEL, bidirectional controls, line and paragraph separators, the
#: byte order mark, lone surrogates, and the two noncharacters that XML and HTML refuse.
_UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff\ufffe\uffff]"
)
#: A place's last part, which says little in pieces: ``.py:102``.
LINE_NUMBER = re.compile(r"\.[A-Za-z]\w{0,4}:\d+")
#: Where a long name may be broken: after a separator, but not before or in a line number.
_PIECE = re.compile(rf"[^/._]*{LINE_NUMBER.pattern}[^/._]*|[^/._]*[/._]+|[^/._]+")
_SURROGATE = re.compile("[\ud800-\udfff]")


def visible(text: str) -> str:
    r"""``text`` with everything that could act instead of being read written out, ``\x1b`` or ``\u202e``."""
    if text.isascii() and text.isprintable():
        return text
    return _UNSAFE.sub(_written_out, text)


def encodable(text: str) -> str:
    """``text`` with lone surrogates written out, and nothing else changed: what UTF-8 can hold."""
    return text if text.isascii() else _SURROGATE.sub(_written_out, text)


def one_line(text: str, limit: int | None = None) -> str:
    """``visible(text)`` on one line, its middle left out where it is longer than ``limit`` characters."""
    line = " ".join(visible(text).split())
    if limit is None or len(line) <= limit:
        return line
    head = (limit - 1) // 2
    return f"{line[:head]}…{line[len(line) - (limit - 1 - head) :]}"


def breaks(text: str, width: int) -> list[int]:
    """Where to break the words of ``text`` that are longer than ``width``: after a separator, where one is."""
    found: list[int] = []
    for word in re.finditer(r"\S+", text):
        if len(word.group()) <= width:
            continue
        start = word.start()
        for piece in _PIECE.finditer(text, *word.span()):
            if piece.end() - start > width and piece.start() > start:
                found.append(start := piece.start())
    return found


def _written_out(match: re.Match[str]) -> str:
    code = ord(match.group())
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
