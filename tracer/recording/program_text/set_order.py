"""Orders and numbers that hang on the hash seed or on addresses, in the program's own code: read in its text.

A set is walked, and ``hash`` called, without anything that could be watched, so the code is read once the recording is
over. Only a set that is certain to hold texts, or a model's parameters or modules, counts, and no walk whose order
nothing can hang on (``sorted``, ``len``, ``in``, another set).
"""

from __future__ import annotations

import ast
import functools
import os
import sys
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from tracer.names import NumberSource, NumberUse
from tracer.recording.program_text.source_tree import own_nodes, tree_of
from tracer.recording.program_text.texts import Scope, Texts, name_of

#: What hangs on the order of what it is given.
_ORDERED = frozenset(
    {
        *("list", "tuple", "enumerate", "iter", "zip", "map", "filter", "reversed", "join", "array", "extend"),
        *("fromkeys", "deque", "cycle", "chain", "islice", "dumps", "Series", "DataFrame"),
    }
)
_SORTS = frozenset({"sorted", "sort", "min", "max"})
#: Statements in the body of a loop that hand no order on: what is said, and what is refused.
_SAYS = frozenset({"print", "debug", "info", "warning", "warn", "error", "log"})
#: Give the same in whichever order they are called.
_IN_ANY_ORDER = frozenset({"requires_grad_", "add", "discard", "update"})
_VARIABLE, _RANDOM = "PYTHONHASHSEED", "random"
_MOST_FILES = 100
#: In the path of what somebody installed, an interpreter's own programs included.
_INSTALLED = ("site-packages", "dist-packages", "bin", "lib")


class Found(NamedTuple):
    """A place that takes an order, or a number, that is another one in every process."""

    source: NumberSource
    use: NumberUse
    what: str
    file: str
    line: int
    function: str


_OF_TEXTS = (NumberSource.HASH, NumberUse.ORDER, "a set of texts")
_OF_OBJECTS = (NumberSource.ADDRESS, NumberUse.ORDER, "a set of a model's parts")
_BY_ID = (NumberSource.ADDRESS, NumberUse.ORDER, "an order by id")
_HASH = (NumberSource.HASH, NumberUse.VALUE, "hash")
_Kind = tuple[NumberSource, NumberUse, str]


def hashed_and_placed(files: Iterable[str]) -> Iterator[Found]:
    """Each such place in ``files``; those of texts while texts are hashed at random."""
    hashes_at_random = bool(sys.flags.hash_randomization) and hash_seed() == _RANDOM
    main = getattr(sys.modules.get("__main__"), "__file__", None)
    named = dict.fromkeys([*(_with_its_modules(main) if isinstance(main, str) else ()), *files])
    for filename in list(named)[:_MOST_FILES]:
        for kind, line, function in _found_in(filename):
            if hashes_at_random or kind[0] is not NumberSource.HASH:
                yield Found(*kind, filename, line, function)


def _with_its_modules(main: str) -> list[str]:
    """The script and the loaded modules beside and below it: a vocabulary may be made where no op runs."""
    folder = os.path.join(os.path.dirname(os.path.abspath(main)), "")
    if _is_installed(folder):
        return [main]
    beside = [
        file
        for file in _files_of_modules()
        if file.startswith(folder)
        and file.endswith(".py")
        and file != os.path.abspath(main)
        and not _is_installed(file)
    ]
    return [main, *dict.fromkeys(beside)]


def _files_of_modules() -> Iterator[str]:
    """Of each loaded module the file, but for what an installed package brought: torch alone has a thousand."""
    from_installed: dict[str, bool] = {}
    for name in tuple(sys.modules):
        package = name.rpartition(".")[0]
        if package and package not in from_installed:
            paths = getattr(sys.modules.get(package), "__path__", None)
            from_installed[package] = isinstance(paths, list) and all(map(_is_installed, paths))
        file = None if from_installed.get(package) else getattr(sys.modules.get(name), "__file__", None)
        if isinstance(file, str):
            yield file


def _is_installed(path: str) -> bool:
    return any(part in _INSTALLED for part in path.split(os.sep))


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
def _found_in(filename: str) -> tuple[tuple[_Kind, int, str], ...]:
    tree = tree_of(filename)
    if tree is None:
        return ()
    texts = Texts(tree)
    return tuple(
        (kind, line, str(getattr(scope, "name", "<module>")))
        for scope in _scopes(tree)
        for line, kind in sorted({(node.lineno, kind) for kind, node in _looked_for(scope, texts)})
    )


def _scopes(tree: ast.Module) -> Iterator[Scope]:
    yield tree
    yield from (node for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)))


def _looked_for(scope: Scope, texts: Texts) -> Iterator[tuple[_Kind, ast.expr]]:
    """Every walk of such a set, every order by address and every hash of a text in ``scope``."""
    for walked in _walks(scope):
        if texts.is_set_of_texts(walked, scope):
            yield _OF_TEXTS, walked
        elif texts.is_set_of_objects(walked, scope):
            yield _OF_OBJECTS, walked
    is_own = getattr(scope, "name", "") in ("__hash__", "__eq__")
    for node in own_nodes(scope) if not is_own else ():
        if not isinstance(node, ast.Call):
            continue
        if name_of(node.func) in _SORTS and any(key.arg == "key" and _is_id(key.value) for key in node.keywords):
            yield _BY_ID, node
        elif isinstance(node.func, ast.Name) and node.func.id == "hash" and _is_of_a_text(node, texts, scope):
            yield _HASH, node


def _is_of_a_text(call: ast.Call, texts: Texts, scope: Scope) -> bool:
    return len(call.args) == 1 and texts.is_text(call.args[0], scope)


def _is_id(key: ast.expr) -> bool:
    """Is it ``id``, or a function that gives nothing but the ``id`` of what it is given?"""
    if isinstance(key, ast.Lambda):
        key = key.body.func if isinstance(key.body, ast.Call) else key.body
    return isinstance(key, ast.Name) and key.id == "id"


def _walks(scope: Scope) -> Iterator[ast.expr]:
    """What something in ``scope`` walks in its order."""
    nodes = list(own_nodes(scope))
    ordered = {id(child) for node in nodes if _forgets_order(node) for child in ast.iter_child_nodes(node)}
    for node in nodes:
        if isinstance(node, (ast.For, ast.AsyncFor)) and not all(map(_only_says, node.body)):
            yield node.iter
        elif isinstance(node, (ast.ListComp, ast.DictComp, ast.GeneratorExp)) and id(node) not in ordered:
            yield from (generator.iter for generator in node.generators)
        elif isinstance(node, ast.Call) and id(node) not in ordered:
            if name_of(node.func) in _ORDERED:
                yield from node.args
            elif isinstance(node.func, ast.Attribute) and node.func.attr == "pop" and not node.args:
                yield node.func.value
        elif isinstance(node, ast.Starred) and id(node) not in ordered:
            yield node.value


def _forgets_order(node: ast.AST) -> bool:
    """Does a call give the same in whichever order it is given things?"""
    return isinstance(node, ast.Call) and name_of(node.func) in (
        *("sorted", "set", "frozenset", "len", "min", "max", "any", "all", "sum", "Counter", "update"),
    )


def _only_says(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        return name_of(statement.value.func) in _SAYS | _IN_ANY_ORDER
    if isinstance(statement, ast.Assign):
        return all(isinstance(target, ast.Attribute) for target in statement.targets)
    if isinstance(statement, ast.If):
        return all(map(_only_says, (*statement.body, *statement.orelse)))
    return isinstance(statement, (ast.Raise, ast.Assert, ast.Pass, ast.Continue))
