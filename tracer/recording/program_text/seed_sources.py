"""Whether a generator was seeded with a number that differs in every process. Imports neither torch nor NumPy.

There are three kinds of evidence: the code that seeds, if the number can come from nowhere else; the number itself, if
a clock shows it; both together, if the code has another branch. Without any, or if the number is written in the code,
it is the program's own.
"""

from __future__ import annotations

import ast
import builtins
import functools
import os
import sys
import time
import traceback
from collections.abc import Callable
from itertools import islice, product
from types import FrameType, FunctionType, ModuleType
from typing import Any

import msgspec

from tracer.names import NumberSource
from tracer.recording.program_text.source_tree import (
    argument_of,
    assigned_attributes,
    call_of,
    called_name,
    default_of,
    function_of,
    given_as,
    is_left_out,
    is_passing_on,
    parameters_of,
    returned_by,
    scope_of,
    stores_of,
    tree_of,
    whole_number,
)

#: Frames and assignments that are followed, at most.
_DEPTH = 12
_CLOCKS = frozenset({"time", "perf_counter", "monotonic", "process_time", "thread_time", "clock_gettime"})
_DATES = frozenset({"now", "utcnow", "today"})
#: Functions whose result depends on their arguments alone.
_PASSES_ON = frozenset(
    {
        *("int", "float", "abs", "round", "str", "bytes", "hash", "divmod", "pow", "floor", "ceil", "trunc", "repr"),
        *("item", "from_bytes", "uint32", "int64", "uint64", "sha256", "md5", "sha1", "blake2b", "crc32"),
        *("SeedSequence", "tolist", "numpy"),
    }
)
#: Classes and functions that make a generator, or what seeds one; without arguments from the machine's entropy.
_MAKES = frozenset({"Random", "RandomState", "default_rng", "SeedSequence"})
#: Torch's functions and methods that draw from the default generator, if no other is passed.
_DRAWS = frozenset({"randint", "rand", "randn", "randperm", "normal", "bernoulli", "multinomial", "initial_seed"})
_DRAWS_IN_PLACE = frozenset({"random_", "uniform_", "normal_", "exponential_", "geometric_", "bernoulli_"})
#: Classes of the hidden generators of Python's and NumPy's modules. Another object is not resolved.
_HIDDEN = {"Random": "python", "RandomState": "numpy"}
_SEEDS = frozenset({"seed", "set_state", "setstate", "getstate"})


class Candidate(msgspec.Struct, frozen=True):
    """A call that may have given a seed's number."""

    source: NumberSource
    is_certain: bool
    """Whether the number comes from it in any case."""
    lines: tuple[int, int]
    """First and last line of the call."""
    file: str
    generator: str = ""
    """The generator that it draws from, ``python``, ``numpy`` or ``torch``: the source only if nobody seeded that."""


class Code(msgspec.Struct, frozen=True):
    """The code's statements about a seed's number."""

    candidates: tuple[Candidate, ...]
    constants: frozenset[int]
    """Every whole number in the code that was followed."""


def read_seed(frame: FrameType, position: int | str) -> Code:
    """Return what the code says about an argument of the call that ``frame`` is making.

    It is the argument at ``position``, or of that name, or the first one if there is only one.
    """
    reader = _Reader()
    call = call_of(frame)
    argument = None if call is None else argument_of(call, position)
    if argument is not None:
        reader.follow(argument, frame, is_certain=True, depth=0)
    return Code(tuple(dict.fromkeys(reader.candidates)), frozenset(reader.constants))


