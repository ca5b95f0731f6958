"""Observers of memory: uninitialized memory that calls allocate or read, writes that overlap, copies in flight.

A call that neither writes nor allocates costs one truth test while no storage is watched.
"""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import torch

from tracer.facts import Args, Kwargs
from tracer.names import Overlap
from tracer.ops import bare_name, row_of
from tracer.recording.calls import device_word
from tracer.recording.calls.groups import CallCounter, OverloadInfo
from tracer.recording.observers import Caller, Interest, Observer
from tracer.recording.origin import spell
from tracer.recording.origin.modules import Origin
from tracer.recording.patching import WatchedFunction, Watchers
from tracer.recording.storage import READS, argument_at
from tracer.recording.storage.known_numbers import Distinct, Indices, index_role, value_role
from tracer.recording.storage.overlaps import has_parameters_twice, overlaps_of, shared_entry, writes_over_itself
from tracer.recording.storage.registry import ESCAPES, MAKES, NumbersTable, Role, StorageRegistry, StorageTable
from tracer.recording.storage.unwritten import FreshMemory, UnwrittenMemory
from tracer.recording.torch_private import seams
from tracer.trace.records import Allocation, OverlapWrite, UnwrittenRead

_Tensor = torch.Tensor
_Parameter = torch.nn.Parameter
#: What most arguments are that are no tensors.
_PLAIN = frozenset({int, float, bool, type(None), str, torch.dtype, torch.device})
#: What lists of tensors hold: collectives take lists of lists.
_IN_LISTS = (_Tensor, type(None), list, tuple)
_identify = seams.storage_id_of_strided
_is_contiguous = torch.Tensor.is_contiguous


