"""Prove that the threads of a generated C++ kernel write disjoint elements.

Atomic additions vary if two threads add to one element, and writes at an index if two threads write to one. The loop
under ``#pragma omp for`` decides which iterations a thread gets. An element's index is a sum. If one step of that
loop's counter changes it by more than all inner loops and indices can, no two iterations share an element, whatever the
indices are: in ``4096L*x0 + 64L*tmp5 + tmp16``, with both indices checked against 64, each ``x0`` has its own
plane. In ``x0 + 8L*tmp5``, with ``x0`` below 8, each ``x0`` has its own remainder, and ``tmp5`` needs no check. A loop
ends at a barrier, so other loops write to the same elements before or after it. One thread runs the
code under ``#pragma omp single``, while the others wait.

A kernel for which this proof fails may still write disjoint elements."""

from __future__ import annotations

import ast
import itertools
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from math import gcd
from typing import NamedTuple

#: A polynomial: the sorted names of each product to its coefficient. The empty product is the constant.
Sum = Mapping[tuple[str, ...], int]

_LONG = re.compile(r"\b(\d+)L\b")
_CAST = re.compile(r"\b(?:static_cast<int64_t>|int64_t)(?=\()")
_SIZE = re.compile(r"ks\d+")


def number(value: int) -> Sum:
    """A constant."""
    return {(): value} if value else {}


def name(text: str) -> Sum:
    """One name."""
    return {(text,): 1}


def plus(first: Sum, second: Sum, times: int = 1) -> Sum:
    """``first + times * second``."""
    total = {term: first.get(term, 0) + times * second.get(term, 0) for term in {**first, **second}}
    return {term: count for term, count in total.items() if count}


def product(first: Sum, second: Sum) -> Sum:
    """``first * second``."""
    total: Sum = {}
    for (factor, count), (other, times) in itertools.product(first.items(), second.items()):
        total = plus(total, {tuple(sorted((*factor, *other))): count * times})
    return total


def is_never_negative(value: Sum) -> bool:
    """Return whether it is 0 or more for all sizes."""
    return all(count >= 0 for count in value.values())


def is_size(text: str) -> bool:
    """Return whether ``text`` is the name of a dynamic size."""
    return _SIZE.fullmatch(text) is not None


def read_sum(text: str, value_of: Callable[[str], Sum]) -> Sum:
    """Parse a sum in C++; ``value_of`` returns the value of a name. Raises ``ValueError`` for other code."""
    plain = _CAST.sub("", _LONG.sub(r"\1", text)).strip()
    try:
        return _read(ast.parse(plain, mode="eval").body, value_of)
    except (SyntaxError, RecursionError, MemoryError) as problem:
        raise ValueError(f"no sum: {text}") from problem


def _read(node: ast.expr, value_of: Callable[[str], Sum]) -> Sum:
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return number(node.value)
    if isinstance(node, ast.Name):
        return name(node.id) if is_size(node.id) else value_of(node.id)
    if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and isinstance(node.slice, ast.Name):
        return value_of(node.value.id)  # one lane of a vector
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return plus({}, _read(node.operand, value_of), -1)
    if isinstance(node, ast.BinOp):
        left, right = _read(node.left, value_of), _read(node.right, value_of)
        if isinstance(node.op, ast.Add):
            return plus(left, right)
        if isinstance(node.op, ast.Sub):
            return plus(left, right, -1)
        if isinstance(node.op, ast.Mult):
            return product(left, right)
    raise ValueError(f"no sum: {ast.unparse(node)}")


_KEYWORD = re.compile(r"(?:for|if|else|while|switch|do)\b")
#: A string, or a character that ends, opens or closes a statement or a block.
_MARK = re.compile(r'[;{}()]|"(?:\\.|[^"\\])*(?:"|\Z)', re.DOTALL)
_KERNEL = re.compile(r"\bvoid\s+kernel\s*\(")
_SPACE = re.compile(r"(?:\s+|//[^\n]*)*")


class Block(NamedTuple):
    """The code between a pair of braces."""

    header: str
    """``for(...)``, ``if(...)``; empty for braces alone."""
    pragmas: tuple[str, ...]
    """The pragmas above it: ``#pragma omp for``."""
    items: tuple[Block | str, ...]
    """Blocks and statements in order. A lambda is a part of its statement."""


