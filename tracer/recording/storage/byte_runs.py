"""Which bytes of a storage a strided tensor lies on: as sorted runs, exact, and bounded in number. Imports no torch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import gcd, prod
from typing import Any

import msgspec
import numpy as np

#: A region of more runs is not followed.
MOST_RUNS = 16_384
#: A layout of more elements is not enumerated.
MOST_ELEMENTS = 65_536
#: A copy of more elements is not followed one by one.
MOST_COPIED = 1 << 18

Runs = tuple[Any, Any]
"""Two arrays: where each run begins, and where it ends (the byte behind it). Sorted, none touching the next."""
_NO_RUNS: Runs = (np.empty(0, np.int64), np.empty(0, np.int64))


class Region(msgspec.Struct, frozen=True):
    """A strided tensor's place in its storage: all in elements, of ``itemsize`` bytes."""

    offset: int
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    itemsize: int

    @property
    def is_empty(self) -> bool:
        """Whether it has no element."""
        return 0 in self.sizes

    @property
    def extent(self) -> tuple[int, int]:
        """The first byte, and the one behind the last."""
        last = sum((size - 1) * stride for size, stride in zip(self.sizes, self.strides, strict=True))
        return self.offset * self.itemsize, (self.offset + last + 1) * self.itemsize

    @property
    def dimensions(self) -> tuple[tuple[int, int], ...]:
        """``(stride, size)`` of each dimension of more than one element, the narrowest stride first."""
        pairs = zip(self.strides, self.sizes, strict=True)
        return tuple(sorted((stride, size) for stride, size in pairs if size > 1))


def runs_of(region: Region, most: int = MOST_RUNS) -> Runs | None:
    """The bytes that ``region`` lies on; ``None`` where they are more than ``most`` runs."""
    if region.is_empty:
        return _NO_RUNS
    length = 1
    outer: list[tuple[int, int]] = []
    for stride, size in region.dimensions:
        if stride == 0:
            continue
        if not outer and stride <= length:  # touches or overlaps what is inside: still one run
            length = (size - 1) * stride + length
        else:
            outer.append((stride, size))
    if prod(size for _, size in outer) > most:
        return None
    starts = np.sort(_elements(region.offset, outer)) * region.itemsize
    return merged(starts, starts + length * region.itemsize)


def merged(starts: Any, ends: Any) -> Runs:
    """Runs, sorted by where they begin, with those joined that touch or overlap."""
    if len(starts) < 2:
        return starts, ends
    reached = np.maximum.accumulate(ends)
    parts = np.flatnonzero(starts[1:] > reached[:-1])
    first = np.concatenate(([0], parts + 1))
    last = np.concatenate((parts, [len(starts) - 1]))
    return starts[first], reached[last]


def size_of(runs: Runs) -> int:
    """Return the number of bytes in ``runs``."""
    return int((runs[1] - runs[0]).sum())


def whole(size: int) -> Runs:
    """All bytes of a storage."""
    return np.array([0], np.int64), np.array([size], np.int64)


def with_more(runs: Runs, added: Runs) -> Runs:
    """The bytes of ``runs`` and of ``added``."""
    starts, ends = np.concatenate((runs[0], added[0])), np.concatenate((runs[1], added[1]))
    order = np.argsort(starts, kind="stable")
    return merged(starts[order], ends[order])


def meet(runs: Runs, other: Runs) -> bool:
    """Return whether two sets of runs have a byte in common."""
    if len(runs[0]) > len(other[0]):
        runs, other = other, runs
    # For each run: the first of the other's that ends behind its beginning, if that begins before its end.
    following: Any = np.searchsorted(other[1], runs[0], side="right")
    there = following < len(other[0])
    return bool((other[0][following[there]] < runs[1][there]).any())


def without(runs: Runs, taken: Runs) -> Runs:
    """The bytes of ``runs`` that are not in ``taken``."""
    if not len(runs[0]) or not len(taken[0]):
        return runs
    # Walk over all borders: a byte is kept where one run is open and none of the taken.
    borders = np.concatenate((runs[0], runs[1], taken[0], taken[1]))
    count, cut = len(runs[0]), len(taken[0])
    opens = np.repeat(np.array([1, -1, 0, 0], np.int64), (count, count, cut, cut))
    cuts = np.repeat(np.array([0, 0, 1, -1], np.int64), (count, count, cut, cut))
    order = np.argsort(borders, kind="stable")
    borders = borders[order]
    is_left = (np.cumsum(opens[order]) > 0) & (np.cumsum(cuts[order]) == 0)
    starts, ends = borders[:-1][is_left[:-1]], borders[1:][is_left[:-1]]
    longer = ends > starts
    return merged(starts[longer], ends[longer])