class _Reader:
    def __init__(self) -> None:
        self.candidates: list[Candidate] = []
        self.constants: set[int] = set()
        self._followed: set[tuple[int, bool]] = set()

    def follow(self, node: ast.AST, frame: FrameType, *, is_certain: bool, depth: int) -> None:
        """Collect candidates and constants in ``node``, an expression in the code of ``frame``."""
        if depth > _DEPTH or (id(node), is_certain) in self._followed:
            return
        self._followed.add((id(node), is_certain))
        further = functools.partial(self.follow, frame=frame, depth=depth)
        if isinstance(node, (ast.IfExp, ast.BoolOp)):  # of `a or b` it is `b` where `a` is 0
            for branch in (node.body, node.orelse) if isinstance(node, ast.IfExp) else node.values:
                further(branch, is_certain=False)
        elif isinstance(node, (ast.Lambda, ast.Compare)):
            return
        elif isinstance(node, ast.Call):
            self._follow_call(node, frame, is_certain, depth)
        elif isinstance(node, ast.Name):
            self._follow_name(node.id, frame, is_certain, depth + 1)
        elif isinstance(node, ast.Attribute):
            further(node.value, is_certain=is_certain)
            for value in assigned_attributes(frame.f_code.co_filename, ast.unparse(node)):
                self.follow(value, frame, is_certain=False, depth=depth + 1)
        else:
            number = whole_number(node)
            if number is not None:
                self.constants.add(number)
            for child in ast.iter_child_nodes(node):
                further(child, is_certain=is_certain)

    def _follow_call(self, node: ast.Call, frame: FrameType, is_certain: bool, depth: int) -> None:
        called = _resolve(node.func, frame)
        source = _source_of(called, node)
        generator = "" if source is not None else _drawn_from(called, node)
        if source is not None or generator:
            lines = (node.lineno, node.end_lineno or node.lineno)
            source = source or NumberSource.GENERATOR
            self.candidates.append(Candidate(source, is_certain, lines, frame.f_code.co_filename, generator))
            return
        name = called_name(node)
        if isinstance(node.func, ast.Attribute):
            self.follow(node.func.value, frame, is_certain=is_certain, depth=depth)
        for argument in (*node.args, *(keyword.value for keyword in node.keywords)):
            self.follow(argument, frame, is_certain=is_certain and name in _PASSES_ON, depth=depth)
        if isinstance(called, FunctionType) and called.__globals__ is frame.f_globals:
            returned = returned_by(called.__code__)
            for value in returned:
                self.follow(value, frame, is_certain=is_certain and len(returned) == 1, depth=depth + 1)

    def _follow_name(self, name: str, frame: FrameType, is_certain: bool, depth: int) -> None:
        scope, function = scope_of(frame.f_code), function_of(frame.f_code)
        if scope is None:
            return
        is_parameter = function is not None and name in parameters_of(function)
        stores = stores_of(scope, name)
        if not stores and not is_parameter and function is not None:
            stores = stores_of(tree_of(frame.f_code.co_filename), name)
        is_sure = is_certain and len(stores) == 1 and not is_parameter
        for value, is_plain in stores:
            self.follow(value, frame, is_certain=is_sure and is_plain, depth=depth)
        caller = frame.f_back
        while caller is not None and is_passing_on(caller):
            caller = caller.f_back
        if not is_parameter or caller is None:
            return
        argument = given_as(frame, caller, name)
        if argument is None and is_left_out(function, call_of(caller)):
            argument = default_of(function, name)
        if is_certain and len(stores) == 1 and isinstance(argument, ast.Constant) and argument.value is None:
            self.follow(stores[0][0], frame, is_certain=stores[0][1], depth=depth)  # a seed is never None
        if argument is not None:
            self.follow(argument, caller, is_certain=is_certain and not stores, depth=depth)


def _source_of(called: Any, node: ast.Call) -> NumberSource | None:
    """The source of the number that a call of ``called`` gives; ``None`` for any other function."""
    name = str(getattr(called, "__name__", ""))
    module = str(getattr(called, "__module__", "") or "")
    owner = getattr(called, "__self__", None)
    if module == "time" and name.removesuffix("_ns") in _CLOCKS:
        return NumberSource.CLOCK
    if name in _DATES and getattr(owner, "__module__", "") == "datetime":
        return NumberSource.CLOCK
    if module in ("posix", "nt", "os") and name in ("getpid", "getppid"):
        return NumberSource.PROCESS_ID
    if (module in ("posix", "nt", "os") and name in ("urandom", "getrandom")) or module in ("secrets", "uuid"):
        return NumberSource.ENTROPY if name not in ("uuid3", "uuid5", "UUID", "compare_digest") else None
    if name in _MAKES and module.startswith(("random", "numpy.random")) and not (node.args or node.keywords):
        return NumberSource.ENTROPY
    if (module, name) == ("torch.random", "seed"):
        return NumberSource.ENTROPY
    if name == "RAND_bytes":  # of ssl, which has it from OpenSSL
        return NumberSource.ENTROPY
    constants = [argument.value for argument in node.args if isinstance(argument, ast.Constant)]
    if type(owner).__name__ == "SystemRandom" or "/dev/urandom" in constants or "/dev/random" in constants:
        return NumberSource.ENTROPY
    if (module, name) == ("builtins", "id"):
        return NumberSource.ADDRESS
    if (module, name) == ("builtins", "hash") and sys.flags.hash_randomization and _is_text(node.args):
        return NumberSource.HASH
    return None


def _drawn_from(called: Any, node: ast.Call) -> str:
    """The global generator that a call of ``called`` draws from; empty for any other call."""
    name, module = called_name(node), str(getattr(called, "__module__", "") or "")
    if any(keyword.arg == "generator" for keyword in node.keywords):
        return ""
    if hidden := _HIDDEN.get(type(getattr(called, "__self__", None)).__name__):
        return "" if name in _SEEDS else hidden
    is_torchs = module in ("torch", "torch.random") and name in _DRAWS
    return "torch" if is_torchs or (called is None and name in _DRAWS_IN_PLACE) else ""


def _is_text(args: list[ast.expr]) -> bool:
    """Return whether the one argument is a string literal. A number's hash is the same in every process."""
    if len(args) != 1:
        return False
    return isinstance(args[0], ast.JoinedStr) or isinstance(getattr(args[0], "value", None), str)


