"""Fresh memory that holds other bytes, so that what reads it unwritten gives itself away.

On the CPU glibc fills what it hands out and takes back, told by a variable as the process starts; a process that runs
already is told as well. On CUDA the caching allocator is given blocks that were written, and hands them out: as soon as
the program itself starts CUDA, so that nothing starts earlier than it would. On an H100
that told a read of unwritten memory.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping
from contextlib import suppress

from tracer.runner.imports import when_imported

VARIABLE = "MALLOC_PERTURB_"
#: Bytes that are freed are filled with this one, bytes that are handed out with its complement.
_BYTES = ("170", "85")
_M_PERTURB = -6  # malloc.h of glibc

#: Blocks of CUDA's that are filled: the allocator keeps small ones and large ones apart.
_SMALL, _SMALL_BLOCKS = 512 * 1024, 256
_LARGE = 1 << 30


def other_byte(environ: Mapping[str, str]) -> str:
    """What to set the variable to, other than it is."""
    return _BYTES[0] if environ.get(VARIABLE) != _BYTES[0] else _BYTES[1]


def fill_fresh_memory() -> None:
    """Have fresh memory filled from now on, by the byte that the variable says."""
    with suppress(OSError, AttributeError, ValueError):
        ctypes.CDLL(None).mallopt(_M_PERTURB, int(os.environ.get(VARIABLE, _BYTES[0])))
    when_imported("torch", _fill_when_cuda_starts)


def _fill_when_cuda_starts() -> None:
    import torch

    queue = getattr(torch.cuda, "_lazy_call", None)
    if queue is not None and torch.version.cuda is not None:
        queue(_fill_device)


def _fill_device() -> None:
    import torch

    from tracer.recording.stepping_aside import without_recording

    with without_recording(), suppress(RuntimeError):  # CUDA starts as the program runs; a device may be full already
        free, _ = torch.cuda.mem_get_info()
        sizes = [_SMALL] * _SMALL_BLOCKS + [_LARGE] * (free // 2 // _LARGE)
        blocks = [torch.full((size,), int(_BYTES[1]), dtype=torch.uint8, device="cuda") for size in sizes]
        del blocks
