"""Do the threads of a generated C++ kernel write disjoint elements?

Atomic additions vary where two threads add to one number, and writes at an index where two threads write to one. Which
iterations a thread gets is settled by the loop under ``#pragma omp for``. A place is a sum; if one step of that loop's
counter moves it by more than all that the inner loops and the indices can, no two iterations share a place: whatever
the indices are, a thread adds in its own order. ``4096L*x0 + 64L*tmp5 + tmp16`` with both indices checked against 64 is
one plane for each ``x0``. Loops end at a barrier, so what another loop does to the same numbers comes before or after.

What is not proven so is not said."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Mapping
from itertools import permutations
from typing import NamedTuple

#: Names that are multiplied, in order -> how often; no name stands for the number itself.
Sum = Mapping[tuple[str, ...], int]

_LONG = re.compile(r"\b(\d+)L\b")
_CAST = re.compile(r"\b(?:static_cast<int64_t>|int64_t)(?=\()")
_SIZE = re.compile(r"ks\d+")


def number(value: int) -> Sum:
    """A number by itself."""
    return {(): value} if value else {}


def name(text: str) -> Sum:
    """One name by itself."""
    return {(text,): 1}


def plus(first: Sum, second: Sum, times: int = 1) -> Sum:
    """``first + times * second``."""
    total = dict(first)
    for term, count in second.items():
        total[term] = total.get(term, 0) + times * count
    return {term: count for term, count in total.items() if count}


def product(first: Sum, second: Sum) -> Sum:
    """Each term of the one with each of the other."""
    terms: dict[tuple[str, ...], int] = {}
    for factor, count in first.items():
        for other, times in second.items():
            term = tuple(sorted((*factor, *other)))
            terms[term] = terms.get(term, 0) + count * times
    return {term: count for term, count in terms.items() if count}


def is_never_negative(value: Sum) -> bool:
    """Is it certain that it is 0 or more, whatever the sizes are?"""
    return all(count >= 0 for count in value.values())


def widest(first: Sum, second: Sum) -> Sum:
    """What neither is greater than; of sums that are never negative."""
    return {term: max(first.get(term, 0), second.get(term, 0)) for term in {**first, **second}}


def is_size(text: str) -> bool:
    """Is it the name of a size that is not fixed?"""
    return _SIZE.fullmatch(text) is not None


def read_sum(text: str, value_of: Callable[[str], Sum]) -> Sum:
    """The sum that ``text`` is, in C++; ``value_of`` knows its names. Raises ``ValueError`` for anything else."""
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
        return value_of(node.value.id)  # one lane of several: what holds for all holds for it
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
#: What ends, opens or closes something, or hides it.
_MARK = re.compile(r'[;{}()"]')
_KERNEL = re.compile(r"\bvoid\s+kernel\s*\(")
_SPACE = re.compile(r"(?:\s+|//[^\n]*)+")


class Block(NamedTuple):
    """What stands between braces."""

    header: str
    """``for(...)``, ``if(...)``; empty for braces alone."""
    pragmas: tuple[str, ...]
    """What stands above it: ``#pragma omp for``."""
    items: tuple[Block | str, ...]
    """Blocks and statements in their order. A function within a statement is a part of it."""


def read_kernel(source: str) -> Block:
    """The body of the one function that ``source`` defines. Raises ``ValueError`` for a text of another form."""
    if len(_KERNEL.findall(source)) != 1:
        raise ValueError("not one kernel")
    start = source.index("{", _KERNEL.search(source).end())  # type: ignore[union-attr]
    items, _ = _items(source, start + 1)
    return Block("", (), items)


def _items(text: str, at: int) -> tuple[tuple[Block | str, ...], int]:
    """What stands from ``at`` to the brace that closes it, and the place behind that."""
    items: list[Block | str] = []
    pragmas: list[str] = []
    while True:
        at = _behind_space(text, at)
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
    """A statement, or what leads a block, in one line; and where its semicolon or its brace stands."""
    start, depth = at, 0
    opens_block = _KEYWORD.match(text, at) is not None or text[at] == "{"
    while True:
        match = _MARK.search(text, at)
        if match is None:
            raise ValueError("a statement does not end")
        mark, at = match[0], match.start()
        if mark == '"':
            at = _behind_text(text, at)
            continue
        if depth == 0 and (mark == ";" or (mark == "{" and opens_block)):
            return " ".join(text[start:at].split()), at
        depth += 1 if mark in "({" else -1 if mark in ")}" else 0
        if depth < 0:
            raise ValueError("something is closed that was not opened")
        at += 1


