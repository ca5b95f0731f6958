"""Writes values of a trace as Python literals, safe to stand in a program or a line to paste."""

from __future__ import annotations

import math

#: No op takes larger numbers; Python refuses to write those of thousands of digits.
_LARGEST = 2**64


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
