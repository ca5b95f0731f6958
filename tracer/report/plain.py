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


def _written_out(match: re.Match[str]) -> str:
    code = ord(match.group())
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
