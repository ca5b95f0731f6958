"""Matches a graph's calls with the kernels that they were fused into.

The compiler lists them for C++ compiled in this process, and a comment above the kernel for Triton. C++ code from a
cache has only kernel names, which contain the names of the ops.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import NamedTuple

from tracer.names import CALLED_KERNELS, KernelLanguage
from tracer.ops.rows import packet_of, row_of
from tracer.recording.compiled.generated.kernel_text import KernelText
from tracer.recording.compiled.graphs.graph_text import Node

#: Triton's foreach kernels, whose names contain no op.
_OF_LISTS = "triton_for_"


class Matching(NamedTuple):
    """Kernels of calls, and calls of kernels."""

    texts: tuple[KernelText, ...]
    kernels: dict[str, tuple[str, ...]]
    """By the call's name in the graph, in the order of the code."""
    ops: dict[str, tuple[str, ...]]
    """The ops fused into each kernel."""
    named: Set[str]
    """Kernels whose calls the compiler listed."""


def match_kernels(
    nodes: Sequence[Node], kernels: Iterable[KernelText], nodes_by_kernel: Mapping[str, Set[str]]
) -> Matching:
    """``nodes_by_kernel``: names of the calls that the compiler fused into each kernel."""
    texts = tuple(kernels)
    names = {node.name for node in nodes}
    went: dict[str, set[str]] = defaultdict(set)
    named: set[str] = set()
    for kernel in texts:
        for name in names.intersection((*nodes_by_kernel.get(kernel.name, ()), *kernel.nodes)):
            named.add(kernel.name)
            went[name].add(kernel.name)
    unnamed = [kernel for kernel in texts if kernel.name not in named]
    for kernel in unnamed:
        for node in nodes:
            if (kernel.language in CALLED_KERNELS or node.name not in went) and _may_be(node, kernel):
                went[node.name].add(kernel.name)
    # An atomic kernel contains a call that accumulates by index, whatever its name says.
    adding = [node.name for node in nodes if row_of(packet_of(node.op)).made_of]
    for kernel in unnamed:
        if kernel.atomic and not any(kernel.name in went.get(name, ()) for name in adding):
            for name in adding:
                went[name].add(kernel.name)
    order = {kernel.name: number for number, kernel in enumerate(texts)}
    ops: dict[str, dict[str, None]] = defaultdict(dict)
    for node in nodes:
        for kernel_name in went.get(node.name, ()):
            ops[kernel_name][node.op] = None
    return Matching(
        texts,
        {name: tuple(sorted(its_kernels, key=order.__getitem__)) for name, its_kernels in went.items()},
        {name: tuple(its_ops) for name, its_ops in ops.items()},
        named,
    )


def _may_be(node: Node, kernel: KernelText) -> bool:
    base = packet_of(node.op)
    if kernel.language in CALLED_KERNELS:
        called = kernel.name.removesuffix(".default").split(".")
        name = called[1] if len(called) > 1 else called[0]
        return base == name or base in row_of(name).called_for
    if node.op.startswith("higher_order.triton_kernel_wrapper"):
        return kernel.language is KernelLanguage.USER_TRITON
    if kernel.name.startswith(_OF_LISTS):
        return base.startswith("_foreach_") and (not kernel.original_ops or f"aten.{base}" in kernel.original_ops)
    words = f"_{kernel.name}_"
    return any(f"_{base_name}_" in words for base_name in (base, *row_of(base).made_of))
