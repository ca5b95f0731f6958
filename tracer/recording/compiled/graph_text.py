"""Parses the text of an AOTAutograd graph: Python printed by ``torch.fx``, with the program's lines in comments.

Imports no torch. Checked on torch 2.13.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

_PLACE = re.compile(r"^# File: (?P<path>.+?):(?P<line>\d+) in (?P<function>.+?), code: ?(?P<code>.*)$")
#: Ops whose subgraphs are compiled into their own kernel.
_INLINED = ("higher_order.flex_attention", "higher_order.triton_kernel_wrapper")
_TENSOR = re.compile(
    r"^(?P<dtype>[a-z]\w*)\[(?P<shape>[^\]]*)\](?:\[(?P<stride>[^\]]*)\])?(?P<device>[a-z]\w*(?::\d+)?)?"
)


class Place(NamedTuple):
    """A line of the program when the graph was traced."""

    path: str
    line: int
    function: str
    code: str
    """The line's text."""


class Value(NamedTuple):
    """A tensor as an annotation describes it: ``f32[8, 16][16, 1]cpu``."""

    dtype: str
    """torch.fx's short name: ``f32``, ``i64``, ``b8``."""
    shape: tuple[int | None, ...]
    """``None`` for a dynamic size."""
    stride: tuple[int | None, ...] | None
    device: str
    name: str = ""


class Name(NamedTuple):
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
    result: Value | None
    place: Place | None
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
    values: dict[str, Value | None]
    """By name; ``None`` for those that have no annotation."""

    @property
    def has_unfixed_sizes(self) -> bool:
        """Whether a size is dynamic."""
        return any(value is not None and None in value.shape for value in self.values.values())


def flat(arguments: Iterable[Any]) -> Iterator[Any]:
    """The arguments, with lists flattened."""
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

    def __init__(self, places: Mapping[int, Place]) -> None:
        self._places = places
        self.values: dict[str, Value | None] = {}
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
        values: dict[str, Value | None] = {}
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
            if isinstance(call, ast.Call) and (op := _op(call.func)):
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


def _places(text: str) -> dict[int, Place]:
    """The place of each line of the text: a comment applies to all lines below it, up to the next comment."""
    places: dict[int, Place] = {}
    place: Place | None = None
    for number, line in enumerate(map(str.strip, text.splitlines()), start=1):
        if (match := _PLACE.match(line)) is not None:
            place = Place(match["path"], int(match["line"]), match["function"], match["code"].strip())
        elif line.startswith("# No stacktrace found"):
            place = None
        elif place is not None and line and not line.startswith("#"):
            places[number] = place
    return places


def _op(function: ast.expr) -> str:
    """The name in traces of ``torch.ops.aten.add.Tensor``; empty for other functions (``operator.getitem``)."""
    parts: list[str] = []
    while isinstance(function, ast.Attribute):
        parts.insert(0, function.attr)
        function = function.value
    if not isinstance(function, ast.Name) or function.id != "torch" or len(parts) < 3 or parts[0] != "ops":
        return ""
    return ".".join(parts[1:])


def _annotated(annotation: ast.expr | None, name: str) -> Value | None:
    if not isinstance(annotation, ast.Constant) or not isinstance(annotation.value, str):
        return None
    match = _TENSOR.match(annotation.value)
    if match is None:
        return None
    stride = None if match["stride"] is None else _sizes(match["stride"])
    return Value(match["dtype"], _sizes(match["shape"]), stride, match["device"] or "", name)


def _sizes(text: str) -> tuple[int | None, ...]:
    parts = text.split(",") if text.strip() else ()
    return tuple(int(part) if part.strip().isdigit() else None for part in parts)


def _read(node: ast.expr, values: dict[str, Value | None]) -> Any:
    """An argument: the annotation of a tensor, or a plain value."""
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Name):
        return (values[node.id] or Unread(node.id)) if node.id in values else Name(node.id)
    if isinstance(node, (ast.List, ast.Tuple)):
        return [_read(element, values) for element in node.elts]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant):
        return -node.operand.value  # type: ignore[operator]
    is_device = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "device"
    return Name(ast.unparse(node)) if is_device or isinstance(node, ast.Attribute) else Unread(ast.unparse(node))
