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
from tracer.ops.rows import packet_of, row_of
from tracer.recording.calls.fact_readers import device_word
from tracer.recording.calls.groups import CallCounter, OverloadInfo
from tracer.recording.observers import Frame, Interest, Observer
from tracer.recording.patching import Target, Watchers
from tracer.recording.storage.accesses import READS, argument_at
from tracer.recording.storage.registry import StorageRegistry, StorageTable
from tracer.recording.torch_private import seams, storages
from tracer.trace.records import OverlapWrite

#: Ops with one of these hand a number, or the size of their result, to the host: it waits for the device.
_HANDS_OVER = {torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape}


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
        if info.access.non_blocking is not None or row_of(packet_of(info.name)).detaches:
            return True
        return self._table.live if self._follows and info.access.arguments else False

    def waited(self) -> None:
        """The host waited for the device."""
        self._table.give_up_all()

    def after(
        self, begun: None, info: OverloadInfo, counter: CallCounter, args: Args, kwargs: Any, result: Any, frame: Frame
    ) -> None:
        live, pairs = self._table.live, _copied(info, args, result)
        crosses = bool(live) and any(len(set(_on_device(*pair))) == 2 for pair in pairs)
        # A device makes its copies from and to the host one after the other.
        for tensor, role in info.access.tensors(args, kwargs) if live and not crosses else ():
            entry = live.get(storages.storage_id(tensor))
            if entry is not None and (role == READS) is (entry[2] is Overlap.COPIED_INTO) and entry[1] is not counter:
                self._table.used(storages.storage_id(tensor))
        if pairs:
            if argument_at(info.access.non_blocking or 0, "non_blocking", args, kwargs):
                for source, copy in pairs:
                    self._begins(info.name, counter, source, copy)
            elif crosses:
                self.waited()
        elif row_of(packet_of(info.name)).detaches and args[0].requires_grad and not args[0].is_leaf:
            self._computed.enter(args[0], storages.storage_id(args[0]), True)
        elif live and _hands_over(info, args, kwargs) and (_on_device(args[0]) or [self._is_computed(args[0])])[0]:
            self.waited()

    def listed(self) -> list[OverlapWrite]:
        """The copies whose memory was used too early."""
        return [
            OverlapWrite(op=op, kind=kind, device=device, **counter.origin.in_words(), count=count)
            for (op, counter, kind, device), count in sorted(self.met.items(), key=lambda met: met[0][1].order)
        ]

    def _is_computed(self, tensor: torch.Tensor) -> bool:
        """Return whether it came of a graph: recorded on a CPU, that stands for lying on a device."""
        return tensor.requires_grad or storages.storage_id(tensor) in self._computed.live

    def _begins(self, op: str, counter: CallCounter, source: torch.Tensor, result: torch.Tensor) -> None:
        to_host, stays = _on_device(source, result) or [self._is_computed(source), not self._is_computed(source)]
        host, kind = (result, Overlap.COPIED_INTO) if to_host else (source, Overlap.COPIED_FROM)
        if to_host is stays or host.layout is not torch.strided or not _may_be_pinned(host):
            return
        if not self._follows:
            self._follows = True
            self.on_first()
        device = device_word((source if to_host else result).device)
        self._table.enter(host, storages.storage_id(host), (op, counter, kind, device))


def _copied(info: OverloadInfo, args: Args, result: Any) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """What a call copies that may go to another device, each with its copy."""
    if info.access.non_blocking is None:
        return []
    source = next(args[position] for position, _, role in info.access.arguments if role == READS)
    return list(zip(source, args[0], strict=True)) if isinstance(source, (list, tuple)) else [(source, result)]


def _on_device(*tensors: torch.Tensor) -> list[bool]:
    """Which of them lie on a device; empty where nobody tells: all are said to lie on the CPU, which may be a GPU."""
    claims = [storages.claimed_place(tensor) or "" for tensor in tensors]
    # A fake tensor of which nothing is known lies where the other does: `x.device` is the CPU wherever `x` lies.
    places = [claim or max(claims) or tensor.device.type for claim, tensor in zip(claims, tensors, strict=True)]
    is_told = torch.cuda.is_initialized() or any(place != "cpu" for place in places)
    return [place not in ("cpu", "pinned") for place in places] if is_told else []


def _hands_over(info: OverloadInfo, args: Args, kwargs: Kwargs) -> bool:
    """Return whether the host reads a number, or a size, from the device; of an index, if it is a mask."""
    if info.name == "aten.index.Tensor":
        return any(index is not None and index.dtype in (torch.bool, torch.uint8) for index in args[1])
    return not _HANDS_OVER.isdisjoint(info.func.tags) and kwargs.get("output_size") is None


def _may_be_pinned(tensor: torch.Tensor) -> bool:
    """Return whether ``tensor`` lies in pinned memory; without a device, real or claimed, nobody knows."""
    if (place := storages.claimed_place(tensor)) is not None:
        return place == "pinned"
    return not torch.cuda.is_initialized() or seams.is_fake(type(tensor)) or tensor.is_pinned()


WAITS: Watchers[CopiesInFlight] = Watchers(
    lambda: [Target([holder], after=lambda copies, call: copies.waited()) for holder in seams.waits_for_cuda()]
)