def overlaps_itself(region: Region, most: int = MOST_ELEMENTS) -> bool | None:
    """Return whether two elements of ``region`` lie at one address; ``None`` if that takes over ``most`` elements."""
    if region.is_empty:
        return False
    dimensions = region.dimensions
    reach = 0
    for stride, size in dimensions:
        if stride == 0:
            return True
        if stride <= reach:
            break
        reach += (size - 1) * stride
    else:
        return False
    # Two dimensions alone: i * a == j * b has its smallest solution at the strides over their common divisor.
    for position, (stride, size) in enumerate(dimensions):
        for other, count in dimensions[position + 1 :]:
            common = gcd(stride, other)
            if other // common < size and stride // common < count:
                return True
    elements = prod(size for _, size in dimensions)
    if elements > sum((size - 1) * stride for stride, size in dimensions) + 1:
        return True
    if elements > most:
        return None
    return len(np.unique(_elements(0, dimensions))) < elements


def is_same(region: Region, other: Region) -> bool:
    """Return whether each element of ``region`` lies where the same element of ``other`` does."""
    if (region.offset, region.itemsize) != (other.offset, other.itemsize):
        return False
    return joined_axes(region.sizes, region.strides) == joined_axes(other.sizes, other.strides)


def joined_axes(sizes: Sequence[int], strides: Sequence[int]) -> list[tuple[int, int]]:
    """Size and stride of the fewest axes that put the same elements into the same order."""
    joined: list[tuple[int, int]] = []
    for size, stride in zip(sizes, strides, strict=True):
        if size == 1:
            continue
        if joined and joined[-1][1] == size * stride:
            joined[-1] = (joined[-1][0] * size, stride)
        else:
            joined.append((size, stride))
    return joined


def share_bytes(region: Region, other: Region, most: int = MOST_RUNS) -> bool | None:
    """Return whether two regions of one storage share a byte; ``None`` if that takes over ``most`` elements."""
    if region.is_empty or other.is_empty:
        return False
    if region.extent[1] <= other.extent[0] or other.extent[1] <= region.extent[0]:
        return False
    region, other = _in_step(region, other)
    (begun, ended), (other_begun, other_ended) = region.extent, other.extent
    if ended <= other_begun or other_ended <= begun:
        return False
    first, second = runs_of(region, most), runs_of(other, most)
    if first is None or second is None:
        return None
    return meet(first, second)


def carried(runs: Runs | None, source: Region, target: Region, most: int = MOST_COPIED) -> Runs | None:
    """The bytes of ``target`` that a copy of ``source`` fills from ``runs``; ``None`` where that takes too long.

    ``runs`` is ``None`` for all bytes of the source's storage. The source is broadcast to the target.
    """
    if runs is None:
        return runs_of(target)
    lasting = runs_of(source)
    if lasting is not None and not meet(runs, lasting):
        return _NO_RUNS
    if prod(target.sizes) > most:
        return None
    missing = len(target.sizes) - len(source.sizes)
    strides = [0] * missing + [s if n > 1 else 0 for s, n in zip(source.strides, source.sizes, strict=True)]
    begins = _elements(source.offset, zip(strides, target.sizes, strict=True)) * source.itemsize
    following: Any = np.searchsorted(runs[1], begins, side="right")
    inside = following < len(runs[0])
    inside[inside] = runs[0][following[inside]] < begins[inside] + source.itemsize
    filled = _elements(target.offset, zip(target.strides, target.sizes, strict=True))[inside]
    starts = np.sort(filled) * target.itemsize
    return merged(starts, starts + target.itemsize)


def _elements(offset: int, dimensions: Iterable[tuple[int, int]]) -> Any:
    """The place of each element, in the order of ``dimensions``: the stride and size of each."""
    places: Any = np.array([offset], np.int64)
    for stride, size in dimensions:
        places = (places[:, None] + np.arange(size, dtype=np.int64) * stride).ravel()
    return places


def _in_step(region: Region, other: Region) -> tuple[Region, Region]:
    """Both regions without the dimensions that they repeat in step: whether they meet shows in one repetition."""
    while region.itemsize == other.itemsize and region.dimensions and other.dimensions:
        widest = stride, _ = region.dimensions[-1]
        if other.dimensions[-1] != widest or stride == 0:
            break
        inner, other_inner = _first_along(region, *widest), _first_along(other, *widest)
        begins = min(inner.extent[0], other_inner.extent[0])
        ends = max(inner.extent[1], other_inner.extent[1])
        if ends - begins > stride * region.itemsize:
            break
        region, other = inner, other_inner
    return region, other


def _first_along(region: Region, stride: int, size: int) -> Region:
    """``region`` at the first position of one of its dimensions."""
    sizes, strides = list(region.sizes), list(region.strides)
    at = list(zip(strides, sizes, strict=True)).index((stride, size))
    del sizes[at], strides[at]
    return msgspec.structs.replace(region, sizes=tuple(sizes), strides=tuple(strides))
