"""The lines of the program behind a compiled graph, with module paths, from dynamo's graph.

AOTAutograd's graph may come from a cache, with the line numbers of then: the two are matched by the lines' text.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import takewhile
from math import gcd
from typing import Any, NamedTuple

from tracer.recording.compiled.graph_text import Node, Place
from tracer.recording.origin.stacks import Frame, Module, read_module, read_stack


class Step(NamedTuple):
    """One call of dynamo's graph."""

    frames: tuple[Frame, ...]
    """Outermost first."""
    module: Module | None
    is_backward: bool = False
    """Whether it computes a gradient, in a graph other than a backward: this is the line that asked for it."""


NO_STEP = Step((), None)
#: A call that compiled autograd made, with no stack.
OF_GRADIENT_CALL = Step((), None, is_backward=True)


def step_of(meta: Mapping[str, Any]) -> Step:
    """The step of a call of AOTAutograd's graph, by its ``meta``."""
    modules = meta.get("nn_module_stack") or meta.get("fwd_nn_module_stack")
    sources = filter(None, (meta.get("source_fn_stack"), meta.get("fwd_source_fn_stack")))
    asks = any(asks_for_gradient(stack[-1][1]) for stack in sources)
    return Step(read_stack(meta.get("stack_trace")), read_module(modules), asks)


def asks_for_gradient(target: Any) -> bool:
    """Return whether ``target`` is the function that dynamo inserts where the program asks for gradients."""
    return getattr(target, "__name__", "") == "_autograd_grad"


class _Rounds:
    """How often the line of each call runs, by the counts of its ops: each op runs as often, or a multiple of it."""

    def __init__(self, places: Sequence[Place | None], ops: Sequence[str], backwards: bool) -> None:
        pairs = list(zip(places, ops, strict=True))
        totals = Counter(pairs)
        self._rounds: dict[Place | None, int] = {}
        for (place, _), count in totals.items():
            self._rounds[place] = gcd(self._rounds.get(place, 0), count)
        met: Counter[tuple[Place | None, str]] = Counter()
        self._round_of: list[tuple[int, int]] = []
        for pair in pairs:
            rounds, total = self._rounds[pair[0]], totals[pair]
            this_round = met[pair] * rounds // total
            self._round_of.append((rounds - 1 - this_round if backwards else this_round, rounds))
            met[pair] += 1

    def part_of(self, steps: list[Step], index: int) -> list[Step]:
        """The ``steps`` of a line that belong to the round of the call at ``index``; all if the round is not known."""
        this_round, rounds = self._round_of[index]
        if rounds < 2 or len(steps) % rounds:
            return steps
        size = len(steps) // rounds
        return steps[this_round * size : (this_round + 1) * size]


