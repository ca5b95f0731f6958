"""The arguments of a group's first call: shapes, strides, dtypes and numbers, but no tensor values.

Read once per group as torch's own objects, and converted to the trace's types when the trace is built.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import Any

import msgspec
import torch
from torch._C import Generator
from torch.nn.parameter import is_lazy

from tracer.recording.torch_private import seams
from tracer.trace.records import Argument, DeviceType, NotKept, Number, TensorForm, TorchWord

#: A list of more tensors is cut: a fused optimizer is handed hundreds.
MOST = 32
_LONGEST_WORD = 64
_PLAIN = (int, float, bool, complex, type(None))
_WORDS = (torch.dtype, torch.layout, torch.memory_format)


class RawForm(msgspec.Struct, frozen=True):
    """A tensor without its data, in torch's own objects."""

    dtype: Any
    shape: tuple[Any, ...]
    stride: tuple[Any, ...] | None
    """``None`` for a contiguous one, and for layouts without strides."""
    device: str
    layout: Any


#: Depth of the lists that a trace holds: ``allgather_`` takes lists of lists of tensors.
_DEEPEST = 2


def form_of(args: tuple[Any, ...], kwargs: Mapping[str, Any] | None) -> tuple[Any, ...]:
    """The raw form of a call's arguments: positional ones, then those with a name."""
    return tuple(map(_form, args)), tuple((name, _form(value)) for name, value in (kwargs or {}).items())


def _form(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return tensor_form(value)
    kind = type(value)
    if kind in _PLAIN:
        return value
    if kind is list or kind is tuple:
        return [*map(_form, value[:MOST]), *([...] if len(value) > MOST else ())]
    if kind is str:  # a keyword of the op; paths and texts of the user's are private
        return value if len(value) <= _LONGEST_WORD and not set(value) & set("/\\\n") else ...
    if kind is torch.device or kind in _WORDS:
        return value
    return Generator if isinstance(value, Generator) else ...


def tensor_form(tensor: torch.Tensor) -> Any:
    """The form of one tensor; ``...`` for a subclass with a dispatch of its own, or one without a shape yet."""
    try:
        if seams.answers_for_itself(type(tensor)) or is_lazy(tensor) or tensor.is_nested:
            return ...
        stride = tensor.stride() if tensor.layout is torch.strided else None
        if stride is not None and tensor.is_contiguous():
            stride = None
        return RawForm(tensor.dtype, tuple(tensor.shape), stride, tensor.device.type, tensor.layout)
    except Exception:  # an unforeseen kind of tensor: recording never stops a call
        return ...


def named_arguments(func: Any, form: tuple[Any, ...] | None, device: str) -> dict[str, Argument]:
    """``form`` as a trace has it, by the schema's names; empty without one. Tensors on ``device`` do not name it."""
    schema = getattr(func, "_schema", None)
    if schema is None or form is None:
        return {}
    positional, keywords = form
    names = [argument.name for argument in schema.arguments]
    return {name: _argument(value, device) for name, value in (*zip(names, positional, strict=False), *keywords)}


def _argument(value: Any, device: str, depth: int = 0) -> Any:
    if isinstance(value, RawForm):
        return TensorForm(
            _word(value.dtype),
            _sizes(value.shape),
            None if value.stride is None else _sizes(value.stride),
            "" if value.layout is torch.strided else _word(value.layout).removeprefix("_"),
            "" if value.device == device else value.device,
        )
    if isinstance(value, list):
        return [_argument(item, device, depth + 1) for item in value] if depth < _DEEPEST else NotKept()
    if value is ...:
        return NotKept()
    if isinstance(value, torch.device):
        return DeviceType(value.type)
    if value is Generator:
        return TorchWord("Generator")
    if type(value) in _WORDS:
        return TorchWord(_word(value))
    is_json = isfinite(value) if type(value) is float else type(value) is not complex
    is_json = is_json and (type(value) is not int or -(2**63) <= value < 2**64)
    return value if is_json else Number(repr(value))


def _word(value: Any) -> str:
    return str(value).removeprefix("torch.")


def _sizes(sizes: tuple[Any, ...]) -> tuple[int | None, ...]:
    """Sizes; ``None`` for one that is not fixed."""
    return tuple(size if type(size) is int else None for size in sizes)
