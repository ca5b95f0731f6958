"""Sets of texts that the program's own code walks in their order, which the hash seed decides: read in its text.

A set is walked without a call that could be watched, so the code is read once the recording is over. Only what is
certain to hold texts counts, and no walk whose order nothing can hang on (``sorted``, ``len``, ``in``, another set).
"""

from __future__ import annotations

import ast
import functools
import os
import sys
from collections.abc import Iterable, Iterator

from tracer.recording.program_text.source_tree import own_nodes, stores_of, tree_of

#: What hangs on the order of what it is given.
_ORDERED = frozenset({"list", "tuple", "enumerate", "iter", "zip", "map", "filter", "reversed", "join", "array"})
#: What gives texts, whatever it is called on.
_GIVES_TEXTS = frozenset({"split", "rsplit", "splitlines", "listdir"})
_SET_METHODS = frozenset({"union", "intersection", "difference", "symmetric_difference", "copy"})
#: Statements in the body of a loop that hand nothing on: what is said, and what is refused.
_SAYS = frozenset({"print", "debug", "info", "warning", "warn", "error", "log"})
_VARIABLE, _RANDOM = "PYTHONHASHSEED", "random"
_MOST_FILES = 100
_DEPTH = 4

Walk = tuple[str, int, str]
"""File, line and function."""


def walked_sets(files: Iterable[str]) -> Iterator[Walk]:
    """Each place in ``files`` that walks a set of texts, while texts are hashed at random."""
    if not sys.flags.hash_randomization or hash_seed() != _RANDOM:
        return
    main = getattr(sys.modules.get("__main__"), "__file__", None)
    named = dict.fromkeys([*((main,) if isinstance(main, str) else ()), *files])
    for filename in list(named)[:_MOST_FILES]:
        for line, function in _walked_in(filename):
            yield filename, line, function


@functools.lru_cache(maxsize=1)
def hash_seed() -> str:
    """PYTHONHASHSEED as the interpreter found it: what the program sets comes too late for this process."""
    try:
        with open("/proc/self/environ", "rb") as stream:
            given = dict(entry.partition(b"=")[::2] for entry in stream.read().split(b"\0"))
        return os.fsdecode(given.get(_VARIABLE.encode(), _RANDOM.encode())) or _RANDOM
    except OSError:
        return os.environ.get(_VARIABLE, "") or _RANDOM


@functools.lru_cache(maxsize=1024)
def _walked_in(filename: str) -> tuple[tuple[int, str], ...]:
    tree = tree_of(filename)
    return tuple(
        (line, str(getattr(scope, "name", "<module>")))
        for scope in (_scopes(tree) if tree is not None else ())
        for line in sorted({node.lineno for node in _walks(scope, tree)})
    )


def _scopes(tree: ast.Module) -> Iterator[ast.AST]:
    yield tree
    yield from (node for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)))


def _walks(scope: ast.AST, tree: ast.AST | None) -> Iterator[ast.expr]:
    """Every set of texts of ``scope`` that something walks in its order."""
    nodes = list(own_nodes(scope))
    ordered = {id(child) for node in nodes if _forgets_order(node) for child in ast.iter_child_nodes(node)}
    for node in nodes:
        walked: list[ast.expr] = []
        if isinstance(node, (ast.For, ast.AsyncFor)) and not all(map(_only_says, node.body)):
            walked = [node.iter]
        elif isinstance(node, (ast.ListComp, ast.DictComp, ast.GeneratorExp)) and id(node) not in ordered:
            walked = [generator.iter for generator in node.generators]
        elif isinstance(node, ast.Call) and id(node) not in ordered and _name_of(node.func) in _ORDERED:
            walked = list(node.args)
        elif isinstance(node, ast.Starred):
            walked = [node.value]
        yield from (iterated for iterated in walked if _is_texts(iterated, scope, tree, 0))


def _forgets_order(node: ast.AST) -> bool:
    """Does a call give the same in whichever order it is given things?"""
    return isinstance(node, ast.Call) and _name_of(node.func) in (
        *("sorted", "set", "frozenset", "len", "min", "max", "any", "all", "sum", "Counter", "update"),
    )


def _only_says(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        return _name_of(statement.value.func) in _SAYS
    if isinstance(statement, ast.If):
        return all(map(_only_says, (*statement.body, *statement.orelse)))
    return isinstance(statement, (ast.Raise, ast.Assert, ast.Pass, ast.Continue))


def _is_texts(node: ast.expr, scope: ast.AST, tree: ast.AST | None, depth: int) -> bool:
    """Is it a set that holds texts for sure?"""
    if depth > _DEPTH:
        return False
    if isinstance(node, ast.Set):
        return any(_is_text(element) for element in node.elts)
    if isinstance(node, ast.SetComp):
        return _is_text(node.elt)
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.BitOr, ast.BitAnd, ast.Sub, ast.BitXor)):
        return _is_texts(node.left, scope, tree, depth + 1)
    if isinstance(node, ast.Name):
        stores = stores_of(scope, node.id) or (stores_of(tree, node.id) if tree is not None else [])
        return len(stores) == 1 and stores[0][1] and _is_texts(stores[0][0], scope, tree, depth + 1)
    if not isinstance(node, ast.Call):
        return False
    name = _name_of(node.func)
    if name in ("set", "frozenset") and len(node.args) == 1:
        return _gives_texts(node.args[0], scope, tree, depth + 1)
    if name in _SET_METHODS and isinstance(node.func, ast.Attribute):
        return _is_texts(node.func.value, scope, tree, depth + 1)
    return False


def _gives_texts(node: ast.expr, scope: ast.AST, tree: ast.AST | None, depth: int) -> bool:
    """Does walking it give texts for sure?"""
    if depth > _DEPTH:
        return False
    if isinstance(node, (ast.List, ast.Tuple, ast.Set)):
        return any(_is_text(element) for element in node.elts)
    if isinstance(node, (ast.ListComp, ast.GeneratorExp)):
        return _is_text(node.elt)
    if isinstance(node, ast.Call):
        return _name_of(node.func) in _GIVES_TEXTS
    if isinstance(node, ast.Name):
        stores = stores_of(scope, node.id) or (stores_of(tree, node.id) if tree is not None else [])
        return len(stores) == 1 and stores[0][1] and _gives_texts(stores[0][0], scope, tree, depth + 1)
    return _is_text(node)


def _is_text(node: ast.expr) -> bool:
    if isinstance(node, ast.Call):
        return _name_of(node.func) in ("str", "lower", "upper", "strip", "replace", "decode", "basename")
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, (str, bytes)))


def _name_of(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
