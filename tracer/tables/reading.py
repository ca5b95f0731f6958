"""Reads a table's file: TOML to a typed model, every value checked, errors in one line."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from tracer.errors import TableError
from tracer.files import toml_values
from tracer.tables.rules import SCHEMA, LibraryRule, Reviewed, Rule, WantedValue
from tracer.tables.versions import specifiers
from tracer.tables.vocabulary import DOMAINS, allowed

Model = TypeVar("Model", bound=msgspec.Struct)
#: Finds values that a model's types allow and the vocabulary does not: path and fault.
Misspelt = Callable[[Any], Iterator[tuple[str, str]]]


def parse(text: str, source: str, model: type[Model], misspelt: Misspelt) -> Model:
    """Parse ``model`` from TOML. Raises ``TableError`` in one line with ``source`` for invalid text."""
    try:
        table = msgspec.convert(toml_values(text), model, strict=True)
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
#: ``profiler.*``, every op of a library.
NAMESPACE = re.compile(r"[A-Za-z_]\w*\.\*")
#: ``PYTHONHASHSEED``.
VARIABLE = re.compile(r"[A-Z][A-Z0-9_]*")
#: ``cuda-index-add``.
ID = re.compile(r"[a-z0-9]+(-[a-z0-9]+)+")


def misspelt_schema(schema: int) -> Iterator[tuple[str, str]]:
    """A file whose schema this release does not read."""
    if schema != SCHEMA:
        yield "$.schema", f"schema {schema} is not {SCHEMA}, which this release reads"


def misspelt_head(table: Reviewed) -> Iterator[tuple[str, str]]:
    """Faults in a table's head."""
    yield from misspelt_schema(table.schema)
    yield from bad_range("$.reviewed", table.reviewed or "nothing", ("<", "<=", ">="))


def misspelt_rule(path: str, rule: Rule, leader: str) -> Iterator[tuple[str, str]]:
    """Every value of ``rule`` that the types allow and the vocabulary does not; its id must begin with ``leader``."""
    if not (ID.fullmatch(rule.id) and rule.id.startswith(f"{leader}-")):
        yield f"{path}.id", f"{rule.id!r} is not kebab-case with the prefix `{leader}-`"
    for place, op in enumerate(rule.ops):
        if not OP.fullmatch(op) and not (type(rule) is LibraryRule and NAMESPACE.fullmatch(op)):
            yield f"{path}.ops[{place}] ({rule.id})", f"{op!r} is not of the form namespace.name[.overload]"
    for place, case in enumerate(rule.case):
        yield from misspelt_conditions(f"{path}.case[{place}] ({rule.id})", case.when, case.torch)


def misspelt_conditions(path: str, when: Mapping[str, WantedValue], torch: str) -> Iterator[tuple[str, str]]:
    """Every key or value of a condition that the vocabulary does not have, with ``path``."""
    if torch:
        yield from bad_range(path, torch, ("<", ">="))
    for key, wanted in when.items():
        if key not in DOMAINS:
            yield path, f"unknown condition {key!r}"
            continue
        if wanted == []:
            yield path, f"{key} has no values"
        for value in wanted if isinstance(wanted, list) else [wanted]:
            if not allowed(key, value):
                yield path, f"{key} has no value {value!r}"


def bad_range(path: str, text: str, operators: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """A range names minor releases. A case's has no ``<=``, because ``<=2.6`` excludes 2.6.1."""
    try:
        parts = list(specifiers(text))
    except ValueError as problem:
        yield path, str(problem)
        return
    for part in parts:
        if part.operator not in operators or not re.fullmatch(r"\d+\.\d+", part.version):
            yield path, f"{str(part)!r} is not one of {' '.join(operators)} with a minor release"