def _behind_text(text: str, at: int) -> int:
    at += 1
    while text[at] != '"':
        at += 2 if text[at] == "\\" else 1
    return at + 1


def _behind_space(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    return at if match is None else match.end()


_NAME = r"(?P<name>tmp\d+)"
_VECTOR = r"at::vec::Vectorized(?:N<int64_t, ?\d+>|<int64_t>)"
_LOOP = re.compile(
    r"for ?\((?:int64_t|long) (?P<name>\w+) ?= ?(?P<start>.+?); ?(?P=name) ?< ?(?P<end>.+?);"
    r" ?(?P=name)(?: ?\+= ?(?P<step>.+?)|(?P<one>\+\+))\)"
)
_DEFINITION = re.compile(r"auto (?P<name>tmp\d+) = (?P<value>.*)")
#: The same number by another name: in every lane of a vector, as a wider type, as an array.
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
    # Of the lanes that are used; the others are not asked.
    re.compile(
        rf"TORCH_CHECK\(\({_MASK}::set\({_MASK}::from\(1\), \({_MASK}\({_WITHIN}\)\),"
        r" static_cast<int64_t>\([^\"]*\)\)\)\.all_masked\(\), \""
    ),
)
#: A lane of a vector of which it is not said which loop it belongs to.
ANY_LANE = "lane"


class Counter(NamedTuple):
    """A loop's counter."""

    last: Sum
    """It never exceeds that."""
    step: int
    """Above 1 where several numbers are taken at once."""


class Names:
    """Those that one loop and the loops in it know; ``within`` another scope, which it leaves as it is."""

    def __init__(self, within: Names | None = None) -> None:
        self._values: dict[str, Sum] = dict(within._values) if within is not None else {}
        self.counters: dict[str, Counter] = within.counters if within is not None else {}
        """By the term that stands for each; every one that was met, as their terms differ."""
        self.checked: dict[str, Sum] = dict(within.checked) if within is not None else {}
        """A number that was read -> what it never exceeds."""
        self._last: list[int] = within._last if within is not None else [0]

    def value_of(self, text: str) -> Sum:
        """What a name stands for. Raises ``ValueError`` for one that is not known."""
        if text.endswith("_inner"):
            return name(f"{ANY_LANE} {self._term_of(text.removesuffix('_inner'))}")
        if text not in self._values:
            raise ValueError(f"{text} is not known")
        return self._values[text]

    def sum_of(self, text: str) -> Sum:
        """The sum that an expression is."""
        return read_sum(text, self.value_of)

    def enter(self, header: str) -> str:
        """Take a loop's counter in, and give the term that stands for it. Raises ``ValueError`` for another loop."""
        match = _LOOP.fullmatch(header)
        if match is None:
            raise ValueError(f"no loop that counts: {header}")
        start, end = self.sum_of(match["start"]), self.sum_of(match["end"])
        step = number(1) if match["one"] else self.sum_of(match["step"])
        if not is_never_negative(start) or set(step) != {()} or not _is_of_sizes(end):
            raise ValueError(f"a loop of another kind: {header}")
        term = self._new(match["name"])
        self.counters[term] = Counter(plus(end, number(1), -1), step[()])
        return term

    def define(self, statement: str) -> None:
        """Take in what a statement says of a name: what it stands for, or how great it may be."""
        match = _DEFINITION.fullmatch(statement)
        if match is not None:
            self._values[match["name"]] = self._defined(match["value"]) or name(self._new(match["name"]))
            return
        for form in _CHECKS:
            checked = form.match(statement)
            if checked is not None:
                self._note(checked["name"], checked["end"])
                return

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
            return None if "tmp" in text else self.sum_of(text)  # of numbers that were read, some are rounded
        except ValueError:
            return None

    def _note(self, checked: str, end: str) -> None:
        try:
            (term,), count = next(iter(self.value_of(checked).items()))
            last = plus(self.sum_of(end), number(1), -1)
        except (ValueError, StopIteration):
            return
        if len(self.value_of(checked)) == 1 and count == 1 and _is_of_sizes(last):
            self.checked[term] = last

    def _new(self, text: str) -> str:
        self._last[0] += 1
        term = f"{text} {self._last[0]}"
        self._values[text] = name(term)
        return term

    def _term_of(self, counter: str) -> str:
        (term,) = next(iter(self.value_of(counter)))
        return term


