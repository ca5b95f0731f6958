"""Other bytes in the memory that a trial is given fresh: what a kernel leaves unwritten then differs between trials.

Memory of the size of each result is taken, filled and given back at once: the allocator of a device hands it out again,
that of the host mostly does. What it does not reach stays as it was, so this finds some reads of unwritten memory, not
all.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

#: The bytes, in turn: no two neighbours agree, and none is what zeroed memory holds.
BYTES = (0x55, 0xAA, 0x3C, 0xC3, 0xFF)


def byte_of(trial: int) -> int:
    """What fresh memory holds in a trial."""
    return BYTES[trial % len(BYTES)]


def fill_what_is_next(results: Sequence[torch.Tensor], byte: int) -> None:
    """Have the allocator's next memory of the size of each of ``results`` hold ``byte``."""
    taken = [
        torch.empty(size, dtype=torch.uint8, device=one.device).fill_(byte)
        for one in results
        if one.layout is torch.strided and (size := one.numel() * one.element_size())
    ]
    taken.clear()
