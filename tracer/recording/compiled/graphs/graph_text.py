"""The text of a graph as AOTAutograd handed it over: its calls, each with what the text says of its arguments.

The text is Python that ``torch.fx`` printed, so Python's own parser reads it; the lines of the program stand in
comments. Of torch it needs nothing. Checked on the text of torch 2.13.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

_PLACE = re.compile(r"^# File: (?P<path>.+?):(?P<line>\d+) in (?P<function>.+?), code: ?(?P<code>.*)$")
_NO_PLACE = "# No stacktrace found"
_TENSOR = re.compile(
    r"^(?P<dtype>[a-z]\w*)\[(?P<shape>[^\]]*)\](?:\[(?P<stride>[^\]]*)\])?(?P<device>[a-z]\w*(?::\d+)?)?"
)


class Place(NamedTuple):
    """A line of the program as it was when the graph was made."""

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
    """``None`` for a size that is not fixed."""
    stride: tuple[int | None, ...] | None
    device: str
    name: str = ""
    """What the graph calls it."""


class Name(NamedTuple):
    """A constant of torch: ``torch.float32``, ``device(type='cpu')`` as its type, ``inf``."""

    text: str


#: A graph without gradients calls its class ``<lambda>``, which no parser takes.
_CLASS = re.compile(r"(?m)^(\s*class )<\w+>\(")


class Unread(NamedTuple):
    """An argument of which the text tells nothing that is used here: a number that is not fixed, a list of results."""

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
    """Names of the calls and inputs whose results it takes."""


class Graph(NamedTuple):
    """What one text holds."""

    inputs: tuple[str, ...]
    nodes: tuple[Node, ...]
    parts: dict[str, str]
    """A name for one of several results -> the call that gave it."""
    has_unfixed_sizes: bool
    places: dict[str, int]
    """The same name -> which of the results it is."""
    outputs: tuple[str, ...]
    """What it returns, by name; empty for what has none."""


def read_graph(text: str) -> Graph:
    """The graph that ``text`` prints. Raises ``ValueError`` for a text of another form."""
    text = _CLASS.sub(r"\1Graph(", text, count=1)
    try:
        module = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as problem:
        raise ValueError(f"the text of a graph cannot be parsed: {problem}") from problem
    forward = next(
        (one for one in ast.walk(module) if isinstance(one, ast.FunctionDef) and one.name == "forward"), None
    )
    if forward is None:
        raise ValueError("the text of a graph has no function `forward`")
    places = _places(text)
    values: dict[str, Value | None] = {}
    inputs = []
    for argument in forward.args.args[1:]:
        inputs.append(argument.arg)
        values[argument.arg] = _annotated(argument.annotation, argument.arg)
    nodes = []
    parts: dict[str, str] = {}
    numbers: dict[str, int] = {}
    outputs: tuple[str, ...] = ()
    for statement in forward.body:
        if isinstance(statement, ast.Return):
            outputs = tuple(_returned(statement.value))
            continue
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            target, call = statement.target.id, statement.value
            result = _annotated(statement.annotation, target)
        elif isinstance(statement, ast.Assign) and len(statement.targets) == 1:
            if not isinstance(statement.targets[0], ast.Name):
                continue
            target, call, result = statement.targets[0].id, statement.value, None
        else:
            continue
        if isinstance(call, ast.Constant) and call.value is None:
            continue  # `x = None`: the last use has gone by
        values[target] = result
        if isinstance(call, ast.Call) and (op := _op(call.func)):
            nodes.append(
                Node(
                    target,
                    op,
                    tuple(_read(one, values) for one in call.args),
                    {one.arg: _read(one.value, values) for one in call.keywords if one.arg},
                    result,
                    places.get(statement.lineno),
                    tuple(parts.get(name, name) for name in _names_in(call)),
                )
            )
        elif isinstance(call, ast.Subscript) and isinstance(call.value, ast.Name):
            parts[target] = call.value.id
            if isinstance(call.slice, ast.Constant) and isinstance(call.slice.value, int):
                numbers[target] = call.slice.value
    unfixed = any(value is not None and None in value.shape for value in values.values())
    return Graph(tuple(inputs), tuple(nodes), parts, unfixed, numbers, outputs)


def _returned(value: ast.expr | None) -> Iterator[str]:
    for element in value.elts if isinstance(value, (ast.Tuple, ast.List)) else (value,):
        yield element.id if isinstance(element, ast.Name) else ""


def _places(text: str) -> dict[int, Place]:
    """The place of each line of the text: the comment above it and above all that follow."""
    places: dict[int, Place] = {}
    place: Place | None = None
    for number, line in enumerate(text.splitlines(), start=1):
        stripped = line.strip()
        if stripped.startswith("#"):
            match = _PLACE.match(stripped)
            if match is not None:
                place = Place(match["path"], int(match["line"]), match["function"], match["code"].strip())
            elif stripped.startswith(_NO_PLACE):
                place = None
        elif place is not None and stripped:
            places[number] = place
    return places


def _names_in(call: ast.Call) -> list[str]:
    arguments = (*call.args, *(node.value for node in call.keywords))
    return [node.id for argument in arguments for node in ast.walk(argument) if isinstance(node, ast.Name)]


def _op(function: ast.expr) -> str:
    """``torch.ops.aten.add.Tensor`` as traces spell it; empty for what is no op (``operator.getitem``, a number)."""
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
    stride = match["stride"]
    return Value(
        match["dtype"],
        tuple(_sizes(match["shape"])),
        None if stride is None else tuple(_sizes(stride)),
        match["device"] or "",
        name,
    )


def _sizes(text: str) -> Iterator[int | None]:
    for part in text.split(",") if text.strip() else ():
        part = part.strip()
        yield int(part) if part.isdigit() else None


def _read(node: ast.expr, values: dict[str, Value | None]) -> Any:
    """An argument: a tensor by its annotation, a plain value as it is."""
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Name):
        if node.id in values:
            value = values[node.id]
            return Unread(node.id) if value is None else value
        return Name(node.id)
    if isinstance(node, (ast.List, ast.Tuple)):
        return [_read(element, values) for element in node.elts]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant):
        return -node.operand.value  # type: ignore[operator]
    if isinstance(node, ast.Attribute):
        return Name(ast.unparse(node))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "device":
        return Name(ast.unparse(node))
    return Unread(ast.unparse(node))
