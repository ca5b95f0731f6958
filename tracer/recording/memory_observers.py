"""Observers of memory: uninitialized memory that calls allocate or read, writes that overlap.

A call that neither writes nor allocates costs one truth test while no storage is watched.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import torch

from tracer.facts.argument_readers import Args, Kwargs
from tracer.names import Overlap
from tracer.recording.calls import fact_readers
from tracer.recording.calls.groups import CallCounter, OverloadInfo
from tracer.recording.copies_in_flight import WAITS, CopiesInFlight
from tracer.recording.observers import Frame, Interest, Observer
from tracer.recording.origin.modules import Origin
from tracer.recording.origin.sites import spell
from tracer.recording.storage.known_numbers import Distinct, Indices, index_role, value_role
from tracer.recording.storage.overlaps import has_parameters_twice, overlaps_of, shared_entry, writes_over_itself
from tracer.recording.storage.registry import ESCAPES, MAKES, NumbersTable, Role, StorageRegistry
from tracer.recording.storage.unwritten import FreshMemory, UnwrittenMemory
from tracer.recording.torch_private import seams, storages
from tracer.trace.records import Allocation, OverlapWrite, UnwrittenRead

_Tensor = torch.Tensor
_Parameter = torch.nn.Parameter
#: What most arguments are that are no tensors.
_PLAIN = frozenset({int, float, bool, type(None), str, torch.dtype, torch.device})
#: What lists of tensors hold: collectives take lists of lists.
_IN_LISTS = (_Tensor, type(None), list, tuple)
_identify = storages.storage_id_of_strided
_is_contiguous = torch.Tensor.is_contiguous


class HandedOver(NamedTuple):
    """What is known of a region's inputs, by their positions."""

    unwritten: list[tuple[int, FreshMemory]]
    distinct: dict[int, Distinct]


class StorageObservers:
    """The observers of one recording's storages: unwritten and overlapping writes, growing storages, indices."""

    def __init__(self) -> None:
        self.registry = StorageRegistry()
        self.indices = Indices(self.registry)
        self.unwritten = UnwrittenMemory(self.registry, self.indices)
        self.writes = MemoryObserver(self.unwritten)
        self.copies = CopiesInFlight(self.registry)
        self.all: tuple[Observer, ...] = (
            self.writes,
            GrowthObserver(self.writes),
            self.copies,
            ContentsObserver(self.indices, index_role),
            ContentsObserver(self.indices.values, value_role),
        )

    def start(self) -> None:
        """Begin to watch."""
        ESCAPES.add(self.registry)
        WAITS.add(self.copies)

    def stop(self) -> None:
        """Watch no more, and forget the storages that live."""
        WAITS.discard(self.copies)
        ESCAPES.discard(self.registry)
        self.registry.forget()

    def fields(self) -> dict[str, Iterable[Any]]:
        """What the trace has of them."""
        return {
            "allocations": self.writes.allocations(),
            "unwritten_reads": self.writes.unwritten_reads(),
            "overlaps": (*self.writes.overlapping_writes(), *self.copies.listed()),
        }

    @property
    def is_following(self) -> bool:
        """Whether any memory is followed."""
        return bool(self.unwritten.live or self.indices.live or self.indices.values.live)

    def opaque(self, info: OverloadInfo, args: Args, kwargs: Kwargs) -> None:
        """A call is about to be made of which only the arguments are known."""
        if not self.is_following:
            return
        with seams.without_torch_function():
            for tensor, _ in info.access.tensors(args, kwargs):
                self._escaped(tensor)
        if isinstance(info.func, seams.HigherOrderOperator):
            self.give_up_all()

    def handed_over(self, inputs: Any) -> HandedOver:
        """A region is about to run on ``inputs``: returns what is known of them."""
        allocations: list[tuple[int, FreshMemory]] = []
        distinct: dict[int, Distinct] = {}
        try:
            for place, value in enumerate(inputs) if self.is_following else ():
                if isinstance(value, _Tensor):
                    allocation = self.unwritten.handed_over(value)
                    numbers = self.indices.of(value)
                    self._escaped(value)
                    if allocation is not None:
                        allocations.append((place, allocation))
                    if numbers is not None:
                        distinct[place] = numbers
        except Exception:  # a tensor without a storage
            self.give_up_all()
            return HandedOver([], {})
        return HandedOver(allocations, distinct)

    def give_up_all(self) -> None:
        """Something ran that may write to any tensor, unseen."""
        for table in (self.unwritten, self.indices, self.indices.values):
            table.give_up_all()

    def _escaped(self, tensor: torch.Tensor) -> None:
        for table in (self.unwritten, self.indices, self.indices.values):
            table.give_up_part(tensor)


