"""Memory that is laid out alike in each run: Linux leaves out its randomization for a process that asks for it."""

from __future__ import annotations

import ctypes
import sys
from contextlib import suppress

#: Of Linux' ``personality``: what reads it, and the bit that leaves the randomization out.
_READ, _ADDR_NO_RANDOMIZE = 0xFFFFFFFF, 0x0040000


def lay_out_alike() -> None:
    """Make this process, and all that it starts, lay out memory alike from its next ``exec`` on."""
    with suppress(OSError, AttributeError):
        personality = ctypes.CDLL(None).personality
        personality(personality(_READ) | _ADDR_NO_RANDOMIZE)


def why_not() -> str:
    """Return the reason why addresses cannot be held here; empty if they can."""
    if not sys.platform.startswith("linux"):
        return "addresses can be held on Linux alone"
    try:
        personality = ctypes.CDLL(None).personality
        was = personality(_READ)
        personality(was | _ADDR_NO_RANDOMIZE)
        can = personality(_READ) & _ADDR_NO_RANDOMIZE
        personality(was)
    except (OSError, AttributeError):
        can = 0
    return "" if can else "this container does not allow processes without address randomization"
