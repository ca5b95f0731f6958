"""What a graph shows of its values' numbers: which are whole and small, which come from a read at an index alone.

Sums of whole numbers are exact in any order. A number computed from what was read at an index is the same wherever that
index occurs.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any, NamedTuple

from tracer.ops import rows
from tracer.ops.rows import VIEWS, packet_of
from tracer.recording.compiled.graphs.graph_text import Graph, Node, Value, flat
from tracer.recording.torch_private import compile_seams

#: A dimension (``None`` for several indices) and the names of the indices.
_Indices = tuple[int | None, tuple[str | None, ...]]


class Contents(NamedTuple):
    """Of values of one graph, by name."""

    whole: Mapping[str, int]
    """Those of whole numbers: the magnitude that none exceeds. Booleans are not listed."""
    read_at: Mapping[str, _Indices]
    """Those computed from what was read at these indices, and from nothing else."""


_INDEXES = ("aten.index.Tensor", "aten._unsafe_index.Tensor")
#: Ops that graphs alone have, whose result consists of numbers of their first argument.
_TAKES = (*VIEWS, "convert_element_type", "_unsafe_index")


def contents_of(graph: Graph) -> Contents:
    """What the text of ``graph`` shows."""
    whole: dict[str, int] = {}
    read_at: dict[str, _Indices] = {}
    for node in graph.nodes:
        try:
            if (largest := _largest(node, whole)) is not None:
                whole[node.name] = largest
            if (indices := _indices(node, read_at)) is not None:
                read_at[node.name] = indices
        except (IndexError, OverflowError, TypeError, ValueError):  # unsupported arguments
            continue
    return Contents(whole, read_at)


def _largest(node: Node, whole: Mapping[str, int]) -> int | None:
    name = packet_of(node.op)
    if name in rows.NUMBERED:
        return rows.NUMBERED[name]
    if name in rows.FILLING:
        return _of(node.args[rows.FILLING[name]], whole)
    if name in _TAKES or rows.TAKING.get(name) == ():
        return _of(node.args[0], whole)
    if name not in ("where", "mul", "add") or node.kwargs.get("alpha", 1) != 1:
        return None
    sides = [_of(side, whole) for side in node.args[name == "where" :]]
    wholes = [side for side in sides if side is not None]
    if len(wholes) < len(sides):
        return None
    return prod(wholes) if name == "mul" else sum(wholes) if name == "add" else max(wholes)


def _of(value: Any, whole: Mapping[str, int]) -> int | None:
    """The magnitude that no number in ``value`` exceeds; ``None`` unless all are whole."""
    if isinstance(value, Value):
        return 1 if value.dtype == "b8" else whole.get(value.name)
    return abs(int(value)) if isinstance(value, (bool, int, float)) and value == int(value) else None


def _indices(node: Node, read_at: Mapping[str, _Indices]) -> _Indices | None:
    if node.op == "aten.gather.default":
        source, dim, index = node.args[:3]
        return dim % max(1, len(source.shape)), (index.name,)
    if node.op in _INDEXES:
        return None, tuple(None if index is None else index.name for index in node.args[1])
    if not compile_seams.is_pointwise(node.op) and node.op != "prims.convert_element_type.default":
        return None
    values = [value for value in flat((*node.args, *node.kwargs.values())) if isinstance(value, Value)]
    wide = [value for value in values if value.shape]
    sources = {read_at.get(value.name) for value in wide}
    is_whole = node.result is not None and all(value.shape == node.result.shape for value in wide)
    return sources.pop() if len(sources) == 1 and is_whole and None not in sources else None
