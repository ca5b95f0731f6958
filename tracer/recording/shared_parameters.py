"""Parameters that several processes change at once, as in Hogwild training: they lie in memory that these share.

Nobody has to be followed for it. What a process is handed, and what the program shares, is digested as processes start
and again as they are joined: bytes that changed while this process wrote nothing are the others'.
"""

from __future__ import annotations

import sys
import weakref
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import chain
from multiprocessing.connection import wait
from typing import Any

import torch
from torch.utils.weak import WeakIdKeyDictionary

from tracer.names import Overlap, Phase
from tracer.recording.origin.sites import Sites
from tracer.recording.patching import WatchedCall, WatchedFunction, Watchers
from tracer.recording.process.children import is_loader_worker
from tracer.recording.torch_private.storages import version_of
from tracer.trace.records import OverlapWrite


class SharedParameters:
    """Those of one recording."""

    def __init__(self, sites: Sites) -> None:
        self._sites = sites
        self._shared: Any = WeakIdKeyDictionary()
        """For each, the function and line that share it, and its state as a process started."""
        self._processes: weakref.WeakSet[Any] = weakref.WeakSet()
        self._are_several = False
        self._stepped: Any = WeakIdKeyDictionary()
        """Those that this process stepped itself while another one ran."""
        self._changed: Counter[tuple[str, str]] = Counter()

    def start(self) -> None:
        """Begin to watch."""
        _SHARING.add(self)

    def stop(self) -> None:
        """Stop watching."""
        self.look()
        _SHARING.discard(self)

    def process_starts(self, call: WatchedCall) -> None:
        """A process of ``multiprocessing`` is about to start."""
        process = call.first
        if not is_loader_worker(process):
            self._are_several = self._is_beside_others()
            self._processes.add(process)
            self.shares((*process._args, *process._kwargs.values()), "Process.start", call)
            for tensor, (shared_by, state) in list(self._shared.items()):
                if state is None or state[0] != version_of(tensor):
                    self._shared[tensor] = shared_by, _state(tensor)

    def shares(self, values: Iterable[Any], op: str, call: WatchedCall) -> None:
        """``op`` hands ``values`` to other processes: parameters, modules, lists of them."""
        for value in values:
            if isinstance(value, (list, tuple)):
                self.shares(value, op, call)
            elif isinstance(value, torch.nn.Module):
                self.shares(tuple(value.parameters()), op, call)
            elif isinstance(value, torch.Tensor) and value.is_leaf and value.requires_grad:
                self._shared.setdefault(value, ((op, self._sites.location(call.frame)), None))

    def _is_beside_others(self) -> bool:
        return any(not wait([other.sentinel], 0) for other in self._processes if other._popen is not None)

    def step_begins(self, optimizer: Any) -> None:
        """This process changes its parameters too: what others changed since it last did is noted."""
        if self._processes and self._is_beside_others():
            for tensor in chain.from_iterable(group["params"] for group in optimizer.param_groups):
                if tensor in self._shared:
                    self._stepped[tensor] = True
            self.look()

    def step_ended(self) -> None:
        """What this process wrote is no other's change."""
        for tensor in list(self._stepped):
            if tensor in self._shared:
                self._shared[tensor] = self._shared[tensor][0], _state(tensor)

    def look(self) -> None:
        """A process was waited for: notes what it and another one changed meanwhile."""
        for tensor, (shared_by, state) in list(self._shared.items()):
            if not self._are_several and tensor not in self._stepped:
                continue
            if state is not None and state[0] == version_of(tensor) and state != _state(tensor):
                self._changed[shared_by] += 1
                del self._shared[tensor]

    def listed(self) -> Iterator[OverlapWrite]:
        """A write a line that shares; ``count`` is the number of parameters."""
        for (op, location), count in self._changed.items():
            where: dict[str, Any] = {"phase": Phase.OTHER, "location": location, "device": "cpu"}
            yield OverlapWrite(op=op, kind=Overlap.SHARED, count=count, **where)


def _state(tensor: torch.Tensor) -> tuple[int, int | None]:
    from tracer.recording.values.digests import digest

    return version_of(tensor), digest(tensor)


def _watched() -> Iterator[WatchedFunction]:
    processes = getattr(sys.modules.get("multiprocessing.process"), "BaseProcess", None)
    name = "share_memory_"
    yield WatchedFunction(
        [(torch.Tensor, name)], after=lambda seen, call: seen.shares((call.first,), f"Tensor.{name}", call)
    )
    yield WatchedFunction([(processes, "start")], before=SharedParameters.process_starts)
    yield WatchedFunction([(processes, "join")], after=lambda seen, call: seen.look())


_SHARING: Watchers[SharedParameters] = Watchers(_watched)
