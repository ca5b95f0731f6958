"""The storages that a recording tracks: tables are notified when one dies, or when its memory escapes.

A weak reference reserves a storage's identity while a table has an entry for it. Methods of ``torch.Tensor`` that hand
memory out are noticed when they are looked up, and stay what they are.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Container, Iterable
from functools import partial
from itertools import islice
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

import torch

from tracer.facts import Args, Kwargs
from tracer.recording.origin import outwards
from tracer.recording.patching import WatchedFunction, Watchers
from tracer.recording.storage import Access
from tracer.recording.torch_private import seams

EntryT = TypeVar("EntryT")
_PRUNE_AT_LEAST = 4096
#: ``storage``, ``share_memory_`` and pickling go through ``untyped_storage``; ``__array__`` through ``numpy``.
_METHODS = ("data_ptr", "numpy", "untyped_storage", "tolist", "apply_", "map_", "map2_", "__dlpack__")
#: Those through which all of the storage is reached, not the tensor's own part alone.
_REACH_ALL = ("data_ptr", "untyped_storage")
_SUBCLASSES = os.path.join(os.path.dirname(torch.__file__), "_subclasses")
_DESCRIBES = os.path.join(_SUBCLASSES, "meta_utils.py")
_FAKES = os.path.join(_SUBCLASSES, "fake_tensor.py")
#: At most so many frames of the watch itself lie between the look-up of a method and the code that looks it up.
_MOST_FRAMES = 5


class StorageTable(Generic[EntryT]):
    """One subject's record of storages."""

    def __init__(self, registry: StorageRegistry | None = None) -> None:
        """``registry``: that of the recording; a table that stands alone has its own."""
        self._registry = StorageRegistry() if registry is None else registry
        self.live: dict[int, EntryT] = {}
        """By the identity of the storage; ``drop`` and ``enter`` alone change which ones these are."""
        self._registry.tables.append(self)

    def enter(self, tensor: Any, identity: int, entry: EntryT) -> EntryT:
        """Keep ``entry`` for the storage of ``tensor``, which lives; nothing for a tensor without one: a sparse one."""
        if identity:
            self._registry.reserve(tensor, identity)
            self.live[identity] = entry
        return entry

    def drop(self, identity: int) -> EntryT | None:
        entry = self.live.pop(identity, None)
        if entry is not None:
            self._registry.release(identity)
        return entry

    def forget_written(self, access: Access, args: Args, kwargs: Kwargs) -> None:
        for tensor in args[:1] if access.is_simple else access.written_tensors(args, kwargs):
            self.drop(seams.storage_id(tensor))

    def prune(self) -> None:
        self._registry.prune(list(self.live))

    def give_up(self, identity: int) -> None:
        self.drop(identity)

    def give_up_part(self, tensor: torch.Tensor) -> None:
        self.give_up(seams.storage_id(tensor))

    def give_up_all(self) -> None:
        for identity in list(self.live):
            self.give_up(identity)


class Role(NamedTuple):
    """The role that calls of one overload play for a table of numbers. Decided once per overload."""

    kind: int
    """``WRITES``, ``COMPUTES`` or ``MAKES``: what is known of numbers comes from arguments, or from nothing."""
    name: str
    is_mutable: bool
    by_first: bool = False
    """Whether it does nothing of which the table knows unless it knows of the first argument."""
    dim: int = -1
    """The position of the argument ``dim``; -1 for a keyword."""


WRITES, COMPUTES, MAKES = 1, 2, 3
#: So many tensors are known at once; the oldest is forgotten first.
MOST_TENSORS = 256
#: Calls on tensors of which nothing is known, beyond two for each that is, until those that are gone are forgotten.
_PATIENCE = 16