def _resolve(node: ast.expr, frame: FrameType) -> Any:
    """The object behind a dotted name, looked up in modules and classes alone, so that none of the program's code runs.

    The function's own variables are not read: that would keep their objects alive.
    """
    if isinstance(node, ast.Name):
        imported = _imported(frame, node.id)
        if imported is not None:
            return imported
        return frame.f_globals.get(node.id, getattr(builtins, node.id, None))
    if isinstance(node, ast.Attribute):
        owner = _resolve(node.value, frame)
        if isinstance(owner, (ModuleType, type)) or type(owner).__name__ == "SystemRandom":
            return getattr(owner, node.attr, None)
    if isinstance(node, ast.Call) and getattr(_resolve(node.func, frame), "__name__", "") == "SystemRandom":
        import random

        return random.SystemRandom()
    return None


def _imported(frame: FrameType, name: str) -> Any:
    """The object that the running function itself imports under ``name``."""
    function = function_of(frame.f_code)
    for node in ast.walk(function) if function is not None else ():
        if isinstance(node, ast.Import):
            for alias in node.names:
                if (alias.asname or alias.name.partition(".")[0]) == name:
                    return sys.modules.get(alias.name if alias.asname else name)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                if (alias.asname or alias.name) == name:
                    return getattr(sys.modules.get(node.module), alias.name, None)
    return None


#: Ticks a second of the clocks that programs read.
_UNITS = (1, 10**3, 10**6, 10**9)
#: The process began at most 120 seconds before this package was imported.
_BEGAN = time.time() - 120.0
#: A remainder is compared with those of a clock in the last seconds.
_RECENT = 60.0
#: At most one in so many remainders may match, or a constant would match by chance.
_SHARE = 20_000
_SMALLEST_REMAINDER = 500
_FRAMES = 8
_MOST_CODES = 512

_codes: dict[tuple[tuple[tuple[object, int], ...], int | str], Code] = {}
_proven: dict[float, NumberSource] = {}
"""Sources that the number itself proved: one number may seed several generators, and the clock goes on."""


def source_of(
    value: object,
    frame: FrameType | None,
    position: int | str = 0,
    *,
    was_taken: Callable[[str, int, int], bool] = lambda file, first, last: False,
    was_drawn: Callable[[Candidate], bool] = lambda candidate: False,
) -> NumberSource | None:
    """The source of the seed ``value``; ``None`` for the program's own number.

    ``frame`` makes the call that seeds, with ``value`` at ``position``. ``was_taken`` says whether the lines of a file,
    first to last, read the machine's entropy, ``was_drawn`` whether a draw came from a state that nobody chose.
    """
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        value = None
    if value is not None and _shows_now(value):
        return NumberSource.CLOCK
    if frame is None:
        return None
    code = _code_at(frame, position)
    for candidate in code.candidates:
        if candidate.is_certain and (not candidate.generator or was_drawn(candidate)):
            return candidate.source
    if value in code.constants or (value is not None and str(value) in sys.argv):
        return None
    sources = [candidate.source for candidate in code.candidates]
    if value is not None and _proven.get(value) in sources:
        return _proven[value]
    proofs = (
        candidate.source
        for candidate in code.candidates
        if (was_drawn(candidate) if candidate.generator else _proves(value, candidate, code, was_taken))
    )
    source = next(proofs, None)
    if source is not None and value is not None:
        _proven[value] = source
    return source


def _code_at(frame: FrameType, position: int | str) -> Code:
    """Return what the code says, read once for each chain of callers."""
    callers = islice(traceback.walk_stack(frame), _FRAMES)
    key = (tuple((caller.f_code, caller.f_lasti) for caller, _ in callers), position)
    if key not in _codes:
        if len(_codes) >= _MOST_CODES:
            _codes.clear()
        try:
            _codes[key] = read_seed(frame, position)
        except (RecursionError, ValueError, AttributeError, TypeError):  # code that was made up at run time
            _codes[key] = Code((), frozenset())
    return _codes[key]


def _shows_now(value: float) -> bool:
    """Return whether ``value`` is a time since this process began, in a unit that a clock counts in."""
    now = time.time()
    return any(_BEGAN * unit <= value <= (now + 1) * unit for unit in _UNITS)


def _proves(value: object, candidate: Candidate, code: Code, was_taken: Callable[[str, int, int], bool]) -> bool:
    """Return whether the number itself shows that it comes from this candidate."""
    if candidate.source is NumberSource.ENTROPY:
        return was_taken(candidate.file, *candidate.lines)
    if not isinstance(value, int):
        return False
    if candidate.source is NumberSource.PROCESS_ID:
        return value in (os.getpid(), os.getppid())
    return candidate.source is NumberSource.CLOCK and _is_remainder_of_now(value, code.constants)


def _is_remainder_of_now(value: int, constants: frozenset[int]) -> bool:
    """Return whether ``value`` is what a clock showed a moment ago, modulo a number in the code."""
    clocks = (time.time(), time.perf_counter(), time.monotonic())
    bounds = {bound for modulus in constants for bound in (modulus, modulus + 1)}  # `% m`, `& (m - 1)`
    return any(
        bound >= _SMALLEST_REMAINDER and (int(clock * unit) - value) % bound <= min(_RECENT * unit, bound / _SHARE)
        for clock, unit, bound in product(clocks, _UNITS, bounds)
    )
