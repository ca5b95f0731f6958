"""Was a generator seeded with a number that differs in every process? Imports neither torch nor NumPy.

Three witnesses: the code that seeds, where the number can come from nowhere else; the number itself, where it is what
a clock shows; both together, where the code has another branch. A number that is written in the code, or that none of
them speaks of, is the program's own.
"""

from __future__ import annotations

import ast
import builtins
import functools
import os
import sys
import time
from collections.abc import Callable, Iterator
from types import FrameType, FunctionType, ModuleType
from typing import Any, NamedTuple

from tracer.names import NumberSource
from tracer.recording.program_text.source_tree import (
    argument_of,
    assigned_attributes,
    call_of,
    default_of,
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
#: What gives a number on that hangs on what it was given, and on nothing else.
_PASSES_ON = frozenset(
    {
        *(
            "int",
            "float",
            "abs",
            "round",
            "str",
            "bytes",
            "hash",
            "divmod",
            "pow",
            "floor",
            "ceil",
            "trunc",
            "repr",
            "item",
        ),
        *("from_bytes", "uint32", "int64", "uint64", "sha256", "md5", "sha1", "blake2b", "crc32", "SeedSequence"),
    }
)


class Candidate(NamedTuple):
    """What an expression holds."""

    source: NumberSource
    is_certain: bool
    """Does it hold it in any case?"""
    lines: tuple[int, int]
    """First and last line of the call that gives it."""
    file: str


class Code(NamedTuple):
    """What was read of a seed's number."""

    held: tuple[Candidate, ...]
    constants: frozenset[int]
    """Every whole number that is written in the code that was followed."""


def read_seed(frame: FrameType, position: int | str) -> Code:
    """What the code says of an argument of the call that ``frame`` is making: the one at ``position`` (a keyword where
    it is given so), or the first one, where there is but one."""
    reader = _Reader()
    call = call_of(frame)
    argument = None if call is None else argument_of(call, position)
    if argument is not None:
        reader.follow(argument, frame, is_certain=True, depth=0)
    return Code(tuple(dict.fromkeys(reader.held)), frozenset(reader.constants))


class _Reader:
    def __init__(self) -> None:
        self.held: list[Candidate] = []
        self.constants: set[int] = set()
        self._seen: set[tuple[int, bool]] = set()

    def follow(self, node: ast.AST, frame: FrameType, *, is_certain: bool, depth: int) -> None:
        """Note what ``node``, an expression in the code of ``frame``, holds."""
        if depth > _DEPTH or (id(node), is_certain) in self._seen:
            return
        self._seen.add((id(node), is_certain))
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
        if source is not None:
            lines = (node.lineno, node.end_lineno or node.lineno)
            self.held.append(Candidate(source, is_certain, lines, frame.f_code.co_filename))
            return
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if isinstance(node.func, ast.Attribute):
            self.follow(node.func.value, frame, is_certain=is_certain, depth=depth)
        for argument in (*node.args, *(keyword.value for keyword in node.keywords)):
            self.follow(argument, frame, is_certain=is_certain and name in _PASSES_ON, depth=depth)
        if isinstance(called, FunctionType) and called.__globals__ is frame.f_globals:
            returned = returned_by(called.__code__)
            for value in returned:
                self.follow(value, frame, is_certain=is_certain and len(returned) == 1, depth=depth + 1)

    def _follow_name(self, name: str, frame: FrameType, is_certain: bool, depth: int) -> None:
        tree = tree_of(frame.f_code.co_filename)
        scope = None if tree is None else scope_of(tree, frame.f_code)
        if tree is None or scope is None:
            return
        is_parameter = not isinstance(scope, ast.Module) and name in parameters_of(scope)
        stores = stores_of(scope, name)
        if not stores and not is_parameter:
            if isinstance(scope, ast.Module):
                return
            scope, stores = tree, stores_of(tree, name)
        is_sure = is_certain and len(stores) == 1 and not is_parameter
        for value, is_plain in stores:
            self.follow(value, frame, is_certain=is_sure and is_plain, depth=depth)
        if not is_parameter:
            return
        caller = frame.f_back
        while caller is not None and is_passing_on(caller):
            caller = caller.f_back
        argument = None if caller is None else given_as(frame, caller, name)
        if caller is not None and argument is None and is_left_out(scope, call_of(caller)):
            argument = default_of(scope, name)
        if is_certain and len(stores) == 1 and isinstance(argument, ast.Constant) and argument.value is None:
            self.follow(stores[0][0], frame, is_certain=stores[0][1], depth=depth)  # no seed is None
        if caller is not None and argument is not None:
            self.follow(argument, caller, is_certain=is_certain and not stores, depth=depth)


def _reads_entropy(node: ast.Call) -> bool:
    """Does it open the device that gives the machine's entropy?"""
    return any(
        isinstance(argument, ast.Constant) and argument.value in ("/dev/urandom", "/dev/random")
        for argument in node.args
    )


def _source_of(called: Any, node: ast.Call) -> NumberSource | None:
    """What kind of number a call of ``called`` gives; ``None`` for any other function."""
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
    if type(owner).__name__ == "SystemRandom" or _reads_entropy(node):
        return NumberSource.ENTROPY
    if (module, name) == ("builtins", "id"):
        return NumberSource.ADDRESS
    if (module, name) == ("builtins", "hash") and sys.flags.hash_randomization and _is_text(node.args):
        return NumberSource.HASH
    return None


def _is_text(args: list[ast.expr]) -> bool:
    """Is it text that is written here? The hash of a number is the same in every process."""
    return len(args) == 1 and (
        isinstance(args[0], ast.JoinedStr) or (isinstance(args[0], ast.Constant) and isinstance(args[0].value, str))
    )


def _resolve(node: ast.expr, frame: FrameType) -> Any:
    """What a dotted name stands for, through modules and classes alone: no code of the program's is run.

    Not through the function's own variables either: reading them would keep what they hold alive.
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
    """What the function that runs imports by itself under ``name``."""
    tree = tree_of(frame.f_code.co_filename)
    scope = None if tree is None or frame.f_code.co_name == "<module>" else scope_of(tree, frame.f_code)
    for node in ast.walk(scope) if scope is not None and not isinstance(scope, ast.Module) else ():
        if isinstance(node, ast.Import):
            for alias in node.names:
                if (alias.asname or alias.name.partition(".")[0]) == name:
                    return sys.modules.get(alias.name if alias.asname else name)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                if (alias.asname or alias.name) == name:
                    return getattr(sys.modules.get(node.module), alias.name, None)
    return None


#: Ticks in a second of the clocks that programs read.
_UNITS = (1, 10**3, 10**6, 10**9)
#: The process began before this package did, by no more than this many seconds.
_BEFORE_US = 120.0
_BEGAN = time.time() - _BEFORE_US
#: A number that a remainder made small again is held against so many seconds before now.
_RECENT = 60.0
#: By no more than this share of all remainders: chance would otherwise find the clock in a constant.
_SHARE = 20_000
_SMALLEST_REMAINDER = 500
_FRAMES = 8
_KEPT = 512

_Chain = tuple[tuple[object, int], ...]
_known: dict[tuple[_Chain, int | str], Code] = {}
_borne_out: dict[float, NumberSource] = {}
"""Numbers that said themselves where they came from: one number seeds several generators, and the clock goes on."""


def source_of(
    value: object,
    frame: FrameType | None,
    position: int | str = 0,
    *,
    was_taken: Callable[[str, int, int], bool] = lambda file, first, last: False,
) -> NumberSource | None:
    """What the seed ``value`` was made from; ``None`` for a number of the program's own.

    ``frame`` makes the call that seeds, with ``value`` at ``position``. ``was_taken`` tells whether lines of a file
    took some of the machine's entropy.
    """
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        value = None
    if value is not None and _shows_now(value):
        return NumberSource.CLOCK
    if frame is None:
        return None
    code = _code_at(frame, position)
    for candidate in code.held:
        if candidate.is_certain:
            return candidate.source
    if value in code.constants or (value is not None and str(value) in sys.argv):
        return None
    remembered = _borne_out.get(value) if value is not None else None
    if remembered is not None and any(candidate.source is remembered for candidate in code.held):
        return remembered
    source = next((candidate.source for candidate in code.held if _bears_out(value, candidate, code, was_taken)), None)
    if source is not None and value is not None:
        _borne_out[value] = source
    return source


def _code_at(frame: FrameType, position: int | str) -> Code:
    """What the code says, read once for each way that leads here."""
    key = (tuple(_chain(frame)), position)
    code = _known.get(key)
    if code is None:
        if len(_known) >= _KEPT:
            _known.clear()
        try:
            code = read_seed(frame, position)
        except (RecursionError, ValueError, AttributeError, TypeError):  # code that was made up as it ran
            code = Code((), frozenset())
        _known[key] = code
    return code


def _chain(frame: FrameType | None) -> Iterator[tuple[object, int]]:
    for _ in range(_FRAMES):
        if frame is None:
            return
        yield frame.f_code, frame.f_lasti
        frame = frame.f_back


def _shows_now(value: float) -> bool:
    """Is it the time of day, in a unit that a clock counts in, since this process began?"""
    now = time.time()
    return any(_BEGAN * unit <= value <= (now + 1) * unit for unit in _UNITS)


def _bears_out(value: object, candidate: Candidate, code: Code, was_taken: Callable[[str, int, int], bool]) -> bool:
    """Does the number itself say that it came by this branch of the code?"""
    if candidate.source is NumberSource.ENTROPY:
        return was_taken(candidate.file, *candidate.lines)
    if not isinstance(value, int):
        return False
    if candidate.source is NumberSource.PROCESS_ID:
        return value in (os.getpid(), os.getppid())
    return candidate.source is NumberSource.CLOCK and _is_remainder_of_now(value, code.constants)


def _is_remainder_of_now(value: int, constants: frozenset[int]) -> bool:
    """Is it what a clock showed a moment ago, less whole multiples of a number that the code names?"""
    for clock in (time.time(), time.perf_counter(), time.monotonic()):
        for unit in _UNITS:
            for modulus in constants:
                for bound in (modulus, modulus + 1):  # `% m`, `& (m - 1)`
                    window = min(_RECENT * unit, bound / _SHARE)
                    if bound >= _SMALLEST_REMAINDER and (int(clock * unit) - value) % bound <= window:
                        return True
    return False
