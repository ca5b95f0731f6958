"""What the lines of a function read, store and may call, by its bytecode, and the statements that they are part of."""

from __future__ import annotations

import ast
import builtins
import dis
import os
import random
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Set
from functools import cache
from operator import or_
from pathlib import Path
from types import BuiltinFunctionType, CodeType, FrameType, FunctionType, MethodType, ModuleType
from typing import Any
from weakref import WeakSet

from tracer.recording.lines.variable_digests import CODE, NUMBERS, attributes_of, is_handle, qualified
from tracer.trace.lines import ENVIRONMENT, LineMark, LineText

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
_MARKS: dict[type, str] = {
    ast.Return: LineMark.RETURNS,
    ast.ExceptHandler: LineMark.CATCHES,
    ast.JoinedStr: LineMark.FORMATS,
    ast.ClassDef: LineMark.IDLE,
    **dict.fromkeys((ast.If, ast.While, ast.IfExp), LineMark.DECIDES),
    **dict.fromkeys((ast.Import, ast.ImportFrom), LineMark.IMPORTS),
    **dict.fromkeys((ast.DictComp, ast.SetComp), LineMark.KEYED),
}
#: What calls code, or goes through something.
_CALLING = ("CALL", "BEFORE_", "SETUP_", "GET_A", "UNPACK_", "LIST_EXTEND", "SET_UPDATE", "BINARY_", "INPLACE_")
#: Hashes by the address; those of tensors are.
_ITERATORS: tuple[Any, ...] = (
    type(iter(set())),
    type(iter([])),
    type(iter({})),
    type(iter(())),
    map,
    filter,
    zip,
    enumerate,
)
_BY_ADDRESS, _TENSORS = (object.__hash__, MethodType.__hash__), ("torch.Tensor", "torch.nn.parameter.Parameter")
#: Entries of a dictionary or a list that are looked at.
_MEMBERS = 16
#: Stands for what no path leads to.
_UNKNOWN = "?"
#: Functions in whose order of calls nothing shows.
_PLAINLY = ("float", "int", "len", "list", "print", "str", "tuple")
#: Methods that wait, and take a timeout by its place.
_WAITING = ("get", "join", "result", "wait")
_LOOPS = (ast.For, ast.AsyncFor, ast.While)
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


class _Statements:
    """The statements of a file, by their lines: a header is one, and each line of what stands below it."""

    def __init__(self, source: bytes) -> None:
        self.at: dict[int, tuple[int, int]] = {}
        """The first line of a statement that has several, and of the innermost loop that it is in; 0 for none."""
        self.marks: dict[int, list[str]] = {}
        waiting: list[tuple[ast.AST, int, int]] = [(ast.parse(source), 0, 0)]
        while waiting:
            node, first, loop = waiting.pop()
            mark = _MARKS.get(type(node), "")
            if isinstance(node, (ast.stmt, ast.excepthandler)):
                first, last = node.lineno, node.end_lineno or node.lineno
                if body := getattr(node, "body", None):
                    below = (body[0], *getattr(body[0], "decorator_list", ()))
                    last = max(first, min(inner.lineno for inner in below) - 1)
                self.at.update(dict.fromkeys(range(first, last + 1), (first if last > first else 0, loop)))
                loop = first if isinstance(node, _LOOPS) else 0 if isinstance(node, _SCOPES) else loop
                mark = LineMark.KEYED if isinstance(node, _LOOPS[:2]) and _is_keyed(node) else mark
            elif isinstance(node, ast.keyword) and node.arg == "return_when":
                mark = node.arg
            elif isinstance(node, ast.Call):
                mark = _limit_of(node)
            if mark:
                self.marks.setdefault(first, []).append(mark)
            waiting += [(child, first, loop) for child in ast.iter_child_nodes(node)]


def _is_keyed(loop: ast.For | ast.AsyncFor) -> bool:
    """Return whether rounds of a loop merely store by keys what they are given: their order decides nothing."""
    nodes = [node for statement in loop.body for node in ast.walk(statement)]
    stored = [node for node in nodes if isinstance(getattr(node, "ctx", None), ast.Store)]
    bound = {node.id for node in (*ast.walk(loop.target), *stored) if isinstance(node, ast.Name)}
    called = [node.func for node in nodes if isinstance(node, ast.Call)]
    own = [isinstance(func, ast.Attribute) and getattr(func.value, "id", "") in bound for func in called]
    plain = [getattr(func, "id", "") in _PLAINLY for func in called]
    stores = [node for node in stored if isinstance(node, ast.Subscript)]
    by_key = all(not isinstance(node.slice, ast.Constant) for node in stores)
    others = (ast.AugAssign, ast.Break, ast.Return, ast.Yield, ast.Await)
    return bool(stores) and by_key and all(map(or_, own, plain)) and not any(isinstance(node, others) for node in nodes)


