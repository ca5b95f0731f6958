"""Does a Triton kernel add atomically? Read in its Python source, and in that of the functions that it calls.

Whole numbers add up to the same sum in any order. Where such an addition's result is used it hands out places in the
order of arrival, and whether that shows is not known; a swap is a lock, behind which one comes first. Needs neither
torch nor Triton. Checked on Triton 3.6.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

_ADDS = "atomic_add"
_SWAPS = ("atomic_cas", "atomic_xchg")
_ASSEMBLY = "inline_asm_elementwise"
#: What is read of memory is no pointer to it any more.
_LOADS = ("load", "atomic_add", "atomic_cas", "atomic_xchg", "atomic_max", "atomic_min")
#: Functions that a kernel calls within functions.
_DEEPEST = 8


class Source(NamedTuple):
    """What a kernel's text shows."""

    atomic: bool | None
    """Does it add in an order that varies? ``None``: it is not certain."""
    lines: tuple[str, ...]
    """Its lines that show it."""


def read_source(function: Any, whole_numbers: Mapping[str, bool]) -> Source | None:
    """``function``: the Python function of a kernel. ``whole_numbers``: of each tensor that it was called with, by the
    parameter's name, whether it holds integers. ``None`` where there is no source to read."""
    reader = _Reader(whole_numbers)
    if not reader.read(function, 0, is_kernel=True):
        return None
    atomic = True if reader.found else None if reader.is_uncertain else False
    return Source(atomic, tuple(dict.fromkeys(reader.found or reader.doubtful)))


class _Reader:
    def __init__(self, whole_numbers: Mapping[str, bool]) -> None:
        self._whole_numbers = whole_numbers
        self._met: set[int] = set()
        self.found: list[str] = []
        self.doubtful: list[str] = []
        self.is_uncertain = False

    def read(self, function: Any, depth: int, *, is_kernel: bool = False) -> bool:
        """Read one function and those that it names; ``False`` where it has no source."""
        if id(function) in self._met or depth > _DEEPEST:
            return True
        self._met.add(id(function))
        try:
            text = textwrap.dedent(inspect.getsource(function))
            tree = ast.parse(text)
        except (OSError, TypeError, SyntaxError, ValueError, RecursionError):
            return False
        definition = next((node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)), None)
        if definition is None:
            return False
        names = _names_around(function)
        pointers = _Pointers(definition, self._whole_numbers) if is_kernel else None
        used = {id(node.value) for node in ast.walk(definition) if isinstance(node, ast.Expr)}
        for node in _walked(definition):
            if isinstance(node, ast.Call):
                self._call(node, names, pointers, text, is_used=id(node) not in used)
            if isinstance(node, (ast.Name, ast.Attribute)):
                inner = _function_of(_resolved(node, names))
                if inner is not None and not _is_tritons(inner) and not self.read(inner, depth + 1):
                    self.is_uncertain = True
        return True

    def _call(self, node: ast.Call, names: Mapping[str, Any], pointers: Any, text: str, *, is_used: bool) -> None:
        called = _last_name(node.func, names)
        line = (ast.get_source_segment(text, node) or called).splitlines()[0].strip()
        if called in _SWAPS:
            self.found.append(line)
        elif called == _ADDS:
            into = (
                node.args[0]
                if node.args
                else next((keyword.value for keyword in node.keywords if keyword.arg == "pointer"), None)
            )
            holds_whole = pointers is not None and into is not None and pointers.are_of_whole_numbers(into)
            if not holds_whole:
                self.found.append(line)
            elif is_used:
                self.doubtful.append(line)
                self.is_uncertain = True
        elif called == _ASSEMBLY and any(
            word in (ast.get_source_segment(text, node) or "") for word in ("atom", "red.")
        ):
            self.doubtful.append(line)
            self.is_uncertain = True


class _Pointers:
    """Which of a kernel's parameters an address is made of."""

    def __init__(self, definition: ast.FunctionDef, whole_numbers: Mapping[str, bool]) -> None:
        self._whole_numbers = whole_numbers
        arguments = definition.args
        self._of: dict[str, set[str]] = {
            argument.arg: {argument.arg}
            for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
        }
        for _ in range(2):  # a loop may use what a later line makes
            for node in _walked(definition):
                if isinstance(node, (ast.Assign, ast.AugAssign, ast.AnnAssign)) and node.value is not None:
                    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                    for target in targets:
                        for name in ast.walk(target):
                            if isinstance(name, ast.Name):
                                self._of.setdefault(name.id, set()).update(self._made_of(node.value))

    def _made_of(self, node: ast.expr) -> set[str]:
        names: set[str] = set()
        for part in _outside_loads(node):
            if isinstance(part, ast.Name):
                names |= self._of.get(part.id, set())
        return names

    def are_of_whole_numbers(self, address: ast.expr) -> bool:
        """Do all tensors that the address can point into hold integers?"""
        tensors = [self._whole_numbers[name] for name in self._made_of(address) if name in self._whole_numbers]
        return bool(tensors) and all(tensors)


def _walked(definition: ast.FunctionDef) -> Iterator[ast.AST]:
    """All of a function's body, not its decorators and annotations."""
    for statement in definition.body:
        yield from ast.walk(statement)


def _outside_loads(node: ast.AST) -> Iterator[ast.AST]:
    if isinstance(node, ast.Call) and _last(node.func) in _LOADS:
        return
    yield node
    for inner in ast.iter_child_nodes(node):
        yield from _outside_loads(inner)


def _last(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _last_name(node: ast.expr, names: Mapping[str, Any]) -> str:
    """``atomic_add`` of ``tl.atomic_add``, also where it was imported under another name."""
    if isinstance(node, ast.Name) and node.id in names:
        return str(getattr(names[node.id], "__name__", node.id))
    return _last(node)


def _names_around(function: Any) -> dict[str, Any]:
    closed = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=False):
        try:
            closed[name] = cell.cell_contents
        except ValueError:  # not filled yet
            continue
    return {**function.__globals__, **closed}


def _resolved(node: ast.AST, names: Mapping[str, Any]) -> Any:
    if isinstance(node, ast.Name):
        return names.get(node.id)
    if isinstance(node, ast.Attribute):
        owner = _resolved(node.value, names)
        return getattr(owner, node.attr, None) if inspect.ismodule(owner) else None
    return None


def _function_of(value: Any) -> Any:
    """The Python function of another kernel; ``None`` for anything else."""
    inner = getattr(value, "fn", None)
    while inner is not None and not inspect.isfunction(inner):
        inner = getattr(inner, "fn", None)
    return inner


def _is_tritons(function: Any) -> bool:
    return str(function.__module__).partition(".")[0] == "triton"
