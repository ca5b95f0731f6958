"""Memory in huge pages: a fork copies an entry for each page, and a process of tests has some hundred thousand."""

from __future__ import annotations

import ctypes
from pathlib import Path

_HUGE = 2 << 20
_COLLAPSE = 25  # MADV_COLLAPSE; Linux before 6.1 says that it knows no such advice, and all stays as it is
_MAPS = Path("/proc/self/maps")


def gather() -> None:
    """Have what this process allocated so far lie in huge pages, where the system can do that."""
    if not _MAPS.exists():
        return
    madvise = ctypes.CDLL(None).madvise
    for line in _MAPS.read_text(encoding="utf-8").splitlines():
        place, kind, _, _, _, *name = line.split(maxsplit=5)
        if kind == "rw-p" and name in ([], ["[heap]"]):
            start, end = (int(one, 16) for one in place.split("-"))
            for at in range(-(-start // _HUGE) * _HUGE, end - _HUGE + 1, _HUGE):
                madvise(ctypes.c_void_p(at), ctypes.c_size_t(_HUGE), _COLLAPSE)
