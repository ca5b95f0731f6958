"""The content of one region: its graph, the line of each call, the kernels, the facts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from typing import NamedTuple

from tracer.names import CALLED_KERNELS, Direction, KernelLanguage
from tracer.ops.rows import packet_of, row_of
from tracer.recording.compiled.compilations import CompiledCode
from tracer.recording.compiled.generated.kernel_text import KernelText, read_kernels
from tracer.recording.compiled.graphs.contents import Contents, contents_of
from tracer.recording.compiled.graphs.distinct_numbers import distinct_numbers
from tracer.recording.compiled.graphs.graph_facts import GraphFacts
from tracer.recording.compiled.graphs.graph_text import Graph, Node, read_graph
from tracer.recording.compiled.packages import read_package_kernels
from tracer.recording.compiled.program_lines import OF_GRADIENT_CALL, ProgramLines, Step, with_neighbours
from tracer.recording.origin.stacks import Frame
from tracer.recording.storage.indices import Distinct
from tracer.trace.records import FactValue

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
    """The kernels that each call was fused into.

    The compiler lists them for C++ compiled in this process, and a comment above the kernel for Triton. C++ code from a
    cache has only kernel names, which contain the names of the ops.
    ``nodes_by_kernel``: names of the calls that the compiler fused into each kernel."""
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


class Inside(NamedTuple):
    """The content of one region's code."""

    graph: Graph | None
    nodes: tuple[Node, ...]
    """The graph's calls."""
    steps: tuple[Step | None, ...]
    """The place of each call in the program."""
    matching: Matching
    facts: tuple[dict[str, FactValue], ...]
    numbers: dict[str, Distinct]
    """The values with distinct numbers, by name."""


class Insides:
    """Reads each code once: a trace may be built more than once."""

    def __init__(self, facts: GraphFacts) -> None:
        self._facts = facts
        self._by_code: dict[tuple[CompiledCode, frozenset[tuple[int, Distinct]]], Inside] = {}

    def of(self, code: CompiledCode) -> Inside:
        """The content of ``code``; empty if it cannot be parsed."""
        key = code, frozenset((code.distinct or {}).items())
        if key in self._by_code:
            return self._by_code[key]
        graph: Graph | None = None
        kernels: tuple[KernelText, ...] = ()
        with suppress(ValueError):
            graph = read_graph(code.text) if code.text else None
        with suppress(ValueError):
            read = read_package_kernels if code.package else read_kernels
            kernels = read(code.source) if code.source else ()
        nodes = graph.nodes if graph is not None else ()
        forwards = _forwards_of(code)
        handed_over = self.of(forwards[0]).numbers if len(forwards) == 1 else {}
        if graph is not None and code.distinct:
            handed_over = handed_over | {graph.inputs[place]: numbers for place, numbers in code.distinct.items()}
        numbers = distinct_numbers(graph, handed_over) if graph is not None else {}
        contents = contents_of(graph) if graph is not None else Contents({}, {})
        steps = with_neighbours(nodes, list(_steps(code, nodes)), self.forward_of(code))
        bodies = {True: {"body_recorded": True}, False: {}}
        facts = tuple(self._facts.of(node, numbers, contents) | bodies[node.has_bodies] for node in nodes)
        if code.unrolls_less:
            facts = tuple({key: fact for key, fact in each.items() if key != "shape.is_unrolled"} for each in facts)
        matching = match_kernels(nodes, kernels, code.kernels)
        inside = self._by_code[key] = Inside(graph, nodes, tuple(steps), matching, facts, numbers)
        return inside

    def forward_of(self, code: CompiledCode) -> dict[str, tuple[str, Step | None]]:
        """Ops and steps of the forward's calls, by their results' names in the backward."""
        for inside in map(self.of, _forwards_of(code)):
            if inside.graph is not None:
                calls = {node.name: (node.op, step) for node, step in zip(inside.nodes, inside.steps, strict=True)}
                parts = inside.graph.parts.items()
                return calls | {name: calls[whole] for name, whole in parts if whole in calls}
        return {}


def _forwards_of(code: CompiledCode) -> list[CompiledCode]:
    """The forwards of a backward's program; none of other code."""
    return code.program.forwards if code.direction is Direction.BACKWARD and code.program is not None else []


def _steps(code: CompiledCode, nodes: tuple[Node, ...]) -> Iterator[Step | None]:
    """The place of each call in the program; ``None`` if its neighbours may have it."""
    if not code.details and not code.by_compiled_autograd and code.program is not None:
        lines = ProgramLines(code.program.steps)
        is_backward = code.direction is Direction.BACKWARD
        yield from lines.match([node.place for node in nodes], backwards=is_backward, ops=[node.op for node in nodes])
        return
    for node in nodes:
        detail = code.details.get(node.name)
        step = detail.step if detail is not None else Step((), None)
        if code.by_compiled_autograd and not step.is_backward:
            step = OF_GRADIENT_CALL
        if not step.frames and node.place is not None and (code.details or not code.by_compiled_autograd):
            step = step._replace(frames=(Frame(*node.place),))
        yield step if step.frames or step.module or step.is_backward else None
