"""Digests of digests and of texts."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from typing import Any

import xxhash


def fold(digests: Iterable[int]) -> int:
    """One digest of several, which depends on their order: 0 of none, itself of one."""
    if type(digests) is list and len(digests) == 1:
        return digests[0]  # type: ignore[no-any-return]
    row = array("Q", digests)
    if not row:
        return 0
    return row[0] if len(row) == 1 else xxhash.xxh3_64_intdigest(row.tobytes())


def text_digest(text: str) -> int:
    """The digest of a text; never 0, which says that there is none."""
    return xxhash.xxh3_64_intdigest(text.encode("utf-8", "surrogatepass")) or 1


#: Separates the numbers among a call's arguments from the parts of tensors that it reads.
_PARTS = " | "


def spelt_places(places: Iterable[Sequence[Any]]) -> str:
    """The parts of tensors that a call reads, in words: the end of the text of its numbers."""
    parts = [
        f"{name} of {'x'.join(map(str, sizes)) or '1'}{f' from {offset}' if offset >= 0 else ''}"
        for name, offset, *sizes in places
    ]
    return _PARTS + ", ".join(parts) if parts else ""


def without_places(text: str) -> str:
    """The numbers alone."""
    return text.partition(_PARTS)[0]


def places_of(text: str) -> str:
    """The parts of tensors alone."""
    return text.partition(_PARTS)[2]
