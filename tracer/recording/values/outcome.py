"""Digests of what one call reads and writes, collected as it is made; those that a device owes come later."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch

from tracer.recording.torch_private import storages
from tracer.recording.values.digest_table import DigestTable, Stored
from tracer.recording.values.digesting import digests
from tracer.recording.values.digesting.device import DeviceDigests, Slot
from tracer.recording.values.plans import PARTIAL, Plan
from tracer.trace.values import TURN_SHIFT, Mark, ValueKind, ValuesWriter, fold

_NOT_WRITTEN = int(Mark.OUTPUT_NOT_DIGESTED)


class Target:
    """Where a collective writes: the geometry of one tensor, without the tensor."""

    __slots__ = ("dtype", "offset", "shape", "stored", "strides")

    def __init__(self, tensor: torch.Tensor, stored: Stored) -> None:
        self.stored = stored
        self.dtype = tensor.dtype
        self.shape = tensor.shape
        self.strides = tensor.stride()
        self.offset = tensor.storage_offset()

    def digest(self, tensor: torch.Tensor, of: Callable[[torch.Tensor], Any]) -> Any:
        """The digest of what is there now; ``tensor`` is some tensor on that storage."""
        if tensor.dtype is not self.dtype:
            return None
        with digests.unseen():
            return of(tensor.detach().as_strided(self.shape, self.strides, self.offset))


class DeferredDigests:
    """Calls and entries of one recording whose digests are awaited."""

    def __init__(self, device: DeviceDigests) -> None:
        self._device = device
        self._calls: dict[int, tuple[list[Any], list[Any]]] = {}
        self._unread: set[int] = set()
        """Collectives whose results nobody read yet."""
        self._entries: list[tuple[int, Slot]] = []
        self._moments: list[tuple[ValueKind, str, Slot, int]] = []

    def awaits(self, index: int, inputs: list[Any], outputs: list[Any]) -> None:
        """Call number ``index`` was written without its digests."""
        self._calls[index] = (inputs, outputs)

    def awaits_entry(self, origin: int, slot: Slot) -> None:
        """An entry was written without its digest."""
        self._entries.append((origin, slot))

    def awaits_moment(self, kind: ValueKind, name: str, slot: Slot, position: int) -> None:
        """Write a state when the step ends and its digest is there."""
        self._moments.append((kind, name, slot, position))

    def when_read(self, writer: ValuesWriter, index: int, targets: list[Target]) -> None:
        """Digest what a collective writes as soon as somebody reads it: it is over by then."""
        self._unread.add(index)
        unread = set(range(len(targets)))
        digests: list[Any] = [None] * len(targets)

        def waiter(place: int) -> Callable[[torch.Tensor], None]:
            def read(tensor: torch.Tensor) -> None:
                unread.discard(place)
                digests[place] = targets[place].digest(tensor, self._device.digest)
                if not unread:
                    self._complete(writer, index, digests)

            return read

        for place, target in enumerate(targets):
            target.stored.waiting = waiter(place)

    def _complete(self, writer: ValuesWriter, index: int, digests: list[Any]) -> None:
        if index not in self._calls:
            return  # it was given up
        inputs, outputs = self._calls[index]
        if None not in digests:
            self._unread.discard(index)
        outputs += [digest for digest in digests if digest is not None]
        if Slot not in map(type, (*inputs, *outputs)):
            del self._calls[index]
            marks = _NOT_WRITTEN if None in digests else 0
            writer.settle(index, fold(inputs), fold(outputs), marks)

    def settle(self, writer: ValuesWriter) -> None:
        """The step ended: fetch what waits on devices, and give up what nobody read."""
        if not self._calls and not self._entries and not self._moments:
            return
        self._device.fetch()
        for origin, slot in self._entries:
            writer.settle_entry(origin, slot.value)
        self._entries.clear()
        for index, (inputs, outputs) in self._calls.items():
            marks = _NOT_WRITTEN if index in self._unread else 0
            writer.settle(index, fold(map(_fetched, inputs)), fold(map(_fetched, outputs)), marks)
        self._calls.clear()
        self._unread.clear()
        for kind, name, slot, position in self._moments:
            writer.moment(kind, name, slot.value, position)
        self._moments.clear()


def _fetched(digest: Any) -> int:
    return digest.value if type(digest) is Slot else int(digest)


_Tensor, _Parameter = torch.Tensor, torch.nn.Parameter
_TURNED = int(Mark.TURNED)


class Reading:
    """What one call reads, from before it until it returned."""

    __slots__ = ("digests", "hands_on_unwritten", "marks", "numbers", "origins", "turn", "unwritten_reads")

    def __init__(self, unwritten_reads: int) -> None:
        self.unwritten_reads = unwritten_reads
        """Reads of unwritten memory that were seen before it."""
        self.digests: list[Any] = []
        self.origins: list[int] = []
        self.numbers = 0
        self.marks = 0
        self.hands_on_unwritten = False
        """Is it a copy of unwritten memory?"""
        self.turn = 0
        """How inputs lie in memory that were digested as they lie there, 1 to 255; 0 without any."""

    def add_turned(self, lies: tuple[int, int], origin: int) -> None:
        """An input that was digested as it lies: its digest, and how it lies."""
        self.digests.append(lies[0])
        self.origins.append(origin)
        self.turn = (self.turn * 3 + lies[1]) % 255 + 1

    def all_marks(self, plan: Plan) -> int:
        """The marks of a call by what it is and what it read."""
        turned = _TURNED | self.turn << TURN_SHIFT if self.turn else 0
        return self.marks | int(plan.marks) | turned


class Outcome:
    """What one call wrote, while it is collected."""

    __slots__ = (
        "digests", "is_late", "keeps", "marks", "origins", "plan", "reading", "seen", "serial", "targets", "written",
    )  # fmt: skip

    def __init__(self, plan: Plan, reading: Reading, serial: int) -> None:
        self.plan = plan
        self.reading = reading
        self.serial = serial
        self.is_late = False
        """Is it a copy to the host that is under way still?"""
        self.digests: list[Any] = []
        self.keeps: int | None = None
        """Where memory came from of which it wrote a part."""
        self.marks = 0
        self.written: list[Stored] = []
        self.origins = dict.fromkeys(reading.origins)  # in the order of the inputs
        self.seen: set[int] = set()
        """What was collected, by ``id``: it lives as long as the call."""
        self.targets: list[Target] = []
        """Where a collective writes that may not be over."""

    def overwrites(self, stored: Stored, value: torch.Tensor, role: int) -> None:
        """It writes into memory that holds something, which it did not read: does anything of that stay?"""
        if role in PARTIAL or value.nbytes < storages.storage_bytes(value):
            self.keeps = stored.origin

    def add_usual(self, memory: DigestTable, values: Iterable[Any], otherwise: Callable[[Any], None]) -> None:
        """Several outputs, most of which were read too; ``otherwise`` adds the others, ``None`` among them."""
        live, origins, seen = memory.live, self.origins, self.seen
        is_usual = not self.is_late and not self.plan.is_collective and not self.reading.hands_on_unwritten
        for value in values:
            kind = type(value)
            if is_usual and (kind is _Tensor or kind is _Parameter):
                stored = live.get(storages.storage_id(value))
                if stored is not None and not stored.is_fresh and stored.origin in origins and id(value) not in seen:
                    seen.add(id(value))
                    self.written.append(stored)
                    self.add(memory.wrote(value, stored, self.serial))
                    continue
            otherwise(value)

    def add(self, digest: Any) -> None:
        """One more output; ``None``: it could not be digested."""
        if digest is None:
            self.marks |= int(Mark.OUTPUT_NOT_DIGESTED)
        else:
            self.digests.append(digest)


def is_late_copy(args: tuple[Any, ...], kwargs: Mapping[str, Any], result: Any) -> bool:
    """Is a copy from a device to the host asked not to wait?"""
    is_asked = bool(kwargs.get("non_blocking")) or (len(args) > 2 and args[2] is True)
    sources = [value for value in args[:2] if isinstance(value, torch.Tensor)]
    return is_asked and isinstance(result, torch.Tensor) and result.is_cpu and not all(one.is_cpu for one in sources)