def _is_of_sizes(value: Sum) -> bool:
    """Is it made of numbers and sizes alone?"""
    return all(is_size(part) for term in value for part in term)


_SHARED_OUT = re.compile(r"#pragma omp for(?: collapse\((?P<loops>\d)\))?")
_HARMLESS = re.compile(r"#pragma (?:omp parallel(?: num_threads\(\d+\))?|omp simd.*|GCC .*)")
_POINTER = re.compile(r"\b(?:in_)?(?:out_)?ptr\d+\b")
_ADDS = re.compile(r"atomic_add_vec<[^;]*?>\((?P<pointer>\w+), (?P<name>tmp\d+), [^;]*\)")
_ADDS_ONE = re.compile(r"atomic_add\(&(?P<pointer>\w+)\[(?P<place>[^;]*?)\], [^;]*\)")
_WRITES = re.compile(r"(?P<pointer>\w+)\[(?P<place>static_cast<int64_t>\([^;=]*?\))\] [-+*/|&^]?= ")
_STORES = re.compile(r"\.store\((?P<pointer>\w+) \+ (?P<place>static_cast<int64_t>\([^;]*?\))(?:, [^;]*)?\)(?:$|;)")
_ATOMIC = "atomic_add"
#: It adds whole tiles, atomically where its template says so.
_TILES = "transpose_mxn<"
#: A write whose place hangs on what was read from memory, at a first glance.
_AT_INDEX = re.compile(
    r"ptr\d+\[static_cast<int64_t>\([^;\n]*\btmp\d[^;\n]*\)\] ?[-+*/|&^]?=(?!=)"
    r"|\.store\(\w*ptr\d+ \+ static_cast<int64_t>\([^;\n]*\btmp\d"
)


class _Access(NamedTuple):
    """One statement that writes to memory."""

    pointer: str
    place: Sum | None
    """``None`` where it could not be read."""
    is_atomic: bool
    checked: dict[str, Sum]
    """What is known there of the numbers that were read: none exceeds that."""


def may_let_threads_meet(source: str) -> bool:
    """Does ``source`` add atomically or write at an index, so that threads meet unless something keeps them apart?"""
    return _ATOMIC in source or _TILES in source or _AT_INDEX.search(source) is not None


def keeps_threads_apart(source: str) -> bool:
    """Is it proven that no two threads meet wherever ``source`` adds atomically or writes at an index?

    ``False`` where it does neither, and where it is not proven.
    """
    if not may_let_threads_meet(source):
        return False
    if any("true" in tile.partition(">")[0] for tile in source.split(_TILES)[1:]):
        return False
    try:
        loops = list(_loops(read_kernel(source), Names()))
    except (ValueError, IndexError):
        return False
    return bool(loops) and all(loops)


def _loops(block: Block, names: Names) -> Iterator[bool]:
    """Of each loop that is shared out and where threads might meet: is it proven that they do not?"""
    for pragma in block.pragmas:
        shared = _SHARED_OUT.fullmatch(pragma)
        if shared is not None:
            yield from _apart(block, names, int(shared["loops"] or 1))
            return
        if _HARMLESS.fullmatch(pragma) is None:
            raise ValueError(f"not known: {pragma}")
    names = Names(names)
    if block.header.startswith("for"):
        names.enter(block.header)
    for item in block.items:
        if isinstance(item, Block):
            yield from _loops(item, names)
            continue
        names.define(item)
        if _ATOMIC in item:
            raise ValueError("added outside of a loop that is shared out")


def _apart(block: Block, names: Names, loops: int) -> Iterator[bool]:
    """Of one loop that is shared out: nothing where its threads cannot meet by what it does."""
    names = Names(names)
    shared = []
    for number_of_loop in range(loops):
        if number_of_loop:
            (inner,) = block.items
            if not isinstance(inner, Block):
                raise ValueError("a loop is missing")
            block = inner
        shared.append(names.enter(block.header))
    accesses: list[_Access] = []
    read: list[str] = []
    _walk(block, names, accesses, read)
    met = dict.fromkeys(access.pointer for access in accesses if access.is_atomic or _is_at_index(access.place))
    for pointer in met:
        own = [access for access in accesses if access.pointer == pointer]
        is_read = sum(_POINTER.findall(statement).count(pointer) for statement in read) > len(own)
        yield not is_read and _never_meet(own, shared, names)