def read_kernel(source: str) -> Block:
    """Parse the body of the one function that ``source`` defines. Raises ``ValueError`` for other code."""
    heads = [*_KERNEL.finditer(source)]
    if len(heads) != 1:
        raise ValueError("not one kernel")
    items, _ = _items(source, source.index("{", heads[0].end()) + 1)
    return Block("", (), items)


def _items(text: str, at: int) -> tuple[tuple[Block | str, ...], int]:
    """The items from ``at`` to the brace that closes them, and the position after it."""
    items: list[Block | str] = []
    pragmas: list[str] = []
    while True:
        at = _SPACE.match(text, at).end()  # type: ignore[union-attr]
        if at >= len(text):
            raise ValueError("a brace is not closed")
        if text[at] == "#":
            end = text.index("\n", at)
            pragmas.append(text[at:end].strip())
            at = end
        elif text[at] == "}":
            return tuple(items), at + 1
        else:
            lead, at = _up_to_brace_or_end(text, at)
            if text[at] == "{":
                inner, at = _items(text, at + 1)
                items.append(Block(lead, tuple(pragmas), inner))
            else:
                at += 1
                if lead:
                    items.append(lead)
            pragmas = []


def _up_to_brace_or_end(text: str, at: int) -> tuple[str, int]:
    """A statement or a block's header, in one line, and the position of its semicolon or brace."""
    depth = 0
    opens_block = _KEYWORD.match(text, at) is not None or text[at] == "{"
    for match in _MARK.finditer(text, at):
        mark = match[0]
        if depth == 0 and (mark == ";" or (mark == "{" and opens_block)):
            return " ".join(text[at : match.start()].split()), match.start()
        depth += {"(": 1, "{": 1, ")": -1, "}": -1}.get(mark, 0)
        if depth < 0:
            raise ValueError("unbalanced brackets")
    raise ValueError("a statement does not end")


_NAME = r"(?P<name>tmp\d+)"
_VECTOR = r"at::vec::Vectorized(?:N<int64_t, ?\d+>|<int64_t>)"
_LOOP = re.compile(
    r"for ?\((?:int64_t|long) (?P<name>\w+) ?= ?(?P<start>.+?); ?(?P=name) ?< ?(?P<end>.+?);"
    r" ?(?P=name)(?: ?\+= ?(?P<step>.+?)|(?P<one>\+\+))\)"
)
_COUNTER = re.compile(r"\bx\d+\b")
_DEFINITION = re.compile(r"auto (?P<name>tmp\d+) = (?P<value>.*)")
#: The same number under another name: in every lane of a vector, as a wider type, as an array.
_SAME = re.compile(rf"(?:{_NAME}|(?:c10::convert<int64_t>|static_cast<int64_t>|int64_t|{_VECTOR})\((?P<cast>tmp\d+)\))")
_COUNTED = re.compile(rf"{_VECTOR}::arange\({_NAME}, ?(?P<step>\d+)\)")
_LANES = re.compile(
    r"\[&\] \{ __at_align__ std::array<int64_t, ?\d+> tmpbuf; (?:#pragma GCC unroll \d+ )?"
    r"for \(long (?P<lane>\w+_inner) = 0; (?P=lane) < [^;]*; (?P=lane)\+\+\) \{"
    r" tmpbuf\[(?P=lane)\] = static_cast<int64_t>\((?P<value>[^;]*)\); \} return [^;]*; \} \(\)"
)
_ARRAY = re.compile(
    rf"\[&\] \{{ __at_align__ std::array<int64_t, ?\d+> tmpbuf; {_NAME}\.store\(tmpbuf\.data\(\), [^;]*\);"
    r" return tmpbuf; \} \(\)"
)
_WITHIN = rf"\(?\({_VECTOR}\(0\) <= {_NAME}\) & \((?P=name) < {_VECTOR}\((?P<end>[^()]*)\)\)"
_MASK = r"at::vec::VecMask<int64_t, ?\d+>"
_CHECKS = (
    re.compile(rf"TORCH_CHECK\(\(0 <= {_NAME}\) & \((?P=name) < (?P<end>[^()]*)\), \""),
    re.compile(rf"TORCH_CHECK\(\({_MASK}\({_WITHIN}\)\)\.all_masked\(\), \""),
    # Checks the lanes in use alone.
    re.compile(
        rf"TORCH_CHECK\(\({_MASK}::set\({_MASK}::from\(1\), \({_MASK}\({_WITHIN}\)\),"
        r" static_cast<int64_t>\([^\"]*\)\)\)\.all_masked\(\), \""
    ),
)
#: Name of a vector's lane, without its loop's counter.
ANY_LANE = "lane"


