"""Digests of tensors on a device: they stay there until the step ends, so that no call waits.

Sums are gathered in one tensor per device and fetched by one copy. With Triton a sum is one launch, else a few ops of
torch, which no mode sees. They run on the current stream, as the call does that they belong to.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgspec
import torch

from tracer.recording.torch_private import seams
from tracer.recording.values import digests
from tracer.recording.values.digests import digest, unseen
from tracer.recording.values.layouts import seed_of

_ROOM = 4096
_WITH_MEMORY = frozenset({"cuda", "xpu", "mps", "npu", "privateuseone"})


class Slot(msgspec.Struct, eq=False):
    """A digest that is not on the host yet."""

    row: torch.Tensor | None
    place: int
    seed: int
    value: int = 0
    """The digest, once it was fetched."""


class DeviceDigests:
    """Digests that wait on their devices."""

    def __init__(self) -> None:
        self.is_used = False
        """Whether any digest has been left on a device."""
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
        """Bring every sum to the host: this waits for the devices."""
        slots, self._slots, self._rows = self._slots, [], {}
        fetched: dict[int, Any] = {}
        with unseen():
            for slot in slots:
                row = slot.row
                assert row is not None
                if id(row) not in fetched:
                    wait_for(row.device)
                    fetched[id(row)] = row.tolist()
                slot.value = digests.finished(fetched[id(row)][slot.place], slot.seed)
        for slot in slots:
            slot.row = None


def _add_by_torch(tensor: torch.Tensor, totals: torch.Tensor, place: int) -> None:
    with unseen():
        totals[place] += digests.mixed_sum(tensor)


def is_capturing(tensor: torch.Tensor) -> bool:
    """Return whether a CUDA graph is being captured. Nothing may be launched beside it."""
    return tensor.is_cuda and torch.cuda.is_current_stream_capturing()


def wait_for(device: torch.device) -> None:
    """Wait until every stream of ``device`` is done."""
    synchronize = getattr(getattr(torch, device.type, None), "synchronize", None)
    if synchronize is not None:
        synchronize() if device.type == "mps" else synchronize(device)
