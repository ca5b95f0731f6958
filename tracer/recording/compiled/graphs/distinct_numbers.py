"""Indices that a graph made of distinct numbers, as ``memory.indices`` knows those that an eager step made.

A backward graph reads them from its forward under the same names. A graph is functional: what has a name is never
written to again, but by an op whose inside nobody knows, and such an op takes the knowledge away.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tracer.recording.compiled.graphs.graph_text import Graph, Node, Value
from tracer.recording.storage.indices import Distinct, Indices

_WIDE = ("i64", "i32")
_KNOWN_INSIDE = ("aten.", "prims.")
#: Ops of several results of which the second holds places, and where their dimension stands.
_PLACES = {"aten.sort": 1, "aten.topk": 2}
_SECOND = 1


class GraphIndices(Indices):
    """Answers for the tensors that stand for a graph's values."""

    def __init__(self) -> None:
        super().__init__()
        self._numbers: dict[int, Distinct] = {}

    def stand_for(self, numbers: Mapping[int, Distinct]) -> None:
        """Tensors by their identity, for as long as they are asked for."""
        self._numbers = dict(numbers)

    def of(self, tensor: Any) -> Distinct | None:
        """What is known of the value that ``tensor`` stands for."""
        return self._numbers.get(id(tensor))


def distinct_numbers(graph: Graph, before: Mapping[str, Distinct]) -> dict[str, Distinct]:
    """By name, what is known of a graph's values; ``before``: of those that its forward hands to it."""
    distinct = {name: before[name] for name in graph.inputs if name in before}
    parts: dict[str, list[str]] = {}
    for name, whole in graph.parts.items():
        if graph.places.get(name) == _SECOND:
            parts.setdefault(whole, []).append(name)
    for node in graph.nodes:
        if not node.op.startswith(_KNOWN_INSIDE):
            for name in [
                input_name
                for input_name in distinct
                if input_name in node.reads or graph.parts.get(input_name) in node.reads
            ]:
                del distinct[name]
            continue
        try:
            result = _made(node) or _carried(node, distinct)
        except (IndexError, TypeError, ValueError, ZeroDivisionError):  # arguments of another form
            continue
        if result is not None:
            for name in parts.get(node.name, ()) if node.op.rpartition(".")[0] in _PLACES else (node.name,):
                distinct[name] = result
    return distinct


def _made(node: Node) -> Distinct | None:
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
    """What is known of the result of an op that takes its numbers from another value."""
    source, result = node.args[0], node.result
    carry = _CARRIES.get(node.op)
    if carry is None or not isinstance(source, Value) or result is None:
        return None
    numbers = distinct.get(source.name)
    if numbers is None or source.dtype not in _WIDE or result.dtype not in _WIDE:
        return None
    if node.op == "aten.index.Tensor":
        return _picked(node, numbers, distinct)
    dim = carry(numbers.dim, source, result, node.args)
    if dim is None:
        return None
    added = node.args[1] * node.kwargs.get("alpha", 1) if node.op == "aten.add.Tensor" else 0
    return Distinct(dim, 0, numbers.has_no_negative and added >= 0)


def _picked(node: Node, numbers: Distinct, distinct: Mapping[str, Distinct]) -> Distinct | None:
    """Of distinct numbers in a row, those that another such row picks."""
    (picked,) = node.args[1]
    if not isinstance(picked, Value) or len(picked.shape) != 1 or len(node.args[0].shape) != 1:
        return None
    places = distinct.get(picked.name)
    return None if places is None or not places.has_no_negative else Distinct(0, 0, numbers.has_no_negative)


def _stays(dim: int, source: Value, result: Value, args: tuple[Any, ...]) -> int | None:
    return dim if len(source.shape) == len(result.shape) else None


def _with_number(dim: int, source: Value, result: Value, args: tuple[Any, ...]) -> int | None:
    return dim if type(args[1]) is int and source.shape == result.shape else None


def _unsqueezed(dim: int, source: Value, result: Value, args: tuple[Any, ...]) -> int:
    at: int = args[1] % (len(source.shape) + 1)
    return dim + (at <= dim)


def _squeezed(dim: int, source: Value, result: Value, args: tuple[Any, ...]) -> int | None:
    dims = args[1] if isinstance(args[1], list) else [args[1]]
    gone = {axis % len(source.shape) for axis in dims if source.shape[axis] == 1}
    if dim in gone or len(source.shape) - len(gone) != len(result.shape):
        return None
    return dim - len([axis for axis in gone if axis < dim])


def _selected(dim: int, source: Value, result: Value, args: tuple[Any, ...]) -> int | None:
    gone: int = args[1] % len(source.shape)
    return None if gone == dim else dim - (gone < dim)


def _expanded(dim: int, source: Value, result: Value, args: tuple[Any, ...]) -> int | None:
    """Repeating what is distinct makes it occur twice."""
    now = dim + len(result.shape) - len(source.shape)
    return now if source.shape[dim] is not None and source.shape[dim] == result.shape[now] else None


def _permuted(dim: int, source: Value, result: Value, args: tuple[Any, ...]) -> int:
    return [axis % len(source.shape) for axis in args[1]].index(dim)


def _viewed(dim: int, source: Value, result: Value, args: tuple[Any, ...]) -> int | None:
    """A row seen as another row: of one dimension that is longer than 1 on both sides."""
    before = [place for place, size in enumerate(source.shape) if size != 1]
    after = [place for place, size in enumerate(result.shape) if size != 1]
    return after[0] if before == [dim] and len(after) == 1 else None


_Carry = Callable[[int, Value, Value, "tuple[Any, ...]"], "int | None"]
_CARRIES: dict[str, _Carry] = {
    "aten.clone.default": _stays,
    "aten.alias.default": _stays,
    "aten.detach.default": _stays,
    "aten._to_copy.default": _stays,
    "prims.convert_element_type.default": _stays,
    "aten.flip.default": _stays,
    "aten.slice.Tensor": _stays,
    "aten.add.Tensor": _with_number,
    "aten.index.Tensor": _stays,
    "aten.unsqueeze.default": _unsqueezed,
    "aten.squeeze.dim": _squeezed,
    "aten.squeeze.dims": _squeezed,
    "aten.select.int": _selected,
    "aten.expand.default": _expanded,
    "aten.permute.default": _permuted,
    "aten.view.default": _viewed,
    "aten.reshape.default": _viewed,
    "aten._unsafe_view.default": _viewed,
}