class NumbersTable(StorageTable[tuple[int, torch.dtype, EntryT]], Generic[EntryT]):
    """One subject's record of tensors of whose numbers something is known, until somebody writes to them. Each entry
    stands behind a version and a dtype; no entry means that nothing is known."""

    dtypes: ClassVar[Container[torch.dtype]] = ()
    keeps_meta = False
    """Whether meta tensors are known too: they stand for a graph's values."""
    _missed = 0
    _most_missed = _PATIENCE

    def entry_of(self, tensor: Any) -> EntryT | None:
        """Return the entry of the storage of ``tensor``, unless it was written since or is read as another dtype."""
        known = self.live.get(seams.storage_id(tensor)) if self.live else None
        if known is None or tensor.dtype is not known[1] or seams.version_of(tensor) != known[0]:
            return None
        return known[2]

    def after(self, role: Role, access: Access, args: Args, kwargs: Kwargs, result: Any) -> None:
        try:
            if role.by_first or (role.kind == WRITES and access.is_simple):
                first = args[0]
                if seams.storage_id(first) not in self.live and first.dtype is not torch.bool:
                    self._missed += 1
                    if self._missed > self._most_missed:
                        self.prune()
                        self._missed, self._most_missed = 0, _PATIENCE + 2 * len(self.live)
                    return
            if role.kind == WRITES:
                self.forget_written(access, args, kwargs)
            else:
                self.note(role, access, args, kwargs, result)
        except Exception:  # arguments of an unforeseen kind: nothing is known any more
            self.give_up_all()

    def note(self, role: Role, access: Access, args: Args, kwargs: Kwargs, result: Any) -> None:
        raise NotImplementedError

    def _keep(self, tensor: Any, entry: EntryT, writes: int) -> None:
        """Keep what is known of a tensor's numbers, or forget them. ``writes``: those that its version counts once the
        call is over."""
        if not seams.WATCHES_STORAGES or (type(tensor) is not torch.Tensor and not seams.is_fake(type(tensor))):
            return
        identity = seams.storage_id(tensor)
        is_plain = tensor.dtype in self.dtypes and tensor.layout is torch.strided
        is_plain = is_plain and (self.keeps_meta or tensor.is_cpu or tensor.device.type != "meta")
        version = seams.version_of(tensor) if is_plain else -1
        if not identity or version < 0:
            self.drop(identity)
            return
        if self.live.pop(identity, None) is None and len(self.live) >= MOST_TENSORS:  # it is the newest now
            self.prune()
            if len(self.live) >= MOST_TENSORS:
                self.drop(next(iter(self.live)))
        self.enter(tensor, identity, (version + writes, tensor.dtype, entry))


class StorageRegistry:
    """The storages of one recording, and the tables that know something of them."""

    def __init__(self) -> None:
        self.live: dict[int, int] = {}
        self.tables: list[StorageTable[Any]] = []
        self._prune_at = _PRUNE_AT_LEAST

    def reserve(self, tensor: Any, identity: int) -> None:
        """Keep ``identity`` from being given to another storage than that of ``tensor``."""
        if identity not in self.live:
            if len(self.live) >= self._prune_at:
                self.prune()
                self._prune_at = max(_PRUNE_AT_LEAST, 2 * len(self.live))
            self.live[identity] = seams.weak_storage(tensor)

    def release(self, identity: int) -> None:
        """A table forgot a storage: give its identity back if no other knows it."""
        for table in self.tables:
            if identity in table.live:
                return
        if identity in self.live:
            seams.free_weak_storage(self.live.pop(identity))

    def prune(self, among: Iterable[int] | None = None) -> None:
        for identity in list(self.live) if among is None else among:
            if identity in self.live and seams.is_expired(self.live[identity]):
                self._forget(identity)

    def forget(self) -> None:
        for identity in list(self.live):
            self._forget(identity)

    def escaped(self, tensor: Any, reaches_all: bool = False) -> None:
        """The memory of ``tensor`` is in other hands; ``reaches_all``: that of all of its storage."""
        identity = seams.storage_id(tensor)
        if identity in self.live:
            for table in self.tables:
                if identity in table.live:
                    table.give_up(identity) if reaches_all else table.give_up_part(tensor)

    def give_up_all(self) -> None:
        for table in self.tables:
            table.give_up_all()

    def _forget(self, identity: int) -> None:
        for table in self.tables:
            table.live.pop(identity, None)
        seams.free_weak_storage(self.live.pop(identity))


def _asked(reaches_all: bool, registry: StorageRegistry, tensor: Any) -> None:
    """A method was looked up on ``tensor``, or on its class (``None``): then it may be called on any tensor."""
    if registry.live:
        if tensor is None:
            registry.give_up_all()
        elif not _is_described():
            registry.escaped(tensor, reaches_all)


def _is_described() -> bool:
    """Return whether torch asks for a storage's size: to compile for such tensors, or for a fake view of a fake one."""
    codes = (frame.f_code for frame in islice(outwards(sys._getframe(1)), _MOST_FRAMES))
    asks = next((code for code in codes if code.co_filename in (_DESCRIBES, _FAKES)), None)
    return asks is not None and (asks.co_filename == _FAKES or asks.co_name == "describe_tensor")


#: The methods that hand out memory, replaced while somebody listens.
ESCAPES: Watchers[StorageRegistry] = Watchers(
    lambda: [
        *(WatchedFunction([(torch.Tensor, name)], asked=partial(_asked, name in _REACH_ALL)) for name in _METHODS),
        WatchedFunction(
            [(torch, "to_dlpack"), (torch.utils.dlpack, "to_dlpack")],
            before=lambda registry, call: registry.escaped(call.first),
        ),
    ]
)
