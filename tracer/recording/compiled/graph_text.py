"""Parses the text of a graph of AOTAutograd: Python with lines of the program (torch 2.13). Imports no torch."""

from __future__ import annotations

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import takewhile
from math import gcd
from typing import Any, NamedTuple

from tracer.recording.origin import Frame, GraphCall, Module

_PLACE = re.compile(r"^# File: (?P<path>.+?):(?P<line>\d+) in (?P<function>.+?), code: ?(?P<code>.*)$")
#: Ops whose subgraphs are compiled into their own kernel.
_INLINED = ("higher_order.flex_attention", "higher_order.triton_kernel_wrapper")
_TENSOR = re.compile(
    r"^(?P<dtype>[a-z]\w*)\[(?P<shape>[^\]]*)\](?:\[(?P<stride>[^\]]*)\])?(?P<device>[a-z]\w*(?::\d+)?)?"
)


class AnnotatedTensor(NamedTuple):
    """A tensor as an annotation describes it: ``f32[8, 16][16, 1]cpu``."""

    dtype: str
    """torch.fx's short name: ``f32``, ``i64``, ``b8``."""
    shape: tuple[int | None, ...]
    """``None`` for a dynamic size."""
    stride: tuple[int | None, ...] | None
    device: str
    name: str = ""


class TorchConstant(NamedTuple):
    """A constant of torch: ``torch.float32``, ``device(type='cpu')`` as its type, ``inf``."""

    text: str


#: The class of a graph without gradients is named ``<lambda>``, which is not Python.
_CLASS = re.compile(r"(?m)^(\s*class )<\w+>\(")


class Unread(NamedTuple):
    """An argument that is not parsed: a dynamic size, a list of results."""

    text: str


class Node(NamedTuple):
    """One call of the graph."""

    name: str
    op: str
    """``aten.index_put.default``, ``higher_order.triton_kernel_wrapper_mutation``."""
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    result: AnnotatedTensor | None
    place: Frame | None
    reads: tuple[str, ...] = ()
    """Names of the calls and inputs that it reads."""
    times: int = 1
    """The number of its calls in one execution, as far as the text shows: a subgraph may be called several times."""
    has_bodies: bool = False
    """Whether the calls of the subgraphs that it runs are among the nodes."""


class Graph(NamedTuple):
    """One graph."""

    inputs: tuple[str, ...]
    nodes: tuple[Node, ...]
    parts: dict[str, str]
    """Names of single results of calls with several results, to the call."""
    places: dict[str, int]
    """The same names, to the result's position."""
    values: dict[str, AnnotatedTensor | None]
    """By name; ``None`` for those that have no annotation."""


def flat(arguments: Iterable[Any]) -> Iterator[Any]:
    for argument in arguments:
        if isinstance(argument, list):
            yield from flat(argument)
        else:
            yield argument


def read_graph(text: str) -> Graph:
    """Parse a graph. Raises ``ValueError`` for other text.

    The calls of a subgraph follow the call that runs it, with its name as prefix: ``true_graph_0.add``.
    """
    text = _CLASS.sub(r"\1Graph(", text, count=1)
    try:
        module = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as problem:
        raise ValueError(f"the text of a graph cannot be parsed: {problem}") from problem
    outermost = next((node for node in module.body if isinstance(node, ast.ClassDef)), module)
    reader = _GraphReader(_places(text))
    inputs = reader.read(outermost, "", 1)
    return Graph(inputs, tuple(reader.nodes), reader.parts, reader.numbers, reader.values)


