"""``seams``, continued: torch's private names behind its process-wide settings and its starts, each feature-tested.

Checked on torch 2.4.1 and 2.13.0.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import torch

from tracer.recording.patching import held_by

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
    original = held_by(torch._C, setter)
    faces = [(torch, setter), *((one, "setter") for one in vars(type(torch.backends.cudnn)).values())]
    return [(torch._C, setter), *(holder for holder in faces if held_by(*holder) is original)]


def start_of_cuda() -> Callable[[], None] | None:
    """What starts CUDA for this process, called by whoever needs it."""
    start: Callable[[], None] | None = getattr(torch.cuda, "_lazy_init", None)
    return start


def process_group_starts() -> list[list[tuple[Any, str]]]:
    """What holds each function that makes process groups, where ``torch.distributed`` is loaded and built."""
    made_in = sys.modules.get("torch.distributed.distributed_c10d")
    face = sys.modules.get("torch.distributed")
    found = []
    for name in ("init_process_group", "new_group"):
        original = held_by(made_in, name)
        if original is not None:
            found.append([(one, name) for one in (made_in, face) if held_by(one, name) is original])
    return found


def forces_eager() -> bool:
    """Is Dynamo told to run everything eagerly, by its stance (2.6 and newer) or its configuration?"""
    stance = getattr(sys.modules.get("torch._dynamo.eval_frame"), "_stance", None)
    is_disabled = getattr(sys.modules.get("torch._dynamo.config"), "disable", False)
    return getattr(stance, "stance", "") == "force_eager" or is_disabled is True


def disable_dynamo() -> None:
    """Have Dynamo, once it is loaded, leave every frame alone: what releases before 2.6 have in place of a stance."""
    sys.modules["torch._dynamo.config"].disable = True  # type: ignore[attr-defined]
