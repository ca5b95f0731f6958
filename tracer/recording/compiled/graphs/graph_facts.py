"""What a call of a compiled graph was called with, as far as the graph's text holds it.

The readers that ask an eager call are asked here too, of tensors that have a shape and no memory. What only data tell,
and sizes that are not fixed, are not in the text: such a fact is missing, and a verdict that needs it says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

import torch

from tracer.facts.arguments import MISSING
from tracer.recording.calls import draws
from tracer.recording.calls import fact_readers as facts
from tracer.recording.calls.draws import DRAW
from tracer.recording.calls.groups import OverloadInfo
from tracer.recording.compiled.graphs.distinct_numbers import GraphIndices
from tracer.recording.compiled.graphs.graph_text import Graph, Name, Node, Unread, Value
from tracer.recording.randomness.generators import SEEDS
from tracer.recording.storage.indices import Distinct
from tracer.recording.torch_private import compile_seams, seams
from tracer.trace.records import FactValue

_ALLOCATES = ("aten.empty", "aten.empty_like", "aten.empty_strided", "aten.empty_permuted", "aten.new_empty")
_SEES = frozenset(
    {
        "slice",
        "view",
        "_unsafe_view",
        "reshape",
        "select",
        "expand",
        "permute",
        "unsqueeze",
        "squeeze",
        "alias",
        "clone",
    }
    | {"detach", "new_empty_strided"}
)
#: They work element by element, and take no number from what they are given first.
_WRITES_OVER = frozenset({"fill", "copy", "zero", "bernoulli", "normal_functional", "uniform", "exponential"})
#: They take some numbers of what they are given, and perhaps none that is unwritten.
_SELECTS = frozenset({"where", "masked_fill"})
_HANDED = -1
_COMPUTES = frozenset({"sum", "mean", "mm", "addmm", "bmm", "amax", "amin", "cumsum", "_softmax", "dot", "mv"})


def unwritten_reads(graph: Graph) -> Iterator[tuple[int, int]]:
    """Which call of the graph computes with unwritten memory, and which one allocated it."""
    yield from _reads(graph, {})


def reads_of_input(graph: Graph, name: str) -> Iterator[int]:
    """Which calls of the graph compute with the input ``name``, of which nothing was written."""
    yield from (number for number, giver in _reads(graph, {name: _HANDED}) if giver == _HANDED)


def _reads(graph: Graph, allocated: dict[str, int]) -> Iterator[tuple[int, int]]:
    """``given``: by name, who gave memory that is not written."""
    for number, node in enumerate(graph.nodes):
        packet = node.op.split(".")[1]
        if node.op.rpartition(".")[0] in _ALLOCATES:
            if node.result is not None and all(node.result.shape):
                allocated[node.name] = number
            continue
        if not allocated:
            continue
        named = [value for value in _values((*node.args, *node.kwargs.values())) if value.name in allocated]
        if not named:
            continue
        if packet in _SEES:
            allocated[node.name] = allocated[named[0].name]
        elif packet not in _WRITES_OVER | _SELECTS and not packet.endswith("_like") and _computes(node.op, packet):
            yield number, allocated[named[0].name]


def _computes(op: str, packet: str) -> bool:
    if packet in _COMPUTES:
        return True
    func = compile_seams.overload(op)
    tags = getattr(func, "tags", ())
    return torch.Tag.pointwise in tags and torch.Tag.nondeterministic_seeded not in tags


def _values(arguments: tuple[Any, ...]) -> Iterator[Value]:
    for argument in arguments:
        if isinstance(argument, Value):
            yield argument
        elif isinstance(argument, list):
            yield from _values(tuple(argument))


_CONSTANTS: Mapping[str, Any] = {"inf": float("inf"), "nan": float("nan")}
#: Facts that sizes do not decide.
_WITHOUT_SIZES = ("arg.", "given.")
#: A size that is not fixed counts as more than one here, so what holds then holds of every size.
_DISTINCT = "index.distinct"


class GraphFacts:
    """Reads the facts of graphs' calls; ``asked`` says which the rules want of an op, once there is one."""

    def __init__(self, asked: Callable[[], Mapping[str, frozenset[str]]], working_directory: str) -> None:
        self._asked = asked
        self._working_directory = working_directory
        self._infos: dict[str, OverloadInfo | None] = {}
        self._indices = GraphIndices()

    def of(self, node: Node, numbers: Mapping[str, Distinct] = MappingProxyType({})) -> dict[str, FactValue]:
        """The facts of one call; of an op that this process does not know, those of its first tensor.

        ``numbers``: the graph's values that are known to hold distinct ones, by name.
        """
        try:
            return self._of(node, numbers)
        except Exception:  # a dtype or a device of another release: nothing is known, and no trace is lost
            return {}

    def _of(self, node: Node, numbers: Mapping[str, Distinct]) -> dict[str, FactValue]:
        info = self._info(node.op)
        tensor = _first_value((*node.args, *node.kwargs.values())) or node.result
        found = facts.common_facts(_raw(tensor))
        if info is None:
            return found
        unfixed = _has_unfixed((*node.args, *node.kwargs.values()))
        try:
            args = tuple(_made(one) for one in node.args)
            kwargs = {key: _made(one) for key, one in node.kwargs.items()}
            given = ((*node.args, *node.kwargs.values()), (*args, *kwargs.values()))
            self._indices.stand_for(dict(_known(*given, numbers)) if numbers else {})
            # What the op works on, by its schema: not always its first tensor.
            primary = _value_at(node, info)
            if primary is not None:
                found = facts.common_facts(_raw(primary))
        except Exception:  # a value that this torch cannot make: a dtype of another release
            return found
        for key, reader in info.readers.items():
            if key == DRAW:
                found |= self._draws(reader, args, kwargs, tensor)
                continue
            if unfixed and not key.startswith(_WITHOUT_SIZES) and not (numbers and key == _DISTINCT):
                continue
            try:
                value = reader(args, kwargs)
            except Exception:  # it asks for data, or for something that the text does not hold
                continue
            if value is not MISSING and not isinstance(value, _Unknown):
                found[key] = value
        return found

    def _draws(self, reader: Any, args: Any, kwargs: Any, tensor: Value | None) -> dict[str, FactValue]:
        """Whom a call draws from: compiled code seeds its own generator from the default one of the device."""
        try:
            with torch.device("cpu"):
                read = reader(args, {**kwargs, "device": torch.device("cpu")})
        except Exception:
            return {}
        if read is MISSING:
            return {}
        asked = kwargs.get("device")
        device = asked if isinstance(asked, torch.device) else torch.device(tensor.device if tensor else "cpu")
        return draws.draw_facts(SEEDS.default(device), self._working_directory)

    def _info(self, name: str) -> OverloadInfo | None:
        if name not in self._infos:
            func = compile_seams.overload(name)
            self._infos[name] = None if func is None else OverloadInfo(func, self._asked(), self._indices)
        return self._infos[name]


