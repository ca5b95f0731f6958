"""Where a strided tensor lies in its storage, and writes to memory that overlaps.

Decided exactly and within bounds; what would take longer is not reported.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import islice
from operator import itemgetter
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from tracer.facts import Args, Kwargs
from tracer.names import Overlap
from tracer.recording.storage import ACCUMULATES, READS, SCATTERS, UPDATES, WRITES, Access, argument_at
from tracer.recording.torch_private import seams

#: What numpy may try to find a byte that two regions share, and where it takes the memory to lie.
_MOST_WORK, _ADDRESS = 100_000, 1 << 40
_MOST_LAYOUTS = 1024
#: Lists of many views of one buffer are compared up to here.
_MOST_PAIRS = 1024
#: What a tensor is of that counts places.
_INDICES = frozenset({torch.int64, torch.int32, torch.bool, torch.uint8})


def span_of(sizes: Sequence[int], strides: Sequence[int], itemsize: int) -> int:
    """Bytes from the first element's to the last one's."""
    return (sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True)) + 1) * itemsize


def is_nested(sizes: Sequence[int], strides: Sequence[int]) -> bool:
    """Return whether each place has one address, decoded by dividing by the strides from the widest on."""
    reach = 1
    for stride, size in sorted((stride, size) for stride, size in zip(strides, sizes, strict=True) if size > 1):
        if stride < reach:
            return False
        reach = stride * size
    return True


@lru_cache(_MOST_LAYOUTS)
def overlaps_itself(sizes: tuple[int, ...], strides: tuple[int, ...]) -> bool | None:
    """Return whether two elements lie at one address; ``None`` if that takes too long."""
    dimensions = sorted((stride, size) for stride, size in zip(strides, sizes, strict=True) if size > 1)
    answers = set()
    while dimensions and 0 not in sizes:  # two elements that differ along this dimension, and agree in those before
        (stride, size), *dimensions = dimensions
        steps, counts = [each[0] for each in dimensions], [each[1] for each in dimensions]
        answers.add(share_bytes(laid(0, counts, steps), laid(stride, (size - 1, *counts), (stride, *steps))))
    return True if True in answers else None if None in answers else False


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


def laid(offset: int, sizes: Sequence[int], strides: Sequence[int], itemsize: int = 1) -> np.ndarray:
    """A strided part of a storage, all in elements, as an array over memory that is not there and that nobody reads."""
    data, steps = (_ADDRESS + offset * itemsize, True), tuple(stride * itemsize for stride in strides)
    interface = {"version": 3, "typestr": f"|V{itemsize}", "data": data, "shape": tuple(sizes), "strides": steps}
    return np.asarray(SimpleNamespace(__array_interface__=interface))


def share_bytes(part: np.ndarray, other: np.ndarray) -> bool | None:
    """Return whether two parts of one storage share a byte; ``None`` if that takes too long."""
    try:
        shares: Any = np.shares_memory
        return bool(shares(part, other, _MOST_WORK))
    except np.exceptions.TooHardError:
        return None


def _laid_as(tensor: torch.Tensor) -> np.ndarray:
    return laid(int(tensor.storage_offset()), tensor.shape, tensor.stride(), tensor.itemsize)


def writes_over_itself(tensor: torch.Tensor) -> bool:
    """Return whether several elements of ``tensor`` certainly lie at one address."""
    return overlaps_itself(tuple(tensor.shape), tensor.stride()) is True


def shares_with_source(written: torch.Tensor, read: torch.Tensor) -> bool:
    """Return whether a read tensor of the same storage is certainly a part of the written one, and not the same."""
    begins = [(each.storage_offset(), each.itemsize) for each in (written, read)]
    axes = [joined_axes(each.shape, each.stride()) for each in (written, read)]
    is_same = begins[0] == begins[1] and axes[0] == axes[1]
    return not is_same and share_bytes(_laid_as(written), _laid_as(read)) is True


def _is_one_value(access: Access, written: torch.Tensor, others: list[torch.Tensor]) -> bool:
    """Return whether all elements at one address get the same value, whichever is last."""
    if access.is_idempotent or access.copies:
        return all(other.numel() == 1 for other in others)
    if not access.is_masked or not others or any(value.numel() != 1 for value in others[1:]):
        return False
    # The mask is to be broadcast along every dimension along which the target stays at one address.
    mask = others[0]
    axes = [*zip(range(mask.ndim - written.ndim, mask.ndim), written.shape, written.stride(), strict=True)]
    rest = [(size, stride) for _, size, stride in axes if size <= 1 or stride]
    if overlaps_itself(tuple(size for size, _ in rest), tuple(stride for _, stride in rest)) is not False:
        return False
    repeated = [axis for axis, size, stride in axes if size > 1 and not stride and axis >= 0]
    return not any(mask.shape[axis] > 1 and mask.stride(axis) for axis in repeated)


def _scatters_one_value(written: torch.Tensor, others: list[torch.Tensor]) -> bool:
    """Return whether all indices get one value. Indices are told by their dtype, unless it is the target's too."""
    values = others if written.dtype in _INDICES else [other for other in others if other.dtype not in _INDICES]
    return all(value.numel() == 1 for value in values)


