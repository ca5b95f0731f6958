"""``seams``, continued: storages, their identity and weak references. Checked on torch 2.4.1 and 2.13.0."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch

from tracer.recording.torch_private.seams import find

_storage_of: Callable[[Any], Any] = torch._C.TensorBase.untyped_storage
_storage_id = find(torch._C, "_storage_id")


def storage_id(tensor: torch.Tensor) -> int:
    """Return a number that tells the storage of ``tensor`` from every live one; 0 without one (sparse, opaque)."""
    try:
        return int(_storage_id(tensor)) if _storage_id is not None else int(_storage_of(tensor)._cdata)
    except (NotImplementedError, RuntimeError):
        return 0


#: The same for a tensor that has a storage; raises ``NotImplementedError`` for one that has none.
storage_id_of_strided: Callable[[Any], int] = _storage_id or storage_id


def storage_bytes(tensor: torch.Tensor) -> int:
    """The size of the storage of ``tensor``."""
    return int(_storage_of(tensor).nbytes())


def claimed_device(tensor: torch.Tensor) -> str | None:
    """Kind of the device on which a fake tensor would lie; ``None`` if unknown, or if the tensor is real."""
    place = claimed_place(tensor)
    return "cpu" if place == "pinned" else place


def claimed_devices(tensors: Iterable[torch.Tensor]) -> set[str | None]:
    """Those of ``tensors``; a real one beside fake ones lies on the host."""
    return {"cpu" if type(tensor) is torch.Tensor else claimed_device(tensor) for tensor in tensors}


def claimed_place(tensor: torch.Tensor) -> str | None:
    """The same, and ``pinned`` for pinned memory of the host."""
    is_fake = hasattr(tensor, "fake_device") and tensor.layout is torch.strided
    return getattr(_storage_of(tensor), "_claimed", None) if is_fake else None


def claim_device(result: Any, kind: str | None, *, anew: bool = False) -> None:
    """Note on which kind of device a fake tensor would lie, ``None`` if unknown; ``anew``: noted before or not."""
    is_fake = hasattr(result, "fake_device") and result.layout is torch.strided
    if is_fake and (anew or claimed_device(result) is None):
        _storage_of(result)._claimed = kind


def version_of(tensor: torch.Tensor) -> int:
    """Return the number of writes to the memory that autograd counted; -1 for an inference tensor."""
    try:
        return int(tensor._version)
    except RuntimeError:
        return -1


#: Whether a storage can be watched without being kept alive.
WATCHES_STORAGES = all(hasattr(torch.UntypedStorage, name) for name in ("_weak_ref", "_expired", "_free_weak_ref"))


def weak_storage(tensor: torch.Tensor) -> int:
    """A weak reference to the storage of ``tensor``: its memory can go, its identity is not given to another."""
    return int(_storage_of(tensor)._weak_ref())


def is_expired(reference: int) -> bool:
    """Return whether the storage behind ``reference`` is gone."""
    return bool(torch.UntypedStorage._expired(reference))


def free_weak_storage(reference: int) -> None:
    """Give a weak reference back."""
    torch.UntypedStorage._free_weak_ref(reference)


_fills: Callable[[], bool] = find(torch._C, "_get_deterministic_fill_uninitialized_memory") or (lambda: True)


def fills_uninitialized_memory() -> bool:
    """Return whether torch fills what ``empty`` returns, under the current settings."""
    return torch.are_deterministic_algorithms_enabled() and _fills()
