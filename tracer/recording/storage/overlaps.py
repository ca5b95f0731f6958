"""Writes to memory that overlaps: a tensor with several elements at one address, or a source that is partly the target.

torch refuses what it can tell at a glance (a stride of 0, two dense tensors that share a part). What is decided here
is the rest, exactly and within bounds; what would take longer is not reported.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from functools import lru_cache
from itertools import islice
from operator import itemgetter
from typing import Any

import torch

from tracer.facts.argument_readers import Args, Kwargs
from tracer.names import Overlap
from tracer.recording.storage.accesses import ACCUMULATES, READS, SCATTERS, UPDATES, WRITES, Access, argument_at
from tracer.recording.storage.byte_runs import Region, is_same, overlaps_itself, share_bytes
from tracer.recording.torch_private import storages

_MOST_LAYOUTS = 1024
#: Lists of many views of one buffer are compared up to here.
_MOST_PAIRS = 1024
#: What a tensor is of that counts places.
_INDICES = frozenset({torch.int64, torch.int32, torch.bool, torch.uint8})


def region_of(tensor: torch.Tensor) -> Region:
    """The place of ``tensor`` in its storage."""
    return Region(int(tensor.storage_offset()), tuple(tensor.shape), tensor.stride(), tensor.itemsize)


def writes_over_itself(tensor: torch.Tensor) -> bool:
    """Return whether several elements of ``tensor`` certainly lie at one address."""
    return _overlaps(tuple(tensor.shape), tensor.stride())


@lru_cache(_MOST_LAYOUTS)
def _overlaps(sizes: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    return overlaps_itself(Region(0, sizes, strides, 1)) is True


def shares_with_source(written: torch.Tensor, read: torch.Tensor) -> bool:
    """Return whether a read tensor of the same storage is certainly a part of the written one, and not the same."""
    target, source = region_of(written), region_of(read)
    if target.is_empty or source.is_empty or is_same(target, source):
        return False
    return share_bytes(target, source) is True


def is_one_value(access: Access, written: torch.Tensor, others: list[torch.Tensor]) -> bool:
    """Return whether all elements at one address get the same value, whichever is last.

    So it is where the op gives a constant, or what it would give applied again (``relu_``), where a copy has one value
    to give, and where a mask says the same of all elements at one address.
    """
    if access.is_idempotent or access.copies:
        return all(other.numel() == 1 for other in others)
    if access.is_masked and others:
        mask, *values = others
        return all(value.numel() == 1 for value in values) and _is_constant_over(mask, written)
    return False


def _scatters_one_value(written: torch.Tensor, others: list[torch.Tensor]) -> bool:
    """Return whether all indices get one value. Indices are told from values by their dtype; where the target is of
    such a dtype itself, every tensor counts as values."""
    values = others if written.dtype in _INDICES else [other for other in others if other.dtype not in _INDICES]
    return all(value.numel() == 1 for value in values)


def _is_constant_over(mask: torch.Tensor, written: torch.Tensor) -> bool:
    """Return whether ``mask`` is broadcast along every dimension along which ``written`` stays at one address."""
    axes = list(enumerate(zip(written.shape, written.stride(), strict=True), mask.ndim - written.ndim))
    repeated = [axis for axis, (size, stride) in axes if size > 1 and stride == 0]
    rest = [size_and_stride for axis, size_and_stride in axes if axis not in repeated]
    distinct = Region(0, tuple(size for size, _ in rest), tuple(stride for _, stride in rest), 1)
    if overlaps_itself(distinct) is not False:
        return False
    return not any(axis >= 0 and mask.shape[axis] > 1 and mask.stride(axis) for axis in repeated)


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
        if not tensor.is_contiguous() and writes_over_itself(tensor) and not is_one_value(access, tensor, read):
            overlapping[Overlap.ITSELF] = tensor
    for tensor in scattered:
        if not tensor.is_contiguous() and writes_over_itself(tensor) and not _scatters_one_value(tensor, read):
            overlapping[Overlap.INDEXED] = tensor
    targets: defaultdict[int, list[torch.Tensor]] = defaultdict(list)
    for tensor in written if read or len(written) > 1 else ():
        targets[storages.storage_id(tensor)].append(tensor)
    if access.is_product and access.unread_where and access.arguments[0][2] == READS:
        del read[:1]  # the addend is no factor
    pairs = ((tensor, other) for other in read for tensor in targets.get(storages.storage_id(other), ()))
    is_shared = any(len(several) > 1 for several in targets.values())
    for tensor, other in islice(pairs, _MOST_PAIRS):
        is_shared = True
        if access.is_product:
            if tensor.numel() > 1 and share_bytes(region_of(tensor), region_of(other)) is True:
                overlapping[Overlap.OPERAND] = tensor
        elif tensor is not other and shares_with_source(tensor, other):
            overlapping[Overlap.SOURCE] = tensor
    if is_shared and not access.is_idempotent:
        lists = [
            (argument_at(at, name, args, kwargs), role in (WRITES, UPDATES)) for at, name, role in access.arguments
        ]
        entry = shared_entry((values, is_written) for values, is_written in lists if isinstance(values, (list, tuple)))
        if entry is not None:
            overlapping[Overlap.ENTRIES] = entry
    return overlapping


def shared_entry(lists: Iterable[tuple[Iterable[Any], bool]]) -> torch.Tensor | None:
    """An entry of a call's lists that shares memory with an entry at another place, where one of both is written.

    Each list is given with whether it is written. CUDA takes lists as a whole only where every tensor is dense.
    """
    entries = []
    for values, is_written in lists:
        for place, tensor in enumerate(values):
            if isinstance(tensor, torch.Tensor) and tensor.layout is torch.strided and not tensor.is_nested:
                begin, end = region_of(tensor).extent
                if end - begin != tensor.nbytes:
                    return None
                entries.append((storages.storage_id(tensor), begin, end, place, is_written, tensor))
    reached: list[Any] = []
    for entry in sorted(entries, key=itemgetter(0, 1)):
        reached = [other for other in reached if other[0] == entry[0] and other[2] > entry[1]]
        if any(other[3] != entry[3] and (other[4] or entry[4]) for other in reached):
            return entry[-1]
        reached.append(entry)
    return None


def has_parameters_twice(optimizer: Any) -> bool:
    """Return whether an optimizer of torch's, which takes lists on CUDA if it is free to, has a parameter twice.

    Where it was told to take them it does so here too, and its calls show it.
    """
    groups = [group for group in optimizer.param_groups if group.get("foreach", 0) is None and not group.get("fused")]
    parameters = [list(map(id, group["params"])) for group in groups]
    return any(len(set(several)) < len(several) for several in parameters)
