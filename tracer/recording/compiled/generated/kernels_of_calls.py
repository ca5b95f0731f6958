"""Which kernels a graph's calls went into.

For code that was compiled here the compiler tells (C++), or a comment above the kernel does (Triton). C++ that comes
from a cache bears only names: then a call belongs to the kernels that are called after what it was made of.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from typing import NamedTuple

from tracer.names import KernelLanguage
from tracer.ops.rows import packet_of, row_of
from tracer.recording.compiled.generated.kernel_text import KernelText
from tracer.recording.compiled.graphs.graph_text import Node

#: Triton's kernels for lists of tensors, which bear no name of an op.
_OF_LISTS = "triton_for_"


class Matching(NamedTuple):
    """Kernels of calls, and calls of kernels."""

    texts: tuple[KernelText, ...]
    kernels: dict[str, tuple[str, ...]]
    """By a call's name in the graph."""
    ops: dict[str, tuple[str, ...]]
    """By a kernel's name: the ops that went into it."""
    told: Set[str]
    """Kernels of which the compiler itself said what went into them."""


def match_kernels(
    nodes: Sequence[Node], kernels: Iterable[KernelText], nodes_by_kernel: Mapping[str, Set[str]]
) -> Matching:
    """``nodes_by_kernel``: names of the calls that the compiler fused into a kernel, by the kernel's name."""
    texts = tuple(kernels)
    by_name = {node.name: node for node in nodes}
    went: dict[str, list[str]] = {}
    sure: set[str] = set()
    for kernel in texts:
        names = [name for name in (*nodes_by_kernel.get(kernel.name, ()), *kernel.nodes) if name in by_name]
        if names:
            sure.add(kernel.name)
        for name in dict.fromkeys(names):
            went.setdefault(name, []).append(kernel.name)
    for kernel in texts:
        if kernel.name in sure:
            continue
        is_call = kernel.language in (KernelLanguage.EXTERN, KernelLanguage.FALLBACK)
        for node in nodes:
            if (is_call or node.name not in went) and _may_be(node, kernel):
                went.setdefault(node.name, []).append(kernel.name)
    _leave_no_addition_out(nodes, texts, went, sure)
    ops: dict[str, dict[str, None]] = {}
    for node in nodes:
        for kernel_name in went.get(node.name, ()):
            ops.setdefault(kernel_name, {})[node.op] = None
    order = {kernel.name: number for number, kernel in enumerate(texts)}
    return Matching(
        texts,
        {name: tuple(sorted(set(numbers), key=lambda number: order[number])) for name, numbers in went.items()},
        {name: tuple(numbers) for name, numbers in ops.items()},
        sure,
    )


def _may_be(node: Node, kernel: KernelText) -> bool:
    base = packet_of(node.op)
    if kernel.language in (KernelLanguage.EXTERN, KernelLanguage.FALLBACK):
        called = kernel.name.removesuffix(".default").split(".")
        name = called[1] if len(called) > 1 else called[0]
        return base == name or base in row_of(name).called_for
    if node.op.startswith("higher_order.triton_kernel_wrapper"):
        return kernel.language is KernelLanguage.USER_TRITON
    if kernel.name.startswith(_OF_LISTS):
        return base.startswith("_foreach_") and (not kernel.original_ops or f"aten.{base}" in kernel.original_ops)
    words = f"_{kernel.name}_"
    return any(f"_{base_name}_" in words for base_name in (base, *row_of(base).made_of))


def _leave_no_addition_out(
    nodes: Sequence[Node], texts: Sequence[KernelText], went: dict[str, list[str]], sure: Set[str]
) -> None:
    """A kernel that adds atomically was made of a call that adds at indices, whatever its name says."""
    adding = [node for node in nodes if row_of(packet_of(node.op)).made_of]
    for kernel in texts:
        if not kernel.atomic or kernel.name in sure:
            continue
        if not any(kernel.name in went.get(node.name, ()) for node in adding):
            for node in adding:
                went.setdefault(node.name, []).append(kernel.name)
