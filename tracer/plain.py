"""Text that is safe: to show, to print on standard error, to write as a Python literal. Names may hold anything.

A lone surrogate crashes every encoder, an escape sequence drives a terminal, and a bidirectional override disguises a
line. All become visible escapes; letters of every script stay as they are.
"""

from __future__ import annotations

import math
import re
import sys
from contextlib import suppress
from typing import Any, TextIO

# Patterns are texts: `re` compiles and keeps each where it is first used, and most runs use none.
#: C0 and C1 controls but tab and newline, DEL, bidirectional controls, line and paragraph separators, the
#: byte order mark, lone surrogates, and the two noncharacters that XML and HTML refuse.
_UNSAFE = "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff\ufffe\uffff]"
#: A place's last part, which says little in pieces: ``.py:102``.
LINE_NUMBER = r"\.[A-Za-z]\w{0,4}:\d+"
#: Where a long name may be broken: after a separator, but not before or in a line number.
_PIECE = rf"[^/._]*{LINE_NUMBER}[^/._]*|[^/._]*[/._]+|[^/._]+"
_SURROGATE = "[\ud800-\udfff]"
#: No op takes larger numbers; Python refuses to write those of thousands of digits.
_LARGEST = 2**64


def visible(text: str) -> str:
    r"""``text`` with everything that could act instead of being read written out, ``\x1b`` or ``\u202e``."""
    if text.isascii() and text.isprintable():
        return text
    return re.sub(_UNSAFE, _written_out, text)


def encodable(text: str) -> str:
    """``text`` with lone surrogates written out, and nothing else changed: what UTF-8 can hold."""
    return text if text.isascii() else re.sub(_SURROGATE, _written_out, text)


def json_text(value: Any, *, indent: int = 2) -> str:
    r"""``value`` as indented JSON, ``\u`` and a number in place of what could act on a terminal.

    A lone surrogate, which only a file's name can hold and JSON cannot, is spelt as ``encodable`` spells it.
    """
    import msgspec

    try:
        data = msgspec.json.encode(value)
    except UnicodeEncodeError:
        data = msgspec.json.encode(all_encodable(value))
    text = msgspec.json.format(data, indent=indent).decode("utf-8")
    return text if text.isascii() else re.sub(_UNSAFE, lambda match: f"\\u{ord(match.group()):04x}", text)


def json_lines(value: Any, depth: int, indent: str = "") -> str:
    """``value`` as JSON of which what lies below ``depth`` takes one line each: for files that people compare."""
    import json

    inner = f"{indent} "
    if not depth or not value or not isinstance(value, dict | list):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, list):
        rows, opening, closing = [json_lines(entry, depth - 1, inner) for entry in value], "[", "]"
    else:
        rows = [f"{json.dumps(key)}: {json_lines(entry, depth - 1, inner)}" for key, entry in value.items()]
        opening, closing = "{", "}"
    return f"{opening}\n{inner}" + f",\n{inner}".join(rows) + f"\n{indent}{closing}"


def all_encodable(value: Any) -> Any:
    """``value`` made of plain dictionaries and lists, and every string in it ``encodable``."""
    import msgspec

    def spelt(part: Any) -> Any:
        if isinstance(part, str):
            return encodable(part)
        if isinstance(part, dict):
            return {spelt(key): spelt(item) for key, item in part.items()}
        return [spelt(item) for item in part] if isinstance(part, (list, tuple)) else part

    return spelt(msgspec.to_builtins(value, builtin_types=(bytes,)))


def one_line(text: str, limit: int | None = None) -> str:
    """``visible(text)`` on one line, whole words of its middle left out where it is longer than ``limit``."""
    line = " ".join(visible(text).split())
    if limit is None or len(line) <= limit:
        return line
    first, last = line[: (limit - 1) // 2], line[len(line) - limit // 2 :]
    if " " in first[len(first) // 2 :] and " " in last[: len(last) // 2]:
        first, last = first.rpartition(" ")[0], last.partition(" ")[2]
    return f"{first}…{last}"


def breaks(text: str, width: int) -> list[int]:
    """Return where to break the words of ``text`` that exceed ``width``: after a separator, if there is one."""
    places: list[int] = []
    for word in re.finditer(rf"\S{{{width + 1},}}", text):
        start = word.start()
        for piece in re.compile(_PIECE).finditer(text, *word.span()):
            if piece.end() - start > width and piece.start() > start:
                places.append(start := piece.start())
    return places


class LaidOut(str):
    """Text whose every word is ``visible`` already, and whose colours are ours: it may be printed as it is."""

    __slots__ = ()


def is_terminal(stream: TextIO | None) -> bool:
    """Return whether ``stream`` is a terminal. ``None`` is a standard stream that the shell closed."""
    try:
        return stream is not None and stream.isatty()
    except ValueError:  # closed since
        return False


def say(line: str) -> None:
    """Print ``line`` on standard error, ``visible``; nothing where somebody closed it."""
    if line and sys.stderr is not None:
        with suppress(OSError, ValueError):
            print(visible(line), file=sys.stderr, flush=True)


def _written_out(match: re.Match[str]) -> str:
    code = ord(match.group())
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def literal(value: object) -> str:
    """The Python literal of a plain value, or of a list of them; ``ValueError`` for anything else.

    The expression evaluates to ``value`` whatever text it holds, and holds nothing that acts on a terminal or ends a
    line. Text stands between double quotes if that needs no escape.
    """
    kind = type(value)
    if isinstance(value, str):
        written = repr(str(value))
        return f'"{written[1:-1]}"' if written[0] == "'" and '"' not in written else written
    if isinstance(value, list):
        return f"[{', '.join(map(literal, value))}]"
    if kind is int and not -_LARGEST < value < _LARGEST:  # type: ignore[operator]
        raise ValueError("a number that no op takes")
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value!r}")'
    if isinstance(value, complex):
        return f"complex({literal(value.real)}, {literal(value.imag)})"
    if kind in (bool, int, float, type(None)):
        return repr(value)
    raise ValueError(f"something that is no plain value, of type {kind.__name__}")