def _limit_of(call: ast.Call) -> str:
    """The mark of a call that is given a ``timeout``, or something where functions of that name take one; or empty."""
    is_named = any(keyword.arg == LineMark.TIMEOUT.strip() for keyword in call.keywords)
    if is_named or (call.args and getattr(call.func, "attr", "") in _WAITING):
        return f"{ast.unparse(call.func)}{LineMark.TIMEOUT if is_named else LineMark.MAYBE}"
    return ""


@cache
def _statements_of(file: str, written: int) -> _Statements:
    try:
        return _Statements(Path(file).read_bytes() if written else b"")
    except (OSError, SyntaxError, ValueError):
        return _Statements(b"")


class _Line:
    """The paths of one line, as they are read."""

    def __init__(self) -> None:
        self.reads: dict[str, None] = {}
        self.stores: dict[str, None] = {}
        self.methods: dict[str, None] = {}
        """What is asked of values that no path leads to: ``?.execute`` of ``connections[0].execute(query)``."""
        self.iterates, self.is_idle = False, True


def lines_of(code: CodeType) -> dict[int, LineText]:
    """What each line of ``code`` reads and stores; ``calls`` says alone what kind of statement it is part of."""
    lines: dict[int, _Line] = {}
    line_at = {at: line for start, end, line in code.co_lines() if line for at in range(start, end, 2)}
    path: list[str] = []
    at: _Line = _Line()

    def ends() -> None:
        if path:
            at.reads[".".join(path)] = None
            if ENVIRONMENT in path[1:]:
                at.reads[".".join(path[path.index(ENVIRONMENT) :])] = None
            elif path[-1] == "getenv":
                at.reads[ENVIRONMENT] = None
            path.clear()

    key = ""
    for instruction in dis.get_instructions(code):
        line, name = line_at.get(instruction.offset), instruction.opname
        if line is not None and lines.get(line) is not at:
            if not name.startswith(_ATTRIBUTES):  # a chain of methods may go on
                ends()
            at = lines.setdefault(line, _Line())
        at.is_idle &= not name.startswith(_CALLING)
        names = instruction.argval if isinstance(instruction.argval, tuple) else (instruction.argval,)
        if name.startswith("STORE_FAST_"):  # two in one: `STORE_FAST_LOAD_FAST`, `STORE_FAST_STORE_FAST`
            ends()
            at.stores[str(names[0])] = None
            (at.reads if name.endswith("LOAD_FAST") else at.stores)[str(names[-1])] = None
        elif name.startswith(_LOADS):
            for loaded in names:
                ends()
                path.append(str(loaded))
        elif name.startswith(_ATTRIBUTES):
            if path:
                path.append(str(names[0]))
            elif name.startswith("LOAD"):
                at.methods[f"?.{names[0]}"] = None
        elif name == "LOAD_CONST" and path and type(instruction.argval) is str:
            key = instruction.argval
            continue
        elif name in ("BINARY_SUBSCR", "BINARY_OP") and path and key:
            if name == "BINARY_SUBSCR":
                path.append(key)
        elif name.startswith("STORE_ATTR"):
            at.stores[".".join((*path, str(names[0])))] = None
            path.clear()
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
    file = code.co_filename
    statements = _statements_of(file, os.stat(file).st_mtime_ns if os.path.isfile(file) else 0)
    texts = {}
    for line, each in lines.items():
        first, loop = statements.at.get(line, (0, 0))
        own = ((each.iterates, LineMark.ITERATES), (each.is_idle and not first, LineMark.IDLE))
        marks = [*statements.marks.get(first or line, ()), *(mark for is_so, mark in own if is_so), *each.methods]
        texts[line] = LineText(tuple(each.reads), tuple(each.stores), tuple(marks), first, loop)
    return texts


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
    """``text`` with the qualified names of the functions and classes that its paths, and those of marks, lead to."""
    names: dict[str, None] = {}
    for call in text.calls:
        path, space, mark = call.rpartition(" ")
        called = [_UNKNOWN, *_names_of(path.split("."), frame, frozenset())] if space else [""]
        names[f"{called[-1]}{space}{mark}"] = None
    marks = {LineMark.IDLE, LineMark.ITERATES}.intersection(text.calls)
    for path in text.reads:
        names.update(dict.fromkeys(_names_of(path.split("."), frame, marks)))
    stored = [frame.f_locals.get(name) for name in text.stores]
    if not {"builtins.set", "builtins.frozenset"}.isdisjoint(names) and any(map(_has_addresses, stored)):
        names["builtins.set of objects"] = None
    if any(type(file).__module__ == "_io" and str(getattr(file, "mode", ""))[:1] in ("w", "a", "x") for file in stored):
        names = {name: None for name in names if not name.endswith("open")}  # nothing is read from there
    return LineText(text.reads, text.stores, tuple(names), text.first, text.loop)


