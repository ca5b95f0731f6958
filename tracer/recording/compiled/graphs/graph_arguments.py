"""The arguments of a compiled graph's calls, in the form of an eager call's."""

from __future__ import annotations

import re
from typing import Any

import torch

from tracer.recording.calls.argument_forms import MOST, RawForm, named_arguments
from tracer.recording.compiled.graphs.graph_text import Name, Node, Value
from tracer.recording.torch_private import compile_seams
from tracer.trace.arguments import Argument

#: ``device(type='cuda', index=0)``
_DEVICE = re.compile(r"""device\((?:type ?= ?)?['"]([a-z]+)(?::(\d+))?['"](?:, (?:index ?= ?)?(\d+))?\)""")
_CONSTANTS = {"inf": float("inf"), "nan": float("nan")}


def constant(text: str) -> Any:
    """A constant of torch in a graph's text; ``...`` for an unknown one."""
    device = _DEVICE.fullmatch(text)
    if device is not None:
        return torch.device(":".join(filter(None, device.groups())))
    if text.startswith("torch."):
        return getattr(torch, text.removeprefix("torch."), ...)
    return _CONSTANTS.get(text, ...)


def arguments_of(node: Node, device: str) -> dict[str, Argument]:
    """``CallGroup.given`` of one call on ``device``; empty for an op that this process has not loaded."""
    func = compile_seams.overload(node.op)
    if func is None:
        return {}
    form = (tuple(map(_form, node.args)), tuple((name, _form(value)) for name, value in node.kwargs.items()))
    return named_arguments(func, form, device)


def _form(value: Any) -> Any:
    if isinstance(value, Value):
        return _tensor(value)
    if isinstance(value, list):
        return [*map(_form, value[:MOST]), *([...] if len(value) > MOST else ())]
    if isinstance(value, Name):
        known = constant(value.text)  # without a device's number: a repeated call takes the device that is there
        return torch.device(known.type) if isinstance(known, torch.device) else known
    if value is None or isinstance(value, (bool, int, float, complex, str)):
        return value
    return ...


def _tensor(value: Value) -> Any:
    try:
        dtype = compile_seams.dtype_of(value.dtype)
    except LookupError:
        return ...
    is_contiguous = value.stride is None or value.stride == _strides(value.shape)
    device = "".join(letter for letter in value.device if letter.isalpha())
    return RawForm(dtype, value.shape, None if is_contiguous else value.stride, device, torch.strided)


def _strides(shape: tuple[int | None, ...]) -> tuple[int | None, ...]:
    """The strides of a contiguous tensor; ``None`` where they depend on a size that is not fixed."""
    strides: list[int | None] = [1]
    for size in shape[:0:-1]:
        step = strides[-1]
        strides.append(None if step is None or size is None else step * max(size, 1))
    return tuple(strides[::-1]) if shape else ()
