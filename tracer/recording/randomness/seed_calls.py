"""Whether a call that seeds takes a number that is another one in every process. Imports neither torch nor NumPy.

Only the call itself is looked at: what its arguments name, by the bytecode, and the one statement that set a name
there. A draw counts where nobody seeded its generator, and that has drawn. Anything else says nothing, such as a name
that two statements set, or a number from a configuration: what such a seed is, a second run tells.
"""

from __future__ import annotations

import builtins
import dis
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from types import CodeType, FrameType, ModuleType
from typing import Any

from tracer.recording.patching import original_of

#: Calls and statements that are followed, at most.
_DEPTH = 6
_MOST_CODES = 256
_LOADS = ("LOAD_NAME", "LOAD_GLOBAL", "LOAD_FAST", "LOAD_DEREF", "LOAD_CLASSDEREF")
_ATTRIBUTES = ("LOAD_ATTR", "LOAD_METHOD")
_SILENT = ("CACHE", "NOP", "PUSH_NULL", "PRECALL", "EXTENDED_ARG", "KW_NAMES")
_STORES = ("STORE_NAME", "STORE_GLOBAL", "STORE_FAST", "STORE_DEREF")
_ENDS_STATEMENT = (*_STORES, "STORE_ATTR", "STORE_SUBSCR", "POP_TOP", "RETURN", "RESUME", "DELETE")
#: Rows of the table of sources whose numbers are never the same.
_NEVER_ALIKE = ("clock", "process-id", "entropy")
#: What seeds: it is named in its own call, and is no source.
_SEEDING = frozenset({"seed", "manual_seed", "manual_seed_all", "set_seed", "seed_everything"})
_SETS_A_STATE = frozenset({"seed", "set_state", "setstate", "getstate", "get_state"})
_TORCH_DRAWS = frozenset({"randint", "rand", "randn", "randperm", "normal", "bernoulli", "multinomial"})
_DRAWS_IN_PLACE = frozenset({"random_", "uniform_", "normal_", "exponential_", "geometric_", "bernoulli_"})

#: Stands for a draw from a generator of the program's own.
OWN = "own generator"
#: By global generator (``python``, ``numpy``, ``torch``): tells whether it drew from a state that nobody chose.
DREW_UNSEEDED: dict[str, Callable[[], bool]] = {}
CallPlace = tuple[str, int, int]
"""A file, a line, and the call that is made there."""
#: Calls that made a generator of their own without a seed.
UNSEEDED_AT: set[CallPlace] = set()


def place_of(frame: FrameType) -> CallPlace:
    """The call that ``frame`` is making."""
    return frame.f_code.co_filename, frame.f_lineno, _read(frame.f_code)[_running(frame)].offset


def takes_another_number(frame: FrameType | None) -> bool:
    """Return whether the call that ``frame`` is making takes a number that differs in every process."""
    if frame is None:
        return False
    try:
        return any(_differs(*named) for named in _named_in_call(frame, True, 0))
    except (AttributeError, IndexError, TypeError, ValueError):  # code that was made at run time
        return False


def _differs(name: str, is_certain: bool) -> bool:
    if name in DREW_UNSEEDED:
        return DREW_UNSEEDED[name]()
    if name == OWN or not is_certain or name.rpartition(".")[2] in _SEEDING:
        return name == OWN
    from tracer.tables.sources import source_of  # here: not every program seeds anything

    return getattr(source_of((name,)), "id", "") in _NEVER_ALIKE


def _named_in_call(frame: FrameType, is_certain: bool, depth: int) -> Iterator[tuple[str, bool]]:
    """Yield what the arguments of the call name, and whether the number comes from it in any case."""
    code = _read(frame.f_code)
    at = _running(frame)
    inside = [each for each in code[:at] if _lies_in(each.place, code[at].place)]
    yield from _named(inside, frame, is_certain, depth)


def _named(inside: Sequence[_Instruction], frame: FrameType, certain: bool, depth: int) -> Iterator[tuple[str, bool]]:
    is_certain = certain and not any("JUMP" in each.name for each in inside)
    if any((frame.f_code.co_filename, each.place[0], each.offset) in UNSEEDED_AT for each in inside):
        yield OWN, is_certain
    for path in _paths(inside):
        if len(path) > 1 and path[-1] in _SEEDING:
            continue  # the call itself: `rng.seed(0)` draws nothing from `rng`
        yield from ((name, is_certain) for name in _names_of(path, frame))
        is_whole = len(path) == 1
        for name, is_sure in _set_by(path[0], frame, is_certain, depth + 1) if path[0] and depth < _DEPTH else ():
            if is_whole or name == OWN:  # of `args.seed`, what made `args` says nothing
                yield name, is_sure


