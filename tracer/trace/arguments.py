"""What a call was called with: numbers, words and the forms of tensors, and no value of any tensor."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Union

import msgspec


class TensorForm(msgspec.Struct, frozen=True, omit_defaults=True, gc=False, tag_field="is", tag="tensor"):
    """A tensor without its data."""

    dtype: str
    """As torch prints it, without ``torch.``: ``float32``."""
    shape: tuple[int | None, ...]
    """``None`` for a size that is not fixed, in compiled code."""
    stride: tuple[int | None, ...] | None = None
    """``None`` for one without gaps in the usual order, and where a layout has no strides."""
    layout: str = ""
    """``sparse_coo`` and its like; empty for a strided one."""
    device: str = ""
    """Its device, if not the one where the call ran."""

    def __str__(self) -> str:
        stride = "" if self.stride is None else f"[{_sizes(self.stride)}]"
        return f"{self.dtype}[{_sizes(self.shape)}]{stride}" + "".join(f".{w}" for w in (self.layout, self.device) if w)


class TorchWord(msgspec.Struct, frozen=True, gc=False, tag_field="is", tag="torch"):
    """A name of torch's: a dtype, a layout, a memory format; ``Generator`` for one that the program made."""

    name: str
    """``float32``, ``channels_last``."""

    def __str__(self) -> str:
        return f"torch.{self.name}"


class DeviceType(msgspec.Struct, frozen=True, gc=False, tag_field="is", tag="device"):
    """A device, without its number."""

    type: str

    def __str__(self) -> str:
        return f"torch.device({self.type!r})"


class Number(msgspec.Struct, frozen=True, gc=False, tag_field="is", tag="number"):
    """A number that JSON cannot write: an infinite one, a complex one, an integer of more than 64 bits."""

    text: str
    """As Python writes it."""

    def __str__(self) -> str:
        return self.text


class NotKept(msgspec.Struct, frozen=True, gc=False, tag_field="is", tag="not-kept"):
    """Something that was not kept, or the rest of a list that was cut."""

    def __str__(self) -> str:
        return "..."


ArgumentItem = Union[None, bool, int, float, str, TensorForm, TorchWord, DeviceType, Number, NotKept]  # noqa: UP007 (msgspec reads it on Python 3.10)
Argument = Union[ArgumentItem, list[Union[ArgumentItem, list[ArgumentItem]]]]  # noqa: UP007
"""One argument of a call: no schema of torch's has lists nested deeper than a collective's lists of tensors."""


def spelled(arguments: Mapping[str, Argument]) -> str:
    """Arguments as people read them: ``self=float32[10, 4], dim=0, source=float32[500, 4][1, 500]``."""
    return ", ".join(f"{name}={_spelled(value)}" for name, value in arguments.items())


def _spelled(value: object) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_spelled, value))}]"
    return str(value) if isinstance(value, msgspec.Struct) else repr(value)


def _sizes(sizes: tuple[int | None, ...]) -> str:
    return ", ".join(map(str, sizes)) or "()"
