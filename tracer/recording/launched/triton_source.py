"""Reads whether a Triton kernel adds atomically in its Python source, and in that of the functions that it calls.

Integers add up to the same sum in any order. If the result of such an addition is used, it hands out places in order of
arrival, and whether that shows is not known. A swap is a lock, which decides who comes first. Needs neither torch nor
Triton. Checked on Triton 3.6.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

import msgspec

_SWAPS = ("atomic_cas", "atomic_xchg")
_ASSEMBLY = "inline_asm_elementwise"
#: Calls whose result is no pointer any more.
_LOADS = ("load", "atomic_add", "atomic_cas", "atomic_xchg", "atomic_max", "atomic_min")
#: Most levels of functions that a kernel calls.
_DEEPEST = 8


class Source(msgspec.Struct, frozen=True):
    """The facts that a kernel's source shows."""

    atomic: bool | None
    """Whether it adds in an order that varies; ``None`` if that is not certain. ``None``: it is not certain."""
    lines: tuple[str, ...]
    """The lines that show it."""


def python_function(kernel: Any) -> Any:
    """The Python function that a kernel was made of; ``None`` if there is none."""
    inner = getattr(kernel, "fn", None)
    while inner is not None and not inspect.isfunction(inner):
        inner = getattr(inner, "fn", None)
    return inner


def read_source(function: Any, whole_numbers: Mapping[str, bool]) -> Source | None:
    """Return the facts that the source of a kernel's Python function shows; ``None`` without a source.

    ``whole_numbers``: whether each tensor that it was called with holds integers, by the parameter's name.
    """
    reader = _Reader(whole_numbers)
    if not reader.read(function, 0, is_kernel=True):
        return None
    atomic = True if reader.certain else None if reader.is_uncertain else False
    return Source(atomic, tuple(dict.fromkeys(reader.certain or reader.doubtful)))


class _Reader:
    def __init__(self, whole_numbers: Mapping[str, bool]) -> None:
        self._whole_numbers = whole_numbers
        self._read: set[int] = set()
        self.certain: list[str] = []
        """Lines that add in an order that varies."""
        self.doubtful: list[str] = []
        self.is_uncertain = False

    def read(self, function: Any, depth: int, *, is_kernel: bool = False) -> bool:
        """Read one function and those that it names; ``False`` without a source."""
        if id(function) in self._read or depth > _DEEPEST:
            return True
        self._read.add(id(function))
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
        unused = {id(node.value) for node in ast.walk(definition) if isinstance(node, ast.Expr)}
        for node in _body(definition):
            if isinstance(node, ast.Call):
                self._call(node, names, pointers, text, is_used=id(node) not in unused)
            if isinstance(node, (ast.Name, ast.Attribute)):
                inner = python_function(_resolved(node, names))
                is_tritons = inner is not None and str(inner.__module__).partition(".")[0] == "triton"
                if inner is not None and not is_tritons and not self.read(inner, depth + 1):
                    self.is_uncertain = True
        return True

    def _call(
        self, node: ast.Call, names: Mapping[str, Any], pointers: _Pointers | None, text: str, *, is_used: bool
    ) -> None:
        called = _last_name(node.func)
        if isinstance(node.func, ast.Name) and called in names:  # `atomic_add`, perhaps imported under another name
            called = str(getattr(names[called], "__name__", called))
        source = ast.get_source_segment(text, node) or ""
        line = (source or called).splitlines()[0].strip()
        if called in _SWAPS:
            self.certain.append(line)
        elif called == "atomic_add":
            keywords = [keyword.value for keyword in node.keywords if keyword.arg == "pointer"]
            into = next(iter((*node.args, *keywords)), None)
            if pointers is None or into is None or not pointers.are_of_whole_numbers(into):
                self.certain.append(line)
            elif is_used:
                self.doubtful.append(line)
                self.is_uncertain = True
        elif called == _ASSEMBLY and ("atom" in source or "red." in source):
            self.doubtful.append(line)
            self.is_uncertain = True


class _Pointers:
    """The parameters of a kernel that an address is made of."""

    def __init__(self, definition: ast.FunctionDef, whole_numbers: Mapping[str, bool]) -> None:
        self._whole_numbers = whole_numbers
        arguments = definition.args
        parameters = (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
        self._parameters = defaultdict(set, {parameter.arg: {parameter.arg} for parameter in parameters})
        for node in [*_body(definition)] * 2:  # twice: a loop may use what a later line assigns
            if isinstance(node, (ast.Assign, ast.AugAssign, ast.AnnAssign)) and node.value is not None:
                for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                    for name in (part.id for part in ast.walk(target) if isinstance(part, ast.Name)):
                        self._parameters[name] |= self._of(node.value)

    def _of(self, node: ast.expr) -> set[str]:
        names = (part.id for part in _outside_loads(node) if isinstance(part, ast.Name))
        return set().union(*(self._parameters.get(name, ()) for name in names))

    def are_of_whole_numbers(self, address: ast.expr) -> bool:
        """Return whether all tensors that the address can point into hold integers."""
        tensors = [self._whole_numbers[name] for name in self._of(address) if name in self._whole_numbers]
        return bool(tensors) and all(tensors)


def _body(definition: ast.FunctionDef) -> Iterator[ast.AST]:
    """All nodes of a function without its decorators and annotations."""
    for statement in definition.body:
        yield from ast.walk(statement)


def _outside_loads(node: ast.AST) -> Iterator[ast.AST]:
    if not isinstance(node, ast.Call) or _last_name(node.func) not in _LOADS:
        yield node
        for inner in ast.iter_child_nodes(node):
            yield from _outside_loads(inner)


def _last_name(node: ast.expr) -> str:
    """``atomic_add`` of ``tl.atomic_add``."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _names_around(function: Any) -> dict[str, Any]:
    closed = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=False):
        with suppress(ValueError):  # not filled yet
            closed[name] = cell.cell_contents
    return {**function.__globals__, **closed}


def _resolved(node: ast.AST, names: Mapping[str, Any]) -> Any:
    if isinstance(node, ast.Name):
        return names.get(node.id)
    owner = _resolved(node.value, names) if isinstance(node, ast.Attribute) else None
    return getattr(owner, node.attr, None) if isinstance(node, ast.Attribute) and inspect.ismodule(owner) else None
