"""A line of the user's, rewritten: one call for another that gives the same values, where that is certain.

The line is read with ``ast`` and refused wherever something could be meant otherwise: more than one such call, other
arguments than the known ones, a line that is no whole statement.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from typing import NamedTuple

from tracer.names import Rewriting


class _Call(NamedTuple):
    """A call of a known name, with its arguments as they are written."""

    name: str
    on: str
    """What the method is called on; the first argument where it is a function of torch."""
    given: dict[str, str]


def rewritten(line: str, how: Rewriting) -> str:
    """``line`` with its one call that ``how`` knows written otherwise; empty where that is not certain."""
    try:
        tree = ast.parse(line)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ""
    names, parameters, write = _WAYS[how]
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and _name_of(node.func) in names]
    if len(tree.body) != 1 or len(calls) != 1:
        return ""
    call = _read(calls[0], line, parameters)
    new = write(call) if call is not None else ""
    if not new:
        return ""
    raw = line.encode("utf-8")
    start, end = calls[0].col_offset, calls[0].end_col_offset
    text = (raw[:start] + new.encode("utf-8") + raw[end:]).decode("utf-8")
    try:
        ast.parse(text)
    except SyntaxError:
        return ""
    return text


def _name_of(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else ""


def _read(node: ast.Call, line: str, parameters: tuple[str, ...]) -> _Call | None:
    """The call's arguments by name; ``None`` for one that is not spelt with ``parameters`` alone."""
    function = node.func
    if not isinstance(function, ast.Attribute):
        return None
    positional = list(node.args)
    owner = ast.get_source_segment(line, function.value) or ""
    if isinstance(function.value, ast.Name) and function.value.id in _FUNCTIONS_OF:
        if not positional:
            return None
        first = positional.pop(0)
        owner = ast.get_source_segment(line, first) or ""
        if not isinstance(first, (ast.Name, ast.Attribute, ast.Call, ast.Subscript)):
            owner = f"({owner})"
    elif function.attr in _NEVER_METHODS:
        return None
    if len(positional) > len(parameters) or any(isinstance(argument, ast.Starred) for argument in node.args):
        return None
    given = dict(zip(parameters, positional, strict=False))
    for keyword in node.keywords:
        if keyword.arg is None or keyword.arg not in parameters or keyword.arg in given:
            return None
        given[keyword.arg] = keyword.value
    return _Call(
        function.attr, owner, {name: ast.get_source_segment(line, value) or "" for name, value in given.items()}
    )


def _index_add(call: _Call) -> str:
    if call.given.keys() != {"dim", "index", "source"} or call.given["dim"] != "0":
        return ""
    return _index_put(call, call.given["index"], call.given["source"], in_place=call.name == "index_add_")


def _index_put(call: _Call, index: str, source: str, *, in_place: bool) -> str:
    return f"{call.on}.index_put{'_' * in_place}(({index},), {source}, accumulate=True)"


def _take(call: _Call) -> str:
    return f"{call.on}.reshape(-1)[{call.given['index']}]" if call.given.keys() == {"index"} else ""


def _reflect(call: _Call) -> str:
    given = call.given
    if given.keys() != {"pad", "mode"} or given["mode"] not in ("'reflect'", '"reflect"'):
        return ""
    pad = ast.parse(given["pad"], mode="eval").body
    if not isinstance(pad, (ast.Tuple, ast.List)) or len(pad.elts) != 2:
        return ""
    left, right = (ast.get_source_segment(given["pad"], elt) for elt in pad.elts)
    return f"F.pad({call.on}.unsqueeze(-2), ({left}, {right}, 0, 0), mode='reflect').squeeze(-2)"


#: Modules whose functions take first what a method is called on.
_FUNCTIONS_OF = ("torch", "F")
#: Names that other libraries' objects have, too: read as a function of torch alone.
_NEVER_METHODS = ("take", "pad")
#: Each way: the names of the call, its parameters after the tensor, and what writes it otherwise.
_WAYS: Mapping[Rewriting, tuple[tuple[str, ...], tuple[str, ...], Callable[[_Call], str]]] = {
    Rewriting.INDEX_ADD: (("index_add", "index_add_"), ("dim", "index", "source"), _index_add),
    Rewriting.TAKE: (("take",), ("index",), _take),
    Rewriting.REFLECTION_PAD: (("pad",), ("pad", "mode"), _reflect),
}
