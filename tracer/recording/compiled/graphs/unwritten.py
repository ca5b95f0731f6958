"""Memory that a compiled graph allocates and computes with before anything was written to it.

A graph is functional, so what was written in part has a name of its own (``slice_scatter``): what is told here is a
read of memory of which nothing at all was written. Memory that was written in part and then read is not told.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from tracer.recording.compiled.graphs.graph_text import Graph, Value
from tracer.recording.torch_private import compile_seams

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


def _reads(graph: Graph, given: dict[str, int]) -> Iterator[tuple[int, int]]:
    """``given``: by name, who gave memory that is not written."""
    for number, node in enumerate(graph.nodes):
        packet = node.op.split(".")[1]
        if node.op.rpartition(".")[0] in _ALLOCATES:
            if node.result is not None and all(node.result.shape):
                given[node.name] = number
            continue
        if not given:
            continue
        named = [one for one in _values((*node.args, *node.kwargs.values())) if one.name in given]
        if not named:
            continue
        if packet in _SEES:
            given[node.name] = given[named[0].name]
        elif packet not in _WRITES_OVER | _SELECTS and not packet.endswith("_like") and _computes(node.op, packet):
            yield number, given[named[0].name]


def _computes(op: str, packet: str) -> bool:
    if packet in _COMPUTES:
        return True
    func = compile_seams.overload(op)
    tags = getattr(func, "tags", ())
    return torch.Tag.pointwise in tags and torch.Tag.nondeterministic_seeded not in tags


def _values(arguments: tuple[Any, ...]) -> Iterator[Value]:
    for one in arguments:
        if isinstance(one, Value):
            yield one
        elif isinstance(one, list):
            yield from _values(tuple(one))
