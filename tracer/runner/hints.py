"""Hints from the program's own code: lines that may do otherwise in another run or process, read and never run.

One recording shows nothing of them. They are no findings: nobody knows whether what they give reaches the training.
"""

from __future__ import annotations

import ast
import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import ModuleType

from tracer.names import HintKind
from tracer.plain import encodable
from tracer.runner.script import INSTALLED
from tracer.trace.file import Trace
from tracer.trace.records import CodeHint

#: Files that are read, bytes of one, and hints that are kept.
_FILES, _BYTES, _MOST = 200, 2**20, 50
#: Functions that list a folder, by what they are attributes of; methods of a path, whatever it is called.
_LISTING = {
    "os": ("listdir", "scandir", "walk"),
    "glob": ("glob", "iglob"),
    "": ("listdir", "scandir", "glob", "iglob"),
}
_OF_PATHS, _NO_PATH = frozenset(("iterdir", "rglob", "glob")), frozenset(("", "glob", "self"))
#: Modules whose functions draw from a global generator, and those of their functions that draw nothing.
_DRAWING = {"random": HintKind.PYTHON_DRAW, "numpy.random": HintKind.NUMPY_DRAW}
_NO_DRAWS = frozenset(("seed", "getstate", "setstate", "get_state", "set_state", "default_rng", "get_bit_generator"))
_GENERATORS = frozenset(("default_rng", "RandomState", "Random", "Generator"))
#: What is given these is given them in no order, or put into one.
_ORDERLESS = frozenset(("sorted", "len", "any", "all", "min", "max", "sum", "set", "frozenset", "Counter", "bool"))
#: Functions that give what they are given in its order.
_IN_ORDER = frozenset(("list", "tuple", "enumerate", "iter", "zip", "map", "filter", "join"))


def hints_of(trace: Trace, folder: str) -> tuple[CodeHint, ...]:
    """The hints of the program's own Python files below ``folder``: those that were imported, and those that ``trace``
    names."""
    root = Path(folder).resolve()
    named = (place for group in trace.calls for place in (group.called_from, group.location))
    files = dict.fromkeys(os.path.normpath(root / place.rpartition(":")[0]) for place in named if place)
    # Of its dictionary: asking a module that loads late for an attribute would run it.
    modules = (vars(module) for module in list(sys.modules.values()) if isinstance(module, ModuleType))
    loaded = (file for module in modules if isinstance(file := module.get("__file__"), str))
    files |= dict.fromkeys(os.path.normpath(file) if ".." in file else file for file in loaded)
    hints: list[CodeHint] = []
    below = os.path.join(root, "")  # of torch's thousand modules no path is made
    own = (Path(file) for file in files if file.startswith(below) and file.endswith(".py"))
    for path in [path for path in own if INSTALLED.isdisjoint(path.parts)][:_FILES]:
        with suppress(OSError, SyntaxError, ValueError, RecursionError, MemoryError):
            if path.stat().st_size <= _BYTES:
                name = encodable(path.relative_to(root).as_posix())
                tree = ast.parse(path.read_bytes())
                # Names in ``x.sort()`` and ``sorted(x)``.
                calls = [part for part in ast.walk(tree) if isinstance(part, ast.Call)]
                given = (call.args[0] for call in calls if _called(call) == ("sorted", "") and call.args)
                in_order = {_called(call)[1] for call in calls if _called(call)[0] == "sort"}
                in_order |= {part.id for part in given if isinstance(part, ast.Name)}
                found = (*_hints(tree, frozenset(in_order)), *_draws(tree))
                hints += (CodeHint(kind=kind, location=f"{name}:{line}", name=what) for kind, line, what in found)
    hints.sort(key=lambda hint: hint.kind in _DRAWING.values())
    return tuple(dict.fromkeys(hints))[:_MOST]