def _names_of(path: list[str], frame: FrameType, marks: Set[str]) -> Iterator[str]:
    """Yield the qualified names of what a path leads to, read without code of the program's."""
    value: Any = None
    for scope in (frame.f_locals, frame.f_globals, vars(builtins)):
        if path[0] in scope:
            value = scope[path[0]]
            break
    else:
        return
    name = ""
    spelt = ".".join((value.__name__, *path[1:])) if type(value) is ModuleType and len(path) > 1 else ""
    for attribute in path[1:]:
        kind = type(value)
        if LineMark.ITERATES in marks and kind is dict and attribute not in value:  # what `get` takes out of it
            yield from {*map(_order_of, [*value.values()][:_MEMBERS])} - {""}
        if attribute == "pop" and (order := _order_of(value)):
            yield order
        if kind is ModuleType or issubclass(kind, ModuleType):
            name = f"{vars(value).get('__name__')}.{attribute}"
            value = vars(value).get(attribute)
        elif issubclass(kind, type):
            name = f"{qualified(value)}.{attribute}"
            value = _static(value.__mro__, attribute)
        else:
            inside = value if kind is dict and attribute in value else attributes_of(value) or {}
            is_value = attribute in inside and type(inside[attribute]) in NUMBERS and not is_handle(kind)
            name = "" if is_value else f"{qualified(kind)}.{attribute}"  # nothing is called
            value = inside[attribute] if attribute in inside else _static(kind.__mro__, attribute)
    kind = type(value)
    # Where nothing is called, code is but handed on, and so is an object that nothing goes through.
    if LineMark.IDLE in marks and (issubclass(kind, CODE) or (len(path) == 1 and LineMark.ITERATES not in marks)):
        return
    yield from filter(None, (spelt, name))
    if order := _order_of(value):
        yield order
    elif LineMark.ITERATES in marks and kind in (dict, defaultdict, list):  # what a key takes out of it
        yield from {*map(_order_of, [*(value if kind is list else value.values())][:_MEMBERS])} - {""}
    elif issubclass(kind, (FunctionType, BuiltinFunctionType, MethodType)):
        owner = getattr(value, "__self__", None)
        if owner is not None and not isinstance(owner, (type, ModuleType)):
            numpys = getattr(sys.modules.get("numpy.random.mtrand"), "_rand", None) or random
            is_global = owner is getattr(random, "_inst", None) or owner is numpys
            own = "random" if type(owner) is random.Random else "numpy.random"
            yield f"{own if is_global else qualified(type(owner))}.{value.__name__}"
        else:
            yield f"{getattr(value, '__module__', None)}.{value.__qualname__}"
    elif issubclass(kind, type):
        yield qualified(value)
    elif not issubclass(kind, ModuleType) and len(path) == 1 and kind.__module__ != "builtins":
        if (attributes_of(value) or {}).get("num_workers") == 0:  # a loader that waits for nobody
            return
        yield f"{qualified(kind)} object"


def _order_of(value: Any) -> str:
    """What the order of a set hangs on; empty for anything else."""
    kind = type(value)
    if kind is WeakSet:
        value = [member() for member in [*vars(value)["data"]]]
    elif kind not in (set, frozenset):
        return ""
    return "builtins.set of objects" if _has_addresses([*value]) else "builtins.set"


def _has_addresses(value: Any) -> bool:
    """Return whether a value, or one in a list or tuple, hashes by its address."""
    members = [*value] if type(value) in (list, tuple) else [value]
    return any(
        type.__getattribute__(type(member), "__hash__") in _BY_ADDRESS or qualified(type(member)) in _TENSORS
        for member in members
        if member is not None and type(member) not in _ITERATORS
    )


def _static(classes: Iterable[type], name: str) -> Any:
    return next((vars(cls)[name] for cls in classes if name in vars(cls)), None)
