"""Where a tensor's memory leaves for code that dispatches nothing: an address, an array, a storage.

The few methods of ``torch.Tensor`` that hand it out are replaced while recording by ones that take a note and call
them. Recorders share the replacements, so that they may end in any order.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from tracer.recording.memory.unwritten import Memory
from tracer.recording.torch_private import seams

#: ``storage``, ``share_memory_`` and pickling go through ``untyped_storage``; ``__array__`` through ``numpy``.
_METHODS = ("data_ptr", "numpy", "untyped_storage", "tolist", "apply_", "map_", "map2_", "__dlpack__")
_MODULES: tuple[Any, ...] = (torch, torch.utils.dlpack)


class _Escapes:
    """The replaced methods of the process, and who listens."""

    def __init__(self) -> None:
        self._listeners: list[Memory] = []
        self._undo: list[Callable[[], None]] = []

    def add(self, listener: Memory) -> None:
        """Tell ``listener`` of every tensor whose memory is handed out."""
        self._listeners.append(listener)
        if len(self._listeners) == 1:
            for name in _METHODS:
                self._replace(torch.Tensor, name)
            for module in _MODULES:
                self._replace(module, "to_dlpack")

    def discard(self, listener: Memory) -> None:
        """Tell ``listener`` no longer."""
        if listener in self._listeners:
            self._listeners.remove(listener)
        if not self._listeners:
            while self._undo:
                self._undo.pop()()

    def _replace(self, owner: Any, name: str) -> None:
        original = getattr(owner, name, None)
        if original is None:
            return
        has_own = name in vars(owner)
        listeners = self._listeners

        @functools.wraps(original, updated=())
        def noting(*args: Any, **kwargs: Any) -> Any:
            for listener in listeners:
                if listener.live and args:
                    listener.escaped(args[0])
            return original(*args, **kwargs)

        seams.skip_in_dynamo(noting)
        setattr(owner, name, noting)
        if has_own:
            self._undo.append(lambda: setattr(owner, name, original))
        else:
            self._undo.append(lambda: delattr(owner, name))


#: The replacements of this process.
ESCAPES = _Escapes()