def _draws(tree: ast.AST) -> Iterator[tuple[HintKind, int, str]]:
    """Yield the calls of functions that draw from a global generator, by the names that the file imports."""
    names: dict[str, str] = {}
    parts = sorted(ast.walk(tree), key=lambda part: getattr(part, "lineno", 0))
    for part in parts:
        if isinstance(part, ast.Import):
            names |= {each.asname: each.name for each in part.names if each.asname}
            names |= {top: top for each in part.names if (top := each.name.partition(".")[0]) and not each.asname}
        elif isinstance(part, ast.ImportFrom) and not part.level:
            is_all = part.names[0].name == "*"
            public = getattr(sys.modules.get(str(part.module)), "__all__", ()) if is_all else ()
            names |= {each.asname or each.name: f"{part.module}.{each.name}" for each in part.names}
            names |= {name: f"{part.module}.{name}" for name in public}
    for part in parts:
        if isinstance(part, ast.Call) and isinstance(part.func, ast.Name | ast.Attribute):
            spelt = ast.unparse(part.func)
            first, dot, rest = spelt.partition(".")
            module, _, function = f"{names.get(first, '')}{dot}{rest}".rpartition(".")
            if module in _DRAWING and function.islower() and function not in _NO_DRAWS:
                yield _DRAWING[module], part.lineno, spelt


def _hints(
    tree: ast.AST, in_order: frozenset[str], around: tuple[ast.AST, ...] = ()
) -> Iterator[tuple[HintKind, int, str]]:
    """Kind, line and name of what ``tree`` holds, inside ``around``; ``in_order``: names of what is sorted."""
    if isinstance(tree, ast.Call):
        name, owner = _called(tree)
        lists = name in _LISTING.get(owner, ()) or (name in _OF_PATHS and owner not in _NO_PATH)
        if lists and not _is_orderless(around) and in_order.isdisjoint(_stored_as(around)):
            yield HintKind.LISTING, tree.lineno, f"{owner}.{name}" if owner in _LISTING and owner else name
        if name == "hash" and not owner and not any(getattr(part, "name", "") == "__hash__" for part in around):
            yield HintKind.HASH_ORDER, tree.lineno, "hash"
    gone_through: list[ast.expr] = []
    if isinstance(tree, ast.For | ast.comprehension):
        gone_through = [tree.iter]
    elif isinstance(tree, ast.Call) and _called(tree)[0] in _IN_ORDER and not _is_orderless((*around, tree)):
        gone_through = tree.args
    for given in gone_through:
        is_set = isinstance(given, ast.Set | ast.SetComp) or (
            isinstance(given, ast.Call) and _called(given) in (("set", ""), ("frozenset", ""))
        )
        if is_set and not _is_orderless(around):
            yield HintKind.HASH_ORDER, given.lineno, "a set"
    if isinstance(tree, ast.ClassDef):
        for part in ast.walk(tree):
            if isinstance(part, ast.Assign) and isinstance(part.value, ast.Call):
                is_own = any(isinstance(to, ast.Attribute) for to in part.targets)
                if is_own and _called(part.value)[0] in _GENERATORS:
                    yield HintKind.OWN_GENERATOR, part.lineno, tree.name
    for part in ast.iter_child_nodes(tree):
        yield from _hints(part, in_order, (*around, tree))


def _stored_as(around: tuple[ast.AST, ...]) -> Iterator[str]:
    """Names that the statement around gives its value to."""
    statement = next((part for part in reversed(around) if isinstance(part, ast.stmt)), None)
    for target in statement.targets if isinstance(statement, ast.Assign) else ():
        if isinstance(target, ast.Name | ast.Attribute):
            yield target.id if isinstance(target, ast.Name) else target.attr


def _called(call: ast.Call) -> tuple[str, str]:
    """The name of the function that ``call`` calls, and what it is an attribute of; of a longer way, its last name."""
    if isinstance(call.func, ast.Name):
        return call.func.id, ""
    if not isinstance(call.func, ast.Attribute):
        return "", ""
    owner = call.func.value
    return call.func.attr, owner.id if isinstance(owner, ast.Name) else getattr(owner, "attr", "an expression")


def _is_orderless(around: tuple[ast.AST, ...]) -> bool:
    """Return whether the order of what stands there is given up: in ``sorted(...)``, a set, ``x in ...``."""
    for part in reversed(around):
        if isinstance(part, ast.stmt):
            return False
        if isinstance(part, ast.SetComp | ast.Set | ast.Compare):
            return True
        if isinstance(part, ast.Call) and _called(part)[0] in _ORDERLESS:
            return True
    return False
