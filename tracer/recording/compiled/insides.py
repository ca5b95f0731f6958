"""The inside of one region: its graph, the program line of each call, the kernels, the facts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tracer.names import Direction
from tracer.recording.compiled.compilations import CompiledCode
from tracer.recording.compiled.generated.kernel_text import read_kernels
from tracer.recording.compiled.generated.kernels_of_calls import Matching, match_kernels
from tracer.recording.compiled.graphs.distinct_numbers import distinct_numbers
from tracer.recording.compiled.graphs.graph_facts import GraphFacts
from tracer.recording.compiled.graphs.graph_text import Graph, Node, read_graph
from tracer.recording.compiled.program_lines import OF_GRADIENT_CALL, Frame, ProgramLines, Step, with_neighbours
from tracer.recording.storage.indices import Distinct
from tracer.trace.records import FactValue


class Inside(NamedTuple):
    """What is known of one region's code, read once."""

    graph: Graph | None
    steps: tuple[Step | None, ...]
    """Of each call of the graph, where it belongs in the program."""
    matching: Matching
    facts: tuple[dict[str, FactValue], ...]
    numbers: dict[str, Distinct]
    """Of its values, those that are known to hold distinct numbers, by name."""


class Insides:
    """Reads each code once; a recording is asked for its trace more than once."""

    def __init__(self, facts: GraphFacts) -> None:
        self._facts = facts
        self._known: dict[int, tuple[CompiledCode, Inside]] = {}

    def of(self, code: CompiledCode) -> Inside:
        """What is known of ``code``; nothing of one whose texts are of a form that is not read."""
        entry = self._known.get(id(code))
        if entry is not None:
            return entry[1]
        try:
            graph = read_graph(code.text) if code.text else None
        except ValueError:
            graph = None
        try:
            kernels = read_kernels(code.source) if code.source else ()
        except ValueError:
            kernels = ()
        nodes = graph.nodes if graph is not None else ()
        numbers = distinct_numbers(graph, self._handed_over(code)) if graph is not None else {}
        inside = Inside(
            graph,
            tuple(with_neighbours(nodes, list(_steps(code, nodes)), self.forward_of(code))),
            match_kernels(nodes, kernels, code.kernels),
            tuple(self._facts.of(node, numbers) for node in nodes),
            numbers,
        )
        self._known[id(code)] = (code, inside)
        return inside

    def forward_of(self, code: CompiledCode) -> dict[str, tuple[str, Step | None]]:
        """Ops and steps of the forward's calls, by the names that its backward reads their results under."""
        if code.direction is not Direction.BACKWARD or code.program is None:
            return {}
        for other in code.program.forwards:
            inside = self.of(other)
            if inside.graph is not None:
                met = {node.name: (node.op, step) for node, step in zip(inside.graph.nodes, inside.steps, strict=True)}
                return met | {name: met[whole] for name, whole in inside.graph.parts.items() if whole in met}
        return {}

    def _handed_over(self, code: CompiledCode) -> dict[str, Distinct]:
        """What the one forward of a backward knows of what it hands to it."""
        forwards = code.program.forwards if code.direction is Direction.BACKWARD and code.program is not None else ()
        return self.of(forwards[0]).numbers if len(forwards) == 1 else {}


def _steps(code: CompiledCode, nodes: tuple[Node, ...]) -> Iterator[Step | None]:
    """Of each call, where it belongs; ``None`` where nothing tells, so that its neighbours may."""
    if code.details:
        for node in nodes:
            detail = code.details.get(node.name)
            step = detail.step if detail is not None else Step((), None)
            if code.by_compiled_autograd and not step.is_backward:
                step = OF_GRADIENT_CALL
            if not step.frames and node.place is not None:
                step = step._replace(frames=(Frame(*node.place),))
            yield step if step.frames or step.module or step.is_backward else None
        return
    if code.by_compiled_autograd:
        yield from (OF_GRADIENT_CALL for _ in nodes)
        return
    if code.program is None:
        yield from (Step((Frame(*node.place),), None) if node.place else None for node in nodes)
        return
    lines = ProgramLines(code.program.steps)
    yield from lines.match((node.place for node in nodes), backwards=code.direction is Direction.BACKWARD)
