"""Copies of one call's inputs: each replay gets tensors with the same strides, offsets and shared storage.

Another layout would be another order of adding, and two arguments that share memory are one thing to the kernel. Only
the storages that a call may write are copied; what it merely reads is handed to it as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch

from tracer.names import Untried
from tracer.recording.torch_private import seams, storages
from tracer.recording.trials.replay_plan import Argument, ReplayPlan

_Base = torch._C.TensorBase
_storage_of: Any = _Base.untyped_storage
_set: Any = _Base.set_
_PLAIN = (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer) if hasattr(torch.nn, "Buffer") else (torch.Tensor,)


class CannotCopyError(Exception):
    """Why a call is not tried."""

    def __init__(self, reason: Untried) -> None:
        super().__init__(reason.value)
        self.reason = reason


class Copies:
    """What one call was given, from before it was made."""

    def __init__(self, plan: ReplayPlan, args: tuple[Any, ...], kwargs: Mapping[str, Any], limit: int) -> None:
        """Copies at most ``limit`` bytes, else raises ``CannotCopyError``; so for what cannot be copied as it lies."""
        self._args = args
        self._kwargs = kwargs
        self._kept: dict[int, Any] = {}
        """Storage, by its identity, to a copy of it."""
        self._overwritten = _identities(_given(plan.overwritten, args, kwargs))
        wanted = tensors_in((args, kwargs)) if plan.copies_all else _given(plan.written, args, kwargs)
        storages_by_id: dict[int, Any] = {}
        for tensor in wanted:
            if not can_be_rebuilt(tensor):
                raise CannotCopyError(Untried.LAYOUT)
            storages_by_id[storages.storage_id(tensor)] = _storage_of(tensor)
        # One copy is kept, another is handed to each trial.
        self.size = 2 * sum(int(storage.nbytes()) for storage in storages_by_id.values())
        if self.size > limit:
            raise CannotCopyError(Untried.MEMORY)
        if storages_by_id:
            shared = [tensor for tensor in tensors_in((args, kwargs)) if storages.storage_id(tensor) in storages_by_id]
            if not all(map(can_be_rebuilt, shared)):
                raise CannotCopyError(Untried.LAYOUT)
            self._kept = {identity: storage.clone() for identity, storage in storages_by_id.items()}
            owners: dict[int, int] = {}
            for tensor in shared:
                owners[storages.storage_id(tensor)] = owners.get(storages.storage_id(tensor), 0) + 1
            self._overwritten = {identity for identity in self._overwritten if owners.get(identity) == 1}

    def let_go(self) -> None:
        """Hold none of the tensors that were copied: the call may want to free them before it ends."""
        copies: dict[int, Any] = {}

        def on_copy(tensor: torch.Tensor) -> torch.Tensor:
            original = self._kept.get(storages.storage_id(tensor))
            if original is None:
                return tensor
            copy = _laid_on(original, tensor)
            copies[storages.storage_id(copy)] = original
            return copy

        self._args, self._kwargs = _mapped((self._args, dict(self._kwargs)), on_copy)
        self._kept, self._overwritten = copies, set()

    def fresh(self, byte: int) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments of one trial; ``byte`` lies wherever the call only writes."""
        if not self._kept:
            return self._args, dict(self._kwargs)
        clones: dict[int, Any] = {}

        def rebuilt(tensor: torch.Tensor) -> torch.Tensor:
            identity = storages.storage_id(tensor)
            original = self._kept.get(identity)
            if original is None:
                return tensor
            storage = clones.get(identity)
            if storage is None:
                storage = clones[identity] = original.clone()
            copy = _laid_on(storage, tensor)
            if identity in self._overwritten and _is_whole(tensor, storage):
                storage.fill_(byte)
            return copy

        args, kwargs = _mapped((self._args, dict(self._kwargs)), rebuilt)
        return args, kwargs


def _laid_on(storage: Any, tensor: torch.Tensor) -> torch.Tensor:
    """A tensor that lies on ``storage`` as ``tensor`` does on its own."""
    laid = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
    _set(laid, storage, tensor.storage_offset(), tensor.shape, tensor.stride())
    return laid


def _is_whole(tensor: torch.Tensor, storage: Any) -> bool:
    """Is there nothing in the storage but the tensor? What lies around it is nobody's to change."""
    return bool(tensor.numel() * tensor.element_size() == storage.nbytes())


def can_be_rebuilt(tensor: Any) -> bool:
    """Is it a tensor of plain memory, which a storage, an offset, sizes and strides tell whole?"""
    if type(tensor) not in _PLAIN and seams.dispatches_itself(type(tensor)):
        return False
    if tensor.layout is not torch.strided or tensor.is_quantized or tensor.is_nested or tensor.device.type == "meta":
        return False
    return not (tensor.is_conj() or tensor.is_neg() or tensor._is_zerotensor()) and bool(storages.storage_id(tensor))


def tensors_in(value: Any) -> Iterator[torch.Tensor]:
    """Every tensor in ``value``, lists and dictionaries searched."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from tensors_in(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from tensors_in(item)


def _given(named: tuple[Argument, ...], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[torch.Tensor]:
    return [tensor for argument in named for tensor in tensors_in(argument.of(args, kwargs))]


def _identities(tensors: list[torch.Tensor]) -> set[int]:
    return {storages.storage_id(tensor) for tensor in tensors}


def _mapped(value: Any, change: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    if isinstance(value, torch.Tensor):
        return change(value)
    if isinstance(value, (list, tuple)):
        return type(value)(_mapped(item, change) for item in value) if value else value
    if isinstance(value, dict):
        return {key: _mapped(item, change) for key, item in value.items()}
    return value