class _GraphReader:
    """Reads a graph and its subgraphs."""

    def __init__(self, places: Mapping[int, Frame]) -> None:
        self._places = places
        self.values: dict[str, AnnotatedTensor | None] = {}
        """By full name."""
        self.nodes: list[Node] = []
        self.parts: dict[str, str] = {}
        self.numbers: dict[str, int] = {}

    def read(self, cls: ast.ClassDef | ast.Module, path: str, times: int) -> tuple[str, ...]:
        """Read one graph, and return the names of its inputs. ``path`` is the prefix of all names."""
        functions = (node for node in cls.body if isinstance(node, ast.FunctionDef))
        forward = next((function for function in functions if function.name == "forward"), None)
        if forward is None:
            raise ValueError("the text of a graph has no function `forward`")
        graphs = {node.name: node for node in cls.body if isinstance(node, ast.ClassDef)}
        gets = (statement.value for statement in forward.body if isinstance(statement, ast.Assign))
        calls = Counter(get.attr for get in gets if isinstance(get, ast.Attribute))
        unread = set(graphs)
        values: dict[str, AnnotatedTensor | None] = {}
        within: dict[str, str] = {}
        for argument in forward.args.args[1:]:
            values[argument.arg] = _annotated(argument.annotation, path + argument.arg)
        inputs = tuple(path + name for name in values)
        for statement in forward.body:
            if not isinstance(statement, (ast.AnnAssign, ast.Assign)):
                continue
            target = statement.target if isinstance(statement, ast.AnnAssign) else statement.targets[0]
            call = statement.value
            if not isinstance(target, ast.Name) or (isinstance(call, ast.Constant) and call.value is None):
                continue  # `x = None` stands after the last use of `x`
            if isinstance(call, ast.Attribute) and call.attr in graphs:
                within[target.id] = call.attr
            name = path + target.id
            result = values[target.id] = _annotated(getattr(statement, "annotation", None), name)
            called = ast.unparse(call.func) if isinstance(call, ast.Call) else ""
            # ``torch.ops.aten.add.Tensor``; others are functions of Python, such as ``operator.getitem``.
            op = called.removeprefix("torch.ops.") if called.startswith("torch.ops.") else ""
            if isinstance(call, ast.Call) and "." in op:
                args = tuple(_read(argument, values) for argument in call.args)
                kwargs = {keyword.arg: _read(keyword.value, values) for keyword in call.keywords if keyword.arg}
                arguments = (*call.args, *(keyword.value for keyword in call.keywords))
                read = [n.id for argument in arguments for n in ast.walk(argument) if isinstance(n, ast.Name)]
                reads = tuple(self.parts.get(path + part, path + part) for part in read)
                bodies = {within[part]: None for part in read if part in within and not op.startswith(_INLINED)}
                place = self._places.get(statement.lineno)
                self.nodes.append(Node(name, op, args, kwargs, result, place, reads, times, bool(bodies)))
                for body in [body for body in bodies if body in unread]:
                    unread.discard(body)
                    self.read(graphs[body], f"{path}{body}.", times * calls[body])
            elif isinstance(call, ast.Subscript) and isinstance(call.value, ast.Name):
                self.parts[name] = path + call.value.id
                if isinstance(call.slice, ast.Constant) and isinstance(call.slice.value, int):
                    self.numbers[name] = call.slice.value
        self.values |= {path + name: value for name, value in values.items()}
        return inputs


def _places(text: str) -> dict[int, Frame]:
    """The place of each line of the text: a comment applies to all lines below it, up to the next comment."""
    places: dict[int, Frame] = {}
    place: Frame | None = None
    for number, line in enumerate(map(str.strip, text.splitlines()), start=1):
        if (match := _PLACE.match(line)) is not None:
            place = Frame(match["path"], int(match["line"]), match["function"], match["code"].strip())
        elif line.startswith("# No stacktrace found"):
            place = None
        elif place is not None and line and not line.startswith("#"):
            places[number] = place
    return places


def _annotated(annotation: ast.expr | None, name: str) -> AnnotatedTensor | None:
    if not isinstance(annotation, ast.Constant) or not isinstance(annotation.value, str):
        return None
    match = _TENSOR.match(annotation.value)
    if match is None:
        return None
    stride = None if match["stride"] is None else _sizes(match["stride"])
    return AnnotatedTensor(match["dtype"], _sizes(match["shape"]), stride, match["device"] or "", name)


