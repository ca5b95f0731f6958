"""Copies of one call's inputs, with the same strides, offsets and shared storage for each replay.

Another layout could change the order of summation. Only the storages that a call may write to are copied.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import torch

from tracer.facts.argument_readers import Args, Kwargs
from tracer.names import Untried
from tracer.recording.torch_private import seams, storages
from tracer.recording.trials.replay_plan import Argument, ReplayPlan

_Base = torch._C.TensorBase
_storage_of: Any = _Base.untyped_storage
_set: Any = _Base.set_
_PLAIN = (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer) if hasattr(torch.nn, "Buffer") else (torch.Tensor,)


class CannotCopyError(Exception):
    """The call's inputs cannot be copied; the message is the reason."""

    def __init__(self, reason: Untried) -> None:
        super().__init__(reason.value)
        self.reason = reason


class Copies:
    """The arguments of one call, copied before it ran."""

    def __init__(self, plan: ReplayPlan, args: Args, kwargs: Kwargs, limit: int) -> None:
        """Raises ``CannotCopyError`` for more than ``limit`` bytes, and for what cannot be copied as it lies."""
        self._args = args
        self._kwargs = kwargs
        tensors = list(tensors_in((args, kwargs)))
        wanted = tensors if plan.copies_all else _tensors_of(plan.written, args, kwargs)
        if not all(map(can_be_rebuilt, wanted)):
            raise CannotCopyError(Untried.LAYOUT)
        originals = {storages.storage_id(tensor): _storage_of(tensor) for tensor in wanted}
        # One copy stays here, another is handed to each trial.
        self.size = 2 * sum(int(storage.nbytes()) for storage in originals.values())
        if self.size > limit:
            raise CannotCopyError(Untried.MEMORY)
        shared = [tensor for tensor in tensors if storages.storage_id(tensor) in originals]
        if not all(map(can_be_rebuilt, shared)):
            raise CannotCopyError(Untried.LAYOUT)
        self._copied = {identity: storage.clone() for identity, storage in originals.items()}
        """Storage, by its identity, to a copy of it."""
        uses = Counter(map(storages.storage_id, shared))
        overwritten = map(storages.storage_id, _tensors_of(plan.overwritten, args, kwargs))
        self._overwritten = {identity for identity in overwritten if uses[identity] == 1}

    def let_go(self) -> None:
        """Drop references to the copied tensors, so that the call can free them before it ends."""
        copies: dict[int, Any] = {}

        def on_copy(tensor: torch.Tensor) -> torch.Tensor:
            original = self._copied.get(storages.storage_id(tensor))
            if original is None:
                return tensor
            copy = _laid_on(original, tensor)
            copies[storages.storage_id(copy)] = original
            return copy

        self._args, self._kwargs = _mapped((self._args, dict(self._kwargs)), on_copy)
        self._copied, self._overwritten = copies, set()

    def fresh(self, byte: int) -> tuple[Args, dict[str, Any]]:
        """The arguments of one trial; memory that the call only writes to is filled with ``byte``."""
        clones = {identity: storage.clone() for identity, storage in self._copied.items()}

        def rebuilt(tensor: torch.Tensor) -> torch.Tensor:
            identity = storages.storage_id(tensor)
            if identity not in clones:
                return tensor
            storage = clones[identity]
            # Only where the tensor is all of its storage: what lies around it is nobody's to change.
            if identity in self._overwritten and tensor.numel() * tensor.element_size() == storage.nbytes():
                storage.fill_(byte)
            return _laid_on(storage, tensor)

        if not clones:
            return self._args, dict(self._kwargs)
        args, kwargs = _mapped((self._args, dict(self._kwargs)), rebuilt)
        return args, kwargs


def _laid_on(storage: Any, tensor: torch.Tensor) -> torch.Tensor:
    """A tensor on ``storage`` with the offset, sizes and strides of ``tensor``."""
    laid = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
    _set(laid, storage, tensor.storage_offset(), tensor.shape, tensor.stride())
    return laid


def can_be_rebuilt(tensor: Any) -> bool:
    """Whether a storage, an offset, sizes and strides describe the tensor completely."""
    if type(tensor) not in _PLAIN and seams.dispatches_itself(type(tensor)):
        return False
    if tensor.layout is not torch.strided or tensor.is_quantized or tensor.is_nested or tensor.device.type == "meta":
        return False
    return not (tensor.is_conj() or tensor.is_neg() or tensor._is_zerotensor()) and bool(storages.storage_id(tensor))


def tensors_in(value: Any) -> Iterator[torch.Tensor]:
    """Every tensor in ``value``, including those in lists and dictionaries."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple, dict)):
        for item in value.values() if isinstance(value, dict) else value:
            yield from tensors_in(item)


def _tensors_of(arguments: tuple[Argument, ...], args: Args, kwargs: Kwargs) -> list[torch.Tensor]:
    return [tensor for argument in arguments for tensor in tensors_in(argument.of(args, kwargs))]


def _mapped(value: Any, change: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    if isinstance(value, torch.Tensor):
        return change(value)
    if isinstance(value, (list, tuple)):
        return type(value)(_mapped(item, change) for item in value) if value else value
    if isinstance(value, dict):
        return {key: _mapped(item, change) for key, item in value.items()}
    return value
