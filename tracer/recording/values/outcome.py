"""Digests of what one call reads and writes, collected as it is made; those on a device come later."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import msgspec
import torch

from tracer.facts.argument_readers import Args, Kwargs
from tracer.recording.torch_private import storages
from tracer.recording.values import digests
from tracer.recording.values.device import DeviceDigests, Slot
from tracer.recording.values.digest_table import DigestTable, Stored
from tracer.recording.values.plans import Plan
from tracer.trace.values import Mark, ValueKind, ValuesWriter, fold

_Tensor, _Parameter = torch.Tensor, torch.nn.Parameter
_NOT_WRITTEN = int(Mark.OUTPUT_NOT_DIGESTED)


class Target:
    """The place that a collective writes: the geometry of one tensor, without the tensor."""

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
    """Calls, entries and states of one recording whose digests are still on a device."""

    def __init__(self, device: DeviceDigests) -> None:
        self._device = device
        self.calls: dict[int, tuple[list[Any], list[Any]]] = {}
        """By number of the call: the digests of its inputs and outputs."""
        self._unread: set[int] = set()
        """Collectives whose results nobody read yet."""
        self.entries: list[tuple[int, Slot]] = []
        self.moments: list[tuple[ValueKind, str, Slot]] = []
        """Kind, name and digest of states, which are written when the step ends."""

    def when_read(self, writer: ValuesWriter, index: int, targets: list[Target]) -> None:
        """Digest what a collective writes as soon as somebody reads it: it is over by then."""
        self._unread.add(index)
        unread = set(range(len(targets)))
        digests: list[Any] = [None] * len(targets)

        def read(place: int, tensor: torch.Tensor) -> None:
            unread.discard(place)
            digests[place] = targets[place].digest(tensor, self._device.digest)
            if not unread:
                self._complete(writer, index, digests)

        for place, target in enumerate(targets):
            target.stored.waiting = partial(read, place)

    def _complete(self, writer: ValuesWriter, index: int, digests: list[Any]) -> None:
        if index not in self.calls:
            return  # given up
        inputs, outputs = self.calls[index]
        if None not in digests:
            self._unread.discard(index)
        outputs += [digest for digest in digests if digest is not None]
        if Slot not in map(type, (*inputs, *outputs)):
            del self.calls[index]
            mark_bits = _NOT_WRITTEN if None in digests else 0
            writer.settle(index, fold(inputs), fold(outputs), mark_bits)

    def settle(self, writer: ValuesWriter) -> None:
        """The step ended: fetch what waits on devices, and give up what nobody read."""
        if not self.calls and not self.entries and not self.moments:
            return
        self._device.fetch()
        for origin, slot in self.entries:
            writer.settle_entry(origin, slot.value)
        for index, (inputs, outputs) in self.calls.items():
            mark_bits = _NOT_WRITTEN if index in self._unread else 0
            writer.settle(index, fold(map(_fetched, inputs)), fold(map(_fetched, outputs)), mark_bits)
        for kind, name, slot in self.moments:
            writer.moment(kind, name, slot.value)
        for settled in (self.entries, self.calls, self._unread, self.moments):
            settled.clear()


def _fetched(digest: Any) -> int:
    return digest.value if type(digest) is Slot else int(digest)


class CallDigests(msgspec.Struct, eq=False):
    """The digests of one call: what it reads, from before it on, and what it wrote."""

    plan: Plan
    unwritten_reads: int = 0
    """Reads of unwritten memory before it."""
    inputs: list[Any] = []
    origins: dict[int, None] = {}
    """Those of the inputs, in their order."""
    numbers: int = 0
    mark_bits: int = 0
    hands_on_unwritten: bool = False
    """Whether it is a copy of unwritten memory."""
    fresh: list[tuple[Any, Any]] = []
    """Unwritten memory that a foreign op was handed, with its digest before the call: it may be written, whatever the
    schema says, and is an input only if it was not."""
    turn: int = 0
    """The memory layout of inputs that were digested in memory order, 1 to 255; 0 without any."""
    serial: int = 0
    is_late: bool = False
    """Whether it is a copy to the host that is still under way."""
    outputs: list[Any] = []
    keeps: int | None = None
    """The origin of the memory of which it wrote a part, if any."""
    written: list[Stored] = []
    collected: set[int] = set()
    """Outputs so far, by ``id``: they live as long as the call."""
    targets: list[Target] = []
    """The places that a collective writes which may not be over."""

    def read(self, digest: Any, origin: int, turn: int = 0) -> None:
        """One more input; ``turn``: how it lies, where it was digested in memory order."""
        self.inputs.append(digest)
        self.origins[origin] = None
        if turn:
            self.turn = (self.turn * 3 + turn) % 255 + 1

    def add_all(self, memory: DigestTable, values: Iterable[Any], otherwise: Callable[[Any], None]) -> None:
        """Several outputs, most of which were read too; ``otherwise`` adds the others, ``None`` among them."""
        origins, collected = self.origins, self.collected
        is_plain = not self.is_late and not self.plan.is_collective and not self.hands_on_unwritten
        for value in values:
            kind = type(value)
            if is_plain and (kind is _Tensor or kind is _Parameter) and id(value) not in collected:
                stored = memory.live.get(storages.storage_id(value))
                if stored is not None and not stored.is_fresh and stored.origin in origins:
                    collected.add(id(value))
                    self.written.append(stored)
                    self.wrote(memory.wrote(value, stored, self.serial))
                    continue
            otherwise(value)

    def wrote(self, digest: Any) -> None:
        """One more output; ``None``: it could not be digested."""
        if digest is None:
            self.mark_bits |= _NOT_WRITTEN
        else:
            self.outputs.append(digest)


def is_late_copy(args: Args, kwargs: Kwargs, result: Any) -> bool:
    """Return whether the call is a copy from a device to the host that is asked not to wait."""
    if not (kwargs.get("non_blocking") or (len(args) > 2 and args[2] is True)):
        return False
    sources = [value for value in args[:2] if isinstance(value, torch.Tensor)]
    return isinstance(result, torch.Tensor) and result.is_cpu and not all(source.is_cpu for source in sources)