_Clash = tuple[str, CallCounter, Overlap, str]
"""Op, group, kind and device of what overlaps."""


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
        self._tables = (self.unwritten, self.indices, self.indices.values)
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
        ESCAPES.add(self.registry)
        WAITS.add(self.copies)

    def stop(self) -> None:
        WAITS.discard(self.copies)
        ESCAPES.discard(self.registry)
        self.registry.forget()

    def fields(self) -> dict[str, Iterable[Any]]:
        return {
            "allocations": self.writes.allocations(),
            "unwritten_reads": self.writes.unwritten_reads(),
            "overlaps": (*_overlap_writes(self.writes.overlaps), *_overlap_writes(self.copies.met)),
        }

    @property
    def is_following(self) -> bool:
        return any(table.live for table in self._tables)

    def opaque(self, info: OverloadInfo, args: Args, kwargs: Kwargs) -> None:
        """A call is about to be made of which only the arguments are known."""
        if not self.is_following:
            return
        if isinstance(info.func, seams.HigherOrderOperator):
            self.give_up_all()
        with seams.without_torch_function():
            for tensor, _ in info.access.tensors(args, kwargs):
                self._escaped(tensor)

    def handed_over(self, inputs: Any) -> HandedOver:
        """A region is about to run on ``inputs``: returns what is known of them."""
        known = HandedOver([], {})
        try:
            for place, value in enumerate(inputs) if self.is_following else ():
                if isinstance(value, _Tensor):
                    allocation, numbers = self.unwritten.handed_over(value), self.indices.of(value)
                    self._escaped(value)
                    if allocation is not None:
                        known.unwritten.append((place, allocation))
                    if numbers is not None:
                        known.distinct[place] = numbers
        except Exception:  # a tensor without a storage
            self.give_up_all()
            return HandedOver([], {})
        return known

    def give_up_all(self) -> None:
        """Something ran that may write to any tensor, unseen."""
        for table in self._tables:
            table.give_up_all()

    def _escaped(self, tensor: torch.Tensor) -> None:
        for table in self._tables:
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
        self, begun: None, info: OverloadInfo, counter: CallCounter, args: Any, kwargs: Any, result: Any, frame: Caller
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
        return tensor, seams.storage_bytes(tensor) if seams.storage_id(tensor) else 0

    def after(
        self, begun: Any, info: OverloadInfo, counter: CallCounter, args: Any, kwargs: Any, result: Any, frame: Caller
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
        self.overlaps: Counter[_Clash] = Counter()
        self._steppers: weakref.WeakKeyDictionary[Any, _Clash | None] = weakref.WeakKeyDictionary()
        """The optimizers that stepped, each with its clash if it has a parameter twice."""
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
        self, begun: None, info: OverloadInfo, counter: CallCounter, args: Any, kwargs: Any, result: Any, frame: Caller
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
                    self.overlaps[info.name, counter, overlap, device_word(tensor.device)] += 1
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
        if not any(isinstance(value, _Tensor) and not seams.storage_id(value) for value in args):
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
                device = device_word(optimizer.param_groups[0]["params"][0].device)
                group = CallCounter(origin, None, None)
                self._steppers[optimizer] = f"{type(optimizer).__name__}.step", group, Overlap.ENTRIES, device
        if (clash := self._steppers[optimizer]) is not None:
            self.overlaps[clash] += 1

    # --- for the trace ---

    def allocations(self) -> list[Allocation]:
        found = sorted(self.unwritten.allocations.values(), key=lambda allocation: allocation.counter.order)
        return [
            Allocation(op=each.op, count=each.count, bytes=each.bytes, unfollowed=each.unfollowed, **where)
            for each in found
            for where in (each.counter.origin.in_words(),)
        ]

    def unwritten_reads(self) -> list[UnwrittenRead]:
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


def _overlap_writes(clashes: Mapping[_Clash, int]) -> list[OverlapWrite]:
    """Writes to overlapping memory, and copies used too early, in the order of their groups."""
    return [
        OverlapWrite(op=op, kind=kind, device=device, **counter.origin.in_words(), count=count)
        for (op, counter, kind, device), count in sorted(clashes.items(), key=lambda clash: clash[0][1].order)
    ]


# --- copies that may still run when their memory is used again: ``non_blocking=True`` from or into pinned memory ---

# A copy to a device may still read its source when the host writes there, and a copy to the host may not have written
# yet when the host reads. A recording made on a CPU does not tell which side is the device, unless the copy says so.

#: Ops with one of these hand a number, or the size of their result, to the host: it waits for the device.
_HANDS_OVER = {torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape}


class _InFlight(StorageTable[_Clash]):
    """Sources and results of copies that nobody waited for."""

    def __init__(self, registry: StorageRegistry) -> None:
        super().__init__(registry)
        self.met: Counter[_Clash] = Counter()
        """Copies whose memory was used too early, each with how often."""

    def used(self, identity: int) -> None:
        """The memory was written or read again."""
        if (entry := self.drop(identity)) is not None:
            self.met[entry] += 1

    def give_up(self, identity: int) -> None:
        """The memory was handed out: what was copied into it is read."""
        if self.live[identity][2] is Overlap.COPIED_INTO:
            self.used(identity)
        else:
            self.drop(identity)

    def give_up_all(self) -> None:
        for identity in list(self.live):
            self.drop(identity)


class CopiesInFlight(Observer):
    """Follows the memory of copies that nobody waited for."""

    reads_data = False

    def __init__(self, registry: StorageRegistry) -> None:
        self._table = _InFlight(registry)
        self.met = self._table.met
        self._computed: StorageTable[bool] = StorageTable(registry)
        """Memory of results that ask for a gradient, and were detached."""
        self._follows = False
        self._detaching: set[OverloadInfo] = set()
        self.on_first: Callable[[], None] = lambda: None
        """Called with the first such copy: from then on it wants calls of every op."""

    def wants(self, info: OverloadInfo) -> Interest:
        if row_of(bare_name(info.name)).detaches:
            self._detaching.add(info)
        if info.access.non_blocking is not None or info in self._detaching:
            return True
        return self._table.live if self._follows and info.access.arguments else False

    def waited(self) -> None:
        self._table.give_up_all()

    def after(
        self, begun: None, info: OverloadInfo, counter: CallCounter, args: Args, kwargs: Any, result: Any, frame: Caller
    ) -> None:
        if info in self._detaching:  # a view: it reads and copies nothing
            if args[0].requires_grad and not args[0].is_leaf:
                self._computed.enter(args[0], seams.storage_id(args[0]), True)
            return
        live, pairs = self._table.live, _copied(info, args, result)
        crosses = bool(live) and any(len(set(_on_device(*pair))) == 2 for pair in pairs)
        # A device makes its copies from and to the host one after the other.
        for tensor, role in info.access.tensors(args, kwargs) if live and not crosses else ():
            entry = live.get(seams.storage_id(tensor))
            if entry is not None and (role == READS) is (entry[2] is Overlap.COPIED_INTO) and entry[1] is not counter:
                self._table.used(seams.storage_id(tensor))
        if pairs:
            if argument_at(info.access.non_blocking or 0, "non_blocking", args, kwargs):
                for source, copy in pairs:
                    self._begins(info.name, counter, source, copy)
            elif crosses:
                self.waited()
        elif live and _hands_over(info, args, kwargs) and (_on_device(args[0]) or [self._is_computed(args[0])])[0]:
            self.waited()

    def _is_computed(self, tensor: torch.Tensor) -> bool:
        """Return whether it came of a graph: recorded on a CPU, that stands for lying on a device."""
        return tensor.requires_grad or seams.storage_id(tensor) in self._computed.live

    def _begins(self, op: str, counter: CallCounter, source: torch.Tensor, result: torch.Tensor) -> None:
        to_host, stays = _on_device(source, result) or [self._is_computed(source), not self._is_computed(source)]
        host, kind = (result, Overlap.COPIED_INTO) if to_host else (source, Overlap.COPIED_FROM)
        if to_host is stays or host.layout is not torch.strided:
            return
        if (place := seams.claimed_place(host)) is not None:
            is_pinned = place == "pinned"
        else:  # without a device nobody knows
            is_pinned = not torch.cuda.is_initialized() or seams.is_fake(type(host)) or host.is_pinned()
        if not is_pinned:
            return
        if not self._follows:
            self._follows = True
            self.on_first()
        device = device_word((source if to_host else result).device)
        self._table.enter(host, seams.storage_id(host), (op, counter, kind, device))


def _copied(info: OverloadInfo, args: Args, result: Any) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """What a call copies that may go to another device, each with its copy."""
    if info.access.non_blocking is None:
        return []
    source = next(args[position] for position, _, role in info.access.arguments if role == READS)
    return list(zip(source, args[0], strict=True)) if isinstance(source, (list, tuple)) else [(source, result)]


def _on_device(*tensors: torch.Tensor) -> list[bool]:
    """Which of them lie on a device; empty where nobody tells: all are said to lie on the CPU, which may be a GPU."""
    claims = [seams.claimed_place(tensor) or "" for tensor in tensors]
    # A fake tensor of which nothing is known lies where the other does: `x.device` is the CPU wherever `x` lies.
    places = [claim or max(claims) or tensor.device.type for claim, tensor in zip(claims, tensors, strict=True)]
    is_told = torch.cuda.is_initialized() or any(place != "cpu" for place in places)
    return [place not in ("cpu", "pinned") for place in places] if is_told else []


def _hands_over(info: OverloadInfo, args: Args, kwargs: Kwargs) -> bool:
    """Return whether the host reads a number, or a size, from the device; of an index, if it is a mask."""
    if info.name == "aten.index.Tensor":
        return any(index is not None and index.dtype in (torch.bool, torch.uint8) for index in args[1])
    return not _HANDS_OVER.isdisjoint(info.func.tags) and kwargs.get("output_size") is None


WAITS: Watchers[CopiesInFlight] = Watchers(
    lambda: [WatchedFunction([holder], after=lambda copies, call: copies.waited()) for holder in seams.waits_for_cuda()]
)
