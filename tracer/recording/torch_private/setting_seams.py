"""``seams``, continued: settings of the process and its starts. Checked on torch 2.4.1 and 2.13.0."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from tracer.recording.patching import held_by
from tracer.tables.settings.declared import DECLARED, Setting


def settings() -> list[tuple[Setting, Callable[[], Any]]]:
    """Each declared setting that can be watched, with its reader, if this torch has the two functions."""
    return [
        (setting, getattr(torch._C, setting.watched[1]))
        for setting in DECLARED
        if all(name and hasattr(torch._C, name) for name in setting.watched)
    ]


def holders_of(setting: Setting) -> list[tuple[Any, str]]:
    """Return the holders of the setter of ``torch._C``: that module, ``torch``, the property that users assign to."""
    setter = setting.watched[0]
    original = held_by(torch._C, setter)
    faces: list[tuple[Any, str]] = [(torch, setter)]
    module = sys.modules.get(setting.made_by.rpartition(".")[0])
    if module is not None:
        faces += ((face, "setter") for face in vars(type(module)).values() if "setter" in getattr(face, "__dict__", ()))
    return [(torch._C, setter), *(holder for holder in faces if held_by(*holder) is original)]


#: Starts CUDA for this process, called by whoever needs it.
START_OF_CUDA = (torch.cuda, "_lazy_init")


def process_group_starts() -> list[list[tuple[Any, str]]]:
    """The holders of each function that makes process groups, if ``torch.distributed`` is loaded and built."""
    modules = [sys.modules.get(name) for name in ("torch.distributed.distributed_c10d", "torch.distributed")]
    names = [name for name in ("init_process_group", "new_group") if held_by(modules[0], name) is not None]
    return [[(owner, name) for owner in modules if held_by(owner, name) is held_by(modules[0], name)] for name in names]


_is_compilation_off = False


def switch_compilation_off() -> None:
    """Run compiled functions as they were written from now on (``tracer run --eager``); Dynamo must be loaded.

    The functions keep their wrappers, and so their parameters' names, and no variable is set that children inherit.
    """
    global _is_compilation_off
    _is_compilation_off = True
    if hasattr(torch.compiler, "set_stance"):  # torch 2.6 and newer
        torch.compiler.set_stance("force_eager")
    else:
        sys.modules["torch._dynamo.config"].disable = True  # type: ignore[attr-defined]


@contextmanager
def compilation_off() -> Iterator[None]:
    """``switch_compilation_off`` for the block (torch 2.6 and newer)."""
    global _is_compilation_off
    before, _is_compilation_off = _is_compilation_off, True
    try:
        with torch.compiler.set_stance("force_eager"):
            yield
    finally:
        _is_compilation_off = before


def is_compilation_off() -> bool:
    """Return whether code is eager because of ``switch_compilation_off``. The script may have undone it."""
    stance = getattr(sys.modules.get("torch._dynamo.eval_frame"), "_stance", None)
    is_disabled = getattr(sys.modules.get("torch._dynamo.config"), "disable", False)
    return _is_compilation_off and (getattr(stance, "stance", "") == "force_eager" or is_disabled is True)
