"""What differs between two plain runs by chance now and then, and here in every run: where objects lie, when threads
switch.

Runs that are started one after the other often lay out their objects alike, down to the order of a set of them, and
agree although the next one would not. So Python's memory for small objects is given holes, in which the program's
objects come to lie. Tensors and arrays have their numbers in other memory, and are aligned as they were.
"""

from __future__ import annotations

import random
import sys

#: Sizes of small objects, in bytes, and bytes of each size among which the holes are.
_SIZES, _BYTES = range(48, 513, 16), 3 << 14
#: The default interval times these.
_INTERVALS = (1.0, 0.2, 3.0)
_HEADER = sys.getsizeof(b"")
#: Between these blocks are the holes, for as long as the process lives.
_KEPT: list[bytes] = []


def move_objects(number: int) -> None:
    """Put the program's objects elsewhere than other runs do; run 0 has them where they come."""
    if not number:
        return
    chosen, kept = random.Random(number), []
    for size in _SIZES:
        blocks = [bytes(size - _HEADER) for _ in range(_BYTES // size)]
        chosen.shuffle(blocks)
        kept += blocks[::2]
        while blocks:  # in this order the holes are filled later
            blocks.pop()
    _KEPT.extend(kept)


def switch_threads_otherwise(number: int) -> None:
    """Let Python switch threads sooner or later than in run ``number - 1``; as ever in run 0."""
    sys.setswitchinterval(sys.getswitchinterval() * _INTERVALS[number % len(_INTERVALS)])
