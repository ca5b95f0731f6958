"""What a call of a compiled graph is called with, as for an eager call."""

from __future__ import annotations

import re
from typing import Any

import torch

from tracer.recording.calls.argument_forms import MOST, RawForm, named_arguments
from tracer.recording.compiled.graphs.graph_text import Name, Node, Value
from tracer.recording.torch_private import compile_seams
from tracer.trace.arguments import Argument

_DEVICE = re.compile(r"""device\((?:type ?= ?)?['"](?P<kind>[a-z]+)(?::\d+)?['"](?:, (?:index ?= ?)?\d+)?\)""")
"""``device(type='cuda', index=0)``, as a graph's text spells it: a call made again takes the device that is there."""
_CONSTANTS = {"inf": float("inf"), "nan": float("nan")}


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
        return _constant(value.text)
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
    """Those of a tensor without gaps; ``None`` where they hang on a size that is not fixed."""
    strides: list[int | None] = []
    step: int | None = 1
    for size in reversed(shape):
        strides.append(step)
        step = None if step is None or size is None else step * max(size, 1)
    return tuple(reversed(strides))


def _constant(text: str) -> Any:
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    device = _DEVICE.fullmatch(text)
    if device is not None:
        return torch.device(device["kind"])
    constant = getattr(torch, text.removeprefix("torch."), None) if text.startswith("torch.") else None
    return ... if constant is None else constant
