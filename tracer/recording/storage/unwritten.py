"""Uninitialized memory: is it read before all of it is written?

Followed per storage, from the op that gave it to the one that writes the last byte, through views and in-place ops.
No tensor and no memory is kept alive: a storage is known by its identity, which a weak reference reserves. The table
holds the storages that live and are not wholly written; most programs write at once, and it is empty nearly always.

Where writes could go unseen, a storage is given up and counted: handed to numpy or another library, written by an op
at places that only its data know, or of a torch extension that does not dispatch what it writes.
"""

from __future__ import annotations

import mmap
import os
import sys
from collections.abc import Iterator
from importlib.machinery import EXTENSION_SUFFIXES
from types import FrameType
from typing import Any

import torch

from tracer.recording.storage import accesses
from tracer.recording.storage.accesses import Access
from tracer.recording.storage.byte_runs import (
    MOST_RUNS,
    Runs,
    carried,
    meet,
    runs_of,
    size_of,
    whole,
    with_more,
    without,
)
from tracer.recording.storage.indices import Indices, written_through
from tracer.recording.storage.overlaps import region_of
from tracer.recording.storage.registry import StorageRegistry, StorageTable
from tracer.recording.torch_private import compile_seams, seams, storages

#: Every library of functions on torch tensors names one of torch's own.
_MARKS = (b"c10.dll",) if sys.platform == "win32" else (b"libc10", b"libtorch")
#: Known to be built without torch: not searched. (Triton asks tensors for their address.)
_WITHOUT_TORCH = frozenset(
    {"torch", "functorch", "triton", "numpy", "scipy", "pandas", "pyarrow", "sklearn", "cv2", "PIL"}
)
_STANDARD_LIBRARY = f"{os.sep}lib-dynload{os.sep}"
#: They take tensors without calling a method of them.
_BY_NAME = ("tvm_ffi",)
#: Parts of torch that hand what they allocate to a library that writes it.
_OWN_PARTS = tuple(
    os.path.join(os.path.dirname(torch.__file__), *parts, "")
    for parts in (("nn", "parallel"), ("distributed",), ("cuda",), ("_inductor",), ("sparse",), ("xpu",))
) + (os.path.join(os.path.dirname(torch.__file__), "quasirandom.py"),)
#: Functions of torch whose C++ writes to what it allocates: the lengths of a packed sequence.
_OWN_FUNCTIONS = {os.path.join(os.path.dirname(torch.__file__), "nn", "utils", "rnn.py"): "pad_packed_sequence"}
_OPS_FILE = os.path.join(os.path.dirname(torch.__file__), "_ops.py")
_known: dict[str, bool] = {}
_modules_seen = 0
_found = False


def is_written_unseen(frame: FrameType | None) -> bool:
    """May memory that was given to ``frame`` just now be written by the caller without a dispatch?"""
    if frame is not None:
        code = frame.f_code
        if code.co_filename.startswith(_OWN_PARTS) or _OWN_FUNCTIONS.get(code.co_filename) == code.co_name:
            return True
        if code.co_filename == _OPS_FILE and not _calls_torchs_own(frame):
            return True
    node = seams.current_node()
    return node is not None and type(node).__name__ == "CppFunction"


def _calls_torchs_own(frame: FrameType) -> bool:
    """Is the op that is called in ``frame`` one of torch's? Another one's body may allocate, and write by itself."""
    name = str(frame.f_locals.get("self", ""))
    return name.startswith(("aten.", "prims."))


def has_foreign_extension() -> bool:
    """Has the process loaded an extension module that is built on torch and is no part of it?

    The kernels that Inductor compiles are such modules too; they run in regions, and those are seen to run.
    """
    global _modules_seen, _found
    if not _found and len(sys.modules) != _modules_seen:
        _modules_seen = len(sys.modules)
        _found = any(_is_foreign(name, module) for name, module in list(sys.modules.items()))
    return _found


