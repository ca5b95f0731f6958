"""Whether a call that seeds takes a number that is another one in every process. Imports neither torch nor NumPy.

The number tells where it is a time of this process, its own number or a hash of one of its texts. Otherwise the
bytecode does: what the call's arguments name, what set that, and what a function of the program returns. A draw counts
where nobody had seeded its generator. Anything else says nothing, as a configuration's number: a second run tells.
"""

from __future__ import annotations

import builtins
import dis
import os
import sys
import time
from bisect import bisect_right
from collections.abc import Callable, Hashable, Iterator, Sequence
from functools import lru_cache
from inspect import CO_ASYNC_GENERATOR, CO_COROUTINE, CO_GENERATOR
from itertools import islice, pairwise
from numbers import Real
from types import CodeType, FrameType, FunctionType, ModuleType, SimpleNamespace
from typing import Any, NamedTuple

from tracer.recording.origin import USER, Sites, outwards, with_nested
from tracer.recording.patching import original_of

#: Calls and statements that are followed, at most, and names that are looked at.
_DEPTH, _MOST_NAMES = 6, 1000
_MOST_CODES = 256
_LOADS = ("LOAD_NAME", "LOAD_GLOBAL", "LOAD_FAST", "LOAD_DEREF", "LOAD_CLASSDEREF")
_ATTRIBUTES = ("LOAD_ATTR", "LOAD_METHOD")
_SILENT = ("CACHE", "NOP", "PUSH_NULL", "PRECALL", "EXTENDED_ARG", "KW_NAMES")
_STORES = ("STORE_NAME", "STORE_GLOBAL", "STORE_FAST", "STORE_DEREF")
_ENDS_STATEMENT = (*_STORES, "STORE_ATTR", "STORE_SUBSCR", "POP_TOP", "RETURN", "RESUME", "DELETE")
#: Rows of the table of sources whose numbers are never the same.
_NEVER_ALIKE = ("clock", "process-id", "entropy")
_TEXT_HASH = "hash of text"
_LIKE_ADDRESSES = (_TEXT_HASH, "builtins.id")
#: What seeds: it is named in its own call, and is no source.
_SEEDING = frozenset({"seed", "manual_seed", "manual_seed_all", "set_seed", "seed_everything"})
_SETS_A_STATE = frozenset({"seed", "set_state", "setstate", "getstate", "get_state"})
_TORCH_DRAWS = frozenset({"randint", "rand", "randn", "randperm", "normal", "bernoulli", "multinomial"})
_DRAWS_IN_PLACE = frozenset({"random_", "uniform_", "normal_", "exponential_", "geometric_", "bernoulli_"})

#: Flags of the code of generators and coroutines.
_SUSPENDS = CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR

#: Stands for a draw from a generator of the program's own.
OWN = "own generator"
#: By global generator (``python``, ``numpy``, ``torch``): tells whether it drew from a state that nobody chose.
DREW_UNSEEDED: dict[str, Callable[[], bool]] = {}
CodePlace = tuple[str, int, int]
"""A file, the first line of a function, and the instruction that it runs."""
#: Calls that made a generator of their own without a seed.
UNSEEDED_AT: set[CodePlace] = set()
#: By global generator, the calls that led to its being given another state, and whether it had drawn from one that
#: nobody chose.
REPLACED: dict[str, Newest] = {}
_SITES = Sites()
#: This process read no clock before.
_BEGUN = time.time() - time.process_time() - 1
#: A smaller number of a process, or rest of a hash, may be a constant that happens to equal it.
_PROCESS_FROM, _HASH_FROM = 10_000, 2**24
_HASHES_DIFFER = bool(sys.flags.hash_randomization) and os.environ.get("PYTHONHASHSEED", "random") == "random"


def place_of(frame: FrameType) -> CodePlace:
    """The call that ``frame`` is making; its last instruction may be one of the call's inline caches."""
    return _placed(frame.f_code, _read(frame.f_code)[_running(frame)].offset)


def _placed(code: CodeType, offset: int) -> CodePlace:
    return code.co_filename, code.co_firstlineno, offset


def is_replaced(name: str, frame: FrameType | None, *, drew_unseeded: bool) -> None:
    """A global generator is about to be given another state by ``frame``: what was drawn before stays what it is."""
    places = REPLACED.setdefault(name, Newest(_MOST_CODES))
    for each in outwards(frame) if drew_unseeded or places else ():
        places.note(_placed(each.f_code, each.f_lasti), drew_unseeded)


