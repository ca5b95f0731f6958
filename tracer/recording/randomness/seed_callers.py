"""Who seeded a generator: the caller behind torch's own functions that only pass the call on."""

from __future__ import annotations

import os
from types import FrameType
from typing import NamedTuple

import torch

_TORCH = os.path.join(os.path.dirname(torch.__file__), "")
_DATA = os.path.join(_TORCH, "utils", "data", "")
DISTRIBUTED_SAMPLER = os.path.join(_DATA, "distributed.py")
TORCH_RANDOM = os.path.join(_TORCH, "random.py")
#: Torch's own functions that seed on behalf of whoever called them.
_ON_BEHALF = frozenset(
    {
        *("manual_seed", "_manual_seed_impl", "manual_seed_all", "_seed_custom_device", "seed", "seed_all", "cb"),
        *("set_rng_state", "set_rng_state_all", "_set_rng_state_offset", "_lazy_call", "_lazy_init", "fork_rng"),
    }
)
#: Files whose functions are wrapped around others: dynamo puts one around ``torch.manual_seed`` as it loads.
_WRAPPING = (
    os.path.join(_TORCH, "_dynamo", "eval_frame.py"),
    os.path.join(_TORCH, "_dynamo", "external_utils.py"),
    os.path.join(_TORCH, "_compile.py"),
    os.path.join(os.sep, "contextlib.py"),
    os.path.join("recording", "patching.py"),
)


class SeedCaller(NamedTuple):
    """Who called a method of a generator, behind torch's own functions that only pass the call on."""

    frame: FrameType | None
    functions: tuple[str, ...]
    """Names of those functions, innermost first."""
    through_torch_random: bool
    """Did ``torch.manual_seed`` or ``torch.seed`` pass it on to each kind of device?"""

    @property
    def file(self) -> str:
        return self.frame.f_code.co_filename if self.frame is not None else ""

    @property
    def is_torch(self) -> bool:
        """Was it torch's own idea: a sampler, a checkpoint, the compiler?"""
        return "fork_rng" in self.functions or self.file.startswith(_TORCH)


def seed_caller(frame: FrameType | None) -> SeedCaller:
    """Who called, from ``frame`` outwards."""
    functions = []
    through = False
    while frame is not None:
        code = frame.f_code
        is_passing_on = code.co_name in _ON_BEHALF and code.co_filename.startswith(_TORCH)
        if not is_passing_on and not code.co_filename.endswith(_WRAPPING):
            break
        if is_passing_on:
            functions.append(code.co_name)
            through |= code.co_filename == TORCH_RANDOM and code.co_name in (
                "seed",
                "manual_seed",
                "_manual_seed_impl",
            )
        frame = frame.f_back
    return SeedCaller(frame, tuple(functions), through)
