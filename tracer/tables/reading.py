"""Reading a table's file: TOML to a typed model, every word checked, one line for what is wrong.

The types of a table let any text through; the checks of ids, ops, conditions and version ranges know the vocabulary.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from tracer.errors import TableError
from tracer.facts.fact import Value
from tracer.tables.rules import Wanted
from tracer.tables.versions import specifiers
from tracer.tables.vocabulary import DOMAINS, allowed

try:
    import tomli as toml  # compiled where a wheel exists: four times as fast as the standard library's
except ImportError:  # Python 3.11 and newer have the same parser without the speed
    import tomllib as toml  # type: ignore[import-not-found, no-redef, unused-ignore]

Model = TypeVar("Model", bound=msgspec.Struct)
#: What a model's types let through and the vocabulary does not: path and fault.
Misspelt = Callable[[Any], Iterator[tuple[str, str]]]


def content(text: str) -> dict[str, Any]:
    """The plain values of a TOML text; ``ValueError`` for what is none."""
    return toml.loads(text)


def parse(text: str, source: str, model: type[Model], misspelt: Misspelt) -> Model:
    """Read ``model`` from TOML; ``TableError`` in one line, led by ``source``, for what it may not hold."""
    try:
        table = msgspec.convert(content(text), model, strict=True)
    except (ValueError, RecursionError) as problem:
        raise TableError(f"{source}: {problem}", hint="see docs/adding-a-rule.md") from problem
    for path, fault in misspelt(table):
        raise TableError(f"{source}: {fault} at {path}", hint="see docs/adding-a-rule.md")
    return table


def read(path: Path) -> str:
    """A table's text."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as problem:
        raise TableError(f"cannot read {path.name}: {problem}", hint="reinstall the package") from problem


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
