"""What this process holds of a tensor: all of it, or the shard of a ``DTensor`` and where it stands in the whole."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch

from tracer.recording.magnitudes.sketching import DeviceSketch, Sketch, sketched
from tracer.recording.torch_private import seams
from tracer.recording.values.digesting.digests import digest
from tracer.trace.values import Form

_PLAIN = (torch.Tensor, torch.nn.Parameter)
#: Elements of the whole that are filled up around a shard at a time.
_MOST_FILLED = 2**20


class Part(NamedTuple):
    """The elements of a tensor that lie in this process."""

    local: torch.Tensor
    shape: tuple[int, ...]
    """Of the whole."""
    start: tuple[int, ...] = ()
    """The start of ``local`` in the whole; empty where it is the whole."""
    is_term: bool = False
    """Whether the whole is the sum of what the ranks hold."""

    @property
    def offset(self) -> int:
        """The number of elements of the whole that precede the first of these, in logical order."""
        offset = 0
        for begin, length in zip(self.start, self.shape, strict=bool(self.start)):
            offset = offset * length + begin
        return offset

    def sketched(self) -> Sketch | DeviceSketch:
        """Its share of the sketch of the whole. Nothing waits for a device."""
        local = torch.view_as_real(self.local) if self.local.is_complex() else self.local
        if not self.start or self.local.is_complex():
            return sketched(local)
        size = math.prod(self.shape)
        ones = next((place for place, length in enumerate(self.shape) if length > 1), 0)
        local = local.reshape(local.shape[ones:])
        shape, start = self.shape[ones:], self.start[ones:]
        if tuple(local.shape[1:]) == shape[1:]:
            return sketched(local, self.offset, size)
        length = math.prod(shape[1:])
        several = max(1, _MOST_FILLED // length)
        ends = (begin + count for begin, count in zip(start[1:], local.shape[1:], strict=True))
        region = (slice(None), *map(slice, start[1:], ends))
        total: Any = None
        for begin, rows in zip(range(0, len(local), several), local.split(several), strict=True):
            filled = rows.new_zeros((len(rows), *shape[1:]))
            filled[region] = rows
            share = sketched(filled, (start[0] + begin) * length, size)
            total = share if total is None else total.plus(share)
        sketch: Sketch | DeviceSketch = total
        return sketch


class Measured(NamedTuple):
    """What is kept of a tensor's elements."""

    form: Form
    sketch: Sketch | DeviceSketch
    bits: int
    """A digest; 0: none."""
    offset: int


def measured(part: Part, *others: Part) -> Measured:
    """Measure the elements that lie in this process: in one part of a tensor, or in several."""
    sketch: Any = part.sketched()
    for one in others:
        sketch = sketch.plus(one.sketched())
    held = sum(one.local.numel() for one in (part, *others)) if part.start else None
    form = Form(str(part.local.dtype).removeprefix("torch."), part.shape, held, part.is_term)
    bits = digest(part.local) or 0 if part.local.is_cpu and not others else 0
    return Measured(form, sketch, bits, part.offset)


def storage_of(tensor: torch.Tensor) -> int:
    """What tells the memory of ``tensor`` from that of others."""
    try:
        return int(tensor.untyped_storage()._cdata)
    except (RuntimeError, NotImplementedError, AttributeError):
        return id(tensor)


def part_of(tensor: torch.Tensor) -> Part | None:
    """``None`` where the elements cannot be read: sparse, quantized, nested, no data, spread in another way."""
    if type(tensor) in _PLAIN:
        return Part(tensor, tuple(tensor.shape)) if _is_readable(tensor) else None
    if (asynchronous := seams.asynchronous_tensor()) is not None and type(tensor) is asynchronous:
        local = tensor.wait()  # type: ignore[attr-defined]
        return Part(local, tuple(local.shape)) if _is_readable(local) else None
    if (distributed := seams.distributed_tensor()) is not None and type(tensor) is distributed:
        return _of_distributed(tensor)
    return None


def _of_distributed(tensor: Any) -> Part | None:
    whole = part_of(tensor.to_local().detach())
    coordinate = tensor.device_mesh.get_coordinate()
    if whole is None or coordinate is None:
        return None
    local, lengths, start = whole.local, list(tensor.shape), [0] * tensor.dim()
    is_term = is_replica = is_shard = False
    for index, ranks, placement in zip(coordinate, tensor.device_mesh.shape, tensor.placements, strict=True):
        if ranks == 1:
            continue
        if type(placement).__name__ == "Shard":
            is_shard, length = True, lengths[placement.dim]
            chunk = -(-length // ranks)
            begin = min(index * chunk, length)
            start[placement.dim] += begin
            lengths[placement.dim] = min(chunk, length - begin)
        elif placement.is_partial() and placement.reduce_op in ("sum", "avg"):
            is_term = True
            local = local / ranks if placement.reduce_op == "avg" else local
        elif placement.is_replicate():
            is_replica = True
        else:
            return None
    if tuple(local.shape) != tuple(lengths) or (is_term and is_replica):
        return None
    return Part(local, tuple(tensor.shape), tuple(start) if is_shard else (), is_term)


def _is_readable(tensor: torch.Tensor) -> bool:
    return tensor.layout is torch.strided and not (tensor.is_meta or tensor.is_quantized or tensor.is_nested)
