"""Fresh memory that holds other bytes, so that what reads it unwritten gives itself away, or zeros.

On the CPU glibc fills what it hands out and takes back, told by a variable as the process starts; a process that runs
already is told as well. On CUDA the caching allocator is given blocks that were written, and hands them out: as soon as
the program itself starts CUDA, so that nothing starts earlier than it would. On an H100
that told a read of unwritten memory.
"""

from __future__ import annotations

import ctypes
import os
import platform
from collections.abc import Mapping
from contextlib import suppress

from tracer.runner.imports import when_imported

VARIABLE = "MALLOC_PERTURB_"
#: Of glibc: what a thread took back lately would be handed out as it is.
_TUNABLES, _NO_CACHE = "GLIBC_TUNABLES", "glibc.malloc.tcache_count=0"
#: Bytes that are freed are filled with this one, bytes that are handed out with its complement.
_BYTES = ("170", "85")
#: Bytes that are handed out are zeros.
ZEROS = "255"
_M_PERTURB = -6  # malloc.h of glibc

#: Blocks of CUDA's that are filled: the allocator keeps small ones and large ones apart.
_SMALL, _SMALL_BLOCKS = 512 * 1024, 256
_LARGE = 1 << 30


def other_byte(environ: Mapping[str, str]) -> str:
    """Return another value for the variable than it has."""
    return _BYTES[0] if environ.get(VARIABLE) != _BYTES[0] else _BYTES[1]


def variables(environ: Mapping[str, str], byte: str) -> dict[str, str]:
    """Return the variables by which glibc fills all that it hands out from the start of a process."""
    tunables = [tunable for tunable in (environ.get(_TUNABLES, ""), _NO_CACHE) if tunable]
    return {VARIABLE: byte, _TUNABLES: ":".join(tunables)}


def why_not() -> str:
    """Return the reason why fresh memory on the CPU stays as it is; empty if it is filled."""
    is_glibc = platform.libc_ver()[0] == "glibc"
    return "" if is_glibc else "fresh memory on the CPU can be filled with glibc alone; that of CUDA's allocator was"


def fill_fresh_memory(byte: str = "") -> None:
    """Fill fresh memory from now on with ``byte``, or else the byte that the variable names."""
    number = int(byte or os.environ.get(VARIABLE, _BYTES[0]))
    with suppress(OSError, AttributeError, ValueError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_M_PERTURB, number)
    when_imported("torch", lambda: _fill_when_cuda_starts(number ^ 255))


def _fill_when_cuda_starts(byte: int) -> None:
    import torch

    queue = getattr(torch.cuda, "_lazy_call", None)
    if queue is not None and torch.version.cuda is not None:
        queue(lambda: _fill_device(byte))


def _fill_device(byte: int) -> None:
    import torch

    from tracer.recording.torch_private.seams import without_recording

    with without_recording(), suppress(RuntimeError):  # CUDA starts as the program runs; a device may be full already
        free, _ = torch.cuda.mem_get_info()
        sizes = [_SMALL] * _SMALL_BLOCKS + [_LARGE] * (free // 2 // _LARGE)
        blocks = [torch.full((size,), byte, dtype=torch.uint8, device="cuda") for size in sizes]
        del blocks
