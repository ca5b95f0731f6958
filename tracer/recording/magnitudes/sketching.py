"""The sketch of a tensor: sums from which the size of a difference between two tensors is estimated.

The elements stand in rows of ``SUMS`` in logical order. Each row gets a sign that depends on its number alone, and the
rows of a stretch are added. The norm of the difference of two sketches estimates the norm of the difference of the
tensors (random projection by signs: Achlioptas, 2003). Sketches are linear: those of shards, made at their offsets in
the whole tensor, add up to the sketch of the whole.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from tracer.trace.values.places import KEPT_WHOLE, SUMS, rows_of, sums_of

#: Rows that are converted to float64 at a time on the host: fewer than BLAS would share out among threads.
_ROWS = 140


class Extent(NamedTuple):
    """The magnitudes of a tensor's elements."""

    norm: float
    largest: float
    """The largest absolute value of those that are finite."""
    not_finite: int
    """The number of elements that are infinite or NaN."""


class Sketch(NamedTuple):
    """Of a tensor on the host."""

    sums: npt.NDArray[np.float64]
    """``sums_of(size of the whole)`` of them."""
    extent: Extent

    def plus(self, other: Sketch) -> Sketch:
        """The sketch of both parts of one tensor."""
        (norm, largest, not_finite), (norm_2, largest_2, not_finite_2) = self.extent, other.extent
        extent = Extent(math.hypot(norm, norm_2), max(largest, largest_2), not_finite + not_finite_2)
        return Sketch(self.sums + other.sums, extent)


class DeviceSketch(NamedTuple):
    """Of a tensor on a device, where it stays until it is read."""

    sums: torch.Tensor
    extent: torch.Tensor
    """float64 of shape ``(3,)``, as ``Extent``."""

    def plus(self, other: DeviceSketch) -> DeviceSketch:
        """The sketch of both parts of one tensor."""
        (norm, largest, not_finite), (norm_2, largest_2, not_finite_2) = self.extent, other.extent
        extent = (torch.hypot(norm, norm_2), torch.maximum(largest, largest_2), not_finite + not_finite_2)
        return DeviceSketch(self.sums + other.sums, torch.stack(extent))

    def read(self) -> Sketch:
        """Wait for the device, and copy."""
        norm, largest, not_finite = self.extent.tolist()
        return Sketch(self.sums.cpu().numpy(), Extent(norm, largest, int(not_finite)))


def sketched(tensor: torch.Tensor, offset: int = 0, size: int | None = None) -> Sketch | DeviceSketch:
    """The sketch of a dense tensor of real numbers, which stands at ``offset`` in a tensor of ``size`` elements.

    Elements that are not finite count as 0. Nothing waits for a device.
    """
    flat = tensor.detach().reshape(-1)
    size = flat.numel() if size is None else size
    if not tensor.is_cpu:
        return _on_device(flat, offset, size)
    if flat.dtype in _NOT_IN_NUMPY:
        flat = flat.float()
    if not flat.is_floating_point() and flat.dtype is not torch.bool:
        flat = flat.to(torch.float64)
    with np.errstate(invalid="ignore", over="ignore"):  # infinite and NaN are counted, and no news to the program
        return _on_host(flat, flat.numpy(), offset, size)


_NOT_IN_NUMPY = {
    dtype
    for name in ("bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu")
    if (dtype := getattr(torch, name, None)) is not None
}


class _Signs:
    """A sign for each row, by its number in the whole tensor."""

    def __init__(self) -> None:
        self._signs: npt.NDArray[np.float64] = np.empty(0)
        self._on_device: dict[torch.device, torch.Tensor] = {}

    def of(self, first: int, count: int) -> npt.NDArray[np.float64]:
        """The signs of ``count`` rows from ``first`` on."""
        if first + count > len(self._signs):
            rows = np.arange(max(first + count, 2 * len(self._signs), 4096), dtype=np.uint64)
            rows = (rows + np.uint64(0x9E3779B97F4A7C15)) * np.uint64(0xBF58476D1CE4E5B9)
            rows = (rows ^ rows >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
            self._signs = (rows >> np.uint64(63)).astype(np.float64) * 2 - 1
        return self._signs[first : first + count]

    def on(self, device: torch.device, first: int, count: int) -> torch.Tensor:
        """The same, on a device."""
        signs = self._on_device.get(device)
        if signs is None or first + count > len(signs):
            self.of(first, count)
            signs = self._on_device[device] = torch.from_numpy(self._signs).to(device)
        return signs[first : first + count]


_SIGNS = _Signs()


def _on_host(flat: torch.Tensor, data: Any, offset: int, size: int) -> Sketch:
    sums = np.zeros(sums_of(size))
    if len(data) <= KEPT_WHOLE:
        whole = data.astype(np.float64)
        squares = float(whole.dot(whole))
        if squares - squares != 0.0:
            return _of_finite(data, offset, size)
        if size <= KEPT_WHOLE:
            sums[offset : offset + len(whole)] = whole
        else:
            _add(whole, offset, rows_of(size), sums)
        largest = float(np.abs(whole).max()) if len(whole) else 0.0
        return Sketch(sums, Extent(squares**0.5, largest, 0))
    squares = _add(data, offset, rows_of(size), sums)
    if squares - squares != 0.0:
        return _of_finite(data, offset, size)
    low, high = torch.aminmax(flat)
    return Sketch(sums, Extent(squares**0.5, max(-float(low), float(high)), 0))


def _of_finite(data: Any, offset: int, size: int) -> Sketch:
    """The sketch of what is finite. Squares of float64 may overflow; the norm is infinite then."""
    finite = np.isfinite(data)
    data = np.where(finite, data, 0.0).astype(np.float64)
    sums = np.zeros(sums_of(size))
    if size <= KEPT_WHOLE:
        sums[offset : offset + len(data)] = data
        squares = float(data.dot(data))
    else:
        squares = _add(data, offset, rows_of(size), sums)
    largest = float(np.abs(data).max()) if len(data) else 0.0
    return Sketch(sums, Extent(squares**0.5, largest, len(data) - int(finite.sum())))


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
