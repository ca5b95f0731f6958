"""Where a tensor's memory escapes to code that dispatches nothing: an address, an array, a storage.

The methods of ``torch.Tensor`` that hand it out are noticed when they are looked up, and stay what they are: whoever
looks one up in a dictionary, or compares it, gets torch's own method.
"""

from __future__ import annotations

import os
import sys
from types import FrameType
from typing import Any

import torch

from tracer.recording.storage.registry import StorageRegistry
from tracer.recording.watchers import Target, Watchers

#: ``storage``, ``share_memory_`` and pickling go through ``untyped_storage``; ``__array__`` through ``numpy``.
_METHODS = ("data_ptr", "numpy", "untyped_storage", "tolist", "apply_", "map_", "map2_", "__dlpack__")

_SUBCLASSES = os.path.join(os.path.dirname(torch.__file__), "_subclasses")
_DESCRIBES = os.path.join(_SUBCLASSES, "meta_utils.py")
_FAKES = os.path.join(_SUBCLASSES, "fake_tensor.py")
#: At most so many frames of the watch itself lie between the look-up of a method and the code that looks it up.
_MOST_FRAMES = 5


def _asked(registry: StorageRegistry, tensor: Any) -> None:
    """A method was looked up on ``tensor``, or on its class (``None``): then it may be called on any tensor."""
    if registry.live:
        if tensor is None:
            registry.give_up_all()
        elif not _is_described():
            registry.escaped(tensor)


def _is_described() -> bool:
    """Does torch ask for a storage's size: to compile for such tensors, or for a fake view of a fake tensor?"""
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


#: The replacements of this process.
ESCAPES: Watchers[StorageRegistry] = Watchers(
    lambda: [
        *(Target([(torch.Tensor, name)], asked=_asked) for name in _METHODS),
        Target(
            [(torch, "to_dlpack"), (torch.utils.dlpack, "to_dlpack")],
            before=lambda registry, call: registry.escaped(call.first),
        ),
    ]
)
