"""A storage, and the geometries of it (address, dtype, shape, strides) whose digests are remembered."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from tracer.recording.values.digesting.layouts import Layout

#: No tensor's version.
NEVER = -2
_Base = torch._C.TensorBase
_strides_of: Any = _Base.stride
_is_contiguous: Any = _Base.is_contiguous
_is_neg: Any = _Base.is_neg
_is_conj: Any = _Base.is_conj


class Known:
    """The digest of one geometry of a storage."""

    __slots__ = (
        "address",
        "bumped",
        "checked",
        "content",
        "digest",
        "dtype",
        "is_complex",
        "is_conj",
        "is_neg",
        "is_ordered",
        "is_small",
        "layout",
        "sample",
        "shape",
        "stamp",
        "strides",
        "version",
    )

    def __init__(self, tensor: Any, address: int, is_contiguous: bool) -> None:
        self.address = address
        self.dtype = tensor.dtype
        self.shape = tensor.shape
        self.strides = None if is_contiguous else _strides_of(tensor)
        """``None``: contiguous."""
        self.is_neg: bool = _is_neg(tensor)
        """Is its sign flipped lazily?"""
        self.is_complex = self.dtype.is_complex
        self.is_conj: bool = self.is_complex and _is_conj(tensor)
        """And that of its imaginary part?"""
        self.layout: Layout | None = None
        """How its bytes lie; ``None`` where its digest takes a longer way."""
        self.is_ordered = is_contiguous
        self.is_small = True
        """Is it verified in whole?"""
        self.version = self.stamp = 0
        self.bumped = NEVER
        """The version that it may have too: autograd counts a write after the op that made it returned."""
        self.content = 0
        """Of its bytes alone, where there is a layout."""
        self.digest: Any = None
        self.checked = 0
        """In which phase it was verified last."""
        self.sample = 0
        """Of larger memory, the digest of its first bytes."""

    def is_of(self, stamp: int, version: int) -> bool:
        """Has nobody written since, neither a recorded call nor somebody who counts versions?"""
        return self.stamp == stamp and (self.version == version or self.bumped == version)

    def fits(self, tensor: Any) -> bool:
        """Is ``tensor``, at the same address of the same storage, the same elements?"""
        if tensor.dtype is not self.dtype or tensor.shape != self.shape or _is_neg(tensor) is not self.is_neg:
            return False
        if self.is_complex and _is_conj(tensor) is not self.is_conj:
            return False
        if self.strides is None:
            return bool(_is_contiguous(tensor))
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


def is_lazy(tensor: Any) -> bool:
    """Does a tensor stand for other values than lie in its memory?"""
    return bool(_is_neg(tensor) or (tensor.dtype.is_complex and _is_conj(tensor)))