def overlaps_of(access: Access, args: Args, kwargs: Kwargs) -> dict[Overlap, torch.Tensor]:
    """The written tensors of a call that overlap themselves, each other, or a tensor that the same call reads."""
    overlapping: dict[Overlap, torch.Tensor] = {}
    written, scattered, read = [], [], []
    for tensor, role in access.tensors(args, kwargs):
        if tensor.layout is not torch.strided or tensor.is_nested:
            continue
        if role in (WRITES, UPDATES) or (role == SCATTERS and access.is_masked):
            written.append(tensor)
        elif role in (SCATTERS, ACCUMULATES):
            scattered.append(tensor)
        elif role == READS:
            read.append(tensor)
    for tensor in written:
        if not tensor.is_contiguous() and writes_over_itself(tensor) and not _is_one_value(access, tensor, read):
            overlapping[Overlap.ITSELF] = tensor
    for tensor in scattered:
        if not tensor.is_contiguous() and writes_over_itself(tensor) and not _scatters_one_value(tensor, read):
            overlapping[Overlap.INDEXED] = tensor
    targets: defaultdict[int, list[torch.Tensor]] = defaultdict(list)
    for tensor in written if read or len(written) > 1 else ():
        targets[seams.storage_id(tensor)].append(tensor)
    if access.is_product and access.unread_where and access.arguments[0][2] == READS:
        del read[:1]  # the addend is no factor
    pairs = ((tensor, other) for other in read for tensor in targets.get(seams.storage_id(other), ()))
    is_shared = any(len(several) > 1 for several in targets.values())
    for tensor, other in islice(pairs, _MOST_PAIRS):
        is_shared = True
        if access.is_product:
            if tensor.numel() > 1 and share_bytes(_laid_as(tensor), _laid_as(other)) is True:
                overlapping[Overlap.OPERAND] = tensor
        elif tensor is not other and shares_with_source(tensor, other):
            overlapping[Overlap.SOURCE] = tensor
    if is_shared and not access.is_idempotent:
        roles = ((argument_at(at, name, args, kwargs), role) for at, name, role in access.arguments)
        lists = ((values, role in (WRITES, UPDATES)) for values, role in roles if isinstance(values, (list, tuple)))
        entry = shared_entry(lists)
        if entry is not None:
            overlapping[Overlap.ENTRIES] = entry
    return overlapping


def shared_entry(lists: Iterable[tuple[Iterable[Any], bool]]) -> torch.Tensor | None:
    """An entry of a call's lists, each with whether it is written, that shares memory with one at another place.
    CUDA takes lists as a whole only where every tensor is dense."""
    entries = []
    for values, is_written in lists:
        for place, tensor in enumerate(values):
            if isinstance(tensor, torch.Tensor) and tensor.layout is torch.strided and not tensor.is_nested:
                if span_of(tensor.shape, tensor.stride(), tensor.itemsize) != tensor.nbytes:
                    return None
                begin = tensor.storage_offset() * tensor.itemsize
                entries.append((seams.storage_id(tensor), begin, begin + tensor.nbytes, place, is_written, tensor))
    reached: list[Any] = []
    for entry in sorted(entries, key=itemgetter(0, 1)):
        reached = [other for other in reached if other[0] == entry[0] and other[2] > entry[1]]
        if any(other[3] != entry[3] and (other[4] or entry[4]) for other in reached):
            return entry[-1]
        reached.append(entry)
    return None


def has_parameters_twice(optimizer: Any) -> bool:
    """Return whether an optimizer of torch's, which takes lists on CUDA if it is free to, has a parameter twice."""
    groups = [group for group in optimizer.param_groups if group.get("foreach", 0) is None and not group.get("fused")]
    parameters = [list(map(id, group["params"])) for group in groups]
    return any(len(set(several)) < len(several) for several in parameters)