def _is_foreign(name: str, module: Any) -> bool:
    answer = _known.get(name)
    if answer is None:
        top = name.partition(".")[0]
        path = getattr(module, "__file__", None) or ""
        answer = _known[name] = top in _BY_NAME or (
            top not in _WITHOUT_TORCH
            and isinstance(path, str)
            and _STANDARD_LIBRARY not in path
            and path.endswith(tuple(EXTENSION_SUFFIXES))
            and not (compile_seams.SEES_REGIONS and compile_seams.is_generated(name, path))
            and _names_torch(path)
        )
    return answer


def _names_torch(path: str) -> bool:
    try:
        with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            return any(content.find(mark) >= 0 for mark in _MARKS)
    except (OSError, ValueError):
        return True


_PRUNE_AT_LEAST = 16
_PRUNE_EVERY = 8
_Tensor = torch.Tensor


class FreshMemory:
    """What one group of calls gave out."""

    __slots__ = ("bytes", "count", "counter", "op", "unfollowed")

    def __init__(self, op: str, counter: Any) -> None:
        self.op = op
        self.counter = counter
        self.count = self.bytes = self.unfollowed = 0


class WatchedStorage:
    """A storage that is not wholly written yet."""

    __slots__ = ("given", "runs", "scattered", "size", "writes")

    def __init__(self, allocation: FreshMemory, size: int) -> None:
        self.given = allocation
        self.size = size
        self.runs: Runs | None = None
        """The unwritten bytes; ``None``: all of them."""
        self.writes = 0
        """Writes that were seen."""
        self.scattered = 0
        """Bytes that were written somewhere, at most: of more than these, some are unwritten still."""


