"""Whether uninitialized memory is read before all of it is written.

Each storage is followed from the op that allocates it to the one that writes its last byte, through views and in-place
ops. What could be written unseen (by NumPy, an extension, at places that only data know) is given up and counted.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec
import numpy as np
import torch

from tracer.facts import Args, Kwargs
from tracer.recording.storage import ACCUMULATES, GATHERS, SCATTERS, SELECTS, UPDATES, WRITES, Access
from tracer.recording.storage.known_numbers import Indices, written_through
from tracer.recording.storage.native_code import extensions, is_written_unseen
from tracer.recording.storage.registry import StorageRegistry, StorageTable
from tracer.recording.torch_private import seams

_PRUNE_AT_LEAST = 16
_PRUNE_EVERY = 8
#: A storage of more elements is followed as a whole alone: no further than a write of a part of it.
_MOST_ELEMENTS = 1 << 24
_Tensor = torch.Tensor


class FreshMemory(msgspec.Struct, eq=False):
    op: str
    counter: Any
    count: int = 0
    bytes: int = 0
    unfollowed: int = 0


class WatchedStorage(msgspec.Struct, eq=False):
    allocation: FreshMemory
    size: int
    """In bytes."""
    itemsize: int
    """Of the tensor that it was allocated for."""
    mask: Any = None
    """Which elements are unwritten, an array of NumPy's; ``None``: all of them."""
    first: int = 0
    """No element before this one is unwritten."""
    writes: int = 0
    is_partly_given_up: bool = False
    scattered: int = 0
    """Elements that were written somewhere, at most: of more than these, some are unwritten still."""

    @property
    def is_untouched(self) -> bool:
        return self.mask is None and not self.scattered

    def elements(self, tensor: torch.Tensor, *, of: Any = None) -> Any:
        """The part of the mask, or ``of`` another one of its size, on which ``tensor`` lies; ``None``: not followed."""
        count = self.size // self.itemsize
        if tensor.itemsize != self.itemsize or count > _MOST_ELEMENTS:
            return None
        if of is None:
            self.mask = of = np.ones(count, np.bool_) if self.mask is None else self.mask
        try:
            return np.ndarray(tuple(tensor.shape), np.bool_, of, tensor.storage_offset(), tensor.stride())
        except (TypeError, ValueError):  # the storage was resized unseen
            return None


