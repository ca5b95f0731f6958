"""``seams``, continued: torch's private names behind its process-wide settings and its starts, each feature-tested.

Checked on torch 2.4.1 and 2.13.0.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import torch

#: What users call the setting whose value takes two questions to read.
DETERMINISTIC_MODE = "torch.use_deterministic_algorithms"

#: Settings as users write them, what sets each in ``torch._C``, and what reads it there. All that a release offers to
#: set them goes through these functions (torch 2.4 to 2.13).
_SETTINGS = (
    (DETERMINISTIC_MODE, "_set_deterministic_algorithms", "_get_deterministic_algorithms"),
    (
        "torch.utils.deterministic.fill_uninitialized_memory",
        "_set_deterministic_fill_uninitialized_memory",
        "_get_deterministic_fill_uninitialized_memory",
    ),
    ("torch.backends.cudnn.enabled", "_set_cudnn_enabled", "_get_cudnn_enabled"),
    ("torch.backends.cudnn.benchmark", "_set_cudnn_benchmark", "_get_cudnn_benchmark"),
    ("torch.backends.cudnn.deterministic", "_set_cudnn_deterministic", "_get_cudnn_deterministic"),
    ("torch.backends.cudnn.allow_tf32", "_set_cudnn_allow_tf32", "_get_cudnn_allow_tf32"),
    ("torch.backends.cuda.matmul.allow_tf32", "_set_cublas_allow_tf32", "_get_cublas_allow_tf32"),
    (
        "torch.backends.cuda.matmul.allow_fp16_accumulation",
        "_set_cublas_allow_fp16_accumulation",
        "_get_cublas_allow_fp16_accumulation",
    ),
    (
        "torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction",
        "_set_cublas_allow_fp16_reduced_precision_reduction",
        "_get_cublas_allow_fp16_reduced_precision_reduction",
    ),
    (
        "torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction",
        "_set_cublas_allow_bf16_reduced_precision_reduction",
        "_get_cublas_allow_bf16_reduced_precision_reduction",
    ),
    ("torch.set_float32_matmul_precision", "_set_float32_matmul_precision", "_get_float32_matmul_precision"),
    ("torch.set_num_threads", "set_num_threads", "get_num_threads"),
    ("torch.backends.cuda.enable_flash_sdp", "_set_sdp_use_flash", "_get_flash_sdp_enabled"),
    ("torch.backends.cuda.enable_mem_efficient_sdp", "_set_sdp_use_mem_efficient", "_get_mem_efficient_sdp_enabled"),
    ("torch.backends.cuda.enable_math_sdp", "_set_sdp_use_math", "_get_math_sdp_enabled"),
    ("torch.backends.cuda.enable_cudnn_sdp", "_set_sdp_use_cudnn", "_get_cudnn_sdp_enabled"),
)


def settings() -> list[tuple[str, str, Callable[[], Any]]]:
    """Name, setter and reader of each setting whose two functions this torch has."""
    return [
        (name, setter, getattr(torch._C, getter))
        for name, setter, getter in _SETTINGS
        if hasattr(torch._C, setter) and hasattr(torch._C, getter)
    ]


def holders_of(setter: str) -> list[tuple[Any, str]]:
    """Where a setter of ``torch._C`` is kept: there, in ``torch`` itself, and in the properties of cuDNN's module."""
    original = getattr(torch._C, setter)
    held: list[tuple[Any, str]] = [(torch._C, setter)]
    if vars(torch).get(setter) is original:
        held.append((torch, setter))
    for one in vars(type(torch.backends.cudnn)).values():
        if getattr(one, "__dict__", {}).get("setter") is original:
            held.append((one, "setter"))
    return held


def start_of_cuda() -> Callable[[], None] | None:
    """What starts CUDA for this process, called by whoever needs it."""
    start: Callable[[], None] | None = getattr(torch.cuda, "_lazy_init", None)
    return start


def process_group_starts() -> list[tuple[Callable[..., Any], list[tuple[Any, str]]]]:
    """What makes process groups, with everything that holds it, where ``torch.distributed`` is loaded and built."""
    made_in = sys.modules.get("torch.distributed.distributed_c10d")
    face = sys.modules.get("torch.distributed")
    found = []
    for name in ("init_process_group", "new_group"):
        original = vars(made_in).get(name) if made_in is not None else None
        if callable(original):
            holders = [(one, name) for one in (made_in, face) if one is not None and vars(one).get(name) is original]
            found.append((original, holders))
    return found
