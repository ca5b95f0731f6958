"""Facts and arguments of a compiled graph's calls, as far as the graph's text has them.

The readers of eager calls run here too, on meta tensors. Facts that need data or dynamic sizes are missing, and a
verdict that needs them says so.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any

import torch

from tracer.facts.argument_readers import MISSING
from tracer.recording.calls import draws
from tracer.recording.calls import fact_readers as facts
from tracer.recording.calls.argument_forms import MOST, RawForm, named_arguments
from tracer.recording.calls.draws import DRAW
from tracer.recording.calls.groups import OverloadInfo
from tracer.recording.compiled.graphs.contents import Contents
from tracer.recording.compiled.graphs.distinct_numbers import GraphIndices
from tracer.recording.compiled.graphs.graph_text import Name, Node, Unread, Value, flat
from tracer.recording.randomness.generators import SEEDS
from tracer.recording.storage.indices import Distinct
from tracer.recording.torch_private import compile_seams, seams
from tracer.trace.arguments import Argument
from tracer.trace.records import FactValue

#: Stands for a dynamic size: more addends than can be added in any order with the same sum.
_SEVERAL = 3
#: Stands for a dynamic size in products, which Inductor does not pad: fx_passes/pad_mm.py, get_padded_length, 2.13.0.
_ALIGNED, _PADDED = 16, "shape.is_aligned"
#: Facts that do not depend on sizes, except that a dynamic size counts as several.
_WITHOUT_SIZES = ("arg.", "given.", "index.")


_NO_CONTENTS = Contents({}, {})


class GraphFacts:
    """Reads the facts of graphs' calls; ``asked`` returns those that the rules need, by op."""

    def __init__(self, asked: Callable[[], Mapping[str, frozenset[str]]]) -> None:
        self._asked = asked
        self._infos: dict[str, OverloadInfo | None] = {}
        self._indices = GraphIndices()

    def of(
        self, node: Node, numbers: Mapping[str, Distinct] = MappingProxyType({}), contents: Contents = _NO_CONTENTS
    ) -> dict[str, FactValue]:
        """The facts of one call; for an op that this process has not loaded, those of its first tensor.

        ``numbers``: the graph's values with distinct numbers, by name. ``contents``: what else is known of its values.
        """
        try:
            return self._of(node, numbers, contents)
        except Exception:  # a dtype or a device of another release
            return {}

    def _of(self, node: Node, numbers: Mapping[str, Distinct], contents: Contents) -> dict[str, FactValue]:
        if node.op not in self._infos:
            func = compile_seams.overload(node.op)
            self._infos[node.op] = None if func is None else OverloadInfo(func, self._asked(), self._indices)
        info = self._infos[node.op]
        arguments = (*node.args, *node.kwargs.values())
        tensor = _first_value(arguments) or node.result
        values = facts.common_facts(_raw(tensor))
        if info is None:
            return values
        try:
            args = tuple(map(_as_eager, node.args))
            kwargs = {key: _as_eager(value) for key, value in node.kwargs.items()}
            pairs = zip(flat(arguments), flat((*args, *kwargs.values())), strict=True)
            named = [(value.name, id(eager)) for value, eager in pairs if isinstance(value, Value)]
            self._indices.numbers = {number: numbers[name] for name, number in named if name in numbers}
            self._indices.contents = contents
            self._indices.names = {number: name for name, number in named}
            # The tensor that the op works on, by its schema: not always the first one.
            position = info._position
            primary = _first_value(node.args[position : position + 1]) if position is not None else None
            if primary is not None:
                values = facts.common_facts(_raw(primary))
        except Exception:  # a dtype of another release
            return values
        is_unfixed = any(map(_is_unfixed, flat(arguments)))
        for key, reader in info.readers.items():
            if key == DRAW:
                values |= self._draws(reader, args, kwargs, tensor)
                continue
            if is_unfixed and key != _PADDED and not key.startswith(_WITHOUT_SIZES):
                continue
            try:
                if is_unfixed and key == _PADDED:
                    value = reader(tuple(_as_eager(value, _ALIGNED) for value in node.args), kwargs)
                else:
                    value = reader(args, kwargs)
            except Exception:  # it needs data, or something that is not in the text
                continue
            if value is not MISSING and not isinstance(value, _Unknown):
                values[key] = value
        return values

    def _draws(self, reader: Any, args: Any, kwargs: Any, tensor: Value | None) -> dict[str, FactValue]:
        """Facts of the generator that a call draws from: compiled code seeds its own from the device's default one."""
        try:
            with torch.device("cpu"):
                read = reader(args, {**kwargs, "device": torch.device("cpu")})
        except Exception:
            return {}
        if read is MISSING:
            return {}
        asked = kwargs.get("device")
        device = asked if isinstance(asked, torch.device) else torch.device(tensor.device if tensor else "cpu")
        return draws.draw_facts(SEEDS.default(device))


class _Unknown:
    """An argument that is not in the text: readers that use it fail."""

    def __bool__(self) -> bool:
        raise TypeError("not known")

    def __eq__(self, other: object) -> bool:
        raise TypeError("not known")

    __hash__ = None  # type: ignore[assignment]


def _as_eager(value: Any, dynamic: int = _SEVERAL) -> Any:
    """An argument as readers expect it, with meta tensors; ``dynamic`` stands for a dynamic size."""
    if isinstance(value, Value):
        sizes = tuple(dynamic if size is None else size for size in value.shape)
        dtype = compile_seams.dtype_of(value.dtype)
        strides = [stride for stride in value.stride or () if stride is not None]
        if len(strides) != len(sizes):
            return torch.empty(sizes, dtype=dtype, device="meta")
        return torch.empty_strided(sizes, strides, dtype=dtype, device="meta")
    if isinstance(value, list):
        return [*map(_as_eager, value)]
    if isinstance(value, Name):
        value = constant(value.text)
    return _Unknown() if value is ... or isinstance(value, Unread) else value


def _first_value(arguments: Iterable[Any]) -> Value | None:
    return next((value for value in flat(arguments) if isinstance(value, Value)), None)


def _is_unfixed(value: Any) -> bool:
    return isinstance(value, Unread) or (isinstance(value, Value) and None in (*value.shape, *(value.stride or ())))


def _raw(value: Value | None) -> tuple[Any, ...] | None:
    if value is None:
        return None
    dtype = compile_seams.dtype_of(value.dtype)
    device = torch.device(value.device) if value.device else seams.default_device()
    return (dtype, device, torch.strided, len(value.shape))


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
        word = constant(value.text)  # without a device's index: a replayed call runs on the available device
        return torch.device(word.type) if isinstance(word, torch.device) else word
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
    """The strides of a contiguous tensor; ``None`` if they depend on a dynamic size."""
    strides: list[int | None] = [1]
    for size in shape[:0:-1]:
        step = strides[-1]
        strides.append(None if step is None or size is None else step * max(size, 1))
    return tuple(strides[::-1]) if shape else ()
