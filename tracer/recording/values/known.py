"""What is known of the bytes of tensors: their digest, and where they came from.

Kept by storage, whose identity a weak reference reserves, and never by tensor: not even a weak reference is held on one
(``torch.utils.swap_tensors`` would refuse it). A digest holds for one geometry (address, dtype, shape, strides) of a
storage, until an op writes to that storage or the tensor's version says that somebody did.

Bytes can also change while no op writes: NumPy, a foreign kernel, another thread. So a remembered digest is verified
each time that it is used: in whole where memory is small, was handed out, or was never written by a recorded call; else
by its first bytes, in the optimizer once.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import torch
import xxhash

from tracer.recording.torch_private import storages
from tracer.recording.values.digesting.memory import buffer_at, ordered_of, plain_of

_Base = torch._C.TensorBase
_address_of: Any = _Base.data_ptr
_strides_of: Any = _Base.stride
_is_contiguous: Any = _Base.is_contiguous
_is_neg: Any = _Base.is_neg
_xxh3: Any = xxhash.xxh3_64_intdigest
_identify = storages.storage_id_of_strided

#: Memory of so many bytes is verified in whole.
_SMALL = 1024
#: Of larger memory, its first bytes.
_SAMPLE = ctypes.c_char * 256
#: Geometries of one storage that are remembered.
_MOST_KNOWN = 8
_PRUNE_AT_LEAST = 4096
_NO_VERSION = -1


class Known:
    """The digest of one geometry of a storage."""

    __slots__ = (
        "address",
        "checked",
        "digest",
        "dtype",
        "sample",
        "seed",
        "shape",
        "span",
        "stamp",
        "strides",
        "version",
    )

    def __init__(
        self,
        dtype: torch.dtype,
        shape: Any,
        strides: Any,
        address: int,
        version: int,
        stamp: int,
        digest: Any,
        checked: int,
        span: int,
        sample: int,
        seed: int,
    ) -> None:
        self.address = address
        self.dtype = dtype
        self.shape = shape
        self.strides = strides
        """``None``: contiguous."""
        self.version = version
        self.stamp = stamp
        self.digest = digest
        self.checked = checked
        """In which phase it was verified last."""
        self.span = span
        """Bytes from the first element's to the last one's; 0: not on the host."""
        self.sample = sample
        """Of larger memory, the digest of its first bytes."""
        self.seed = seed
        """Of its digest, where that is no more than one of its bytes as they lie; else 0."""

    def fits(self, tensor: Any) -> bool:
        """Is ``tensor``, at the same address of the same storage, the same elements?"""
        if tensor.dtype is not self.dtype or tensor.shape != self.shape:
            return False
        if self.strides is None:
            return bool(tensor.is_contiguous())
        return bool(_strides_of(tensor) == self.strides)


class Stored:
    """One storage that lives."""

    __slots__ = (
        "identity",
        "is_fresh",
        "is_outside",
        "known",
        "origin",
        "reference",
        "stamp",
        "waiting",
        "was_handed_out",
    )

    def __init__(self, identity: int, reference: int) -> None:
        self.identity = identity
        self.reference = reference
        self.stamp = 0
        """Number of the recorded call that wrote it last."""
        self.origin: int | None = None
        """The call or entry that its bytes came from; ``None``: not told yet."""
        self.is_fresh = False
        """Was it given out unwritten, and neither written in whole nor read since?"""
        self.was_handed_out = False
        """Has NumPy, another library or a foreign kernel its address?"""
        self.is_outside = True
        """May its bytes change while no op writes? Until a recorded call wrote it, and after it was handed out."""
        self.known: list[Known] = []
        self.waiting: Callable[[torch.Tensor], None] | None = None
        """Told, of the tensor, before it is read: a collective that wrote it is over by then."""


class Memory:
    """Every storage that a recording met and that lives."""

    def __init__(self, digest: Callable[[torch.Tensor], Any]) -> None:
        """``digest`` gives that of a tensor as it is now."""
        self._digest = digest
        self.live: dict[int, Stored] = {}
        self.phase = 1
        """Which phase the program is in, by count: within an optimizer's, larger memory is verified once."""
        self.samples_always = True
        self._prune_at = _PRUNE_AT_LEAST

    # --- what watches memory that is handed out asks of a listener ---

    def escaped(self, tensor: Any) -> None:
        """The memory of ``tensor`` is in other hands."""
        identity = storages.storage_id(tensor)
        stored = self.live.get(identity)
        if stored is not None:
            stored.is_outside = stored.was_handed_out = True

    def give_up_all(self) -> None:
        """Any memory may be in other hands."""
        for stored in self.live.values():
            stored.is_outside = stored.was_handed_out = True

    # --- storages ---

    def stored(self, tensor: Any) -> Stored:
        """What is known of the storage of ``tensor``; raises ``NotImplementedError`` for one without."""
        identity = _identify(tensor)
        found = self.live.get(identity)
        if found is None:
            if len(self.live) >= self._prune_at:
                self.prune()
            found = self.live[identity] = Stored(identity, storages.weak_storage(tensor))
        return found

    def prune(self) -> None:
        """Forget storages that are gone."""
        gone = [identity for identity, one in self.live.items() if storages.is_expired(one.reference)]
        for identity in gone:
            storages.free_weak_storage(self.live.pop(identity).reference)
        self._prune_at = max(_PRUNE_AT_LEAST, 2 * len(self.live))

    def forget(self) -> None:
        """Forget all."""
        for one in self.live.values():
            storages.free_weak_storage(one.reference)
        self.live.clear()

    # --- digests ---

    def read(self, tensor: Any, stored: Stored) -> tuple[Any, bool]:
        """The digest of ``tensor`` as its bytes are now, and whether they changed while no op wrote."""
        if stored.waiting is not None:
            wait, stored.waiting = stored.waiting, None
            wait(tensor)
        address = _address_of(tensor)
        try:
            version = tensor._version
        except RuntimeError:  # an inference tensor counts none
            version = _NO_VERSION
        for known in stored.known:
            if known.address == address and known.fits(tensor):
                break
        else:
            return self._remember(tensor, stored, address, version), False
        if known.version != version or known.stamp != stored.stamp:
            # Written, by a recorded call or by somebody who counts versions.
            stored.known.remove(known)
            return self._remember(tensor, stored, address, version), False
        if self._holds(known, stored, tensor):
            return known.digest, False
        before = known.digest
        stored.known.clear()
        digest = self._remember(tensor, stored, address, version)
        return digest, type(digest) is int and digest != before

    def wrote(self, tensor: Any, stored: Stored, call: int) -> Any:
        """The digest of ``tensor``, which recorded call number ``call`` just wrote."""
        if stored.stamp != call:
            stored.stamp = call
            stored.known.clear()
            stored.is_outside = stored.was_handed_out
        return self._remember(tensor, stored, _address_of(tensor), _version_of(tensor))

    def _remember(self, tensor: Any, stored: Stored, address: int, version: int) -> Any:
        dtype, shape = tensor.dtype, tensor.shape
        span = sample = seed = 0
        digest: Any = None
        strides = None if _is_contiguous(tensor) else _strides_of(tensor)
        is_here = bool(address) and tensor.is_cpu
        plain = plain_of(dtype, shape) if is_here and not _is_neg(tensor) else None
        if plain is not None:
            if strides is None:
                seed, span, kind = plain
                digest = _xxh3(kind.from_address(address), seed) or 1
            else:
                ordered = ordered_of(dtype, shape, strides, plain)
                if ordered is not None:
                    digest, span = ordered.digest(address), ordered.span
        if digest is None:
            digest = self._digest(tensor)
            if is_here and type(digest) is int:
                span = _span_of(tensor, strides)
        if span > _SMALL:
            sample = _xxh3(_SAMPLE.from_address(address))
        if len(stored.known) >= _MOST_KNOWN:
            stored.known.pop(0)
        stored.known.append(
            Known(dtype, shape, strides, address, version, stored.stamp, digest, self.phase, span, sample, seed)
        )
        return digest

    def _holds(self, known: Known, stored: Stored, tensor: Any) -> bool:
        size = known.span
        if not size:  # on a device, where a comparison would wait for it
            return known.digest is not None and not stored.was_handed_out
        if size <= _SMALL or stored.is_outside:
            if known.seed:
                return bool((_xxh3(buffer_at(known.address, size), known.seed) or 1) == known.digest)
            return bool(self._digest(tensor) == known.digest)
        if not self.samples_always and known.checked == self.phase:
            return True
        known.checked = self.phase
        return bool(_xxh3(_SAMPLE.from_address(known.address)) == known.sample)


def _span_of(tensor: Any, strides: Any) -> int:
    """Bytes from the first element's to the last one's."""
    if strides is None or not tensor.nbytes:
        return int(tensor.nbytes)
    pairs = zip(tensor.shape, strides, strict=True)
    return int((sum((count - 1) * stride for count, stride in pairs) + 1) * tensor.itemsize)


def _version_of(tensor: Any) -> int:
    try:
        return int(tensor._version)
    except RuntimeError:  # an inference tensor counts none
        return _NO_VERSION
