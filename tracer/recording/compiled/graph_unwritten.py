"""Calls of a graph that compute with unwritten memory: followed as masks through views and through writes of slices.

A write at indices may cover any of it, but no more numbers than it writes. Generated code computes with a constant in
place of memory that no call wrote at indices (NaN; ``torch/_inductor/ir.py``, ``nop_loader_fn``, 2.13.0).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from math import prod
from typing import Any, NamedTuple

import torch

from tracer.ops.rows import VIEWS, Touch, Writes, row_of
from tracer.recording.compiled.graph_text import Graph, Node, Value, flat
from tracer.recording.torch_private import compile_seams, seams

_SEES = VIEWS | {"new_empty_strided"}
#: What ops do that read nothing of their first argument, or only a part, which may have been written.
_IGNORES = frozenset({Touch.SHAPE_OF_SELF, Touch.SELECTS})
_COMPUTES = frozenset({"sum", "mean", "amax", "amin", "cumsum", "_softmax", "dot", "mv"})
_PRODUCTS = frozenset({"mm", "bmm"})
#: Ops that write into a copy, and the views that they write to.
_SCATTERS = {"slice_scatter": torch.ops.aten.slice.Tensor, "select_scatter": torch.ops.aten.select.int}
#: Partly written memory of more numbers is not followed.
_MOST_NUMBERS = 1 << 26
_NAN = re.compile(r"quiet_NaN\(\)|float\(['\"]nan['\"]\)|\bnan\b")
_MASKS = ("b8", "u8")
HANDED_OVER = -1
"""The allocation of an input."""


class _Memory(NamedTuple):
    """A value in memory that somebody allocated."""

    allocation: int
    """The index of the call that allocated it."""
    unwritten: torch.Tensor | None
    """Which of its numbers are; ``None`` if all of them."""
    scattered: int = 0
    """Numbers that calls wrote into it at indices, at most: from the first on code reads it as it is."""


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
            if left.unwritten is None or left.unwritten.any():
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
        unwritten = prod(sizes) if base.unwritten is None else int(base.unwritten.sum())
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


def _mask(value: Any, held: _Memory | None) -> torch.Tensor:
    """Which numbers of a value are unwritten. Raises ``ValueError`` for dynamic sizes, and for too many numbers."""
    sizes = _sizes(value)
    if prod(sizes) > _MOST_NUMBERS:
        raise ValueError("too many numbers")
    if held is None or held.unwritten is None:
        return torch.full(sizes, held is not None, dtype=torch.bool, device="cpu")
    return held.unwritten


def _left_unwritten(node: Node, packet: str, memory: dict[str, _Memory]) -> _Memory | None:
    """What is unwritten of the result of a view, or of a write of a slice; ``None`` for another op."""
    view, source = _SCATTERS.get(packet), None
    if packet not in _SEES and view is None:
        return None
    base = node.args[0] if node.args else None
    held = memory.get(base.name) if isinstance(base, Value) else None
    if view is not None and isinstance(node.args[1], Value):
        source = memory.get(node.args[1].name)
    origin = held or source
    if origin is None or (view is None and (origin.unwritten is None or packet in ("alias", "clone", "detach"))):
        return origin  # of what is wholly unwritten, any view is too
    try:
        with torch.no_grad(), seams.without_modes():
            mask = _mask(base, held)
            if view is None:
                func: Any = compile_seams.overload(node.op)
                return origin._replace(unwritten=func(mask, *node.args[1:], **node.kwargs))
            mask = mask.clone()
            part = view(mask, *node.args[2:], **node.kwargs)
            part.copy_(torch.tensor(False, device="cpu") if source is None else _mask(node.args[1], source))
            return origin._replace(unwritten=mask)
    except Exception:  # dynamic sizes, arguments that are not in the text
        return origin._replace(unwritten=torch.zeros(1, dtype=torch.bool, device="cpu"))


def _sizes(value: Any) -> tuple[int, ...]:
    """The sizes of a value. Raises ``ValueError`` for dynamic ones."""
    if not isinstance(value, Value) or None in value.shape:
        raise ValueError("unknown sizes")
    return tuple(size for size in value.shape if size is not None)