class UnwrittenMemory(StorageTable[WatchedStorage]):
    def __init__(self, registry: StorageRegistry, indices: Indices) -> None:
        """``indices``: those that are known to be of distinct numbers."""
        super().__init__(registry)
        self._indices = indices
        self.allocations: dict[Any, FreshMemory] = {}
        self.read_count = 0
        self._reads: Counter[tuple[FreshMemory, Any, str]] = Counter()
        self._prune_at = _PRUNE_AT_LEAST

    def gave(self, op: str, counter: Any, tensor: Any, frame: Any) -> None:
        if not _has_memory(tensor) or tensor.layout is not torch.strided:
            return
        is_meta = not tensor.is_cpu and tensor.device.type == "meta"
        if is_meta or tensor.is_nested or tensor.is_quantized or not tensor.numel():
            return
        allocation = self._counted(op, counter, tensor.nbytes)
        if not seams.fills_uninitialized_memory():
            self._watch(allocation, tensor, is_written_unseen(frame))

    def grew(self, op: str, counter: Any, tensor: Any, before: int, frame: Any) -> None:
        identity = seams.storage_id(tensor)
        if not identity or tensor.device.type == "meta" or seams.answers_for_itself(type(tensor)):
            return
        size = seams.storage_bytes(tensor)
        if size <= before:
            return
        allocation = self._counted(op, counter, size - before)
        if seams.fills_uninitialized_memory():
            return
        watched = self.live.get(identity)
        is_followed = watched is not None
        watched = watched or self._watch(allocation, tensor, is_written_unseen(frame))
        if watched is None:
            return
        count, held = size // watched.itemsize, before // watched.itemsize
        if count > _MOST_ELEMENTS and (before or is_followed):
            self.give_up(identity)
            return
        if watched.mask is not None or (before and not is_followed):
            mask = np.ones(count, np.bool_)
            mask[:held] = watched.mask[:held] if is_followed else False
            watched.mask, watched.first = mask, 0
        watched.size = size
        watched.writes = max(watched.writes, seams.version_of(tensor)) + 1  # resizing counts as a write

    def _counted(self, op: str, counter: Any, size: int) -> FreshMemory:
        allocation = self.allocations.get(counter)
        if allocation is None:
            allocation = self.allocations[counter] = FreshMemory(op, counter)
        allocation.count += 1
        allocation.bytes += size
        return allocation

    def _watch(self, allocation: FreshMemory, tensor: torch.Tensor, is_written: bool) -> WatchedStorage | None:
        if not seams.WATCHES_STORAGES or is_written:
            allocation.unfollowed += 1
            return None
        if len(self.live) >= self._prune_at or not allocation.count % _PRUNE_EVERY:
            self.prune()
            self._prune_at = max(_PRUNE_AT_LEAST, 2 * len(self.live))
        identity = seams.storage_id(tensor)
        return self.enter(tensor, identity, WatchedStorage(allocation, seams.storage_bytes(tensor), tensor.itemsize))

    def follow(self, access: Access, op: str, counter: Any, args: Args, kwargs: Kwargs, result: Any) -> None:
        """Record what a returned call, which had an argument on a watched storage, read and wrote."""
        written: list[tuple[WatchedStorage, torch.Tensor]] = []
        copied: list[tuple[WatchedStorage, Any, torch.Tensor]] = []
        for tensor, role in access.tensors(args, kwargs):
            identity = seams.storage_id(tensor)
            watched = self.live.get(identity)
            if watched is None:
                continue
            is_plain = tensor.layout is torch.strided and not tensor.is_nested
            if access.is_foreign or not is_plain or role == SELECTS:
                watched.writes += access.is_foreign
                self.give_up_part(tensor)
            elif role == SCATTERS:
                count = written_through(op, args, self._indices) if tensor is args[0] else None
                if count is None:
                    watched.writes += 1
                    self.give_up_part(tensor)
                elif count == tensor.numel():
                    written.append((watched, tensor))
                else:
                    watched.writes += 1
                    watched.scattered += abs(count)
            elif role == WRITES:
                written.append((watched, tensor))
            elif role in (GATHERS, ACCUMULATES):
                if watched.is_untouched and all(value.numel() for value in args if isinstance(value, _Tensor)):
                    self._read(identity, watched, tensor, op, counter)
                watched.writes += role == ACCUMULATES
                if role == ACCUMULATES or not watched.is_untouched:
                    self.give_up_part(tensor)
            elif access.moves or access.copies:
                held = True if watched.mask is None else watched.elements(tensor)
                copied.append((watched, held.copy() if isinstance(held, np.ndarray) else held, tensor))
            else:
                self._read(identity, watched, tensor, op, counter)
                if role == UPDATES:
                    written.append((watched, tensor))
        for watched, tensor in written:
            self._write(watched, tensor)
        for watched, held, source in copied:  # what they held before the copy is what the target holds after it
            if access.moves:
                targets = [result]
            elif isinstance(args[0], _Tensor):
                targets = [args[0]]
            else:
                targets = [target for target, other in zip(args[0], args[1], strict=False) if other is source]
            for target in targets:
                self._carry(watched, held, source, target)

    def _read(self, identity: int, watched: WatchedStorage, tensor: torch.Tensor, op: str, counter: Any) -> None:
        if not tensor.numel():
            return
        if not watched.is_untouched:
            unwritten = watched.elements(tensor)
            if unwritten is None:
                self.give_up(identity)
                return
            if not unwritten.any():
                return
            if watched.scattered:  # which may have been all that is read here
                read = np.zeros(len(watched.mask), np.bool_)
                watched.elements(tensor, of=read)[...] = unwritten
                if np.count_nonzero(read) <= watched.scattered:
                    self.give_up(identity)
                    return
        if seams.version_of(tensor) > watched.writes or extensions():
            self.give_up(identity)  # somebody wrote, and was not seen
            return
        self.read_count += 1
        self._reads[watched.allocation, counter, op] += 1

    def _write(self, watched: WatchedStorage, tensor: torch.Tensor) -> None:
        identity = seams.storage_id(tensor)
        if self.live.get(identity) is not watched:
            return
        watched.writes += 1
        if _is_whole(tensor, watched):  # nearly always
            self.drop(identity)
            return
        if tensor.numel():
            self._leave(watched, identity, watched.elements(tensor))

    def _leave(self, watched: WatchedStorage, identity: int, taken: Any) -> None:
        """Of its unwritten elements, those ``taken`` are known no more; ``None``: nobody follows which."""
        if taken is None:
            self.give_up(identity)
            return
        taken[...] = False
        left = watched.mask[watched.first :]
        watched.first += int(left.argmax()) if len(left) else 0
        if watched.first == len(watched.mask) or not watched.mask[watched.first]:
            self.drop(identity)

    def _carry(self, watched: WatchedStorage, held: Any, source: torch.Tensor, target: Any) -> None:
        """A copy of unwritten memory is unwritten memory: the call that reads the copy is reported, not the copy."""
        identity = seams.storage_id(source)
        if watched.scattered:
            self.give_up(identity)
            return
        if not source.numel() or not _has_memory(target) or target.device.type == "meta":
            return
        reached = seams.storage_id(target)
        if not reached or target.layout is not torch.strided:
            return
        if held is None or seams.version_of(source) > watched.writes:
            self.give_up(identity)
            return
        if not np.any(held):
            return
        follower = self.live.get(reached)
        is_new = follower is None
        follower = follower or self._watch(watched.allocation, target, False)
        if follower is None:
            return
        follower.writes = max(follower.writes, seams.version_of(target)) + 1
        is_whole = held is True and _is_whole(target, follower)
        if follower.mask is None and (is_whole or not is_new):
            return  # all of it is unwritten
        if is_new:
            follower.mask = np.zeros(follower.size // follower.itemsize, np.bool_)
        reach = follower.elements(target)
        if reach is None:
            self.give_up(reached)
        else:
            reach |= np.broadcast_to(held, reach.shape)
            follower.first = 0

    def handed_over(self, tensor: torch.Tensor) -> FreshMemory | None:
        """A region is about to take ``tensor``; returns its allocation if nothing of it is written."""
        identity = seams.storage_id(tensor)
        watched = self.live.get(identity)
        if watched is None:
            return None
        is_unwritten = watched.is_untouched and tensor.numel() > 0 and seams.version_of(tensor) <= watched.writes
        self.give_up_part(tensor)
        return watched.allocation if is_unwritten and not extensions() else None

    def give_up(self, identity: int) -> None:
        """The memory of a storage may be written unseen: follow it no more."""
        watched = self.drop(identity)
        if watched is not None and not watched.is_partly_given_up:
            watched.allocation.unfollowed += 1

    def give_up_part(self, tensor: torch.Tensor) -> None:
        """The memory of ``tensor`` may be written unseen: follow the rest of its storage alone."""
        identity = seams.storage_id(tensor)
        watched = self.live.get(identity)
        if watched is None:
            return
        is_plain = _has_memory(tensor) and tensor.layout is torch.strided and not tensor.is_nested
        taken = watched.elements(tensor) if is_plain and not _is_whole(tensor, watched) else None
        if taken is not None and taken.any() and not watched.is_partly_given_up:
            watched.is_partly_given_up = True
            watched.allocation.unfollowed += 1
        self._leave(watched, identity, taken)

    def unwritten_reads(self) -> list[tuple[tuple[FreshMemory, Any, str], int]]:
        return sorted(self._reads.items(), key=lambda item: item[0][1].order)


def _is_whole(tensor: torch.Tensor, watched: WatchedStorage) -> bool:
    return tensor.is_contiguous() and tensor.nbytes >= watched.size


def _has_memory(tensor: Any) -> bool:
    """Return whether ``tensor`` has a storage of its own. A fake tensor has one too, of which no byte exists."""
    kind = type(tensor)
    return kind is _Tensor or kind is torch.nn.Parameter or seams.is_fake(kind)
