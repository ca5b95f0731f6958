"""Digests of the bytes of tensors, by storage and geometry, and which call wrote them.

A digest is valid until an op writes to the storage or the version counter shows a write. NumPy, a foreign kernel or
another thread may write too, so it is verified whenever it is used: small, exposed and never written memory as a whole,
other memory by its first bytes, and inside an optimizer once.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, NamedTuple

import msgspec
import torch

from tracer.recording.storage.overlaps import span_of
from tracer.recording.storage.registry import StorageRegistry, StorageTable
from tracer.recording.torch_private import seams
from tracer.recording.values import (
    Layout,
    address_of,
    digest,
    finished,
    is_conj,
    is_contiguous,
    is_lazy,
    is_neg,
    is_plain,
    layout_of,
    mixed_sum,
    seed_of,
    strides_of,
    unseen,
    xxh3,
)
from tracer.trace.values import Mark, ValueKind, ValuesWriter, fold

_identify = seams.storage_id_of_strided
_version_of = seams.version_of

#: Memory of so many bytes is verified in whole.
_SMALL = 1024
#: Up to so many bytes, making a view contiguous is cheaper than looking its memory up.
_LITTLE = 4096
#: Of larger memory, its first bytes.
_SAMPLE = ctypes.c_char * 256
_sample_at: Any = _SAMPLE.from_address
#: Geometries of one storage that are remembered.
_MOST_KNOWN = 8
_NO_PHASE = -1
#: No tensor's version.
NEVER = -2


class DigestedView(msgspec.Struct, eq=False):
    address: int
    dtype: torch.dtype
    shape: torch.Size
    strides: tuple[int, ...] | None
    is_neg: bool
    is_conj: bool
    """Whether the sign of its imaginary part is flipped lazily."""
    version: int
    stamp: int
    is_ordered: bool
    layout: Layout | None = None
    """The layout of its bytes; ``None`` where its digest takes a longer way."""
    is_small: bool = True
    bumped: int = NEVER
    """The version that it may have too: autograd counts a write after the op that made it returned."""
    content: int = 0
    """Of its bytes alone, where there is a layout."""
    digest: Any = None
    checked: int = 0
    sample: int = 0

    def is_of(self, stamp: int, version: int) -> bool:
        """Whether neither a recorded call nor the version counter shows a write since."""
        return self.stamp == stamp and (self.version == version or self.bumped == version)

    def fits(self, tensor: Any) -> bool:
        """Whether ``tensor``, at the same address of the same storage, has the same elements."""
        if tensor.dtype is not self.dtype or tensor.shape != self.shape or is_neg(tensor) is not self.is_neg:
            return False
        if self.dtype.is_complex and is_conj(tensor) is not self.is_conj:
            return False
        if self.strides is None:
            return bool(is_contiguous(tensor))
        return bool(strides_of(tensor) == self.strides)


class Stored(msgspec.Struct, eq=False):
    stamp: int = 0
    """Number of the recorded call that wrote it last."""
    origin: int | None = None
    """The call or entry that its bytes came from; ``None``: not known yet."""
    is_fresh: bool = False
    """Whether it was allocated unwritten, and neither written in whole nor read since."""
    was_handed_out: bool = False
    """Whether NumPy, another library or a foreign kernel has its address."""
    is_outside: bool = True
    """Whether its bytes may change while no op writes. Until a recorded call wrote it, and after it was handed out."""
    views: list[DigestedView] = []
    waiting: Callable[[torch.Tensor], None] | None = None
    """Called with the tensor before it is read: a collective that wrote it is over by then."""

    def forget(self, serial: int) -> None:
        self.views.clear()
        self.stamp = serial


class DigestTable(StorageTable[Stored]):
    def __init__(self, digest: Callable[[torch.Tensor], Any], registry: StorageRegistry) -> None:
        super().__init__(registry)
        self._digest = digest
        self.on_unrecorded_write: Callable[[], None] = lambda: None
        """Called when memory is read that changed, or whose version did, since the last recorded write."""
        self.phase = 1
        """The program's phase, by count: within an optimizer's phase, larger memory is verified once."""
        self.samples_always = True
        self.step_began = 0
        """Number of the last call before this step; what was written since is written again in each step."""

    def give_up(self, identity: int) -> None:
        """Verify a storage's digests from now on, because its memory may be written unseen."""
        stored = self.live[identity]
        stored.is_outside = stored.was_handed_out = True
        if stored.is_fresh:  # whoever has it may have written it
            stored.is_fresh, stored.origin = False, None

    def stored(self, tensor: Any) -> Stored:
        """The entry of the storage of ``tensor``; raises ``NotImplementedError`` for one without."""
        identity = _identify(tensor)
        entry = self.live.get(identity)
        return self.enter(tensor, identity, Stored()) if entry is None else entry

    def origin_of(self, parts: Iterable[torch.Tensor]) -> int | None:
        """The last call that wrote any of several tensors; ``None`` if that is unknown for one of them."""
        entries = [self.live.get(seams.storage_id(part)) for part in parts]
        origins = [entry.origin for entry in entries if entry is not None and entry.origin is not None]
        return max(origins, default=None) if len(origins) == len(entries) else None

    def read(self, tensor: Any, stored: Stored) -> tuple[Any, bool]:
        """The digest of ``tensor`` as it is now, and whether its bytes changed although no op wrote."""
        if stored.waiting is not None:
            wait, stored.waiting = stored.waiting, None
            wait(tensor)
        address = address_of(tensor)
        version = _version_of(tensor)
        for view in stored.views:
            if view.address == address and view.fits(tensor):
                break
        else:
            return self._meet(tensor, stored, address, version)
        if not view.is_of(stored.stamp, version):
            if view.stamp == stored.stamp:
                self.on_unrecorded_write()
            stored.views.remove(view)
            return self._meet(tensor, stored, address, version)
        if self.holds(view, stored, tensor):
            return view.digest, False
        self.on_unrecorded_write()
        before = view.digest
        stored.views.clear()
        digest = self._remember(tensor, stored, address, version)
        return digest, type(digest) is int and digest != before

    def as_it_lies(self, tensor: Any, stored: Stored) -> tuple[int, int] | None:
        """The digest of a view that only permutes strides, and a code for their order (1 to 255); zeros if the bytes
        changed unseen. ``None``: it is read in its own order, for it was before, or it is small, or no call of this
        step wrote it."""
        size = tensor.nbytes
        if size <= _LITTLE or stored.stamp <= self.step_began or stored.waiting is not None:
            return None
        address = address_of(tensor)
        if not address or not tensor.is_cpu or is_lazy(tensor):
            return None
        own = layout_of(tensor.dtype, tensor.shape, strides_of(tensor))
        if own is None or not own.is_turned:
            return None
        version = _version_of(tensor)
        current = [view for view in stored.views if view.address == address and view.is_of(stored.stamp, version)]
        if any(view.fits(tensor) for view in current):
            return None
        for view in current:
            if view.layout is not None and view.layout.is_ordered and view.layout.size == size:
                if self.holds(view, stored, tensor):
                    return view.content ^ own.turned or 1, own.turn
                stored.views.clear()
                return 0, 0
        return xxh3(own.kind.from_address(address)) ^ own.turned or 1, own.turn

    def wrote(self, tensor: Any, stored: Stored, call: int, *, is_counted: bool = False) -> Any:
        """The digest of ``tensor``, which call ``call`` wrote; ``is_counted``: its version grows when that ends."""
        address, several = address_of(tensor), stored.views
        if stored.stamp != call:
            stored.stamp = call
            stored.is_outside = stored.was_handed_out
            if len(several) == 1:
                view = several[0]
                if view.layout is not None and view.address == address and view.fits(tensor):
                    digest = self._digested(view, view.layout)
                    if digest is not None:
                        view.version = version = _version_of(tensor)
                        view.stamp, view.bumped = call, version + 1 if is_counted else NEVER
                        return digest
            several.clear()
        version = _version_of(tensor)
        digest = self._remember(tensor, stored, address, version)
        if is_counted:
            several[-1].bumped = version + 1
        return digest

    def _meet(self, tensor: Any, stored: Stored, address: int, version: int) -> tuple[Any, bool]:
        """The same for a geometry without a digest; the same bytes may have a digest in another geometry."""
        strides = None if is_contiguous(tensor) else strides_of(tensor)
        for other in stored.views:
            if other.address != address or other.layout is None or not other.is_of(stored.stamp, version):
                continue
            if is_lazy(tensor):
                break
            own = layout_of(tensor.dtype, tensor.shape, strides)
            if own is None or own.order != other.layout.order:
                continue
            if self.holds(other, stored, tensor):
                return self._remember(tensor, stored, address, version, other), False
            before = other.content
            stored.views.clear()
            digest = self._remember(tensor, stored, address, version)
            return digest, stored.views[-1].content != before
        return self._remember(tensor, stored, address, version), False

    def _remember(
        self, tensor: Any, stored: Stored, address: int, version: int, same: DigestedView | None = None
    ) -> Any:
        """Digest ``tensor`` and store the digest; ``same``: a view of the same bytes that has one."""
        dtype, is_ordered = tensor.dtype, bool(is_contiguous(tensor))
        strides = None if is_ordered else strides_of(tensor)
        flips = is_neg(tensor), dtype.is_complex and is_conj(tensor)
        view = DigestedView(address, dtype, tensor.shape, strides, *flips, version, stored.stamp, is_ordered)
        is_here = bool(address) and tensor.is_cpu
        digest: Any = None
        if is_here and not any(flips):
            layout = layout_of(view.dtype, view.shape, view.strides)
            if layout is not None:
                view.layout, view.is_ordered = layout, layout.is_ordered
                view.is_small = layout.span <= _SMALL
                if same is not None:
                    view.content, view.sample, view.checked = same.content, same.sample, same.checked
                    digest = view.digest = view.content ^ layout.seed or 1
                else:
                    digest = self._digested(view, layout)
        if digest is None:
            view.layout = None
            digest = view.digest = self._digest(tensor)
            view.checked = _NO_PHASE if digest is None else self.phase
            if is_here and type(digest) is int:
                span = span_of(view.shape, strides_of(tensor), tensor.itemsize) if tensor.nbytes else 0
                view.is_small = span <= _SMALL
                if not view.is_small:
                    view.sample = xxh3(_sample_at(address))
        several = stored.views
        if len(several) >= _MOST_KNOWN:
            several.pop(0)
        several.append(view)
        return digest

    def _digested(self, view: DigestedView, layout: Layout) -> int | None:
        """Digest its bytes as they are now; ``None`` if that needs the general path."""
        address = view.address
        content = xxh3(layout.kind.from_address(address)) if view.is_ordered else layout.content(address)
        if content is None:
            return None
        view.content = content
        view.checked = self.phase
        if not view.is_small:
            view.sample = xxh3(_sample_at(address))
        digest: int = content ^ layout.seed or 1
        view.digest = digest
        return digest

    def holds(self, view: DigestedView, stored: Stored, tensor: Any) -> bool:
        """Whether the bytes are unchanged; ``tensor`` is the ``view`` of ``stored``."""
        if view.checked == self.phase and not self.samples_always and not stored.is_outside:
            return True
        layout = view.layout
        if not view.is_small and not stored.is_outside:
            is_held = xxh3(_sample_at(view.address)) == view.sample
        elif layout is not None:
            content = layout.content(view.address)
            if content is None:  # another thread brings something into order
                content = self._digest(tensor) ^ seed_of(tensor.dtype, tensor.shape)
            is_held = content == view.content
        elif type(view.digest) is int:
            is_held = self._digest(tensor) == view.digest
        else:  # on a device, where a comparison would wait for it
            return view.digest is not None and not stored.was_handed_out
        if is_held:
            view.checked = self.phase
        return bool(is_held)