class LoopCounter(NamedTuple):
    """A loop's counter."""

    last: Sum
    """Its maximum."""
    step: int
    """Above 1 for vectors."""


class Names:
    """The names in the scope of one loop; ``within`` is the enclosing scope, which is not changed."""

    def __init__(self, within: Names | None = None) -> None:
        self._values: dict[str, Sum] = dict(within._values) if within is not None else {}
        self.counters: dict[str, LoopCounter] = within.counters if within is not None else {}
        """All counters of the kernel, by their unique terms."""
        self.checked: dict[str, Sum] = dict(within.checked) if within is not None else {}
        """The maximum of each number that was loaded and checked, by its term."""
        self._numbers: Iterator[int] = within._numbers if within is not None else itertools.count(1)

    def value_of(self, text: str) -> Sum:
        """The value of a name. Raises ``ValueError`` for an unknown name."""
        if text.endswith("_inner"):
            ((counter,),) = self.value_of(text.removesuffix("_inner"))
            return name(f"{ANY_LANE} {counter}")
        if text not in self._values:
            raise ValueError(f"unknown name {text}")
        return self._values[text]

    def sum_of(self, text: str) -> Sum:
        """The value of an expression."""
        return read_sum(text, self.value_of)

    def enter(self, header: str) -> str:
        """Add a loop's counter and return its term. Raises ``ValueError`` for an unsupported loop."""
        match = _LOOP.fullmatch(header)
        if match is None:
            raise ValueError(f"not a counting loop: {header}")
        start, end = self.sum_of(match["start"]), self.sum_of(match["end"])
        step = number(1) if match["one"] else self.sum_of(match["step"])
        if not is_never_negative(start) or set(step) != {()} or not _is_of_sizes(end):
            raise ValueError(f"unsupported loop: {header}")
        term = self._new(match["name"])
        self.counters[term] = LoopCounter(plus(end, number(1), -1), step[()])
        return term

    def define(self, statement: str) -> None:
        """Add the definition or the bounds check of a name in a statement."""
        match = _DEFINITION.fullmatch(statement)
        if match is not None:
            self._values[match["name"]] = self._defined(match["value"]) or name(self._new(match["name"]))
            return
        checked = next(filter(None, (form.match(statement) for form in _CHECKS)), None)
        if checked is None:
            return
        with suppress(ValueError):
            value, last = self.value_of(checked["name"]), plus(self.sum_of(checked["end"]), number(1), -1)
            if [*value.values()] == [1] and _is_of_sizes(last):
                ((term,),) = value
                self.checked[term] = last

    def _defined(self, text: str) -> Sum | None:
        try:
            if (same := _SAME.fullmatch(text)) is not None:
                return self.value_of(same["name"] or same["cast"])
            if (array := _ARRAY.fullmatch(text)) is not None:
                return self.value_of(array["name"])
            if (counted := _COUNTED.fullmatch(text)) is not None:
                return plus(self.value_of(counted["name"]), name(ANY_LANE), int(counted["step"]))
            if (lanes := _LANES.fullmatch(text)) is not None:
                return self.sum_of(lanes["value"])
            # Arithmetic on loaded numbers may round; an index, which has a loop's counter in it, does not.
            return None if "tmp" in text and _COUNTER.search(text) is None else self.sum_of(text)
        except ValueError:
            return None

    def _new(self, text: str) -> str:
        term = f"{text} {next(self._numbers)}"
        self._values[text] = name(term)
        return term


def _is_of_sizes(value: Sum) -> bool:
    """Return whether ``value`` consists of numbers and sizes only."""
    return all(is_size(part) for term in value for part in term)


