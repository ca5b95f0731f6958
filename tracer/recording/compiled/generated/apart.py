"""Do the threads of a generated C++ kernel keep apart, each to numbers of its own?

Atomic additions vary where two threads add to one number, and writes at an index where two threads write to one. Which
iterations a thread gets is settled by the loop under ``#pragma omp for``. A place is a sum; if one step of that loop's
counter moves it by more than all that the inner loops and the indices can, no two iterations share a place: whatever
the indices are, a thread adds in its own order. ``4096L*x0 + 64L*tmp5 + tmp16`` with both indices checked against 64 is
one plane for each ``x0``. Loops end at a barrier, so what another loop does to the same numbers comes before or after.

What is not proven so is not said.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import permutations
from typing import NamedTuple

from tracer.recording.compiled.generated.blocks import Block, read_kernel
from tracer.recording.compiled.generated.definitions import ANY_LANE, Names
from tracer.recording.compiled.generated.places import (
    Sum,
    is_never_negative,
    is_size,
    number,
    plus,
    product,
    widest,
)

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
    if any("true" in one.partition(">")[0] for one in source.split(_TILES)[1:]):
        return False
    try:
        found = list(_loops(read_kernel(source), Names()))
    except (ValueError, IndexError):
        return False
    return bool(found) and all(found)


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
    met = dict.fromkeys(one.pointer for one in accesses if one.is_atomic or _is_at_index(one.place))
    for pointer in met:
        own = [one for one in accesses if one.pointer == pointer]
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
        for found in form.finditer(statement):
            is_atomic = form in (_ADDS, _ADDS_ONE)
            count += is_atomic
            if _POINTER.fullmatch(found["pointer"]) is None and not is_atomic:
                continue  # a buffer of the loop's own
            try:
                place = names.value_of(found["name"]) if form is _ADDS else names.sum_of(found["place"])
                if form is _STORES:
                    place = plus(place, {(ANY_LANE,): 1})
            except ValueError:
                place = None
            yield _Access(found["pointer"], place, is_atomic, dict(names.checked))
    if statement.count(_ATOMIC) != count:
        raise ValueError(f"an addition of another form: {statement}")


def _is_at_index(place: Sum | None) -> bool:
    return place is None or any(part.startswith("tmp") for term in place for part in term)


def _never_meet(accesses: list[_Access], shared: list[str], names: Names) -> bool:
    """Do no two iterations of the ``shared`` loops come to one place of a pointer?"""
    steps: dict[str, Sum] | None = None
    reach: Sum = {}
    for one in accesses:
        if one.place is None:
            return False
        parts = _parts(one.place, names)
        if parts is None:
            return False
        own = {term: parts.pop(term, {}) for term in shared}
        if not all(own.values()) or (steps is not None and own != steps):
            return False
        steps = own
        spread = parts.pop("", {})
        for term, times in parts.items():
            last = names.counters[term].last if term in names.counters else one.checked.get(term)
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
