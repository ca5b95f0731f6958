"""Where a tensor's memory escapes to code that dispatches nothing: an address, an array, a storage.

The few methods of ``torch.Tensor`` that hand it out tell when they are asked for, and are handed out themselves: who
looks for one in a dictionary, or compares it, finds the very method.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from types import FrameType
from typing import Any, Protocol

import torch

from tracer.recording.patching import Call
from tracer.recording.watchers import Target, Watchers

#: ``storage``, ``share_memory_`` and pickling go through ``untyped_storage``; ``__array__`` through ``numpy``.
_METHODS = ("data_ptr", "numpy", "untyped_storage", "tolist", "apply_", "map_", "map2_", "__dlpack__")

_SUBCLASSES = os.path.join(os.path.dirname(torch.__file__), "_subclasses")
_DESCRIBES = os.path.join(_SUBCLASSES, "meta_utils.py")
_FAKES = os.path.join(_SUBCLASSES, "fake_tensor.py")
#: Between a method that is asked for and who asks: what tells of it.
_MOST_FRAMES = 5


class Listener(Protocol):
    """Listener to tensors whose memory is handed out, while it watches any."""

    @property
    def live(self) -> Mapping[int, object]:
        """What it watches."""

    def escaped(self, tensor: Any) -> None:
        """The memory of ``tensor`` is in other hands."""

    def give_up_all(self) -> None:
        """Any memory may be."""


def _asked(memory: Listener, tensor: Any) -> None:
    """A method was asked of ``tensor``, or of its class: then it may be called on any."""
    if memory.live:
        if tensor is None:
            memory.give_up_all()
        elif not _is_described():
            memory.escaped(tensor)


def _is_described() -> bool:
    """Does torch ask how great a storage is: to compile for such tensors, or to lay a fake view on a fake tensor's?"""
    frame: FrameType | None = sys._getframe(1)
    for _ in range(_MOST_FRAMES):
        if frame is None:
            return False
        if frame.f_code.co_filename == _DESCRIBES:
            return frame.f_code.co_name == "describe_tensor"
        if frame.f_code.co_filename == _FAKES:
            return True
        frame = frame.f_back
    return False


def _exported(memory: Listener, call: Call) -> None:
    if memory.live:
        memory.escaped(call.first)


#: The replacements of this process.
ESCAPES: Watchers[Listener] = Watchers(
    lambda: [
        *(Target([(torch.Tensor, name)], asked=_asked) for name in _METHODS),
        Target([(torch, "to_dlpack"), (torch.utils.dlpack, "to_dlpack")], before=_exported),
    ]
)