def _walk(block: Block, names: Names, accesses: list[_Access], statements: list[str]) -> None:
    for item in block.items:
        if isinstance(item, str):
            names.define(item)
            statements.append(item)
            accesses += _accesses(item, names)
            continue
        if any("omp" in pragma for pragma in item.pragmas):
            raise ValueError("shared out within what is shared out")
        inner = Names(names)
        if item.header.startswith("for"):
            inner.enter(item.header)
        _walk(item, inner, accesses, statements)


def _accesses(statement: str, names: Names) -> Iterator[_Access]:
    count = 0
    for form in (_ADDS, _ADDS_ONE, _WRITES, _STORES):
        for match in form.finditer(statement):
            is_atomic = form in (_ADDS, _ADDS_ONE)
            count += is_atomic
            if _POINTER.fullmatch(match["pointer"]) is None and not is_atomic:
                continue  # a buffer of the loop's own
            try:
                place = names.value_of(match["name"]) if form is _ADDS else names.sum_of(match["place"])
                if form is _STORES:
                    place = plus(place, {(ANY_LANE,): 1})
            except ValueError:
                place = None
            yield _Access(match["pointer"], place, is_atomic, dict(names.checked))
    if statement.count(_ATOMIC) != count:
        raise ValueError(f"an addition of another form: {statement}")


def _is_at_index(place: Sum | None) -> bool:
    return place is None or any(part.startswith("tmp") for term in place for part in term)


def _never_meet(accesses: list[_Access], shared: list[str], names: Names) -> bool:
    """Do no two iterations of the ``shared`` loops come to one place of a pointer?"""
    steps: dict[str, Sum] | None = None
    reach: Sum = {}
    for access in accesses:
        if access.place is None:
            return False
        parts = _parts(access.place, names)
        if parts is None:
            return False
        own = {term: parts.pop(term, {}) for term in shared}
        if not all(own.values()) or (steps is not None and own != steps):
            return False
        steps = own
        spread = parts.pop("", {})
        for term, times in parts.items():
            last = names.counters[term].last if term in names.counters else access.checked.get(term)
            if last is None:
                return False
            spread = plus(spread, product(times, last))
        for term in shared:  # numbers that one iteration takes at once
            spread = plus(spread, own[term], names.counters[term].step - 1)
        if not is_never_negative(spread):
            return False
        reach = widest(reach, spread)
    return steps is not None and any(_is_nested(order, steps, reach, names) for order in permutations(shared))


def _is_nested(order: tuple[str, ...], steps: dict[str, Sum], reach: Sum, names: Names) -> bool:
    """Does a step of each loop lead beyond all that the loops before it, and what is in them, can reach?"""
    for term in order:
        counter = names.counters[term]
        beyond = plus(plus({}, steps[term], counter.step), plus(reach, number(1)), -1)
        if not is_never_negative(beyond):
            return False
        reach = plus(reach, product(steps[term], counter.last))
    return True


def _parts(place: Sum, names: Names) -> dict[str, Sum] | None:
    """Each name of a place with what it is multiplied by, sizes and numbers by themselves under no name.

    A lane of a vector goes with its loop's counter, which then runs to the loop's end one by one.
    """
    parts: dict[str, Sum] = {}
    for term, count in place.items():
        own = [part for part in term if not is_size(part)]
        if len(own) > 1:
            return None
        sizes = tuple(part for part in term if is_size(part))
        at = own[0] if own else ""
        parts[at] = plus(parts.get(at, {}), {sizes: count})
    if not all(map(is_never_negative, parts.values())):
        return None
    wide = [term for term in parts if term in names.counters and names.counters[term].step > 1]
    for lane in [term for term in parts if term.startswith(ANY_LANE)]:
        of = lane.removeprefix(ANY_LANE).strip() or (wide[0] if len(wide) == 1 else "")
        if not of or parts.pop(lane) != parts.get(of):
            return None
    return parts
