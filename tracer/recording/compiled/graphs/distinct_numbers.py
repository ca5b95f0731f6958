"""Index tensors with distinct numbers in a graph, as ``storage.indices`` finds them in eager code.

A backward graph takes them from its forward under the same names. A graph is functional: no value is written to again,
except by an op with an unknown body, after which nothing is known of its inputs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from tracer.recording.compiled.graphs.contents import Contents
from tracer.recording.compiled.graphs.graph_text import Graph, Node, Value
from tracer.recording.storage.indices import Distinct, Indices

_WIDE = ("i64", "i32")
_KNOWN_INSIDE = ("aten.", "prims.")
#: Ops whose second result is indices, and the position of their argument ``dim``.
_PLACES = {"aten.sort": 1, "aten.topk": 2}
_SECOND = 1
#: Ops that keep each number in its dimension.
_KEEPS = frozenset(
    {
        *("aten.clone.default", "aten.alias.default", "aten.detach.default", "aten._to_copy.default"),
        *("prims.convert_element_type.default", "aten.flip.default", "aten.slice.Tensor", "prims.rev.default"),
    }
)


class GraphIndices(Indices):
    """Properties of the meta tensors that represent a graph's values."""

    def __init__(self) -> None:
        super().__init__()
        self.numbers: Mapping[int, Distinct] = {}
        """By ``id`` of the tensors of the current call."""
        self.contents = Contents({}, {})
        self.names: Mapping[int, str] = {}
        """By ``id`` of the same tensors."""

    def of(self, tensor: Any) -> Distinct | None:
        """The numbers of the value that ``tensor`` represents."""
        return self.numbers.get(id(tensor))

    def largest_whole(self, tensor: Any) -> int | None:
        """The magnitude that no number of the value exceeds; ``None`` unless all are whole."""
        return 1 if tensor.dtype is torch.bool else self.contents.whole.get(self.names.get(id(tensor), ""))

    def was_read_at(self, tensor: Any, dim: int | None, indices: Sequence[Any]) -> bool:
        """Return whether ``tensor`` represents a value computed from what was read at ``indices``, and nothing else."""
        at = None if dim is None else dim % max(1, tensor.dim())
        read = self.contents.read_at.get(self.names.get(id(tensor), ""))
        return read is not None and read == (at, tuple(self.names.get(id(index)) for index in indices))


def distinct_numbers(graph: Graph, before: Mapping[str, Distinct]) -> dict[str, Distinct]:
    """The graph's values with distinct numbers, by name; ``before``: those from its forward."""
    distinct = {name: before[name] for name in graph.inputs if name in before}
    parts: dict[str, list[str]] = defaultdict(list)
    for name, whole in graph.parts.items():
        if graph.places.get(name) == _SECOND:
            parts[whole].append(name)
    for node in graph.nodes:
        if not node.op.startswith(_KNOWN_INSIDE):
            for name in [name for name in distinct if {name, graph.parts.get(name)} & {*node.reads}]:
                del distinct[name]
            continue
        try:
            result = _created(node) or _carried(node, distinct)
        except (IndexError, TypeError, ValueError, ZeroDivisionError):  # unsupported arguments
            continue
        if result is not None:
            names = parts[node.name] if node.op.rpartition(".")[0] in _PLACES else [node.name]
            distinct |= dict.fromkeys(names, result)
    return distinct


def _created(node: Node) -> Distinct | None:
    packet = node.op.rpartition(".")[0]
    if packet == "aten.randperm":
        return Distinct(0)
    if packet == "prims.iota":
        length, start, step = node.args[0], node.kwargs["start"], node.kwargs["step"]
        if any(type(argument) is not int for argument in (start, step)) or not step:
            return None
        is_positive = start >= 0 and (step > 0 or (type(length) is int and start + step * (length - 1) >= 0))
        return Distinct(0, 0, is_positive)
    if packet not in _PLACES or not isinstance(node.args[0], Value) or not node.args[0].shape:
        return None
    at = _PLACES[packet]
    dim = node.args[at] if at < len(node.args) else node.kwargs.get("dim", -1)
    return Distinct(dim % len(node.args[0].shape)) if type(dim) is int else None


def _carried(node: Node, distinct: Mapping[str, Distinct]) -> Distinct | None:
    """The numbers of an op's result that come from another value."""
    source, result = node.args[0], node.result
    if not isinstance(source, Value) or result is None or source.name not in distinct:
        return None
    if source.dtype not in _WIDE or result.dtype not in _WIDE:
        return None
    numbers = distinct[source.name]
    if node.op == "aten.index.Tensor":
        return _picked(node, numbers, distinct)
    dim = _dim_after(node.op, numbers.dim, source.shape, result.shape, node.args)
    if dim is None:
        return None
    added = node.args[1] * node.kwargs.get("alpha", 1) if node.op == "aten.add.Tensor" else 0
    return Distinct(dim, 0, numbers.has_no_negative and added >= 0)


def _picked(node: Node, numbers: Distinct, distinct: Mapping[str, Distinct]) -> Distinct | None:
    """Numbers selected from a row by another row of distinct numbers."""
    (picked,) = node.args[1]
    if not isinstance(picked, Value) or len(picked.shape) != 1 or len(node.args[0].shape) != 1:
        return None
    places = distinct.get(picked.name)
    return None if places is None or not places.has_no_negative else Distinct(0, 0, numbers.has_no_negative)


_Sizes = tuple[int | None, ...]


def _dim_after(op: str, dim: int, sizes: _Sizes, new_sizes: _Sizes, args: tuple[Any, ...]) -> int | None:
    """The dimension along which the result's numbers are distinct; ``None`` if some may repeat."""
    match op:
        case "aten.add.Tensor":
            return dim if type(args[1]) is int and sizes == new_sizes else None
        case "aten.unsqueeze.default":
            return dim + int(args[1] % (len(sizes) + 1) <= dim)
        case "aten.squeeze.dim" | "aten.squeeze.dims":
            axes = {axis % len(sizes) for axis in (args[1] if isinstance(args[1], list) else [args[1]])}
            gone = {axis for axis in axes if sizes[axis] == 1}
            is_kept = dim not in gone and len(sizes) - len(gone) == len(new_sizes)
            return dim - sum(axis < dim for axis in gone) if is_kept else None
        case "aten.select.int":
            axis = args[1] % len(sizes)
            return None if axis == dim else dim - (axis < dim)
        case "aten.expand.default":  # expanding a dimension repeats its numbers
            now = dim + len(new_sizes) - len(sizes)
            return now if sizes[dim] is not None and sizes[dim] == new_sizes[now] else None
        case "aten.permute.default":
            return [axis % len(sizes) for axis in args[1]].index(dim)
        case "aten.view.default" | "aten.reshape.default" | "aten._unsafe_view.default":  # a row viewed as another row
            before = [axis for axis, size in enumerate(sizes) if size != 1]
            after = [axis for axis, size in enumerate(new_sizes) if size != 1]
            return after[0] if before == [dim] and len(after) == 1 else None
    return dim if op in _KEEPS and len(sizes) == len(new_sizes) else None
