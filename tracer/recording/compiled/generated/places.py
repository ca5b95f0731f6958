"""Places in memory as sums of products: of a loop's counter, of an index that was read, and of sizes.

``tmp16[x2_inner] + 64L*tmp5 + 4096L*x0`` is such a sum. Everything that is asked of one is asked by its coefficients;
a size that is not fixed (``ks1``) is some number that is not negative.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping

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
    made = dict(first)
    for term, count in second.items():
        made[term] = made.get(term, 0) + times * count
    return {term: count for term, count in made.items() if count}


def product(first: Sum, second: Sum) -> Sum:
    """Each term of the one with each of the other."""
    made: dict[tuple[str, ...], int] = {}
    for one, count in first.items():
        for other, times in second.items():
            term = tuple(sorted((*one, *other)))
            made[term] = made.get(term, 0) + count * times
    return {term: count for term, count in made.items() if count}


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