def _sizes(text: str) -> tuple[int | None, ...]:
    parts = text.split(",") if text.strip() else ()
    return tuple(int(part) if part.strip().isdigit() else None for part in parts)


def _read(node: ast.expr, values: dict[str, AnnotatedTensor | None]) -> Any:
    """An argument: the annotation of a tensor, or a plain value."""
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Name):
        return (values[node.id] or Unread(node.id)) if node.id in values else TorchConstant(node.id)
    if isinstance(node, (ast.List, ast.Tuple)):
        return [_read(element, values) for element in node.elts]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant):
        return -node.operand.value  # type: ignore[operator]
    is_device = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "device"
    return (
        TorchConstant(ast.unparse(node)) if is_device or isinstance(node, ast.Attribute) else Unread(ast.unparse(node))
    )


class _Rounds:
    """How often the line of each call runs, by the counts of its ops: each op runs as often, or a multiple of it."""

    def __init__(self, places: Sequence[Frame | None], ops: Sequence[str], backwards: bool) -> None:
        pairs = list(zip(places, ops, strict=True))
        totals = Counter(pairs)
        self._rounds: dict[Frame | None, int] = {}
        for (place, _), count in totals.items():
            self._rounds[place] = gcd(self._rounds.get(place, 0), count)
        met: Counter[tuple[Frame | None, str]] = Counter()
        self._round_of: list[tuple[int, int]] = []
        for pair in pairs:
            rounds, total = self._rounds[pair[0]], totals[pair]
            this_round = met[pair] * rounds // total
            self._round_of.append((rounds - 1 - this_round if backwards else this_round, rounds))
            met[pair] += 1

    def part_of(self, steps: list[GraphCall], index: int) -> list[GraphCall]:
        """The ``steps`` of a line that belong to the round of the call at ``index``; all if the round is not known."""
        this_round, rounds = self._round_of[index]
        if rounds < 2 or len(steps) % rounds:
            return steps
        size = len(steps) // rounds
        return steps[this_round * size : (this_round + 1) * size]


class ProgramLines:
    """The steps of one program, from which the calls of a graph get their lines."""

    def __init__(self, steps: Sequence[GraphCall]) -> None:
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

    def match(
        self, places: Iterable[Frame | None], *, backwards: bool, ops: Sequence[str] = ()
    ) -> list[GraphCall | None]:
        """The step that each of ``places`` comes from, in the program's order or backwards; ``None`` without a match.

        ``ops``, those of the calls, distinguish the rounds of a loop within one line.
        """
        places = list(places)
        ranks = _ranks(place for place in places if place is not None)
        rounds = _Rounds(places, ops, backwards) if ops else None
        steps: list[GraphCall | None] = []
        at = len(self._steps) if backwards else -1
        for index, place in enumerate(places):
            number = None if place is None else self._nearest(place, ranks[place], at, backwards)
            if number is not None:
                at = min(at, number) if backwards else max(at, number)
            steps.append(None if number is None else self._in_common(number, rounds, index))
        return steps

    def _in_common(self, number: int, rounds: _Rounds | None, index: int) -> GraphCall:
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

    def _nearest(self, place: Frame, rank: tuple[int, int], at: int, backwards: bool) -> int | None:
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
    nodes: Sequence[Node], steps: Sequence[GraphCall | None], forward: Mapping[str, tuple[str, GraphCall | None]]
) -> list[GraphCall | None]:
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


def _ranks(places: Iterable[Frame]) -> dict[Frame, tuple[int, int]]:
    """The rank of each place among the lines of its function with the same text, and the number of these."""
    places = set(places)
    lines: dict[tuple[str, str, str], set[int]] = defaultdict(set)
    for place in places:
        lines[place.path, place.function, place.code].add(place.line)
    alike = {place: sorted(lines[place.path, place.function, place.code]) for place in places}
    return {place: (numbers.index(place.line), len(numbers)) for place, numbers in alike.items()}
