"""torch's fake tensors: a mode that answers reads of values, and what of torch refuses fake parameters.

Checked on torch 2.13.0.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils import _foreach_utils
from torch.utils._pytree import tree_map_only

from tracer.recording.patching import Watch, place
from tracer.recording.torch_private import seams

_ATEN = torch.ops.aten
_CPU = torch.device("cpu")
_MASKS = (torch.bool, torch.uint8)
#: Where a gradient scaler asks whether a gradient overflowed.
_OVERFLOW_CHECK = "_maybe_opt_step"


class ValuesAsOne(FakeTensorMode):  # type: ignore[misc]  # torch does not type it
    """Fake tensors whose every element reads as 1, wherever the program asks for a value.

    A comparison reads as what it gives for 1 (``isnan``: false), a mask selects every position, and no gradient
    overflowed. Every device becomes the CPU: autograd aborts a CPU build of torch on fake tensors that claim another.
    """

    def __init__(self) -> None:
        super().__init__(allow_non_fake_inputs=True)

    @property
    def avoid_device_init(self) -> bool:
        """No device is started, whatever ``torch.cuda`` answers."""
        return True

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        named = dict(kwargs or {})
        device = named.get("device")
        if device is not None and device.type not in ("cpu", "meta"):
            named["device"] = _CPU
        if named.get("pin_memory"):
            named["pin_memory"] = False
        if func._schema.is_mutable:
            args = tree_map_only(torch.Tensor, self._faked, tuple(args))
            named = tree_map_only(torch.Tensor, self._faked, named)
        if func is _ATEN._pin_memory.default:
            func, args, named = _ATEN.clone.default, args[:1], {}
        elif func is _ATEN.nonzero.default and isinstance(args[0], FakeTensor):
            with self:
                return torch.empty(args[0].numel(), args[0].dim(), dtype=torch.long)
        elif func is _ATEN.masked_select.default:
            with self:
                return args[0].expand(torch.broadcast_shapes(args[0].shape, args[1].shape)).reshape(-1).clone()
        elif torch.Tag.data_dependent_output in getattr(func, "tags", ()) and isinstance(args[0], FakeTensor):
            return self._read(args)
        elif func in (_ATEN.index.Tensor, _ATEN.index_put_.default, _ATEN.index_put.default):
            args = (args[0], [part for index in args[1] for part in self._positions(index)], *args[2:])
        result: Any = super().__torch_dispatch__(func, types, tuple(args), named)
        is_answer = isinstance(result, FakeTensor) and (result.dtype is torch.bool or result.numel() == 1)
        if is_answer and (result.dtype is torch.bool or any(_reads_zero(arg) for arg in args)):
            result._reads_zero = _is_zero_for_ones(func, args, named)
        return result

    def _faked(self, tensor: torch.Tensor) -> torch.Tensor:
        """torch would write to a real tensor if no other argument were fake: a fake one takes its place."""
        return tensor if isinstance(tensor, FakeTensor) else self.from_tensor(tensor)  # type: ignore[no-any-return]

    def _read(self, args: Sequence[Any]) -> Any:
        """What is read: a constant that torch kept, else the stand-in. Two tensors that are compared agree."""
        if len(args) > 1 and isinstance(args[1], torch.Tensor):
            return True
        tensor = args[0]
        if tensor.constant is not None:
            with seams.without_modes():
                return tensor.constant.item()
        number = int(not (_reads_zero(tensor) or _asks_for_overflow()))
        if tensor.dtype is torch.bool:
            return bool(number)
        return complex(number) if tensor.is_complex() else float(number) if tensor.is_floating_point() else number

    def _positions(self, index: Any) -> Sequence[Any]:
        """An index, or in place of a mask the positions that it selects: all."""
        if not isinstance(index, torch.Tensor) or index.dtype not in _MASKS:
            return (index,)
        with self:
            return torch.empty(index.dim(), index.numel(), dtype=torch.long).unbind(0)


def _reads_zero(value: Any) -> bool:
    return isinstance(value, FakeTensor) and getattr(value, "_reads_zero", False)


def _is_zero_for_ones(func: Any, args: Sequence[Any], named: Mapping[str, Any]) -> bool:
    """Does ``func`` give 0 where its tensors hold 1, or 0 where they were found to? ``False`` if it does not work."""
    ones: dict[int, torch.Tensor] = {}

    def one(tensor: torch.Tensor) -> torch.Tensor:
        if id(tensor) not in ones:
            shape = [1] * tensor.dim()
            ones[id(tensor)] = torch.full(shape, int(not _reads_zero(tensor)), dtype=tensor.dtype)
        return ones[id(tensor)]

    try:
        with seams.without_modes():
            result = func(*tree_map_only(torch.Tensor, one, tuple(args)), **dict(named))
            return isinstance(result, torch.Tensor) and result.numel() == 1 and not bool(result)
    except Exception:
        return False


def _asks_for_overflow() -> bool:
    frame = sys._getframe(2)
    for _ in range(12):
        if frame.f_code.co_name == _OVERFLOW_CHECK:
            return True
        if frame.f_back is None:
            break
        frame = frame.f_back
    return False


def _swap(swap: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """``torch.utils.swap_tensors``, which refuses fake parameters: the first takes the second's data instead.

    Optimizers keep their references: the parameter stays the object that it is.
    """
    parameter, applied = args
    if type(parameter) is not FakeTensor or type(applied) is not FakeTensor:
        return swap(*args, **kwargs)
    parameter.data = applied
    parameter.fake_device = applied.fake_device
    parameter.constant = None
    return None


@contextmanager
def fake_tensors() -> Iterator[None]:
    """Whatever tensor is made in the block is fake, and modules, optimizers and clipping take fake parameters."""
    lift = place([(torch.utils, "swap_tensors")], Watch(around=_swap))
    types: list[Any] = _foreach_utils._foreach_supported_types
    types.append(FakeTensor)
    try:
        with ValuesAsOne():
            yield
    finally:
        types.remove(FakeTensor)
        if lift is not None:
            lift()