class ContentsObserver(Observer):
    """Follows tensors of whose numbers something is known."""

    reads_data = False

    def __init__(self, table: NumbersTable[Any], role_of: Callable[[Any], Role | None]) -> None:
        self._table, self._role_of = table, role_of
        self._roles: dict[OverloadInfo, Role] = {}

    def wants(self, info: OverloadInfo) -> Interest:
        role = self._role_of(info.func)
        if role is None:
            return False
        self._roles[info] = role
        return True if role.kind == MAKES else self._table.live

    def after(
        self, begun: None, info: OverloadInfo, counter: CallCounter, args: Any, kwargs: Any, result: Any, frame: Frame
    ) -> None:
        self._table.after(self._roles[info], info.access, args, kwargs, result)


class GrowthObserver(Observer):
    """Memory that a storage gains when it is resized."""

    reads_data = False

    def __init__(self, writes: MemoryObserver) -> None:
        self._writes = writes

    def wants(self, info: OverloadInfo) -> Interest:
        return info.access.grows

    def before(self, info: OverloadInfo, counter: Any, asked: Any, args: Any, kwargs: Any) -> tuple[Any, int]:
        """The tensor, and the bytes of its storage."""
        tensor = info.primary(args, kwargs)
        return tensor, storages.storage_bytes(tensor) if storages.storage_id(tensor) else 0

    def after(
        self, begun: Any, info: OverloadInfo, counter: CallCounter, args: Any, kwargs: Any, result: Any, frame: Frame
    ) -> None:
        try:
            tensor, size = begun
            self._writes.unwritten.grew(info.name, counter, tensor, size, frame)
        except Exception:
            self._writes.fail(())