def _set_by(name: str, frame: FrameType, is_certain: bool, depth: int) -> Iterator[tuple[str, bool]]:
    """Yield what the statement names that set ``name``, or the call that passed it."""
    code = frame.f_code
    is_parameter = name in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    statements = _statements(code, name)
    if not statements and not is_parameter:
        outer = frame.f_back
        while outer is not None and (outer.f_code.co_name != "<module>" or outer.f_globals is not frame.f_globals):
            outer = outer.f_back
        if outer is None:
            return
        frame, statements = outer, _statements(outer.f_code, name)
    for statement in statements:
        yield from _named(statement, frame, is_certain and len(statements) == 1 and not is_parameter, depth)
    caller = frame.f_back
    if is_parameter and caller is not None:
        call = _read(caller.f_code)[_running(caller)]
        takes_one = call.value == 1 and "EX" not in call.name
        yield from _named_in_call(caller, is_certain and takes_one and not statements, depth)


def _running(frame: FrameType) -> int:
    """The index of the instruction that ``frame`` runs."""
    return max(index for index, each in enumerate(_read(frame.f_code)) if each.offset <= frame.f_lasti)


class _Instruction:
    """One instruction of a function."""

    __slots__ = ("name", "offset", "place", "value")

    def __init__(self, instruction: dis.Instruction, place: tuple[int, int, int, int]) -> None:
        self.name, self.offset, self.place = instruction.opname, instruction.offset, place
        self.value = instruction.argval


@lru_cache(_MOST_CODES)
def _read(code: CodeType) -> list[_Instruction]:
    line, found = code.co_firstlineno, []
    for each in dis.get_instructions(code):
        if type(each.starts_line) is int:  # from Python 3.13 on it says whether one begins
            line = each.starts_line
        at: Any = getattr(each, "positions", None)
        exact = at is not None and None not in at  # Python 3.10 has lines alone
        place = (at.lineno, at.end_lineno, at.col_offset, at.end_col_offset) if exact else (line, line, 0, 1 << 30)
        found.append(_Instruction(each, place))
    return found


def _lies_in(inner: tuple[int, int, int, int], outer: tuple[int, int, int, int]) -> bool:
    return (outer[0], outer[2]) <= (inner[0], inner[2]) and (inner[1], inner[3]) <= (outer[1], outer[3])


def _statements(code: CodeType, name: str) -> list[Sequence[_Instruction]]:
    """The statements of ``code`` that set ``name``, each without its last instruction."""
    found: list[Sequence[_Instruction]] = []
    instructions = _read(code)
    for index, each in enumerate(instructions):
        if each.name.startswith(_STORES) and each.value == name:
            first = index
            while first and not instructions[first - 1].name.startswith(_ENDS_STATEMENT):
                first -= 1
            found.append(instructions[first:index])
    return found


def _paths(instructions: Sequence[_Instruction]) -> Iterator[list[str]]:
    """Yield the dotted names that are read."""
    path: list[str] = []
    for each in instructions:
        if each.name.startswith(_LOADS):
            *several, last = each.value if isinstance(each.value, tuple) else (each.value,)
            yield from filter(None, (path, *([name] for name in several)))
            path = [last]
        elif each.name in _ATTRIBUTES and path:
            path.append(each.value)
        elif each.name in _ATTRIBUTES:
            yield ["", each.value]
        elif each.name not in _SILENT:
            yield from filter(None, (path,))
            path = []
    yield from filter(None, (path,))


def _names_of(path: list[str], frame: FrameType) -> Iterator[str]:
    """Yield the global generator that is drawn from, or the qualified names of what ``path`` leads to."""
    if path[-1] in _DRAWS_IN_PLACE:
        yield "torch"
    value: Any = _first(path[0], frame)
    name = ""
    for attribute in path[1:]:
        if isinstance(value, ModuleType):
            name, value = f"{value.__name__}.{attribute}", vars(value).get(attribute)
        elif isinstance(value, type):
            name = f"{value.__module__}.{value.__qualname__}.{attribute}"
            value = next((vars(cls)[attribute] for cls in value.__mro__ if attribute in vars(cls)), None)
        else:
            return
    value = original_of(value)
    called, owner = getattr(value, "__name__", ""), getattr(value, "__self__", None)
    module = getattr(value, "__module__", None) or (owner.__name__ if isinstance(owner, ModuleType) else "")
    kind = type(owner).__name__
    if kind in ("Random", "RandomState") and called not in _SETS_A_STATE:
        yield "python" if kind == "Random" else "numpy"
    elif (module, called) == ("torch.random", "initial_seed"):
        yield "torch's seed"
    elif name.startswith("torch.") and path[-1] in _TORCH_DRAWS:
        yield "torch"
    elif called:
        yield from filter(None, (name, f"{module}.{called}"))


def _first(name: str, frame: FrameType) -> Any:
    """What a name stands for: a global one, or what the function imports. Other local variables are not read: that
    would keep what they hold alive."""
    instructions = _read(frame.f_code)
    for index, each in enumerate(instructions):
        if name and each.name.startswith(_STORES) and each.value == name and index:
            before = instructions[index - 1]
            imported = next((past for past in reversed(instructions[:index]) if past.name == "IMPORT_NAME"), None)
            if imported is not None and before is imported:
                return sys.modules.get(name if imported.value.startswith(f"{name}.") else imported.value)
            if imported is not None and before.name == "IMPORT_FROM":
                return getattr(sys.modules.get(imported.value), "__dict__", {}).get(before.value)
    return frame.f_globals.get(name, getattr(builtins, name, None) if name else None)
