"""What a group's first call was called with: shapes, strides, dtypes and numbers, and no value of any tensor.

Read once a group, as raw values; it becomes text when the trace is built. The text is Python's, so that Python's own
parser reads it: ``self=float32[10, 4], dim=0, index=int64[500], source=float32[500, 4][1, 500], alpha=2``.
"""

from __future__ import annotations

from collections.abc import Mapping
from keyword import iskeyword
from typing import Any, NamedTuple

import torch
from torch.nn.parameter import is_lazy

from tracer.recording.torch_private import seams

#: A list of more tensors is cut: a fused optimizer is handed hundreds.
MOST = 32
_LONGEST_WORD = 64
_PLAIN = (int, float, bool, complex, type(None))
_WORDS = (torch.dtype, torch.layout, torch.memory_format)


class TensorForm(NamedTuple):
    """A tensor without its data."""

    dtype: Any
    shape: tuple[Any, ...]
    stride: tuple[Any, ...] | None
    """``None`` for one without gaps in the usual order, and where a layout has no strides."""
    device: str
    layout: Any


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
    return TensorForm(tensor.dtype, tuple(tensor.shape), stride, tensor.device.type, layout)


def spelled(func: Any, form: tuple[Any, ...] | None, device: str) -> str:
    """``form`` in words, each argument by its name in the schema of ``func``; empty where there is none.

    ``device``: what a tensor lies on of which nothing else is said.
    """
    schema = getattr(func, "_schema", None)
    if schema is None or form is None:
        return ""
    given, named = form
    names = [argument.name for argument in schema.arguments]
    pairs = [*zip(names, given, strict=False), *named]
    return ", ".join(f"{_name(name)}={_word(value, device)}" for name, value in pairs)


def _name(name: str) -> str:
    """As Python takes it: ``from`` becomes ``from_``."""
    return f"{name}_" if iskeyword(name) else name


def _word(value: Any, device: str) -> str:
    if value is ...:
        return "..."
    if isinstance(value, TensorForm):
        return _tensor_word(value, device)
    if isinstance(value, list):
        return f"[{', '.join(_word(one, device) for one in value)}]"
    if isinstance(value, torch.device):
        return f"torch.device({value.type!r})"
    if value is torch.Generator:
        return "torch.Generator()"
    return str(value) if type(value) in _WORDS else repr(value)


def _tensor_word(form: TensorForm, device: str) -> str:
    text = f"{str(form.dtype).removeprefix('torch.')}[{_sizes(form.shape)}]"
    if form.stride is not None:
        text += f"[{_sizes(form.stride)}]"
    if form.layout is not torch.strided:
        text += f".{str(form.layout).removeprefix('torch.').removeprefix('_')}"
    if form.device != device:
        text += f".{form.device}"
    return text


def _sizes(sizes: tuple[Any, ...]) -> str:
    """Sizes between brackets; one that is not fixed is ``None``."""
    return ", ".join(str(size) if type(size) is int else "None" for size in sizes) or "()"
