"""The text of a program's code as a tree, and the place in it where a frame stands. Reading it runs nothing."""

from __future__ import annotations

import ast
import functools
import linecache
from collections.abc import Iterator
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
        place = next((one for at, one in enumerate(positions()) if at == frame.f_lasti // 2), None)
        for call in calls.get(place[0] or 0, ()) if place is not None else ():
            if place == (call.lineno, call.end_lineno, call.col_offset, call.end_col_offset):
                return call
    # Python 3.10 keeps lines alone: the one call of that line, or its outermost.
    return min(calls.get(frame.f_lineno, ()), key=lambda call: call.col_offset, default=None)


@functools.lru_cache(maxsize=16)
def _calls_in(filename: str) -> dict[int, list[ast.Call]]:
    """Each call in the file by the line that it begins on; they are looked for once."""
    calls: dict[int, list[ast.Call]] = {}
    tree = tree_of(filename)
    for node in ast.walk(tree) if tree is not None else ():
        if isinstance(node, ast.Call):
            calls.setdefault(node.lineno, []).append(node)
    return calls


def argument_of(call: ast.Call, position: int | str) -> ast.expr | None:
    if isinstance(position, str):
        return next((keyword.value for keyword in call.keywords if keyword.arg == position), None)
    if any(isinstance(argument, ast.Starred) for argument in call.args[: position + 1]):
        return None
    if position < len(call.args):
        return call.args[position]
    return call.keywords[0].value if position == 0 and len(call.keywords) == 1 else None


def scope_of(tree: ast.Module, code: CodeType) -> Any:
    """The function, or the module, whose code is ``code``."""
    if code.co_name == "<module>":
        return tree
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name == code.co_name:
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            if code.co_firstlineno in (first, node.lineno):
                return node
    return None


def own_nodes(scope: Any) -> Iterator[ast.AST]:
    """Every node of ``scope`` that is not inside a function or class of its own."""
    waiting = list(scope.body)
    while waiting:
        node = waiting.pop(0)
        yield node
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
            waiting[:0] = ast.iter_child_nodes(node)


def stores_of(scope: Any, name: str) -> list[tuple[ast.expr, bool]]:
    """What ``name`` is set to in ``scope``: each value, and whether the name is plainly that."""
    stores: list[tuple[ast.expr, bool]] = []
    for node in own_nodes(scope):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Name) and target.id == name:
                    stores.append((node.value, True))
                elif any(isinstance(part, ast.Name) and part.id == name for part in ast.walk(target)):
                    stores.append((node.value, False))
        elif isinstance(node, (ast.AnnAssign, ast.NamedExpr)) and node.value is not None:
            if isinstance(node.target, ast.Name) and node.target.id == name:
                stores.append((node.value, True))
        elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name) and node.target.id == name:
            stores.append((node.value, False))
        elif isinstance(node, (ast.For, ast.AsyncFor)) and _names(node.target, name):
            stores.append((node.iter, False))
    return stores


def _names(target: ast.AST, name: str) -> bool:
    return any(isinstance(part, ast.Name) and part.id == name for part in ast.walk(target))


@functools.lru_cache(maxsize=256)
def assigned_attributes(filename: str, dotted: str) -> tuple[ast.expr, ...]:
    """What ``dotted`` (``self.seed``, ``args.seed``) is set to anywhere in the file, or in a class ``self.seed``."""
    tree = tree_of(filename)
    assigned = (node for node in ast.walk(tree) if isinstance(node, ast.Assign)) if tree is not None else ()
    return tuple(
        node.value
        for node in assigned
        if any(
            isinstance(target, ast.Attribute) and ast.unparse(target) in (dotted, f"self.{dotted.rpartition('.')[2]}")
            for target in node.targets
        )
    )


def returned_by(code: CodeType) -> list[ast.expr]:
    tree = tree_of(code.co_filename)
    scope = None if tree is None else scope_of(tree, code)
    if scope is None or isinstance(scope, ast.Module):
        return []
    return [node.value for node in own_nodes(scope) if isinstance(node, ast.Return) and node.value is not None]