def takes_another_number(frame: FrameType | None, number: object = None) -> bool:
    """Return whether the call that ``frame`` is making takes a number, ``number``, that differs in every process."""
    return drawn_at(frame, number) is not None


def drawn_at(frame: FrameType | None, number: object = None) -> tuple[CodeType, int] | None:
    """The instruction from which the call that ``frame`` is making has such a number; ``None`` where it has none."""
    if frame is None:
        return None
    try:
        named = islice(_named_in_call(frame, True, 0), _MOST_NAMES)
        found = next((each.read_at for each in named if _differs(each)), None)
    except (AttributeError, IndexError, TypeError, ValueError):  # code that was made at run time
        found = None
    if found is None and issubclass(type(number), Real) and _is_of_this_process(number, frame):
        return frame.f_code, frame.f_lasti
    return found


def _is_of_this_process(number: Any, frame: FrameType | None) -> bool:
    """Return whether ``number`` is a time since the process began, its number, or the hash of a text in the code."""
    until = time.time() + 10  # a rank may be added to it
    if any(_BEGUN * unit <= number <= until * unit for unit in (1, 10**3, 10**6, 10**9)):
        return True
    if _HASHES_DIFFER and abs(number) >= _HASH_FROM:
        own = (each.f_code for each in outwards(frame) if _SITES.kind_of(each.f_code.co_filename) == USER)
        if any(number in _hashes(code) for code in own):
            return True
    return bool(number == os.getpid() >= _PROCESS_FROM)


@lru_cache(_MOST_CODES)
def _hashes(code: CodeType) -> frozenset[int]:
    """The hashes of all texts in ``code``, as seeds are made from them."""
    texts = [const for each in with_nested(code) for const in each.co_consts if type(const) is str]
    hashes = {of for text in texts for of in (hash(text), abs(hash(text)))}
    return frozenset(hashes.union(of % (2**bits - less) for of in hashes for bits in (31, 32, 64) for less in (0, 1)))


_Places = tuple[CodePlace, ...]


class Newest(dict[Any, Any]):
    """What was last noted of each key, for the newest keys: what is noted again is new again."""

    def __init__(self, most: int = 4096) -> None:
        super().__init__()
        self._most = most

    def note(self, key: Hashable, value: Any = None) -> None:
        """Keep ``value``; a program that seeds in each step must not fill the memory."""
        self.pop(key, None)
        self[key] = value
        if len(self) > self._most:
            del self[next(iter(self))]


class _Named(NamedTuple):
    name: str
    is_certain: bool
    at: _Places
    read_at: tuple[CodeType, int]


def _differs(named: _Named) -> bool:
    name = named.name
    if name in DREW_UNSEEDED:
        if DREW_UNSEEDED[name]():
            return True
        for (
            at
        ) in named.at:  # of the states that were replaced after that in its function, the first is one nobody chose
            later = [(place[2], drew) for place, drew in REPLACED.get(name, {}).items() if place[:2] == at[:2]]
            if min(((offset, drew) for offset, drew in later if offset > at[2]), default=(0, False))[1]:
                return True
        return False
    if name == OWN or not named.is_certain or name.rpartition(".")[2] in _SEEDING:
        return name == OWN
    if name in _LIKE_ADDRESSES:
        return True
    from tracer.tables.sources import source_of  # here: not every program seeds anything

    return getattr(source_of((name,)), "id", "") in _NEVER_ALIKE


def _named_in_call(frame: FrameType, is_certain: bool, depth: int, at: _Places = ()) -> Iterator[_Named]:
    code = _read(frame.f_code)
    running = _running(frame)
    first, last, begin, end = code[running].place
    before = ((each, each.place) for each in code[:running])
    inside = [each for each, at in before if (first, begin) <= (at[0], at[2]) and (at[1], at[3]) <= (last, end)]
    places = (_placed(frame.f_code, each.offset) for each in inside[-1:] if depth)
    yield from _named(inside, frame, is_certain, depth, (*at, *places), called=1)