_PARALLEL_FOR = re.compile(r"#pragma omp for(?: collapse\((?P<loops>\d)\))?")
_ONE_THREAD = "#pragma omp single"
_HARMLESS = re.compile(r"#pragma (?:omp parallel(?: num_threads\(\d+\))?|omp simd.*|GCC .*)")
_POINTER = re.compile(r"\b(?:in_)?(?:out_)?ptr\d+\b")
_ADDS = re.compile(r"atomic_add_vec<[^;]*?>\((?P<pointer>\w+), (?P<name>tmp\d+), [^;]*\)")
_ADDS_ONE = re.compile(r"atomic_add\(&(?P<pointer>\w+)\[(?P<place>[^;]*?)\], [^;]*\)")
_WRITES = re.compile(r"(?P<pointer>\w+)\[(?P<place>static_cast<int64_t>\([^;=]*?\))\] [-+*/|&^]?= ")
_STORES = re.compile(r"\.store\((?P<pointer>\w+) \+ (?P<place>static_cast<int64_t>\([^;]*?\))(?:, [^;]*)?\)(?:$|;)")
_ATOMIC = "atomic_add"
#: Adds whole tiles, atomically if its template says so.
_TILES = "transpose_mxn<"
#: A write whose index seems to depend on loaded numbers.
_AT_INDEX = re.compile(
    r"ptr\d+\[static_cast<int64_t>\([^;\n]*\btmp\d[^;\n]*\)\] ?[-+*/|&^]?=(?!=)"
    r"|\.store\(\w*ptr\d+ \+ static_cast<int64_t>\([^;\n]*\btmp\d"
)


class _Access(NamedTuple):
    """One statement that writes to memory."""

    pointer: str
    place: Sum | None
    """``None`` if it could not be read."""
    is_atomic: bool
    checked: dict[str, Sum]
    """``Names.checked`` at this statement."""


def may_let_threads_meet(source: str) -> bool:
    """Return whether ``source`` adds atomically or writes at an index, so that two threads may write one element."""
    return _ATOMIC in source or _TILES in source or _AT_INDEX.search(source) is not None


def keeps_threads_apart(source: str) -> bool:
    """Return whether no two threads provably write one element in atomic additions and indexed writes of ``source``.

    ``False`` without such writes, and without a proof.
    """
    if not may_let_threads_meet(source) or any("true" in tile.partition(">")[0] for tile in source.split(_TILES)[1:]):
        return False
    try:
        loops = list(_loops(read_kernel(source), Names()))
    except (ValueError, IndexError):
        return False
    return bool(loops) and all(loops)


def _loops(block: Block, names: Names) -> Iterator[bool]:
    """Yield, for each pointer that threads of a parallel loop may write, whether they provably write disjointly."""
    for pragma in block.pragmas:
        parallel = _PARALLEL_FOR.fullmatch(pragma)
        if parallel is not None:
            yield from _proofs(block, names, int(parallel["loops"] or 1))
            return
        if pragma == _ONE_THREAD:
            yield True  # the others wait at its end
            return
        if _HARMLESS.fullmatch(pragma) is None:
            raise ValueError(f"unknown pragma: {pragma}")
    names = Names(names)
    if block.header.startswith("for"):
        names.enter(block.header)
    for item in block.items:
        if isinstance(item, Block):
            yield from _loops(item, names)
            continue
        names.define(item)
        if _ATOMIC in item:
            raise ValueError("atomic addition outside a parallel loop")


def _proofs(block: Block, names: Names, loops: int) -> Iterator[bool]:
    """The same for one parallel loop; nothing if its threads cannot write to the same element."""
    names = Names(names)
    parallel = [names.enter(block.header)]
    for _ in range(1, loops):
        (inner,) = block.items
        if not isinstance(inner, Block):
            raise ValueError("a loop is missing")
        block = inner
        parallel.append(names.enter(block.header))
    statements = list(_walk(block, names))
    accesses = [access for _, of_statement in statements for access in of_statement]
    mentions = Counter(pointer for statement, _ in statements for pointer in _POINTER.findall(statement))
    for pointer in dict.fromkeys(each.pointer for each in accesses if each.is_atomic or _is_at_index(each.place)):
        own = [access for access in accesses if access.pointer == pointer]
        yield mentions[pointer] <= len(own) and _never_meet(own, parallel, names)


