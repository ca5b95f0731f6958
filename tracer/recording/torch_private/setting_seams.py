"""``seams``, continued: torch's private names behind its process-wide settings and its starts, each feature-tested.

Checked on torch 2.4.1 and 2.13.0.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import torch

from tracer.recording.patching import held_by
from tracer.tables.settings.declared import DECLARED, Setting


def settings() -> list[tuple[Setting, Callable[[], Any]]]:
    """Each declared setting that can be watched, with its reader, where this torch has the two functions."""
    return [
        (setting, getattr(torch._C, setting.watched[1]))
        for setting in DECLARED
        if all(name and hasattr(torch._C, name) for name in setting.watched)
    ]


def holders_of(setting: Setting) -> list[tuple[Any, str]]:
    """Where the setter of ``torch._C`` is kept: there, in ``torch`` itself, in the property that users assign to."""
    setter = setting.watched[0]
    original = held_by(torch._C, setter)
    faces: list[tuple[Any, str]] = [(torch, setter)]
    module = sys.modules.get(setting.made_by.rpartition(".")[0])
    if module is not None:
        faces += ((face, "setter") for face in vars(type(module)).values() if "setter" in getattr(face, "__dict__", ()))
    return [(torch._C, setter), *(holder for holder in faces if held_by(*holder) is original)]


def start_of_cuda() -> Callable[[], None] | None:
    """What starts CUDA for this process, called by whoever needs it."""
    start: Callable[[], None] | None = getattr(torch.cuda, "_lazy_init", None)
    return start


def process_group_starts() -> list[list[tuple[Any, str]]]:
    """What holds each function that makes process groups, where ``torch.distributed`` is loaded and built."""
    made_in = sys.modules.get("torch.distributed.distributed_c10d")
    face = sys.modules.get("torch.distributed")
    starts = []
    for name in ("init_process_group", "new_group"):
        original = held_by(made_in, name)
        if original is not None:
            starts.append([(holder, name) for holder in (made_in, face) if held_by(holder, name) is original])
    return starts


def forces_eager() -> bool:
    """Is Dynamo told to run everything eagerly, by its stance (2.6 and newer) or its configuration?"""
    stance = getattr(sys.modules.get("torch._dynamo.eval_frame"), "_stance", None)
    is_disabled = getattr(sys.modules.get("torch._dynamo.config"), "disable", False)
    return getattr(stance, "stance", "") == "force_eager" or is_disabled is True


def disable_dynamo() -> None:
    """Have Dynamo, once it is loaded, leave every frame alone: what releases before 2.6 have in place of a stance."""
    sys.modules["torch._dynamo.config"].disable = True  # type: ignore[attr-defined]
