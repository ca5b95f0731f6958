"""Where a tensor's memory leaves for code that dispatches nothing: an address, an array, a storage.

The few methods of ``torch.Tensor`` that hand it out tell when they are asked for, and are handed out themselves: who
looks for one in a dictionary, or compares it, finds the very method.
"""

from __future__ import annotations

from typing import Any

import torch

from tracer.recording.memory.unwritten import Memory
from tracer.recording.patching import Call
from tracer.recording.watchers import Target, Watchers

#: ``storage``, ``share_memory_`` and pickling go through ``untyped_storage``; ``__array__`` through ``numpy``.
_METHODS = ("data_ptr", "numpy", "untyped_storage", "tolist", "apply_", "map_", "map2_", "__dlpack__")


def _asked(memory: Memory, tensor: Any) -> None:
    """A method was asked of ``tensor``, or of its class: then it may be called on any."""
    if memory.live:
        if tensor is None:
            memory.give_up_all()
        else:
            memory.escaped(tensor)


def _exported(memory: Memory, call: Call) -> None:
    if memory.live:
        memory.escaped(call.first)


#: The replacements of this process.
ESCAPES: Watchers[Memory] = Watchers(
    lambda: [
        *(Target([(torch.Tensor, name)], asked=_asked) for name in _METHODS),
        Target([(torch, "to_dlpack"), (torch.utils.dlpack, "to_dlpack")], before=_exported),
    ]
)