class ProgramLines:
    """The steps of one program, from which the calls of a graph get their lines."""

    def __init__(self, steps: Sequence[Step]) -> None:
        self._steps = steps
        self._by_line: dict[tuple[str, str, str], list[int]] = defaultdict(list)
        self._elsewhere: dict[tuple[str, str], list[int]] = defaultdict(list)
        """By a line of any file: what was compiled from a copy of the program has the copy's paths."""
        self._paths = {step.frames[-1].path for step in steps if step.frames}
        for number, step in enumerate(steps):
            if step.frames:
                frame = step.frames[-1]
                self._by_line[frame.path, frame.function, frame.code].append(number)
                self._elsewhere[frame.function, frame.code].append(number)

    def match(self, places: Iterable[Place | None], *, backwards: bool, ops: Sequence[str] = ()) -> list[Step | None]:
        """For each of ``places``, in the graph's order, the step that it comes from; ``None`` without a match.

        Calls follow the order of the program, in a backward graph the reverse. ``ops``, those of the calls,
        distinguish the rounds of a loop within one line.
        """
        places = list(places)
        ranks = _ranks(place for place in places if place is not None)
        rounds = _Rounds(places, ops, backwards) if ops else None
        steps: list[Step | None] = []
        at = len(self._steps) if backwards else -1
        for index, place in enumerate(places):
            number = None if place is None else self._nearest(place, ranks[place], at, backwards)
            if number is not None:
                at = min(at, number) if backwards else max(at, number)
            steps.append(None if number is None else self._in_common(number, rounds, index))
        return steps

    def _in_common(self, number: int, rounds: _Rounds | None, index: int) -> Step:
        """The step; if its line makes calls in several modules, with the module that contains them all."""
        step = self._steps[number]
        before = [*takewhile(lambda other: other.frames == step.frames, reversed(self._steps[:number]))]
        same_line = [*reversed(before), *takewhile(lambda other: other.frames == step.frames, self._steps[number:])]
        if rounds is not None:
            same_line = rounds.part_of(same_line, index)
            step = step if step in same_line else same_line[0]
        modules = {other.module for other in same_line}
        if len(modules) == 1:
            return step._replace(module=modules.pop())
        roots = {module.root if module is not None else None for module in modules}
        if None in roots or len(roots) > 1:
            return step._replace(module=None)
        paths = zip(*(module.path.split(".") for module in modules if module is not None), strict=False)
        common = (names[0] for names in takewhile(lambda names: len(set(names)) == 1, paths))
        return step._replace(module=Module(roots.pop() or "", ".".join(common)))

    def _nearest(self, place: Place, rank: tuple[int, int], at: int, backwards: bool) -> int | None:
        candidates = self._by_line.get((place.path, place.function, place.code), [])
        if place.path not in self._paths:
            candidates = self._elsewhere.get((place.function, place.code), [])
        lines = sorted({self._steps[number].frames[-1].line for number in candidates})
        if len(lines) > 1:
            # The same text at several lines of one function: matched in order.
            exact = place.line in lines and rank[1] != len(lines)
            line = place.line if exact else lines[min(rank[0], len(lines) - 1)]
            candidates = [number for number in candidates if self._steps[number].frames[-1].line == line]
        if not candidates:
            return None
        if backwards:
            return next((number for number in reversed(candidates) if number <= at), candidates[0])
        return next((number for number in candidates if number >= at), candidates[-1])


def with_neighbours(
    nodes: Sequence[Node], steps: Sequence[Step | None], forward: Mapping[str, tuple[str, Step | None]]
) -> list[Step | None]:
    """``steps``, completed for calls that graph passes inserted, which have no line.

    A backward op belongs to the forward op whose results it takes (``forward``: ops and steps by name); any other op
    to the call that takes its result, or else to the call whose result it takes.
    """
    filled = list(steps)
    by_name = {node.name: number for number, node in enumerate(nodes)}
    for number, node in enumerate(nodes):
        base = node.op.partition(".")[2].partition(".")[0]
        if filled[number] is None and base.endswith("_backward"):
            calls = (forward[name] for name in node.reads if name in forward)
            whose = base.removesuffix("_backward")
            filled[number] = next((step for op, step in calls if op.split(".")[1:2] == [whose] and step), None)
    for number in range(len(nodes) - 1, -1, -1):
        for read in (by_name[name] for name in nodes[number].reads if name in by_name):
            filled[read] = filled[read] or filled[number]
    for number, node in enumerate(nodes):
        read_steps = (filled[by_name[name]] for name in node.reads if name in by_name)
        filled[number] = filled[number] or next(filter(None, read_steps), None)
    return filled


def _ranks(places: Iterable[Place]) -> dict[Place, tuple[int, int]]:
    """The rank of each place among the lines of its function with the same text, and the number of these."""
    distinct = set(places)
    lines: dict[tuple[str, str, str], set[int]] = defaultdict(set)
    for place in distinct:
        lines[place.path, place.function, place.code].add(place.line)
    ordered = {text: sorted(numbers) for text, numbers in lines.items()}
    alike = {place: ordered[place.path, place.function, place.code] for place in distinct}
    return {place: (numbers.index(place.line), len(numbers)) for place, numbers in alike.items()}
