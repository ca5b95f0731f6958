"""The states of generators of random numbers, read without a call of a method that copies them word by word.

A state is two parts, joined by a dot: what it was seeded with, as far as the state tells, and all of it.
"""

from __future__ import annotations

import ctypes
import random
import struct
import sys
from collections.abc import Iterator
from functools import cache
from typing import Any

import xxhash

from tracer.trace.lines import GENERATOR

#: Words of a Mersenne Twister. Its position is this where it was just seeded, and smaller once it has drawn.
_WORDS = 624
_SIZE = 4 * (_WORDS + 1)


def generators() -> Iterator[tuple[str, str]]:
    """Yield the states of the global generators of Python, NumPy and torch, by name."""
    own, numpy, torch = (sys.modules.get(name) for name in ("random", "numpy.random.mtrand", "torch"))
    if (inst := getattr(own, "_inst", None)) is not None:
        yield f"{GENERATOR}python", of_pythons(inst)
    if (hidden := getattr(numpy, "_rand", None)) is not None:
        yield f"{GENERATOR}numpy", of_numpys(hidden)
    if (default := getattr(torch, "default_generator", None)) is not None and hasattr(torch, "nn"):
        yield f"{GENERATOR}torch", _of_torchs(default)
        cuda = getattr(torch, "cuda", None)
        if getattr(cuda, "_initialized", False):
            for number, generator in enumerate(getattr(cuda, "default_generators", ())):
                yield f"{GENERATOR}cuda:{number}", _of_torchs(generator)


def of_pythons(generator: Any) -> str:
    """The state of a ``random.Random``."""
    if not _has_known_layout():
        words, gauss = generator.getstate()[1:]
        return _spelled(repr(words).encode(), (words[-1], *words[:2]), gauss)
    data = ctypes.string_at(id(generator) + object.__basicsize__, _SIZE)
    return _spelled(data, struct.unpack_from("3I", data), generator.gauss_next)


def of_numpys(generator: Any) -> str:
    """The state of a ``RandomState`` of NumPy's; a number of a pair that it keeps for the next draw is left out."""
    bits = generator._bit_generator
    if type(bits).__name__ == "MT19937":
        data = ctypes.string_at(bits.ctypes.state_address, _SIZE)
        return _spelled(data, struct.unpack("I", data[-4:]) + struct.unpack_from("2I", data))
    return "." + xxhash.xxh3_64_hexdigest(repr(bits.state).encode())


def _spelled(data: bytes, words: tuple[int, ...], gauss: Any = None) -> str:
    """``words``: its position and the first two, by which one that has drawn all is told from one that is seeded."""
    position, first, second = words
    digest = xxhash.xxh3_64_hexdigest(data if gauss is None else data + repr(gauss).encode())
    by_number = position == _WORDS and second == (1812433253 * (first ^ first >> 30) + 1) & 0xFFFFFFFF
    by_several = position in (_WORDS, _WORDS - 1) and first == 1 << 31  # NumPy's own, unless it was seeded: one less
    return f"{digest if by_number or by_several else ''}.{digest}"


def _of_torchs(generator: Any) -> str:
    from tracer.recording.randomness.generators import state_of

    return f"{generator.initial_seed():x}.{xxhash.xxh3_64_hexdigest(state_of(generator))}"


@cache
def _has_known_layout() -> bool:
    """Whether a generator of Python's lies in memory as its position and its words."""
    probe = random.Random(1)
    probe.random()
    words = probe.getstate()[1]
    data = ctypes.string_at(id(probe) + object.__basicsize__, _SIZE) if sys.implementation.name == "cpython" else b""
    return data == b"".join(word.to_bytes(4, sys.byteorder) for word in (words[-1], *words[:-1]))