class MemoryObserver(Observer):
    """Notes memory that a call allocates or reads unwritten, and writes that overlap."""

    reads_data = False

    def __init__(self, unwritten: UnwrittenMemory) -> None:
        self.unwritten = unwritten
        self._live = unwritten.live
        self.overlaps: dict[tuple[CallCounter, Overlap, str], tuple[str, int]] = {}
        self._steppers: weakref.WeakKeyDictionary[Any, tuple[CallCounter, str] | None] = weakref.WeakKeyDictionary()
        """The optimizers that stepped, each with a counter of its own and its device if it has a parameter twice."""
        self.failures = 0
        """Calls that raised in this observer; everything that was watched then was given up."""

    def wants(self, info: OverloadInfo) -> Interest:
        """Calls that allocate or write; while memory is watched, those that read too."""
        if info.is_composite and info.decomposes:
            return False  # seen in parts
        if info.access.allocates or info.access.writes_at_known_places or info.access.writes_by_index:
            return True
        return self._live if info.access.arguments else False

    def after(
        self, begun: None, info: OverloadInfo, counter: CallCounter, args: Any, kwargs: Any, result: Any, frame: Frame
    ) -> None:
        access = info.access
        live = self._live
        try:
            is_watched = False
            if access.is_simple:
                written = args[0]
                is_doubtful = not written.is_contiguous() and writes_over_itself(written)
                identity = _identify(written) if live else 0
                for value in args:
                    kind = type(value)
                    if kind is float or kind is int or value is written:
                        continue
                    if kind is _Tensor or kind is _Parameter or isinstance(value, _Tensor):
                        other = _identify(value)
                        identity = identity or _identify(written)
                        if other == identity:
                            is_doubtful = True
                        elif other in live:
                            is_watched = True
                is_watched = is_watched or identity in live
            else:
                is_doubtful = access.writes_at_known_places or access.writes_by_index
                if is_doubtful and info.is_listed and not kwargs:
                    is_doubtful = self._is_doubtful_list(args)
                is_watched = bool(live) and self._is_watched(args, kwargs)
            if is_doubtful:
                for overlap, tensor in overlaps_of(access, args, kwargs).items():
                    key = (counter, overlap, fact_readers.device_word(tensor.device))
                    self.overlaps[key] = (info.name, self.overlaps.get(key, ("", 0))[1] + 1)
            if access.allocates:
                self.unwritten.gave(info.name, counter, result, frame)
            elif is_watched:
                self.unwritten.follow(access, info.name, counter, args, kwargs, result)
        except Exception:
            self.fail(args)

    def _is_watched(self, args: Args, kwargs: Any) -> bool:
        """Return whether a call has an argument on a watched storage."""
        live = self._live
        try:
            for value in args:
                kind = type(value)
                if kind is _Tensor or kind is _Parameter:
                    if _identify(value) in live:
                        return True
                elif kind is list or kind is tuple:
                    if value and isinstance(value[0], _IN_LISTS) and self._is_watched(value, None):
                        return True
                elif kind not in _PLAIN and isinstance(value, _Tensor) and _identify(value) in live:
                    return True
            return bool(kwargs) and self._is_watched(tuple(kwargs.values()), None)
        except (NotImplementedError, RuntimeError):  # a tensor without a storage among them: each by itself
            return True

    def fail(self, args: Args) -> None:
        """Gives up. A sparse tensor has no storage; anything else is unforeseen, and silence is better than a guess."""
        if not any(isinstance(value, _Tensor) and not storages.storage_id(value) for value in args):
            self.failures += 1
        self.unwritten.give_up_all()

    @staticmethod
    def _is_doubtful_list(args: Args) -> bool:
        written = args[0]
        if not all(map(_is_contiguous, written)) and any(map(writes_over_itself, written)):
            return True
        storages = set(map(_identify, written))
        if len(storages) < len(written) and shared_entry([(written, True)]) is not None:
            return True
        others = [value for value in args[1:] if type(value) is list or type(value) is tuple]
        if not any(value and isinstance(value[0], _Tensor) for value in others):
            return False
        return any(isinstance(item, _Tensor) and _identify(item) in storages for value in others for item in value)

    def optimizer_steps(self, optimizer: Any, origin: Origin) -> None:
        """An optimizer is about to step: a parameter that it has twice lies twice in the lists that CUDA takes."""
        if optimizer not in self._steppers:
            self._steppers[optimizer] = None
            if has_parameters_twice(optimizer):
                parameter = optimizer.param_groups[0]["params"][0]
                self._steppers[optimizer] = CallCounter(origin, None, None), fact_readers.device_word(parameter.device)
        stepper = self._steppers[optimizer]
        if stepper is not None:
            key = stepper[0], Overlap.ENTRIES, stepper[1]
            self.overlaps[key] = (f"{type(optimizer).__name__}.step", self.overlaps.get(key, ("", 0))[1] + 1)

    # --- for the trace ---

    def allocations(self) -> list[Allocation]:
        """Allocations in the order of their first calls."""
        found = sorted(self.unwritten.allocations.values(), key=lambda allocation: allocation.counter.order)
        return [
            Allocation(op=each.op, count=each.count, bytes=each.bytes, unfollowed=each.unfollowed, **where)
            for each in found
            for where in (each.counter.origin.in_words(),)
        ]

    def unwritten_reads(self) -> list[UnwrittenRead]:
        """Reads of unwritten memory."""
        return [
            UnwrittenRead(
                op=op,
                **counter.origin.in_words(),
                count=count,
                allocated_by=allocation.op,
                allocated_at=spell(allocation.counter.origin.site),
                allocated_from=spell(allocation.counter.origin.called_from),
            )
            for (allocation, counter, op), count in self.unwritten.unwritten_reads()
        ]

    def overlapping_writes(self) -> list[OverlapWrite]:
        """Writes to overlapping memory, in the order of their groups."""
        return [
            OverlapWrite(op=op, kind=kind, **counter.origin.in_words(), count=count, device=device)
            for (counter, kind, device), (op, count) in sorted(self.overlaps.items(), key=lambda met: met[0][0].order)
        ]