_ROOM = 4096
_NOT_WRITTEN = int(Mark.OUTPUT_NOT_DIGESTED)
_WITH_MEMORY = frozenset({"cuda", "xpu", "mps", "npu", "privateuseone"})


class Slot(msgspec.Struct, eq=False):
    row: torch.Tensor | None = None
    place: int = 0
    seed: int = 0
    value: Any = None
    """The digest, once it is here; of what a collective wrote on a device, another slot."""


class DeviceDigests:
    def __init__(self) -> None:
        self.is_used = False
        self._rows: dict[torch.device, tuple[torch.Tensor, int]] = {}
        self._slots: list[Slot] = []
        self._add: Callable[[torch.Tensor, torch.Tensor, int], None] | None = None

    def digest(self, tensor: torch.Tensor) -> int | Slot | None:
        """The digest of any tensor: at once on the host, later for a dense one on a device; ``None``: it has none."""
        is_plain = (
            not tensor.is_cpu and tensor.device.type in _WITH_MEMORY and not seams.dispatches_itself(type(tensor))
        )
        if not is_plain or is_capturing(tensor):
            return digest(tensor)
        try:
            if tensor.layout is not torch.strided or tensor.is_nested or tensor.is_quantized:
                return None
            return self._launch(tensor)
        except (RuntimeError, NotImplementedError):
            return None

    def _launch(self, tensor: torch.Tensor) -> Slot:
        self.is_used = True
        row, place = self._rows.get(tensor.device, (None, _ROOM))
        if row is None or place == _ROOM:
            with unseen():
                row, place = torch.zeros(_ROOM, dtype=torch.int64, device=tensor.device), 0
        self._rows[tensor.device] = (row, place + 1)
        slot = Slot(row, place, seed_of(tensor.dtype, tensor.shape))
        self._slots.append(slot)
        if not tensor.numel():
            return slot
        if self._add is not None and is_plain(tensor):
            self._add(tensor, row, place)  # a launch that dispatches nothing
            return slot
        with unseen():
            if self._add is None:
                self._add = _add_by_torch
                with suppress(Exception):  # no Triton, or one that cannot compile here
                    if tensor.is_cuda:
                        from tracer.recording.values.triton_mix import add_mixed_sum

                        add_mixed_sum(tensor, row, place)
                        self._add = add_mixed_sum
                        return slot
            self._add(tensor, row, place)
        return slot

    def fetch(self) -> None:
        slots, self._slots, self._rows = self._slots, [], {}
        fetched: dict[int, Any] = {}
        with unseen():
            for slot in slots:
                row = slot.row
                assert row is not None
                if id(row) not in fetched:  # once every stream of its device is done
                    synchronize = getattr(getattr(torch, row.device.type, None), "synchronize", None)
                    if synchronize is not None:
                        synchronize() if row.device.type == "mps" else synchronize(row.device)
                    fetched[id(row)] = row.tolist()
                slot.value = finished(fetched[id(row)][slot.place], slot.seed)
        for slot in slots:
            slot.row = None