def _named(
    inside: Sequence[_Instruction], frame: Any, certain: bool, depth: int, at: _Places, *, called: int = 0
) -> Iterator[_Named]:
    """``called``: how many of the names that come first are those of what is called."""
    is_certain = certain and not any("JUMP" in each.name for each in inside)
    read_at = frame.f_code, inside[-1].offset if inside else 0
    if any(_placed(frame.f_code, each.offset) in UNSEEDED_AT for each in inside):
        yield _Named(OWN, is_certain, at, read_at)
    steps = [each for each in inside if each.name not in _SILENT]
    for step, text in pairwise(steps if _HASHES_DIFFER else ()):
        if (
            step.value == "hash"
            and step.name.startswith(_LOADS)
            and text.name == "LOAD_CONST"
            and type(text.value) is str
        ):
            yield _Named(_TEXT_HASH, is_certain, at, read_at)
    for index, path in enumerate(_paths(inside)):
        if len(path) > 1 and called <= index and depth < _DEPTH and _led_to(path, frame)[1] is None:
            yield from _kept_as(path[-1], frame, is_certain, depth + 1, at)
        if len(path) > 1 and path[-1] in _SEEDING:
            continue  # the call itself: `rng.seed(0)` draws nothing from `rng`
        yield from (_Named(name, is_certain, at, read_at) for name in _names_of(path, frame))
        if depth < _DEPTH and index >= called:
            value = _led_to(path, frame)[1]
            if type(value) is FunctionType and _SITES.kind_of(value.__code__.co_filename) == USER:
                called_frame = SimpleNamespace(f_code=value.__code__, f_globals=value.__globals__, f_back=None)
                for statement in _statements(value.__code__, ("RETURN_VALUE",), None):
                    yield from _named(statement, called_frame, is_certain, depth + 1, at)
        is_whole = len(path) == 1
        for named in _set_by(path[0], frame, is_certain, depth + 1, at) if path[0] and depth < _DEPTH else ():
            if is_whole or named.name == OWN:  # of `args.seed`, what made `args` says nothing
                yield named
    for key, read in pairwise(steps):
        if depth < _DEPTH and read.name in ("BINARY_SUBSCR", "BINARY_OP") and type(key.value) is str:
            yield from _kept_as(key.value, frame, is_certain, depth + 1, at)


def _set_by(name: str, frame: Any, is_certain: bool, depth: int, at: _Places) -> Iterator[_Named]:
    """Yield what the statement names that set ``name``, or the call that passed it."""
    code = frame.f_code
    is_parameter = name in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    statements = _statements(code, _STORES, name)
    if not statements and not is_parameter:
        outer = _module_of(frame)
        if outer is None:
            return
        frame, statements = outer, _statements(outer.f_code, _STORES, name)
    for statement in statements:
        places = (_placed(frame.f_code, each.offset) for each in statement[-1:])
        is_sure = is_certain and len(statements) == 1 and not is_parameter
        yield from _named(statement, frame, is_sure, depth, (*at, *places))
    caller = frame.f_back
    is_resumed = code.co_flags & _SUSPENDS and caller is not None and _SITES.kind_of(caller.f_code.co_filename) != USER
    if is_parameter and caller is not None and not is_resumed:  # a library that resumes a coroutine passed nothing
        call = _read(caller.f_code)[_running(caller)]
        takes_one = call.value == 1 and "EX" not in call.name
        yield from _named_in_call(caller, is_certain and takes_one and not statements, depth, at)


def _module_of(frame: Any) -> Any:
    """The frame that runs the file of ``frame``, if it still does."""
    of_modules = (each for each in outwards(frame) if each.f_code.co_name == "<module>")
    return next((each for each in of_modules if each.f_globals is frame.f_globals), None)


def _kept_as(key: str, frame: Any, certain: bool, depth: int, at: _Places) -> Iterator[_Named]:
    """Yield what the one statement of the file names that gives an attribute, entry or option ``key`` its value."""
    outer = _module_of(frame)
    settings = _settings(outer.f_code, key) if outer is not None else []
    given = [setting for setting in settings if any(word.startswith(setting[2]) for word in sys.argv)]
    # An option without a value is none: what else sets it gave the number, under whatever condition.
    others = [setting for setting in settings if not setting[2] or _has_default(setting[1])]
    is_sole = len(settings) > len(others) == 1
    code, statement, _ = (others if is_sole else settings)[0] if len(settings) == 1 or is_sole else (None, (), ())
    if given or code is None or not statement:
        return
    if is_sole:  # without the condition before it
        statement = [each for each in statement if each.place[0] == statement[-1].place[0]]
    first, inside = statement[0].offset, SimpleNamespace(f_code=code, f_globals=outer.f_globals, f_back=None)
    is_asked = not is_sole and any("JUMP" in each.name and each.offset < first < each.value for each in _read(code))
    place = _placed(code, statement[-1].offset)
    yield from _named(statement, inside, certain and not is_asked, depth, (*at, place))


def _has_default(declares: Sequence[_Instruction]) -> bool:
    names = [name for each in declares if type(each.value) is tuple for name in each.value]
    return "default" in names and not any(each.name == "LOAD_CONST" and each.value is None for each in declares)


