"""Digests that come after their call: of a collective, which is not over when its call returns, and from devices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from tracer.recording.values.digest_table import Stored
from tracer.recording.values.digesting import digests
from tracer.recording.values.digesting.device import DeviceDigests, Slot
from tracer.trace.values import Mark, ValueKind, ValuesWriter, fold

_NOT_WRITTEN = int(Mark.OUTPUT_NOT_DIGESTED)


class Target:
    """Where a collective writes: the geometry of one tensor, without the tensor."""

    __slots__ = ("dtype", "offset", "shape", "stored", "strides")

    def __init__(self, tensor: torch.Tensor, stored: Stored) -> None:
        self.stored = stored
        self.dtype = tensor.dtype
        self.shape = tensor.shape
        self.strides = tensor.stride()
        self.offset = tensor.storage_offset()

    def digest(self, tensor: torch.Tensor, of: Callable[[torch.Tensor], Any]) -> Any:
        """The digest of what is there now; ``tensor`` is some tensor on that storage."""
        if tensor.dtype is not self.dtype:
            return None
        with digests.unseen():
            return of(tensor.detach().as_strided(self.shape, self.strides, self.offset))


class Later:
    """Calls and entries of one recording whose digests are awaited."""

    def __init__(self, device: DeviceDigests) -> None:
        self._device = device
        self._calls: dict[int, tuple[list[Any], list[Any]]] = {}
        self._unread: set[int] = set()
        """Collectives whose results nobody read yet."""
        self._entries: list[tuple[int, Slot]] = []
        self._moments: list[tuple[ValueKind, str, Slot, int]] = []

    def awaits(self, index: int, inputs: list[Any], outputs: list[Any]) -> None:
        """Call number ``index`` was written without its digests."""
        self._calls[index] = (inputs, outputs)

    def awaits_entry(self, origin: int, slot: Slot) -> None:
        """An entry was written without its digest."""
        self._entries.append((origin, slot))

    def awaits_moment(self, kind: ValueKind, name: str, slot: Slot, position: int) -> None:
        """A state is to be told of at the step's end, when its digest is there."""
        self._moments.append((kind, name, slot, position))

    def when_read(self, writer: ValuesWriter, index: int, targets: list[Target]) -> None:
        """Digest what a collective writes as soon as somebody reads it: it is over by then."""
        self._unread.add(index)
        unread = set(range(len(targets)))
        found: list[Any] = [None] * len(targets)

        def waiter(place: int) -> Callable[[torch.Tensor], None]:
            def read(tensor: torch.Tensor) -> None:
                unread.discard(place)
                found[place] = targets[place].digest(tensor, self._device.digest)
                if not unread:
                    self._complete(writer, index, found)

            return read

        for place, target in enumerate(targets):
            target.stored.waiting = waiter(place)

    def _complete(self, writer: ValuesWriter, index: int, found: list[Any]) -> None:
        if index not in self._calls:
            return  # it was given up
        inputs, outputs = self._calls[index]
        if None not in found:
            self._unread.discard(index)
        outputs += [one for one in found if one is not None]
        if Slot not in map(type, (*inputs, *outputs)):
            del self._calls[index]
            marks = _NOT_WRITTEN if None in found else 0
            writer.settle(index, fold(inputs), fold(outputs), marks)

    def settle(self, writer: ValuesWriter) -> None:
        """The step ended: fetch what waits on devices, and give up what nobody read."""
        if not self._calls and not self._entries and not self._moments:
            return
        self._device.fetch()
        for origin, slot in self._entries:
            writer.settle_entry(origin, slot.value)
        self._entries.clear()
        for index, (inputs, outputs) in self._calls.items():
            marks = _NOT_WRITTEN if index in self._unread else 0
            writer.settle(index, fold(map(_fetched, inputs)), fold(map(_fetched, outputs)), marks)
        self._calls.clear()
        self._unread.clear()
        for kind, name, slot, position in self._moments:
            writer.moment(kind, name, slot.value, position)
        self._moments.clear()


def _fetched(digest: Any) -> int:
    return digest.value if type(digest) is Slot else int(digest)
