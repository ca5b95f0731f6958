"""Was a generator seeded with a number that is another one in every process? Imports neither torch nor NumPy.

Three witnesses: the code that seeds, where the number can come from nowhere else; the number itself, where it is what
a clock shows; both together, where the code has another branch. A number that is written in the code, or that none of
them speaks of, is the program's own.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from types import FrameType

from tracer.names import NumberSource
from tracer.recording.program_text.seed_code import Code, Held, read_seed

#: Ticks in a second of the clocks that programs read.
_UNITS = (1, 10**3, 10**6, 10**9)
#: The process began before this package did, by no more than this many seconds.
_BEFORE_US = 120.0
_BEGAN = time.time() - _BEFORE_US
#: A number that a remainder made small again is held against so many seconds before now.
_RECENT = 60.0
#: By no more than this share of all remainders: chance would otherwise find the clock in a constant.
_SHARE = 20_000
_SMALLEST_REMAINDER = 500
_FRAMES = 8
_KEPT = 512

_Chain = tuple[tuple[object, int], ...]
_known: dict[tuple[_Chain, int | str], Code] = {}
_borne_out: dict[float, NumberSource] = {}
"""Numbers that said themselves where they came from: one number seeds several generators, and the clock goes on."""


def source_of(
    value: object,
    frame: FrameType | None,
    position: int | str = 0,
    *,
    was_taken: Callable[[str, int, int], bool] = lambda file, first, last: False,
) -> NumberSource | None:
    """What the seed ``value`` was made from; ``None`` for a number of the program's own.

    ``frame`` makes the call that seeds, with ``value`` at ``position``. ``was_taken`` tells whether lines of a file
    took some of the machine's entropy.
    """
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        value = None
    if value is not None and _shows_now(value):
        return NumberSource.CLOCK
    if frame is None:
        return None
    code = _code_at(frame, position)
    for held in code.held:
        if held.is_certain:
            return held.source
    if value in code.constants or (value is not None and str(value) in sys.argv):
        return None
    remembered = _borne_out.get(value) if value is not None else None
    if remembered is not None and any(held.source is remembered for held in code.held):
        return remembered
    source = next((held.source for held in code.held if _bears_out(value, held, code, was_taken)), None)
    if source is not None and value is not None:
        _borne_out[value] = source
    return source


def _code_at(frame: FrameType, position: int | str) -> Code:
    """What the code says, read once for each way that leads here."""
    key = (tuple(_chain(frame)), position)
    code = _known.get(key)
    if code is None:
        if len(_known) >= _KEPT:
            _known.clear()
        try:
            code = read_seed(frame, position)
        except (RecursionError, ValueError, AttributeError, TypeError):  # code that was made up as it ran
            code = Code((), frozenset())
        _known[key] = code
    return code


def _chain(frame: FrameType | None) -> Iterator[tuple[object, int]]:
    for _ in range(_FRAMES):
        if frame is None:
            return
        yield frame.f_code, frame.f_lasti
        frame = frame.f_back


def _shows_now(value: float) -> bool:
    """Is it the time of day, in a unit that a clock counts in, since this process began?"""
    now = time.time()
    return any(_BEGAN * unit <= value <= (now + 1) * unit for unit in _UNITS)


def _bears_out(value: object, held: Held, code: Code, was_taken: Callable[[str, int, int], bool]) -> bool:
    """Does the number itself say that it came by this branch of the code?"""
    if held.source is NumberSource.ENTROPY:
        return was_taken(held.file, *held.lines)
    if not isinstance(value, int):
        return False
    if held.source is NumberSource.PROCESS_ID:
        return value in (os.getpid(), os.getppid())
    return held.source is NumberSource.CLOCK and _is_remainder_of_now(value, code.constants)


def _is_remainder_of_now(value: int, constants: frozenset[int]) -> bool:
    """Is it what a clock showed a moment ago, less whole multiples of a number that the code names?"""
    for clock in (time.time(), time.perf_counter(), time.monotonic()):
        for unit in _UNITS:
            for modulus in constants:
                for bound in (modulus, modulus + 1):  # `% m`, `& (m - 1)`
                    window = min(_RECENT * unit, bound / _SHARE)
                    if bound >= _SMALLEST_REMAINDER and (int(clock * unit) - value) % bound <= window:
                        return True
    return False
