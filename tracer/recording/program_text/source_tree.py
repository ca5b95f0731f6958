"""A program's source as a tree, and the position of a frame in it. Reading it runs nothing."""

from __future__ import annotations

import ast
import functools
import inspect
import linecache
import operator
from collections import defaultdict
from collections.abc import Callable, Iterator
from itertools import islice
from types import CodeType, FrameType
from typing import Any

_LARGEST_FILE = 2_000_000


@functools.lru_cache(maxsize=64)
def tree_of(filename: str) -> ast.Module | None:
    try:
        text = "".join(linecache.getlines(filename))
        return ast.parse(text) if 0 < len(text) < _LARGEST_FILE else None
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def call_of(frame: FrameType) -> ast.Call | None:
    """The call that ``frame`` is making."""
    calls = _calls_in(frame.f_code.co_filename)
    positions = getattr(frame.f_code, "co_positions", None)
    if positions is not None and frame.f_lasti >= 0:
        position = next(islice(positions(), frame.f_lasti // 2, None), (0,))
        for call in calls.get(position[0] or 0, ()):
            if position == (call.lineno, call.end_lineno, call.col_offset, call.end_col_offset):
                return call
    # Python 3.10 has lines alone: the one call of that line, or its outermost.
    return min(calls.get(frame.f_lineno, ()), key=lambda call: call.col_offset, default=None)


def called_name(call: ast.Call) -> str:
    """The last part of the name that is called; empty where it has none."""
    return getattr(call.func, "attr", getattr(call.func, "id", ""))


@functools.lru_cache(maxsize=16)
def _calls_in(filename: str) -> dict[int, list[ast.Call]]:
    """The calls in a file, by the line that they begin on."""
    calls: dict[int, list[ast.Call]] = defaultdict(list)
    tree = tree_of(filename)
    for node in ast.walk(tree) if tree is not None else ():
        if isinstance(node, ast.Call):
            calls[node.lineno].append(node)
    return calls


def argument_of(call: ast.Call, position: int | str) -> ast.expr | None:
    if isinstance(position, str):
        return next((keyword.value for keyword in call.keywords if keyword.arg == position), None)
    if any(isinstance(argument, ast.Starred) for argument in call.args[: position + 1]):
        return None
    if position < len(call.args):
        return call.args[position]
    return call.keywords[0].value if position == 0 and len(call.keywords) == 1 else None


def scope_of(code: CodeType) -> Any:
    """The function, or the module, whose code is ``code``; ``None`` without a source."""
    tree = tree_of(code.co_filename)
    if tree is None or code.co_name == "<module>":
        return tree
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name == code.co_name:
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            if code.co_firstlineno in (first, node.lineno):
                return node
    return None


def function_of(code: CodeType) -> Any:
    """The function whose code is ``code``; ``None`` for a module, and without a source."""
    scope = scope_of(code)
    return None if isinstance(scope, ast.Module) else scope


def own_nodes(scope: Any) -> Iterator[ast.AST]:
    """Every node of ``scope`` outside of the functions and classes in it."""
    waiting = list(scope.body)
    while waiting:
        node = waiting.pop(0)
        yield node
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
            waiting[:0] = ast.iter_child_nodes(node)


def stores_of(scope: Any, name: str) -> list[tuple[ast.expr, bool]]:
    """The values that ``name`` is set to in ``scope``, and whether it holds the value itself."""
    stores: list[tuple[ast.expr, bool]] = []
    for node in own_nodes(scope):
        if isinstance(node, ast.Assign):
            targets = [target for target in node.targets if _names(target, name)]
            stores += ((node.value, isinstance(target, ast.Name)) for target in targets)
        elif isinstance(node, (ast.AnnAssign, ast.NamedExpr, ast.AugAssign)) and node.value is not None:
            if isinstance(node.target, ast.Name) and node.target.id == name:
                stores.append((node.value, not isinstance(node, ast.AugAssign)))
        elif isinstance(node, (ast.For, ast.AsyncFor)) and _names(node.target, name):
            stores.append((node.iter, False))
    return stores


def _names(target: ast.AST, name: str) -> bool:
    return any(isinstance(part, ast.Name) and part.id == name for part in ast.walk(target))


@functools.lru_cache(maxsize=256)
def assigned_attributes(filename: str, dotted: str) -> tuple[ast.expr, ...]:
    """The values that ``dotted`` (``self.seed``, ``args.seed``) is set to in the file, or in a class ``self.seed``."""
    names = (dotted, f"self.{dotted.rpartition('.')[2]}")
    return tuple(
        node.value
        for node in ast.walk(tree_of(filename) or ast.Module([], []))
        if isinstance(node, ast.Assign)
        and any(isinstance(target, ast.Attribute) and ast.unparse(target) in names for target in node.targets)
    )


def returned_by(code: CodeType) -> list[ast.expr]:
    scope = function_of(code)
    nodes = own_nodes(scope) if scope is not None else ()
    return [node.value for node in nodes if isinstance(node, ast.Return) and node.value is not None]


def positional_parameters(function: Any) -> list[str]:
    return [parameter.arg for parameter in (*function.args.posonlyargs, *function.args.args)]


def parameters_of(function: Any) -> list[str]:
    return [*positional_parameters(function), *(parameter.arg for parameter in function.args.kwonlyargs)]


def default_of(function: Any, name: str) -> ast.expr | None:
    """The default of a parameter."""
    positional = positional_parameters(function)
    defaults = dict(zip(reversed(positional), reversed(function.args.defaults), strict=False))
    named = (parameter.arg for parameter in function.args.kwonlyargs)
    return {**defaults, **dict(zip(named, function.args.kw_defaults, strict=True))}.get(name)


def is_left_out(function: Any, call: ast.Call | None) -> bool:
    """Return whether ``call`` calls ``function`` with all its arguments spelled out."""
    if call is None or called_name(call) != function.name:
        return False
    is_starred = any(isinstance(argument, ast.Starred) for argument in call.args)
    return not is_starred and all(keyword.arg is not None for keyword in call.keywords)


def is_passing_on(frame: FrameType) -> bool:
    """Return whether ``frame`` runs a decorator that passes its arguments on."""
    takes_any = bool(frame.f_code.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS))
    return takes_any and frame.f_code.co_name in ("inner", "wrapper", "wrapped", "_fn", "__call__")


def given_as(frame: FrameType, caller: FrameType, name: str) -> ast.expr | None:
    """The argument ``name`` that ``caller`` passed to the function of ``frame``."""
    call, function = call_of(caller), function_of(frame.f_code)
    if call is None or function is None:
        return None
    by_name = argument_of(call, name)
    if by_name is not None:
        return by_name
    names = positional_parameters(function)
    if names and names[0] in ("self", "cls") and isinstance(call.func, (ast.Attribute, ast.Name)):
        names = names[1:]
    if name not in names or any(isinstance(argument, ast.Starred) for argument in call.args):
        return None
    return next(iter(call.args[names.index(name) :]), None)


def whole_number(node: ast.AST) -> int | None:
    """The number that is written here, as ``2**31 - 1``; ``None`` for anything else."""
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return node.value
    if not isinstance(node, ast.BinOp):
        return None
    left, right = whole_number(node.left), whole_number(node.right)
    if left is None or right is None:
        return None
    if isinstance(node.op, (ast.Pow, ast.LShift)) and not (0 <= right < 128 and abs(left) < 2**16):
        return None
    compute = _OPERATORS.get(type(node.op))
    return None if compute is None else compute(left, right)


_OPERATORS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Pow: operator.pow,
    ast.LShift: operator.lshift,
    ast.Add: operator.add,
    ast.Sub: operator.sub,
}
_GIVES_A_STATE = frozenset({"seed", "set_state", "setstate", "state", "__setstate__"})


def is_given_a_state(frame: FrameType) -> bool:
    """Return whether the call's result is assigned to a name whose ``seed`` or state the same file sets elsewhere."""
    call = call_of(frame)
    tree = tree_of(frame.f_code.co_filename)
    if call is None or tree is None:
        return False
    assigns = [node for node in ast.walk(tree) if isinstance(node, ast.Assign)]
    assigning = [node for node in assigns if any(part is call for part in ast.walk(node.value))]
    names = {ast.unparse(target) for node in assigning for target in node.targets}
    states = (node for node in ast.walk(tree) if isinstance(node, ast.Attribute) and node.attr in _GIVES_A_STATE)
    return bool(names) and any(ast.unparse(node.value).removesuffix(".bit_generator") in names for node in states)