def _add_by_torch(tensor: torch.Tensor, totals: torch.Tensor, place: int) -> None:
    with unseen():
        totals[place] += mixed_sum(tensor)


class Awaited(NamedTuple):
    """The place that a collective writes: the geometry of one tensor, without the tensor."""

    stored: Stored
    slot: Slot
    dtype: torch.dtype
    geometry: tuple[Any, ...]


class DeferredDigests:
    """Calls, entries and states of one recording whose digests come later."""

    def __init__(self, device: DeviceDigests) -> None:
        self._device = device
        self.calls: dict[int, tuple[list[Any], list[Any]]] = {}
        self.entries: list[tuple[int, Slot]] = []
        self.moments: list[tuple[ValueKind, str, Slot]] = []

    def when_read(self, writer: ValuesWriter, index: int, awaited: Awaited) -> None:
        """Digest what a collective writes as soon as somebody reads it, by any tensor: it is over by then."""

        def read(tensor: torch.Tensor) -> None:
            if tensor.dtype is awaited.dtype:
                with unseen():
                    awaited.slot.value = self._device.digest(tensor.detach().as_strided(*awaited.geometry))
            self._settle_call(writer, index)

        awaited.stored.waiting = read

    def _settle_call(self, writer: ValuesWriter, index: int, *, gives_up: bool = False) -> None:
        """Write a call's digests if all are here; ``gives_up``: also where nobody read what it wrote."""
        digests = self.calls.get(index, ([], []))
        inputs, outputs = ([digest for digest in map(_fetched, side) if digest is not None] for side in digests)
        is_whole = [len(inputs), len(outputs)] == [*map(len, digests)]
        if index in self.calls and (is_whole or gives_up):
            del self.calls[index]
            writer.settle(index, fold(inputs), fold(outputs), 0 if is_whole else _NOT_WRITTEN)

    def settle(self, writer: ValuesWriter) -> None:
        """The step ended: fetch what waits on devices, and give up what nobody read."""
        if not self.calls and not self.entries and not self.moments:
            return
        self._device.fetch()
        for origin, slot in self.entries:
            writer.settle_entry(origin, slot.value)
        for index in tuple(self.calls):
            self._settle_call(writer, index, gives_up=True)
        for kind, name, slot in self.moments:
            writer.moment(kind, name, slot.value)
        self.entries.clear()
        self.moments.clear()


def _fetched(digest: Any) -> int | None:
    while type(digest) is Slot:
        digest = digest.value
    return None if digest is None else int(digest)


def is_capturing(tensor: torch.Tensor) -> bool:
    """Return whether a CUDA graph is being captured. Nothing may be launched beside it."""
    return tensor.is_cuda and torch.cuda.is_current_stream_capturing()
