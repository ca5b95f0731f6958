"""What the lines of a function read, store and may call, by its bytecode."""

from __future__ import annotations

import builtins
import dis
import random
import sys
from collections.abc import Iterable, Iterator
from types import BuiltinFunctionType, CodeType, FrameType, FunctionType, MethodType, ModuleType
from typing import Any

from tracer.recording.lines.variable_digests import attributes_of, qualified
from tracer.trace.lines import LineText

_LOADS = (
    "LOAD_NAME",
    "LOAD_GLOBAL",
    "LOAD_FAST",
    "LOAD_DEREF",
    "LOAD_CLASSDEREF",
    "LOAD_CLOSURE",
    "DELETE_",
    "LOAD_FROM_DICT",
)
_ATTRIBUTES = ("LOAD_ATTR", "LOAD_METHOD", "LOAD_SUPER_ATTR", "IMPORT_FROM")
_STORES = ("STORE_NAME", "STORE_GLOBAL", "STORE_FAST", "STORE_DEREF")
#: Stands among the calls of a line that iterates.
ITERATES = "iterates"


class _Line:
    """The paths of one line, as they are read."""

    def __init__(self) -> None:
        self.reads: dict[str, None] = {}
        self.stores: dict[str, None] = {}
        self.iterates = False


def lines_of(code: CodeType) -> dict[int, LineText]:
    """What each line of ``code`` reads and stores; ``calls`` says alone whether it iterates."""
    lines: dict[int, _Line] = {}
    line_at = {at: line for start, end, line in code.co_lines() if line for at in range(start, end, 2)}
    path: list[str] = []
    at: _Line = _Line()

    def ends() -> None:
        if path:
            at.reads[".".join(path)] = None
            path.clear()

    key = ""
    for instruction in dis.get_instructions(code):
        line, name = line_at.get(instruction.offset), instruction.opname
        if line is not None and lines.get(line) is not at:
            ends()
            at = lines.setdefault(line, _Line())
        names = instruction.argval if isinstance(instruction.argval, tuple) else (instruction.argval,)
        if name.startswith("STORE_FAST_"):  # two in one: `STORE_FAST_LOAD_FAST`, `STORE_FAST_STORE_FAST`
            ends()
            at.stores[str(names[0])] = None
            (at.reads if name.endswith("LOAD_FAST") else at.stores)[str(names[-1])] = None
        elif name.startswith(_LOADS):
            for loaded in names:
                ends()
                path.append(str(loaded))
        elif name.startswith(_ATTRIBUTES) and path:
            path.append(str(names[0]))
        elif name == "LOAD_CONST" and path and type(instruction.argval) is str:
            key = instruction.argval
            continue
        elif name in ("BINARY_SUBSCR", "BINARY_OP") and path and key:
            if name == "BINARY_SUBSCR":
                path.append(key)
        elif name.startswith("STORE_ATTR"):
            at.stores[".".join((*path, str(names[0])))] = None
            ends()
        elif name.startswith(_STORES):
            ends()
            at.stores[str(names[0])] = None
        elif name in ("GET_ITER", "GET_YIELD_FROM_ITER", "FOR_ITER"):
            ends()
            at.iterates = True
        elif name not in ("CACHE", "NOP", "RESUME", "PRECALL", "COPY", "EXTENDED_ARG"):
            ends()
        key = ""
    ends()
    return {
        line: LineText(tuple(each.reads), tuple(each.stores), (ITERATES,) if each.iterates else ())
        for line, each in lines.items()
    }


def attributes_in(code: CodeType) -> dict[str, tuple[str, ...]]:
    """By name, the attributes of it that a code, or a code inside it, reads or stores."""
    found: dict[str, dict[str, None]] = {}
    for each in (code, *_inner(code)):
        for text in lines_of(each).values():
            for path in (*text.reads, *text.stores):
                name, _, attribute = path.partition(".")
                if attribute:
                    found.setdefault(name, {})[attribute.partition(".")[0]] = None
    return {name: tuple(attributes) for name, attributes in found.items()}


def _inner(code: CodeType) -> Iterator[CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from _inner(constant)


def resolved(text: LineText, frame: FrameType) -> LineText:
    """``text`` with the qualified names of the functions and classes that its paths lead to."""
    names = dict.fromkeys(text.calls)
    for path in text.reads:
        names.update(dict.fromkeys(_names_of(path.split("."), frame)))
    return LineText(text.reads, text.stores, tuple(names))


def _names_of(path: list[str], frame: FrameType) -> Iterator[str]:
    """Yield the qualified names of what a path leads to, read without code of the program's."""
    value: Any = None
    for scope in (frame.f_locals, frame.f_globals, vars(builtins)):
        if path[0] in scope:
            value = scope[path[0]]
            break
    else:
        return
    name = ""
    if type(value) is ModuleType and len(path) > 1:
        yield ".".join((value.__name__, *path[1:]))
    for attribute in path[1:]:
        kind = type(value)
        if kind is ModuleType or issubclass(kind, ModuleType):
            name = f"{vars(value).get('__name__')}.{attribute}"
            value = vars(value).get(attribute)
        elif issubclass(kind, type):
            name = f"{qualified(value)}.{attribute}"
            value = _static(value.__mro__, attribute)
        else:
            inside = attributes_of(value) or {}
            name = f"{qualified(kind)}.{attribute}"
            value = inside[attribute] if attribute in inside else _static(kind.__mro__, attribute)
    if name:
        yield name
    kind = type(value)
    if kind in (set, frozenset):
        by_address = any(type.__getattribute__(type(member), "__hash__") is object.__hash__ for member in [*value])
        yield "builtins.set of objects" if by_address else "builtins.set"
    elif issubclass(kind, (FunctionType, BuiltinFunctionType, MethodType)):
        owner = getattr(value, "__self__", None)
        if owner is not None and not isinstance(owner, (type, ModuleType)):
            is_global = owner is getattr(random, "_inst", None) or owner is _numpys()
            yield (
                f"{'random' if type(owner) is random.Random else 'numpy.random'}.{value.__name__}"
                if is_global
                else f"{qualified(type(owner))}.{value.__name__}"
            )
        else:
            yield f"{getattr(value, '__module__', None)}.{value.__qualname__}"
    elif issubclass(kind, type):
        yield qualified(value)
    elif not issubclass(kind, ModuleType) and len(path) == 1 and kind.__module__ != "builtins":
        yield f"{qualified(kind)} object"


def _numpys() -> Any:
    return getattr(sys.modules.get("numpy.random.mtrand"), "_rand", None) or random


def _static(classes: Iterable[type], name: str) -> Any:
    return next((vars(cls)[name] for cls in classes if name in vars(cls)), None)