def _walk(block: Block, names: Names) -> Iterator[tuple[str, list[_Access]]]:
    """Every statement with its accesses."""
    for item in block.items:
        if isinstance(item, str):
            names.define(item)
            yield item, list(_accesses(item, names))
            continue
        if any("omp" in pragma for pragma in item.pragmas):
            raise ValueError("nested parallel loops")
        inner = Names(names)
        if item.header.startswith("for"):
            inner.enter(item.header)
        yield from _walk(item, inner)


def _accesses(statement: str, names: Names) -> Iterator[_Access]:
    count = 0
    for form in (_ADDS, _ADDS_ONE, _WRITES, _STORES):
        for match in form.finditer(statement):
            is_atomic = form in (_ADDS, _ADDS_ONE)
            count += is_atomic
            if _POINTER.fullmatch(match["pointer"]) is None and not is_atomic:
                continue  # a buffer local to the loop
            try:
                place = names.value_of(match["name"]) if form is _ADDS else names.sum_of(match["place"])
                if form is _STORES:
                    place = plus(place, {(ANY_LANE,): 1})
            except ValueError:
                place = None
            yield _Access(match["pointer"], place, is_atomic, dict(names.checked))
    if statement.count(_ATOMIC) != count:
        raise ValueError(f"unsupported addition: {statement}")


def _is_at_index(place: Sum | None) -> bool:
    return place is None or any(part.startswith("tmp") for term in place for part in term)


def _never_meet(accesses: list[_Access], parallel: list[str], names: Names) -> bool:
    """Return whether no two iterations of the ``parallel`` loops write to the same element of a pointer."""
    steps: dict[str, Sum] | None = None
    reach: Sum = {}
    modulus = 0
    for access in accesses:
        parts = _parts(access.place, names) if access.place is not None else None
        if parts is None:
            return False
        own = {term: parts.pop(term, {}) for term in parallel}
        if not all(own.values()) or (steps is not None and own != steps):
            return False
        steps = own
        spread = parts.pop("", {})
        for term, times in parts.items():
            last = names.counters[term].last if term in names.counters else access.checked.get(term)
            if last is not None:
                spread = plus(spread, product(times, last))
            elif set(times) == {()}:
                modulus = gcd(modulus, times[()])
            else:
                return False
        for term in parallel:  # the lanes of one iteration
            spread = plus(spread, own[term], names.counters[term].step - 1)
        if not is_never_negative(spread):
            return False
        reach = {term: max(reach.get(term, 0), spread.get(term, 0)) for term in {**reach, **spread}}
    orders = itertools.permutations(parallel)
    return steps is not None and any(_is_nested(order, steps, reach, names, modulus) for order in orders)


def _is_nested(order: tuple[str, ...], steps: dict[str, Sum], reach: Sum, names: Names, modulus: int) -> bool:
    """Return whether the step of each loop is larger than the range of the loops before it.

    ``modulus``: what divides the coefficient of every unbounded number, or 0. All else must lie below it.
    """
    for term in order:
        counter = names.counters[term]
        beyond = plus(plus({}, steps[term], counter.step), plus(reach, number(1)), -1)
        if not is_never_negative(beyond):
            return False
        reach = plus(reach, product(steps[term], counter.last))
    return not modulus or (set(reach) <= {()} and reach.get((), 0) < modulus)


def _parts(place: Sum, names: Names) -> dict[str, Sum] | None:
    """The coefficient of each name in an index; those of products of sizes and numbers are under the empty name.

    A lane of a vector belongs to its loop's counter, which then counts to the loop's end one by one.
    """
    parts: dict[str, Sum] = {}
    for term, count in place.items():
        own = [part for part in term if not is_size(part)]
        if len(own) > 1:
            return None
        at = own[0] if own else ""
        parts[at] = plus(parts.get(at, {}), {tuple(filter(is_size, term)): count})
    if not all(map(is_never_negative, parts.values())):
        return None
    wide = [term for term in parts if term in names.counters and names.counters[term].step > 1]
    for lane in [term for term in parts if term.startswith(ANY_LANE)]:
        of = lane.removeprefix(ANY_LANE).strip() or (wide[0] if len(wide) == 1 else "")
        if not of or parts.pop(lane) != parts.get(of):
            return None
    return parts
