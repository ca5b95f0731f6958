"""Digests that come later. Those of tensors on a device stay there until the step ends, so that no call waits.

Sums are gathered in one tensor per device, on the current stream, and fetched by one copy. With Triton a sum is one
launch, else a few ops of torch, which no mode sees.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

import msgspec
import torch

from tracer.recording.torch_private import seams
from tracer.recording.values import digests
from tracer.recording.values.digest_table import Stored
from tracer.recording.values.digests import digest, seed_of, unseen
from tracer.trace.values import Mark, ValueKind, ValuesWriter, fold

_ROOM = 4096
_NOT_WRITTEN = int(Mark.OUTPUT_NOT_DIGESTED)
_WITH_MEMORY = frozenset({"cuda", "xpu", "mps", "npu", "privateuseone"})


class Slot(msgspec.Struct, eq=False):
    row: torch.Tensor | None = None
    place: int = 0
    seed: int = 0
    value: Any = None
    """The digest, once it is here; of what a collective wrote on a device, another slot."""


class DeviceDigests:
    def __init__(self) -> None:
        self.is_used = False
        self._rows: dict[torch.device, tuple[torch.Tensor, int]] = {}
        self._slots: list[Slot] = []
        self._add: Callable[[torch.Tensor, torch.Tensor, int], None] | None = None

    def digest(self, tensor: torch.Tensor) -> int | Slot | None:
        """The digest of any tensor: at once on the host, later for a dense one on a device; ``None``: it has none."""
        is_plain = (
            not tensor.is_cpu and tensor.device.type in _WITH_MEMORY and not seams.dispatches_itself(type(tensor))
        )
        if not is_plain or is_capturing(tensor):
            return digest(tensor)
        try:
            if tensor.layout is not torch.strided or tensor.is_nested or tensor.is_quantized:
                return None
            return self._launch(tensor)
        except (RuntimeError, NotImplementedError):
            return None

    def _launch(self, tensor: torch.Tensor) -> Slot:
        self.is_used = True
        row, place = self._rows.get(tensor.device, (None, _ROOM))
        if row is None or place == _ROOM:
            with unseen():
                row, place = torch.zeros(_ROOM, dtype=torch.int64, device=tensor.device), 0
        self._rows[tensor.device] = (row, place + 1)
        slot = Slot(row, place, seed_of(tensor.dtype, tensor.shape))
        self._slots.append(slot)
        if tensor.numel():
            if self._add is not None and digests.is_plain(tensor):
                self._add(tensor, row, place)  # a launch that dispatches nothing
            else:
                with unseen():
                    self._add_sum(tensor, row, place)
        return slot

    def _add_sum(self, tensor: torch.Tensor, totals: torch.Tensor, place: int) -> None:
        if self._add is None and tensor.device.type == "cuda":
            with suppress(Exception):  # no Triton, or one that cannot compile here
                from tracer.recording.values.triton_mix import add_mixed_sum

                add_mixed_sum(tensor, totals, place)
                self._add = add_mixed_sum
                return
        self._add = self._add or _add_by_torch
        self._add(tensor, totals, place)

    def fetch(self) -> None:
        slots, self._slots, self._rows = self._slots, [], {}
        fetched: dict[int, Any] = {}
        with unseen():
            for slot in slots:
                row = slot.row
                assert row is not None
                if id(row) not in fetched:  # once every stream of its device is done
                    synchronize = getattr(getattr(torch, row.device.type, None), "synchronize", None)
                    if synchronize is not None:
                        synchronize() if row.device.type == "mps" else synchronize(row.device)
                    fetched[id(row)] = row.tolist()
                slot.value = digests.finished(fetched[id(row)][slot.place], slot.seed)
        for slot in slots:
            slot.row = None


def _add_by_torch(tensor: torch.Tensor, totals: torch.Tensor, place: int) -> None:
    with unseen():
        totals[place] += digests.mixed_sum(tensor)


class Awaited(NamedTuple):
    """The place that a collective writes: the geometry of one tensor, without the tensor."""

    stored: Stored
    slot: Slot
    dtype: torch.dtype
    geometry: tuple[Any, ...]


class DeferredDigests:
    """Calls, entries and states of one recording whose digests come later."""

    def __init__(self, device: DeviceDigests) -> None:
        self._device = device
        self.calls: dict[int, tuple[list[Any], list[Any]]] = {}
        self.entries: list[tuple[int, Slot]] = []
        self.moments: list[tuple[ValueKind, str, Slot]] = []

    def when_read(self, writer: ValuesWriter, index: int, awaited: Awaited) -> None:
        """Digest what a collective writes as soon as somebody reads it, by any tensor: it is over by then."""

        def read(tensor: torch.Tensor) -> None:
            if tensor.dtype is awaited.dtype:
                with unseen():
                    awaited.slot.value = self._device.digest(tensor.detach().as_strided(*awaited.geometry))
            self._settle_call(writer, index)

        awaited.stored.waiting = read

    def _settle_call(self, writer: ValuesWriter, index: int, *, gives_up: bool = False) -> None:
        """Write a call's digests if all are here; ``gives_up``: also where nobody read what it wrote."""
        digests = self.calls.get(index, ([], []))
        inputs, outputs = ([digest for digest in map(_fetched, side) if digest is not None] for side in digests)
        is_whole = [len(inputs), len(outputs)] == [*map(len, digests)]
        if index in self.calls and (is_whole or gives_up):
            del self.calls[index]
            writer.settle(index, fold(inputs), fold(outputs), 0 if is_whole else _NOT_WRITTEN)

    def settle(self, writer: ValuesWriter) -> None:
        """The step ended: fetch what waits on devices, and give up what nobody read."""
        if not self.calls and not self.entries and not self.moments:
            return
        self._device.fetch()
        for origin, slot in self.entries:
            writer.settle_entry(origin, slot.value)
        for index in tuple(self.calls):
            self._settle_call(writer, index, gives_up=True)
        for kind, name, slot in self.moments:
            writer.moment(kind, name, slot.value)
        self.entries.clear()
        self.moments.clear()


def _fetched(digest: Any) -> int | None:
    while type(digest) is Slot:
        digest = digest.value
    return None if digest is None else int(digest)


def is_capturing(tensor: torch.Tensor) -> bool:
    """Return whether a CUDA graph is being captured. Nothing may be launched beside it."""
    return tensor.is_cuda and torch.cuda.is_current_stream_capturing()
