"""Digests of digests and of texts: how many become one."""

from __future__ import annotations

from array import array
from collections.abc import Iterable

import xxhash


def fold(digests: Iterable[int]) -> int:
    """One digest of several, in their order: 0 of none, itself of one.

    Order is part of it, so that two arguments that changed places are seen.
    """
    row = array("Q", digests)
    if not row:
        return 0
    return row[0] if len(row) == 1 else xxhash.xxh3_64_intdigest(row.tobytes())


def text_digest(text: str) -> int:
    """The digest of a text; never 0, which says that there is none."""
    return xxhash.xxh3_64_intdigest(text.encode("utf-8", "surrogatepass")) or 1
