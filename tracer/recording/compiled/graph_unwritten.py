"""Calls of a graph that compute with unwritten memory: followed as boxes through views and through writes of slices.

A write at indices may cover any of it, but no more numbers than it writes. Generated code computes with a constant in
place of memory that no call wrote at indices (NaN; ``torch/_inductor/ir.py``, ``nop_loader_fn``, 2.13.0).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from math import prod
from typing import Any, NamedTuple

import torch

from tracer.ops.op import Touch, Writes
from tracer.ops.rows import VIEWS, row_of
from tracer.recording.compiled.graph_text import Graph, Node, Value, flat
from tracer.recording.torch_private import compile_seams

_SEES = VIEWS | {"new_empty_strided"}
#: What ops do that read nothing of their first argument, or only a part, which may have been written.
_IGNORES = frozenset({Touch.SHAPE_OF_SELF, Touch.SELECTS})
_COMPUTES = frozenset({"sum", "mean", "amax", "amin", "cumsum", "_softmax", "dot", "mv"})
_PRODUCTS = frozenset({"mm", "bmm"})
#: Views whose namesakes that end in this write into a copy.
_SCATTER, _SLICE, _SELECT = "_scatter", "slice", "select"
_NAN = re.compile(r"quiet_NaN\(\)|float\(['\"]nan['\"]\)|\bnan\b")
_MASKS = ("b8", "u8")
HANDED_OVER = -1
"""The allocation of an input."""

#: The start and the end of a range of places along each dimension.
_Box = tuple[tuple[int, int], ...]


class _Memory(NamedTuple):
    """A value in memory that somebody allocated."""

    allocation: int
    """The index of the call that allocated it."""
    unwritten: tuple[_Box, ...] | None
    """``None`` if all of it is."""
    scattered: int = 0
    """Numbers that calls wrote into it at indices, at most: from the first on code reads it as it is."""

    def boxes(self, sizes: tuple[int, ...]) -> tuple[_Box, ...]:
        """What is unwritten of memory with these sizes."""
        return (tuple((0, size) for size in sizes),) if self.unwritten is None else self.unwritten


class Read(NamedTuple):
    """A call that computes with unwritten memory."""

    number: int
    """The index of the call."""
    allocation: int
    """That of the call that allocated the memory."""
    may_be_constant: bool
    """Whether generated code may compute with a constant in its place."""


def computes_with_constants(text: str) -> bool:
    """Whether generated code, or a graph, holds the constant that stands for unwritten memory of floats."""
    return _NAN.search(text) is not None


def unwritten_reads(graph: Graph, handed_over: str = "") -> Iterator[Read]:
    """The calls of the graph that compute with unwritten memory, the input ``handed_over`` among it."""
    memory = {handed_over: _Memory(HANDED_OVER, None)} if handed_over else {}
    for number, node in enumerate(graph.nodes):
        packet = node.op.split(".")[1]
        if node.op.startswith("aten.") and packet not in _SEES and row_of(packet).touches is Touch.ALLOCATES:
            if node.result is not None and all(node.result.shape):
                memory[node.name] = _Memory(number, None)
            continue
        arguments = flat((*node.args, *node.kwargs.values())) if memory else ()
        read = next((memory[v.name] for v in arguments if isinstance(v, Value) and v.name in memory), None)
        if read is None:
            continue
        if row_of(packet).writes is Writes.SEVERAL:  # others decompose to it, or write into a copy
            base = memory.get(getattr(node.args[0], "name", ""))
            if base is not None and _accumulates(node):
                yield Read(number, base.allocation, may_be_constant=False)
            elif base is not None and (left := _after_write(node, base)) is not None:
                memory[node.name] = left
        elif (left := _left_unwritten(node, packet, memory)) is not None:
            if left.unwritten is None or left.unwritten:
                memory[node.name] = left
        elif packet in _PRODUCTS or (row_of(packet).beta and _reads_unwritten(node, memory)):
            yield Read(number, read.allocation, may_be_constant=False)
        elif (
            _IGNORES.isdisjoint((row_of(packet).touches, row_of(node.op.removeprefix("aten.")).touches))
            and not row_of(packet).beta
            and not packet.endswith("_like")
            and (compile_seams.is_pointwise(node.op) or packet in _COMPUTES)
        ):
            yield Read(number, read.allocation, may_be_constant=not read.scattered)


def _reads_unwritten(node: Node, memory: dict[str, _Memory]) -> bool:
    """Whether the sum of a product and a tensor reads unwritten memory."""
    first, *factors = (isinstance(value, Value) and value.name in memory for value in node.args[:3])
    return any(factors) or (first and node.kwargs.get("beta", 1) != 0)


def _accumulates(node: Node) -> bool:
    arguments = dict(zip(("self", "indices", "values", "accumulate"), node.args, strict=False)) | node.kwargs
    return bool(arguments.get("accumulate"))


def _after_write(node: Node, base: _Memory) -> _Memory | None:
    """``base`` after a write at indices; ``None`` where that may have covered all that was unwritten."""
    try:
        sizes = _sizes(node.args[0])
        unwritten = sum(prod(end - start for start, end in box) for box in base.boxes(sizes))
        written = base.scattered + _count_of_indexed(node.args[1], sizes)
    except (IndexError, TypeError, ValueError):  # dynamic sizes, or arguments that are not in the text
        return None
    return base._replace(scattered=written) if written < unwritten else None


def _count_of_indexed(indices: list[Any], sizes: tuple[int, ...]) -> int:
    """How many numbers the indices reach in memory of these sizes. Raises ``ValueError`` for masks."""
    given = {dim: index for dim, index in enumerate(indices) if index is not None}
    if any(index.dtype in _MASKS for index in given.values()):
        raise ValueError("a mask")
    reached = torch.broadcast_shapes(*map(_sizes, given.values()))
    return int(prod(reached) * prod(size for dim, size in enumerate(sizes) if dim not in given))


def _left_unwritten(node: Node, packet: str, memory: dict[str, _Memory]) -> _Memory | None:
    """What is unwritten of the result of a view, or of a write of a slice; ``None`` for another op."""
    view, written = packet.removesuffix(_SCATTER), packet.endswith(_SCATTER)
    if packet not in _SEES and not (written and view in (_SLICE, _SELECT)):
        return None
    base = node.args[0] if node.args else None
    held = memory.get(base.name) if isinstance(base, Value) else None
    source = node.args[1] if written and len(node.args) > 1 else None
    of_source = memory.get(source.name) if isinstance(source, Value) else None
    origin = held or of_source
    if origin is None:
        return None
    nothing = origin._replace(unwritten=())
    if held is not None and held.unwritten is None and not written:
        return held  # any view of it is unwritten too
    try:
        sizes = _sizes(base)
        left = held.boxes(sizes) if held is not None else ()
        if packet in ("alias", "clone", "detach"):
            return origin._replace(unwritten=left)
        if packet == _SLICE:
            dim, start, end, step = _slice(node, 1, sizes)
            if step != 1:
                return nothing
            return origin._replace(unwritten=tuple(_moved(_cut(left, dim, start, end), dim, -start)))
        if view == _SLICE:
            dim, start, end, step = _slice(node, 2, sizes)
            if step != 1:
                return nothing
            rest = _outside(left, dim, start, end)
            inner = of_source.boxes(_sizes(source)) if of_source is not None else ()
            return origin._replace(unwritten=(*rest, *_moved(inner, dim, start)))
        if written:
            dim, place = node.args[2] % len(sizes), node.args[3]
            place += sizes[dim] if place < 0 else 0
            rest = () if of_source is not None else _outside(left, dim, place, place + 1)
            return origin._replace(unwritten=rest)
    except (IndexError, TypeError, ValueError):  # dynamic sizes, or arguments that are not in the text
        pass
    return nothing


def _sizes(value: Any) -> tuple[int, ...]:
    """The sizes of a value. Raises ``ValueError`` for dynamic ones."""
    if not isinstance(value, Value) or None in value.shape:
        raise ValueError("unknown sizes")
    return tuple(size for size in value.shape if size is not None)


def _slice(node: Node, at: int, sizes: tuple[int, ...]) -> tuple[int, int, int, int]:
    """The dimension, start, end and step of a slice, whose arguments begin at ``at``."""
    arguments = dict(zip(("dim", "start", "end", "step"), node.args[at:], strict=False)) | node.kwargs
    dim = arguments.get("dim", 0) % len(sizes)
    size = sizes[dim]
    start, end = arguments.get("start") or 0, arguments.get("end")
    end = size if end is None else end
    start, end = (min(max(place + size if place < 0 else place, 0), size) for place in (start, end))
    return dim, start, end, arguments.get("step", 1)


def _cut(boxes: tuple[_Box, ...], dim: int, start: int, end: int) -> tuple[_Box, ...]:
    """The parts of ``boxes`` from ``start`` to ``end`` along ``dim``."""
    cut = ((box, max(box[dim][0], start), min(box[dim][1], end)) for box in boxes)
    return tuple((*box[:dim], (low, high), *box[dim + 1 :]) for box, low, high in cut if low < high)


def _outside(boxes: tuple[_Box, ...], dim: int, start: int, end: int) -> tuple[_Box, ...]:
    """The parts of ``boxes`` that lie outside of it."""
    return (*_cut(boxes, dim, 0, start), *_cut(boxes, dim, end, max((box[dim][1] for box in boxes), default=0)))


def _moved(boxes: tuple[_Box, ...], dim: int, by: int) -> tuple[_Box, ...]:
    return tuple((*box[:dim], (box[dim][0] + by, box[dim][1] + by), *box[dim + 1 :]) for box in boxes)
