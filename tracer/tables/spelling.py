"""How the tables' words are spelt: ids, ops, conditions, version ranges.

The types of a table let any text through; these checks know the vocabulary.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from tracer.tables.model import Wanted
from tracer.tables.versions import specifiers
from tracer.tables.vocabulary import DOMAINS, Value, allowed

#: ``aten.index_add_``, ``aten.index_add_.default``.
OP = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*){1,2}")
#: ``cuda-index-add``.
ID = re.compile(r"[a-z0-9]+(-[a-z0-9]+)+")


def misspelt_conditions(path: str, when: Mapping[str, Wanted], torch: str) -> Iterator[tuple[str, str]]:
    """Every word of a condition that the vocabulary does not have, with ``path``."""
    if torch:
        yield from bad_range(path, torch, ("<", ">="))
    for key, wanted in when.items():
        if key not in DOMAINS:
            yield path, f"unknown condition {key!r}"
            continue
        if wanted == []:
            yield path, f"{key} lists no value"
        for value in _values(wanted):
            if not allowed(key, value):
                yield path, f"{key} has no value {value!r}"


def _values(wanted: Wanted) -> list[Value]:
    return wanted if isinstance(wanted, list) else [wanted]


def bad_range(path: str, text: str, operators: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """A range is written on minor releases. A case's has no ``<=``: 2.6.1 would fall out of ``<=2.6``."""
    try:
        parts = list(specifiers(text))
    except ValueError as problem:
        yield path, str(problem)
        return
    for part in parts:
        if part.operator not in operators or not re.fullmatch(r"\d+\.\d+", part.version):
            yield path, f"{str(part)!r} is not one of {' '.join(operators)} with a minor release"