def parameters_of(scope: Any) -> list[str]:
    arguments = scope.args
    return [parameter.arg for parameter in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]


def default_of(scope: Any, name: str) -> ast.expr | None:
    """What a parameter is where nothing is given for it."""
    arguments = scope.args
    placed = [parameter.arg for parameter in (*arguments.posonlyargs, *arguments.args)]
    if name in placed:
        at = placed.index(name) - len(placed) + len(arguments.defaults)
        return arguments.defaults[at] if at >= 0 else None
    named = [parameter.arg for parameter in arguments.kwonlyargs]
    return arguments.kw_defaults[named.index(name)] if name in named else None


def is_left_out(scope: Any, call: ast.Call | None) -> bool:
    """Is ``call`` one of the function of ``scope`` that spells out all that it gives?"""
    if call is None or getattr(call.func, "attr", getattr(call.func, "id", "")) != scope.name:
        return False
    starred = any(isinstance(argument, ast.Starred) for argument in call.args)
    return not starred and all(keyword.arg is not None for keyword in call.keywords)


def is_passing_on(frame: FrameType) -> bool:
    """Is it a decorator that hands on what it was given?"""
    return frame.f_code.co_name in ("inner", "wrapper", "wrapped", "_fn", "__call__") and bool(
        frame.f_code.co_flags & 0x0C  # *args or **kwargs
    )


def given_as(frame: FrameType, caller: FrameType, name: str) -> ast.expr | None:
    """What ``caller`` gave the function of ``frame`` as ``name``; its default where it gave none."""
    call = call_of(caller)
    tree = tree_of(frame.f_code.co_filename)
    scope = None if tree is None else scope_of(tree, frame.f_code)
    if call is None or scope is None or isinstance(scope, ast.Module):
        return None
    by_name = argument_of(call, name)
    if by_name is not None:
        return by_name
    names = [parameter.arg for parameter in (*scope.args.posonlyargs, *scope.args.args)]
    if names and names[0] in ("self", "cls") and isinstance(call.func, (ast.Attribute, ast.Name)):
        names = names[1:]
    if name not in names or any(isinstance(argument, ast.Starred) for argument in call.args):
        return None
    place = names.index(name)
    return call.args[place] if place < len(call.args) else None


def whole_number(node: ast.AST) -> int | None:
    """The number that is written here, as ``2**31 - 1``; ``None`` for anything else."""
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return node.value
    if not isinstance(node, ast.BinOp):
        return None
    left, right = whole_number(node.left), whole_number(node.right)
    if left is None or right is None:
        return None
    if isinstance(node.op, (ast.Pow, ast.LShift)):
        if not (0 <= right < 128 and abs(left) < 2**16):
            return None
        return left**right if isinstance(node.op, ast.Pow) else left << right
    if isinstance(node.op, (ast.Add, ast.Sub)):
        return left + right if isinstance(node.op, ast.Add) else left - right
    return None


_GIVES_A_STATE = frozenset({"seed", "set_state", "setstate", "state", "__setstate__"})


def is_given_a_state(frame: FrameType) -> bool:
    """Is what the call of ``frame`` makes kept under a name whose ``seed`` or state the same file sets elsewhere?"""
    call = call_of(frame)
    tree = tree_of(frame.f_code.co_filename)
    if call is None or tree is None:
        return False
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and any(part is call for part in ast.walk(node.value)):
            names |= {ast.unparse(target) for target in node.targets}
    return bool(names) and any(
        isinstance(node, ast.Attribute) and node.attr in _GIVES_A_STATE and _root_of(node.value) in names
        for node in ast.walk(tree)
    )


def _root_of(node: ast.expr) -> str:
    """What ``rng.bit_generator`` belongs to."""
    if isinstance(node, ast.Attribute) and node.attr == "bit_generator":
        node = node.value
    return ast.unparse(node)
