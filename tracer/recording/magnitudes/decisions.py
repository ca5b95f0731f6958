"""What calls decide: the side of zero on which a ReLU's argument lies, the index of an ``argmax``, a truth value.

A run keeps what it decides, and another one follows it. What is decided by is a place of both (``PlaceKind.DECISION``),
so that a decision that fell otherwise by more than rounding is no excuse.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from tracer.ops.op import Op, Touch
from tracer.ops.rows import row_of
from tracer.recording.magnitudes.sketching import storage_of
from tracer.recording.torch_private import seams
from tracer.recording.values.digests import unseen
from tracer.trace.values.places import Decided, decisions_beside, read_decisions

if TYPE_CHECKING:
    from tracer.recording.magnitudes.place_recorder import PlaceRecorder

_Tensor = torch.Tensor
_READ_NO_ELEMENT = (Touch.METADATA, Touch.ALLOCATES, Touch.SHAPE_OF_SELF)
#: Bytes of decisions that are kept; what is decided after them is not followed.
_MOST_BYTES = 2**30


class Decisions(TorchDispatchMode):
    """Keeps what calls decide beside the file of values, or follows the file ``follow``, which changes the run.

    ``recorder`` takes what decisions with floating arguments are made by, and how many of them fell otherwise.
    """

    def __init__(self, recorder: PlaceRecorder, keeps: bool, follow: str) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._recorder = recorder
        self._keeps = keeps
        self._kept: Decided = {}
        self._bytes = 0
        self._followed = read_decisions(Path(follow)) if follow else {}
        self._counts: Counter[str] = Counter()

    def start(self) -> None:
        self.__enter__()  # type: ignore[no-untyped-call]

    def stop(self) -> None:
        seams.leave_mode(self)
        if self._keeps:
            decisions_beside(self._recorder.file.path).write_bytes(msgspec.msgpack.encode(self._kept))

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        schema = func._schema
        name = schema.name.partition("::")[2].removesuffix("_")
        row = row_of(name.removesuffix("_backward"))
        if row.bends:
            return self._bent(func, name, row, args, kwargs)
        inputs = [leaf for leaf in tree_leaves((args, kwargs)) if _is_floating(leaf)]
        if not inputs or schema.is_mutable or row.touches in _READ_NO_ELEMENT:
            return func(*args, **kwargs)
        result = func(*args, **kwargs)
        several = result if isinstance(result, (tuple, list)) else (result,)
        if any(type(one) is not _Tensor or storage_of(one) == storage_of(inputs[0]) for one in several):
            return result
        own, spatial = several[-1], 0 if name.endswith("_backward") else row.spatial
        selects = len(several) == 2 and (schema.returns[1].name == "indices" or spatial)
        if not selects and (len(several) > 1 or (_is_floating(own) and not row.jumps)):
            return result
        with unseen():
            theirs = self._decided(name, own, inputs, (args, kwargs), own.numel())
            if theirs is None:
                return result
            theirs = torch.empty_like(own).copy_(theirs)
            if not selects:
                return theirs
            values = _selected(inputs[0].detach(), theirs, spatial, _given(func, args, kwargs).get("dim", -1))
            return torch.empty_like(several[0]).copy_(values), theirs

    def _bent(self, func: Any, name: str, row: Op, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call an op with an argument that lies where the other run's does."""
        given = _given(func, args, kwargs)
        number = next(number for number, key in enumerate(given) if key in ("self", "self_or_result"))
        value: Any = args[number] if number < len(args) else None
        if not _is_floating(value):
            return func(*args, **kwargs)
        with unseen():
            bends = [sign * (given[at] if isinstance(at, str) else at) for sign, at in row.bends]
            value = value.detach()
            own = torch.stack([value > bend for bend in bends])
            theirs = self._decided(name, own, [value], bends, value.numel())
            if theirs is not None:
                limits, moved = torch.finfo(value.dtype), value.clone()
                for bend, ours, other in zip(bends, own, theirs, strict=True):
                    moved[other & ~ours] = bend + abs(bend) * limits.eps + limits.tiny
                    moved[ours & ~other] = bend
                if func._schema.name.endswith("_"):
                    value.copy_(moved)
                else:
                    args = (*args[:number], moved.requires_grad_(args[number].requires_grad), *args[number + 1 :])
        return func(*args, **kwargs)

    def _decided(
        self, name: str, own: torch.Tensor, inputs: list[torch.Tensor], given: Any, of: int
    ) -> torch.Tensor | None:
        """Note ``of`` decisions; what the other run decided there, if that is something else. ``None``: the same."""
        numbers = [leaf for leaf in tree_leaves(given) if isinstance(leaf, (bool, int, float, str))]
        place = self._recorder.place_of_decision(f"{name} {numbers} {tuple(own.shape)}")
        key = f"{self._recorder.file.step} {place.phase} {place.module} {place.name} {own.dtype}"
        occurrence = self._counts[key]
        self._counts[key] += 1
        for number, tensor in enumerate(inputs):
            self._recorder.decides(place, tensor, number, occurrence)
        if self._keeps:
            packed = _packed(own)
            self._bytes += len(packed)
            if self._bytes <= _MOST_BYTES:
                self._kept.setdefault(key, []).append(packed)
            return None
        followed = self._followed.get(key, [])
        if occurrence >= len(followed) or not own.numel():
            return None
        theirs = _unpacked(followed[occurrence], own)
        count = int((theirs != own).sum())
        if not count:
            return None
        self._recorder.falls_otherwise(place, count, of, occurrence)
        return theirs


def _packed(decided: torch.Tensor) -> bytes:
    flat = decided.detach().cpu().contiguous().view(-1)
    packed = np.packbits(flat.numpy()) if flat.dtype is torch.bool else flat.view(torch.uint8).numpy()
    return packed.tobytes()


def _unpacked(packed: bytes, like: torch.Tensor) -> torch.Tensor:
    flat = torch.frombuffer(bytearray(packed), dtype=torch.uint8)
    if like.dtype is torch.bool:
        flat = torch.from_numpy(np.unpackbits(flat.numpy(), count=like.numel()))
    return flat.view(like.dtype).view(like.shape).to(like.device)


def _given(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """All arguments of a call by name, those that were not passed too."""
    arguments = func._schema.arguments
    passed = dict(zip((argument.name for argument in arguments), args, strict=False)) | kwargs
    return {argument.name: passed.get(argument.name, argument.default_value) for argument in arguments}


def _is_floating(value: Any) -> bool:
    return isinstance(value, _Tensor) and value.is_floating_point()


def _selected(tensor: torch.Tensor, indices: torch.Tensor, spatial: int, dim: int) -> torch.Tensor:
    """The elements that ``indices`` point at, along ``dim``, or in the last ``spatial`` dimensions taken as one."""
    if spatial:
        return tensor.flatten(-spatial).gather(-1, indices.flatten(-spatial)).view(indices.shape)
    if not tensor.dim():
        return tensor
    if indices.dim() < tensor.dim():
        return tensor.gather(dim, indices.unsqueeze(dim)).squeeze(dim)
    return tensor.gather(dim, indices)