def _known(
    values: Iterable[Any], made: Iterable[Any], numbers: Mapping[str, Distinct]
) -> Iterator[tuple[int, Distinct]]:
    """The tensors that stand for values of distinct numbers, by identity."""
    for value, tensor in zip(values, made, strict=True):
        if isinstance(value, list):
            yield from _known(value, tensor, numbers)
        elif isinstance(value, Value) and value.name in numbers:
            yield id(tensor), numbers[value.name]


class _Unknown:
    """Stands for an argument that the text does not tell: whatever is asked of it fails."""

    def __bool__(self) -> bool:
        raise TypeError("not known")

    def __eq__(self, other: object) -> bool:
        raise TypeError("not known")

    __hash__ = None  # type: ignore[assignment]


def _made(value: Any) -> Any:
    """An argument as a reader expects it."""
    if isinstance(value, Value):
        sizes = tuple(2 if size is None else size for size in value.shape)
        dtype = compile_seams.dtype_of(value.dtype)
        strides = [stride for stride in value.stride or () if stride is not None]
        if len(strides) != len(sizes) or None in value.shape:
            return torch.empty(sizes, dtype=dtype, device="meta")
        return torch.empty_strided(sizes, strides, dtype=dtype, device="meta")
    if isinstance(value, Name):
        return _constant(value.text)
    if isinstance(value, Unread):
        return _Unknown()
    if isinstance(value, list):
        return [_made(one) for one in value]
    return value


def _constant(text: str) -> Any:
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if text.startswith("device("):
        parts = [part.split("=")[-1].strip(" '\"") for part in text[len("device(") : -1].split(",")]
        return torch.device(":".join(parts))
    constant = getattr(torch, text.removeprefix("torch."), None) if text.startswith("torch.") else None
    return _Unknown() if constant is None else constant


def _value_at(node: Node, info: OverloadInfo) -> Value | None:
    position = info._position
    if position is None or position >= len(node.args):
        return None
    return _first_value((node.args[position],))


def _first_value(values: tuple[Any, ...]) -> Value | None:
    for value in values:
        for item in value if isinstance(value, list) else (value,):
            if isinstance(item, Value):
                return item
    return None


def _has_unfixed(values: tuple[Any, ...]) -> bool:
    for value in values:
        if isinstance(value, Unread) or (isinstance(value, Value) and None in (*value.shape, *(value.stride or ()))):
            return True
        if isinstance(value, list) and _has_unfixed(tuple(value)):
            return True
    return False


def _raw(value: Value | None) -> tuple[Any, ...] | None:
    if value is None:
        return None
    dtype = compile_seams.dtype_of(value.dtype)
    device = torch.device(value.device) if value.device else seams.default_device()
    return (dtype, device, torch.strided, len(value.shape))