class UnwrittenMemory(StorageTable[WatchedStorage]):
    """Unwritten memory of one recording."""

    def __init__(self, registry: StorageRegistry, indices: Indices) -> None:
        """``indices``: those that are known to be of distinct numbers."""
        super().__init__(registry)
        self._indices = indices
        self.given: dict[Any, FreshMemory] = {}
        self.reads_seen = 0
        """Reads of unwritten memory so far."""
        self.reads: dict[tuple[FreshMemory, Any], tuple[str, int]] = {}
        """Reads by what gave the memory and by the group of the reader: its op, and how many."""
        self._prune_at = _PRUNE_AT_LEAST

    # --- giving out ---

    def gave(self, op: str, counter: Any, tensor: Any, frame: Any) -> None:
        """``tensor`` was made without being written."""
        if not _has_memory(tensor) or tensor.layout is not torch.strided or tensor.device.type == "meta":
            return
        if not tensor.numel() or tensor.is_nested or tensor.is_quantized:
            return
        allocation = self._counted(op, counter, tensor.numel() * tensor.itemsize)
        if not storages.fills_uninitialized_memory():
            self._watch(allocation, tensor, frame)

    def grew(self, op: str, counter: Any, tensor: Any, before: int, frame: Any) -> None:
        """``tensor`` was resized; its storage had ``before`` bytes."""
        identity = storages.storage_id(tensor)
        if not identity or tensor.device.type == "meta" or seams.answers_for_itself(type(tensor)):
            return
        size = storages.storage_bytes(tensor)
        if size <= before:
            return
        allocation = self._counted(op, counter, size - before)
        if storages.fills_uninitialized_memory():
            return
        added = without(whole(size), whole(before))
        watched = self.live.get(identity)
        if watched is None:
            watched = self._watch(allocation, tensor, frame)
            if watched is not None and before:
                watched.runs = added
        elif watched.runs is not None:
            watched.runs = with_more(watched.runs, added)
        if watched is not None:
            watched.size = size
            watched.writes = max(watched.writes, _version_of(tensor)) + 1  # resizing counts as a write

    def _counted(self, op: str, counter: Any, size: int) -> FreshMemory:
        allocation = self.given.get(counter)
        if allocation is None:
            allocation = self.given[counter] = FreshMemory(op, counter)
        allocation.count += 1
        allocation.bytes += size
        return allocation

    def _watch(self, allocation: FreshMemory, tensor: torch.Tensor, frame: Any) -> WatchedStorage | None:
        if not storages.WATCHES_STORAGES or is_written_unseen(frame):
            allocation.unfollowed += 1
            return None
        if len(self.live) >= self._prune_at or not allocation.count % _PRUNE_EVERY:
            self.prune()
            self._prune_at = max(_PRUNE_AT_LEAST, 2 * len(self.live))
        identity = storages.storage_id(tensor)
        return self.enter(tensor, identity, WatchedStorage(allocation, storages.storage_bytes(tensor)))

    # --- following ---

    def follow(self, access: Access, op: str, counter: Any, args: tuple[Any, ...], kwargs: Any, result: Any) -> None:
        """A call returned that had an argument on a watched storage: what did it read, and what did it write?"""
        written: list[tuple[WatchedStorage, torch.Tensor]] = []
        carried_from: list[tuple[int, WatchedStorage, torch.Tensor]] = []
        for tensor, role in access.tensors(args, kwargs):
            identity = storages.storage_id(tensor)
            watched = self.live.get(identity)
            if watched is None:
                continue
            is_plain = tensor.layout is torch.strided and not tensor.is_nested
            if access.is_foreign or not is_plain or role == accesses.SELECTS:
                self._give_up(identity)
            elif role == accesses.SCATTERS:
                count = written_through(op, args, self._indices) if tensor is args[0] else None
                if count is None:
                    self._give_up(identity)
                elif count == tensor.numel():
                    written.append((watched, tensor))
                else:
                    watched.writes += 1
                    watched.scattered += abs(count) * tensor.itemsize
            elif role == accesses.WRITES:
                written.append((watched, tensor))
            elif role in (accesses.GATHERS, accesses.ACCUMULATES):
                is_wholly_unwritten = watched.runs is None and not watched.scattered
                if is_wholly_unwritten and _all_have_elements(args):
                    self._read(identity, watched, tensor, op, counter)
                if role == accesses.ACCUMULATES or not is_wholly_unwritten:
                    self._give_up(identity)
            elif access.moves or access.copies:
                carried_from.append((identity, watched, tensor))
            else:
                self._read(identity, watched, tensor, op, counter)
                if role == accesses.UPDATES:
                    written.append((watched, tensor))
        if carried_from:
            self._carry_all(access, args, result, carried_from, written)
            return
        for watched, tensor in written:
            self._write(watched, tensor)

    def _carry_all(
        self,
        access: Access,
        args: tuple[Any, ...],
        result: Any,
        sources: list[tuple[int, WatchedStorage, torch.Tensor]],
        written: list[tuple[WatchedStorage, torch.Tensor]],
    ) -> None:
        """A copy was made of watched storages: what they held before it is what the target holds after it."""
        carried = [(identity, watched, watched.runs, tensor) for identity, watched, tensor in sources]
        for watched, tensor in written:
            self._write(watched, tensor)
        for identity, watched, runs, source in carried:
            if access.moves:
                targets = [result]
            elif isinstance(args[0], _Tensor):
                targets = [args[0]]
            else:
                targets = [target for target, other in zip(args[0], args[1], strict=False) if other is source]
            for target in targets:
                self._carry(identity, watched, runs, source, target)

    def _read(self, identity: int, watched: WatchedStorage, tensor: torch.Tensor, op: str, counter: Any) -> None:
        if not tensor.numel():
            return
        if watched.runs is not None or watched.scattered:
            runs = runs_of(region_of(tensor))
            if runs is None:
                self._give_up(identity)
                return
            unwritten = watched.runs if watched.runs is not None else whole(watched.size)
            if not meet(unwritten, runs):
                return
            if watched.scattered and size_of(unwritten) - size_of(without(unwritten, runs)) <= watched.scattered:
                self._give_up(identity)  # what was written somewhere may have been all that is read here
                return
        if _version_of(tensor) > watched.writes or has_foreign_extension():
            self._give_up(identity)  # somebody wrote, and was not seen
            return
        self.reads_seen += 1
        key = (watched.given, counter)
        self.reads[key] = (op, self.reads.get(key, ("", 0))[1] + 1)

    def _write(self, watched: WatchedStorage, tensor: torch.Tensor) -> None:
        identity = storages.storage_id(tensor)
        if self.live.get(identity) is not watched:
            return
        watched.writes += 1
        if tensor.is_contiguous() and tensor.nbytes >= watched.size:  # nearly always: all of it at once
            self.drop(identity)
            return
        if not tensor.numel():
            return
        runs = runs_of(region_of(tensor))
        if runs is None:
            self._give_up(identity)
            return
        if len(runs[0]) == 1 and runs[0][0] == 0 and runs[1][0] >= watched.size:
            self.drop(identity)
            return
        left = without(watched.runs if watched.runs is not None else whole(watched.size), runs)
        if not len(left[0]):
            self.drop(identity)
        elif len(left[0]) > MOST_RUNS:
            self._give_up(identity)
        else:
            watched.runs = left

    def _carry(
        self, identity: int, watched: WatchedStorage, unwritten: Runs | None, source: torch.Tensor, target: Any
    ) -> None:
        """A copy of unwritten memory is unwritten memory: the call that reads the copy is reported, not the copy."""
        if watched.scattered:
            self._give_up(identity)
            return
        if not source.numel() or not _has_memory(target) or target.device.type == "meta":
            return
        reached = storages.storage_id(target)
        if not reached or target.layout is not torch.strided:
            return
        runs = carried(unwritten, region_of(source), region_of(target))
        if runs is not None and not len(runs[0]):
            return
        if runs is None or len(runs[0]) > MOST_RUNS or _version_of(source) > watched.writes:
            self._give_up(identity)
            return
        follower = self.live.get(reached)
        if follower is None:
            follower = self._watch(watched.given, target, None)
            if follower is None:
                return
            follower.runs = runs
        elif follower.runs is not None:
            follower.runs = with_more(follower.runs, runs)
        follower.writes = max(follower.writes, _version_of(target)) + 1

    # --- letting go ---

    def escaped(self, identity: int) -> None:
        """The memory of a storage is in other hands: what they write is not seen."""
        self._give_up(identity)

    def handed_over(self, tensor: torch.Tensor) -> FreshMemory | None:
        """A region is about to take ``tensor``; who gave its memory, where nothing of it is written?"""
        identity = storages.storage_id(tensor)
        watched = self.live.get(identity)
        if watched is None:
            return None
        is_unwritten = watched.runs is None and not watched.scattered and tensor.numel() > 0
        is_unwritten = is_unwritten and _version_of(tensor) <= watched.writes and not has_foreign_extension()
        self._give_up(identity)
        return watched.given if is_unwritten else None

    def give_up_all(self) -> None:
        """Something ran that may write to any tensor, unseen."""
        for identity in list(self.live):
            self._give_up(identity)

    def _give_up(self, identity: int) -> None:
        watched = self.drop(identity)
        if watched is not None:
            watched.given.unfollowed += 1

    def unwritten_reads(self) -> Iterator[tuple[FreshMemory, Any, str, int]]:
        """What gave the memory, the group of the reader, its op, and the number of its reads."""
        for (allocation, counter), (op, count) in sorted(self.reads.items(), key=lambda item: item[0][1].order):
            yield allocation, counter, op, count


def _has_memory(tensor: Any) -> bool:
    """Has it a storage of its own? A fake tensor has one too, of which no byte exists."""
    kind = type(tensor)
    return kind is _Tensor or kind is torch.nn.Parameter or seams.is_fake(kind)


def _all_have_elements(args: tuple[Any, ...]) -> bool:
    return all(value.numel() for value in args if isinstance(value, _Tensor))


def _version_of(tensor: torch.Tensor) -> int:
    try:
        return int(tensor._version)
    except RuntimeError:  # made in inference mode
        return 0