@lru_cache(_MOST_CODES)
def _settings(code: CodeType, key: str) -> list[tuple[CodeType, Sequence[_Instruction], tuple[str, ...]]]:
    """The statements in ``code`` that set an attribute or entry ``key``, or declare it as an option."""
    found: list[tuple[CodeType, Sequence[_Instruction], tuple[str, ...]]] = []
    for each in with_nested(code):
        entries = (one for one in _statements(each, ("STORE_SUBSCR",), None) if one and one[-1].value == key)
        found += [(each, one, ()) for one in (*_statements(each, ("STORE_ATTR",), key), *entries) if one]
        if each is not code:  # a class's default, which an object may have had another number for
            found += [(each, (), ()) for _ in _statements(each, ("STORE_NAME",), key)]
        for one in _statements(each, ("POP_TOP",), None):
            options = tuple(step.value for step in one if type(step.value) is str and step.value.startswith("-"))
            if key in [option.lstrip("-").replace("-", "_") for option in options]:
                found.append((each, one, options))
    return found


def _running(frame: FrameType) -> int:
    return bisect_right(_read(frame.f_code), frame.f_lasti, key=lambda each: each.offset) - 1


class _Instruction(NamedTuple):
    name: str
    offset: int
    value: Any
    place: tuple[int, int, int, int]


@lru_cache(_MOST_CODES)
def _read(code: CodeType) -> list[_Instruction]:
    line, found = code.co_firstlineno, []
    for each in dis.get_instructions(code):
        if type(each.starts_line) is int:  # from Python 3.13 on it says whether one begins
            line = each.starts_line
        at: Any = getattr(each, "positions", None)
        exact = at is not None and None not in at  # Python 3.10 has lines alone
        place = (at.lineno, at.end_lineno, at.col_offset, at.end_col_offset) if exact else (line, line, 0, 1 << 30)
        found.append(_Instruction(each.opname, each.offset, each.argval, place))
    return found


def _statements(code: CodeType, ends: tuple[str, ...], name: str | None) -> list[Sequence[_Instruction]]:
    """The statements of ``code`` that set ``name``, or that return, each without its last instruction."""
    found: list[Sequence[_Instruction]] = []
    instructions = _read(code)
    for index, each in enumerate(instructions):
        if each.name.startswith(ends) and each.value == name:
            first = index
            while first and not instructions[first - 1].name.startswith(_ENDS_STATEMENT):
                first -= 1
            found.append(instructions[first:index])
    return found


def _paths(instructions: Sequence[_Instruction]) -> Iterator[list[str]]:
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


def _led_to(path: list[str], frame: Any) -> tuple[str, Any]:
    """What ``path`` leads to through modules and classes, and its name there; nothing through other objects."""
    # Of a function's variables, those are read that it imports: reading others would keep what they hold alive.
    module, attribute = _imports(frame.f_code).get(path[0], ("", ""))
    value: Any = sys.modules.get(module)
    if attribute:
        value = vars(sys.modules.get(module, SimpleNamespace())).get(attribute)
    elif not module:
        value = frame.f_globals.get(path[0], getattr(builtins, path[0], None) if path[0] else None)
    name = ""
    for attribute in path[1:]:
        if isinstance(value, ModuleType):
            name, value = f"{value.__name__}.{attribute}", vars(value).get(attribute)
        elif isinstance(value, type):
            name = f"{value.__module__}.{value.__qualname__}.{attribute}"
            value = next((vars(cls)[attribute] for cls in value.__mro__ if attribute in vars(cls)), None)
        else:
            return "", None
    return name, original_of(value)


def _names_of(path: list[str], frame: Any) -> Iterator[str]:
    """Yield the global generator that is drawn from, or the qualified names of what ``path`` leads to."""
    if path[-1] in _DRAWS_IN_PLACE:
        yield "torch"
    name, value = _led_to(path, frame)
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


@lru_cache(_MOST_CODES)
def _imports(code: CodeType) -> dict[str, tuple[str, str]]:
    """By name, what ``code`` imports: a module, and the attribute of it, if any."""
    found: dict[str, tuple[str, str]] = {}
    module = ""
    for before, each in pairwise(_read(code)):
        module = before.value if before.name == "IMPORT_NAME" else module
        if each.name.startswith(_STORES) and before.name == "IMPORT_NAME":
            found.setdefault(each.value, (each.value if module.startswith(f"{each.value}.") else module, ""))
        elif each.name.startswith(_STORES) and before.name == "IMPORT_FROM":
            found.setdefault(each.value, (module, before.value))
    return found
