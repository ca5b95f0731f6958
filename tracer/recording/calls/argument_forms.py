"""The arguments of a group's first call: shapes, strides, dtypes and numbers, but no tensor values.

Read once per group as torch's own objects; converted to the trace's types when the trace is built.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import Any, NamedTuple

import torch
from torch.nn.parameter import is_lazy

from tracer.recording.torch_private import seams
from tracer.trace.arguments import Argument, DeviceType, NotKept, Number, TensorForm, TorchWord

#: A list of more tensors is cut: a fused optimizer is handed hundreds.
MOST = 32
_LONGEST_WORD = 64
_PLAIN = (int, float, bool, complex, type(None))
_WORDS = (torch.dtype, torch.layout, torch.memory_format)


class RawForm(NamedTuple):
    """A tensor without its data, as torch answers."""

    dtype: Any
    shape: tuple[Any, ...]
    stride: tuple[Any, ...] | None
    """``None`` for one without gaps in the usual order, and where a layout has no strides."""
    device: str
    layout: Any


#: Lists within lists that a trace holds: ``allgather_`` takes lists of tensors, one for each.
_DEEPEST = 2


def form_of(args: tuple[Any, ...], kwargs: Mapping[str, Any] | None) -> tuple[Any, ...]:
    """The raw form of a call's arguments: positional ones, then those with a name."""
    if kwargs:
        return tuple(map(_form, args)), tuple((name, _form(value)) for name, value in kwargs.items())
    return tuple(map(_form, args)), ()


def _form(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return tensor_form(value)
    kind = type(value)
    if kind in _PLAIN:
        return value
    if kind is list or kind is tuple:
        return [*map(_form, value[:MOST]), *([...] if len(value) > MOST else ())]
    if kind is str:  # a word of an op's; a path or a text of the user's is nobody's business
        return value if len(value) <= _LONGEST_WORD and not set(value) & set("/\\\n") else ...
    if kind is torch.device:
        return value
    if kind in _WORDS:
        return value
    if isinstance(value, torch.Generator):
        return torch.Generator
    return ...


def tensor_form(tensor: torch.Tensor) -> Any:
    """The form of one tensor; ``...`` for a subclass that answers such questions itself, or that has no shape yet."""
    if seams.answers_for_itself(type(tensor)) or is_lazy(tensor):
        return ...
    try:
        return _answered(tensor)
    except Exception:  # a kind of tensor that does not answer: what is noted beside a call never stops it
        return ...


def _answered(tensor: torch.Tensor) -> Any:
    if tensor.is_nested:
        return ...
    layout = tensor.layout
    stride = tensor.stride() if layout is torch.strided else None
    if stride is not None and tensor.is_contiguous():
        stride = None
    return RawForm(tensor.dtype, tuple(tensor.shape), stride, tensor.device.type, layout)


def named_arguments(func: Any, form: tuple[Any, ...] | None, device: str) -> dict[str, Argument]:
    """``form`` as a trace has it, each argument by its name in the schema of ``func``; empty where there is none.

    ``device``: what a tensor lies on of which nothing else is said.
    """
    schema = getattr(func, "_schema", None)
    if schema is None or form is None:
        return {}
    positional, named = form
    names = [argument.name for argument in schema.arguments]
    return {name: _argument(value, device) for name, value in (*zip(names, positional, strict=False), *named)}


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
    if value is torch.Generator:
        return TorchWord("Generator")
    if type(value) in _WORDS:
        return TorchWord(_word(value))
    is_json = isfinite(value) if type(value) is float else type(value) is not complex
    if type(value) is int:
        is_json = -(2**63) <= value < 2**64
    return value if is_json else Number(repr(value))


def _word(value: Any) -> str:
    return str(value).removeprefix("torch.")


def _sizes(sizes: tuple[Any, ...]) -> tuple[int | None, ...]:
    """Sizes; ``None`` for one that is not fixed."""
    return tuple(size if type(size) is int else None for size in sizes)
