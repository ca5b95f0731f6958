"""Which part of a tensor a call is given: Python chose it, and a view is no call that would show the choice."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch

from tracer.recording.torch_private import seams, storages

_Tensor, _Parameter = torch.Tensor, torch.nn.Parameter
_bytes_of: Any = storages.storage_bytes

Place = tuple[Any, ...]
"""An argument's name, where its first element lies in the storage (-1: not asked), and its sizes."""
_Arguments = tuple[tuple[int, str], ...]


def parts_of(touched: _Arguments, args: tuple[Any, ...], kwargs: Mapping[str, Any] | None) -> Iterator[Place]:
    """The tensors among ``touched`` that are parts of others."""
    for position, name in touched:
        value: Any = args[position] if 0 <= position < len(args) else kwargs.get(name) if kwargs else None
        kind = type(value)
        if kind is _Tensor or kind is _Parameter:
            if value._is_view():
                yield from _part(name, value)
        elif kind is list or kind is tuple:
            for item in value:
                if type(item) is _Tensor and item._is_view():
                    yield from _part(name, item)


def _part(name: str, value: Any) -> Iterator[Place]:
    try:
        offset = value.storage_offset()
        if offset or value.nbytes != _bytes_of(value):
            yield (name, offset, *value.shape)
    except (NotImplementedError, RuntimeError):  # a layout without a storage, or without one shape
        return


def sizes_of(sized: _Arguments, args: tuple[Any, ...], kwargs: Mapping[str, Any] | None) -> Iterator[Place]:
    """The sizes of tensors of which nothing else matters, as of ``rand_like``'s."""
    for position, name in sized:
        value = args[position] if 0 <= position < len(args) else kwargs.get(name) if kwargs else None
        if isinstance(value, _Tensor) and not seams.dispatches_itself(type(value)) and not value.is_nested:
            yield (name, -1, *value.shape)
