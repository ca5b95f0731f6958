"""The sketch of a tensor: sums from which the size of a difference between two tensors is estimated.

Each row of ``SUMS`` elements gets a sign that depends on its number alone, and the rows of a stretch are added (random
projection by signs: Achlioptas, 2003). Sketches of shards, made at their offsets, add up to that of the whole.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from tracer.recording.torch_private import seams
from tracer.recording.values import digest
from tracer.trace.values import Form
from tracer.trace.values.places import KEPT_WHOLE, SUMS, rows_of, sums_of

#: Rows that are converted to float64 at a time on the host: fewer than BLAS would share out among threads.
_ROWS = 140


class Extent(NamedTuple):
    norm: float
    largest: float
    """The largest absolute value of those that are finite."""
    not_finite: int


class Sketch(NamedTuple):
    sums: npt.NDArray[np.float64]
    extent: Extent

    def plus(self, other: Sketch) -> Sketch:
        (norm, largest, not_finite), (norm_2, largest_2, not_finite_2) = self.extent, other.extent
        extent = Extent(math.hypot(norm, norm_2), max(largest, largest_2), not_finite + not_finite_2)
        return Sketch(self.sums + other.sums, extent)


class DeviceSketch(NamedTuple):
    """Of a tensor on a device, where it stays until it is read."""

    sums: torch.Tensor
    extent: torch.Tensor
    """float64 of shape ``(3,)``, as ``Extent``."""

    def plus(self, other: DeviceSketch) -> DeviceSketch:
        (norm, largest, not_finite), (norm_2, largest_2, not_finite_2) = self.extent, other.extent
        extent = (torch.hypot(norm, norm_2), torch.maximum(largest, largest_2), not_finite + not_finite_2)
        return DeviceSketch(self.sums + other.sums, torch.stack(extent))

    def read(self) -> Sketch:
        norm, largest, not_finite = self.extent.tolist()
        return Sketch(self.sums.cpu().numpy(), Extent(norm, largest, int(not_finite)))


def sketched(tensor: torch.Tensor, offset: int = 0, size: int | None = None) -> Sketch | DeviceSketch:
    """The sketch of a dense tensor of real numbers, at ``offset`` in a tensor of ``size`` elements; others than finite
    ones count as 0. Nothing waits for a device."""
    flat = tensor.detach().reshape(-1)
    size = flat.numel() if size is None else size
    if not tensor.is_cpu:
        return _on_device(flat, offset, size)
    if flat.is_floating_point() and flat.itemsize < 4 and flat.dtype is not torch.float16:  # none that NumPy has
        flat = flat.float()
    if not flat.is_floating_point() and flat.dtype is not torch.bool:
        flat = flat.to(torch.float64)
    with np.errstate(invalid="ignore", over="ignore"):  # infinite and NaN are counted, and no news to the program
        return _on_host(flat.numpy(), offset, size)


class _Signs:
    """A sign for each row, by its number in the whole tensor."""

    def __init__(self) -> None:
        self._signs: npt.NDArray[np.float64] = np.empty(0)
        self._on_device: dict[torch.device, torch.Tensor] = {}

    def of(self, first: int, count: int) -> npt.NDArray[np.float64]:
        if first + count > len(self._signs):
            rows = np.arange(max(first + count, 2 * len(self._signs), 4096), dtype=np.uint64)
            rows = (rows + np.uint64(0x9E3779B97F4A7C15)) * np.uint64(0xBF58476D1CE4E5B9)
            rows = (rows ^ rows >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
            self._signs = (rows >> np.uint64(63)).astype(np.float64) * 2 - 1
        return self._signs[first : first + count]

    def on(self, device: torch.device, first: int, count: int) -> torch.Tensor:
        signs = self._on_device.get(device)
        if signs is None or first + count > len(signs):
            self.of(first, count)
            signs = self._on_device[device] = torch.from_numpy(self._signs).to(device)
        return signs[first : first + count]


_SIGNS = _Signs()


def _on_host(data: Any, offset: int, size: int) -> Sketch:
    if len(data) <= KEPT_WHOLE:
        data = data.astype(np.float64)
    sums, squares, not_finite = *_summed(data, offset, size), 0
    if squares - squares != 0.0:  # some are infinite or NaN, or squares of float64 overflow: the norm is infinite then
        finite = np.isfinite(data)
        data, not_finite = np.where(finite, data, 0.0).astype(np.float64), len(data) - int(finite.sum())
        sums, squares = _summed(data, offset, size)
    low, high = torch.aminmax(torch.from_numpy(data)) if len(data) else (0.0, 0.0)
    return Sketch(sums, Extent(squares**0.5, max(-float(low), float(high)), not_finite))


def _summed(data: Any, offset: int, size: int) -> tuple[npt.NDArray[np.float64], float]:
    sums = np.zeros(sums_of(size))
    if size <= KEPT_WHOLE:
        sums[offset : offset + len(data)] = data
        return sums, float(data.dot(data))
    return sums, _add(data, offset, rows_of(size), sums)


def _add(data: Any, offset: int, rows_of_stretch: int, sums: npt.NDArray[np.float64]) -> float:
    """Add the rows of ``data`` to the sums of their stretches; returns the sum of squares."""
    by_stretch = sums.reshape(-1, SUMS)
    squares = 0.0
    first, before = divmod(offset, SUMS)
    if before:  # the rest of a row that another shard begins
        head = data[: SUMS - before].astype(np.float64)
        by_stretch[first // rows_of_stretch, before : before + len(head)] += head * _SIGNS.of(first, 1)
        squares += float(head.dot(head))
        data, first = data[SUMS - before :], first + 1
    whole_rows = len(data) // SUMS
    rows = data[: whole_rows * SUMS].reshape(-1, SUMS)
    chunk = np.empty((min(whole_rows, _ROWS), SUMS))
    done = 0
    while done < whole_rows:
        stretch, within = divmod(first + done, rows_of_stretch)
        several = min(whole_rows - done, _ROWS) // rows_of_stretch if not within else 0
        count = several * rows_of_stretch or min(whole_rows - done, rows_of_stretch - within, _ROWS)
        part = chunk[:count]
        part[...] = rows[done : done + count]
        signs = _SIGNS.of(first + done, count)
        if several > 1:
            part *= signs[:, None]
            by_stretch[stretch : stretch + several] += part.reshape(several, rows_of_stretch, SUMS).sum(1)
        else:
            by_stretch[stretch] += signs @ part
        line = part.reshape(-1)
        squares += float(line.dot(line))
        done += count
    tail = data[whole_rows * SUMS :].astype(np.float64)
    if len(tail):
        row = first + whole_rows
        by_stretch[row // rows_of_stretch, : len(tail)] += tail * _SIGNS.of(row, 1)
        squares += float(tail.dot(tail))
    return squares


def _on_device(flat: torch.Tensor, offset: int, size: int) -> DeviceSketch:
    """The same by torch's own ops, none of which waits."""
    device = flat.device
    finite = torch.isfinite(flat)
    whole = torch.where(finite, flat, torch.zeros((), dtype=flat.dtype, device=device)).to(torch.float64)
    not_finite = (~finite).sum(dtype=torch.float64)
    if size <= KEPT_WHOLE:
        sums = torch.nn.functional.pad(whole, (offset, size - offset - len(whole)))
    else:
        rows_of_stretch = rows_of(size)
        first, before = divmod(offset, SUMS)
        rows = torch.nn.functional.pad(whole, (before, -(before + len(whole)) % SUMS)).view(-1, SUMS)
        signed = rows * _SIGNS.on(device, first, len(rows)).unsqueeze(1)
        # Rows up to the borders of stretches, then one sum a stretch: no atomics, one order.
        start, end = first % rows_of_stretch, -(first + len(rows)) % rows_of_stretch
        stretches = torch.nn.functional.pad(signed, (0, 0, start, end)).view(-1, rows_of_stretch, SUMS).sum(1)
        begins = first // rows_of_stretch
        count = sums_of(size) // SUMS
        sums = torch.nn.functional.pad(stretches, (0, 0, begins, count - begins - len(stretches))).view(-1)
    largest = whole.abs().amax() if len(whole) else torch.zeros((), dtype=torch.float64, device=device)
    return DeviceSketch(sums, torch.stack((torch.linalg.vector_norm(whole), largest, not_finite)))


_PLAIN = (torch.Tensor, torch.nn.Parameter)
#: Elements of the whole that are filled up around a shard at a time.
_MOST_FILLED = 2**20


class Part(NamedTuple):
    """The elements of a tensor that lie in this process."""

    local: torch.Tensor
    shape: tuple[int, ...]
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
    form: Form
    sketch: Sketch | DeviceSketch
    bits: int
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
    return seams.storage_id(tensor) or id(tensor)


def part_of(tensor: torch.Tensor) -> Part | None:
    """``None`` where the elements cannot be read: sparse, quantized, nested, no data, spread in another way."""
    if type(tensor) in _PLAIN:
        return Part(tensor, tuple(tensor.shape)) if seams.is_dense(tensor) else None
    if (asynchronous := seams.asynchronous_tensor()) is not None and type(tensor) is asynchronous:
        local = tensor.wait()  # type: ignore[attr-defined]
        return Part(local, tuple(local.shape)) if seams.is_dense(local) else None
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
