"""Copies that may still run when their memory is used again: ``non_blocking=True`` from or into pinned memory.

A copy to a device may still read its source when the host writes there, and a copy to the host may not have written
yet when the host reads. A recording made on a CPU does not tell which side is the device, unless the copy says so.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from tracer.facts.argument_readers import Args, Kwargs
from tracer.names import Overlap
from tracer.recording.calls.fact_readers import device_word
from tracer.recording.calls.groups import CallCounter, OverloadInfo
from tracer.recording.observers import Frame, Interest, Observer
from tracer.recording.storage.accesses import READS
from tracer.recording.storage.registry import StorageRegistry, StorageTable
from tracer.recording.torch_private import seams, storages
from tracer.recording.watchers import Target, Watchers
from tracer.trace.records import OverlapWrite

#: Ops that copy, with the position of what they read.
_COPIES = {"aten._to_copy.default": 0, "aten.copy_.default": 1}
_DETACHES = "aten.detach.default"
#: Hands a number to the host: it waits for the device.
_WAITS = "aten._local_scalar_dense.default"


class _InFlight(StorageTable[tuple[str, CallCounter, Overlap, str]]):
    """Sources and results of copies that nobody waited for."""

    def __init__(self, registry: StorageRegistry) -> None:
        super().__init__(registry)
        self.met: dict[tuple[str, CallCounter, Overlap, str], int] = {}
        """Copies whose memory was used too early, each with how often."""

    def used(self, identity: int) -> None:
        """The memory was written or read again."""
        if (entry := self.drop(identity)) is not None:
            self.met[entry] = self.met.get(entry, 0) + 1

    def give_up(self, identity: int) -> None:
        """The memory was handed out: what was copied into it is read."""
        if self.live[identity][2] is Overlap.COPIED_INTO:
            self.used(identity)
        else:
            self.drop(identity)

    def give_up_all(self) -> None:
        """Forget all."""
        for identity in list(self.live):
            self.drop(identity)


class CopiesInFlight(Observer):
    """Follows the memory of copies that nobody waited for."""

    reads_data = False

    def __init__(self, registry: StorageRegistry) -> None:
        self._table = _InFlight(registry)
        self._computed: StorageTable[bool] = StorageTable(registry)
        """Memory of results that ask for a gradient, and were detached."""
        self._follows = False
        self.on_first: Callable[[], None] = lambda: None
        """Called with the first such copy: from then on it wants calls of every op."""
        self.met = self._table.met

    def wants(self, info: OverloadInfo) -> Interest:
        if info.name in _COPIES or info.name == _DETACHES:
            return True
        return self._table.live if self._follows and info.access.arguments else False

    def waited(self) -> None:
        """The host waited for the device."""
        self._table.give_up_all()

    def after(
        self,
        begun: None,
        info: OverloadInfo,
        counter: CallCounter,
        args: Args,
        kwargs: Kwargs,
        result: Any,
        frame: Frame,
    ) -> None:
        live = self._table.live
        for tensor, role in info.access.tensors(args, kwargs) if live else ():
            entry = live.get(storages.storage_id(tensor))
            if entry is not None and (role == READS) is (entry[2] is Overlap.COPIED_INTO) and entry[1] is not counter:
                self._table.used(storages.storage_id(tensor))
        position = _COPIES.get(info.name)
        if position is not None and (kwargs.get("non_blocking") or (position and len(args) > 2 and args[2])):
            self._begins(info.name, counter, args[position], result, kwargs.get("device"))
        elif info.name == _DETACHES and args[0].requires_grad and not args[0].is_leaf:
            self._computed.enter(args[0], storages.storage_id(args[0]), True)
        elif info.name == _WAITS and args[0].device.type != "cpu":
            self.waited()

    def listed(self) -> list[OverlapWrite]:
        """The copies whose memory was used too early."""
        return [
            OverlapWrite(op=op, kind=kind, device=device, **counter.origin.in_words(), count=count)
            for (op, counter, kind, device), count in sorted(self.met.items(), key=lambda met: met[0][1].order)
        ]

    def _begins(self, op: str, counter: CallCounter, source: torch.Tensor, result: torch.Tensor, asked: Any) -> None:
        from_host, to_host = source.device.type == "cpu", result.device.type == "cpu"
        if from_host and to_host and isinstance(asked, torch.device):  # on fake tensors: what it was asked for
            from_host, to_host = asked.type != "cpu", asked.type == "cpu"
        elif from_host and to_host:  # recorded on a CPU: what came of a graph lies on the device
            to_host = source.requires_grad or storages.storage_id(source) in self._computed.live
            from_host = not to_host
        if from_host and not to_host and not _may_be_pinned(source):
            return
        device = device_word(source.device if to_host else result.device)
        for tensor, is_there, kind in (
            (source, from_host, Overlap.COPIED_FROM),
            (result, to_host, Overlap.COPIED_INTO),
        ):
            if is_there and tensor.layout is torch.strided:
                if not self._follows:
                    self._follows = True
                    self.on_first()
                self._table.enter(tensor, storages.storage_id(tensor), (op, counter, kind, device))


def _may_be_pinned(tensor: torch.Tensor) -> bool:
    """Return whether ``tensor`` lies in pinned memory; without a real device nobody knows."""
    return not torch.cuda.is_initialized() or seams.is_fake(type(tensor)) or tensor.is_pinned()


def _waits() -> list[Target]:
    def waited(copies: CopiesInFlight, call: Any) -> None:
        copies.waited()

    return [Target([holder], after=waited) for holder in seams.waits_for_cuda()]


WAITS: Watchers[CopiesInFlight] = Watchers(_waits)
