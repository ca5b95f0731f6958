"""Reading a table's file: TOML to a typed model, every word checked, one line for what is wrong."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from tracer.errors import TableError
from tracer.tables.rules import SCHEMA, LibraryRule, Reviewed, Rule, Wanted
from tracer.tables.versions import specifiers
from tracer.tables.vocabulary import DERIVED_FACTS, DOMAINS, NOTED_FACTS, allowed

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
#: ``profiler.*``, every op of a library.
NAMESPACE = re.compile(r"[A-Za-z_]\w*\.\*")
#: ``PYTHONHASHSEED``.
VARIABLE = re.compile(r"[A-Z][A-Z0-9_]*")
#: ``cuda-index-add``.
ID = re.compile(r"[a-z0-9]+(-[a-z0-9]+)+")


def misspelt_schema(schema: int) -> Iterator[tuple[str, str]]:
    """A file of another schema than this release reads."""
    if schema != SCHEMA:
        yield "$.schema", f"schema {schema} is not {SCHEMA}, the one that this release reads"


def misspelt_head(table: Reviewed) -> Iterator[tuple[str, str]]:
    """What is wrong with what a table says of itself."""
    yield from misspelt_schema(table.schema)
    yield from bad_range("$.reviewed", table.reviewed or "nothing", ("<", "<=", ">="))


def misspelt_rule(path: str, rule: Rule, leader: str) -> Iterator[tuple[str, str]]:
    """Every word of ``rule`` that the types let through and the vocabulary does not; ``leader`` must lead its id."""
    if not (ID.fullmatch(rule.id) and rule.id.startswith(f"{leader}-")):
        yield f"{path}.id", f"{rule.id!r} is not kebab-case led by `{leader}-`"
    for place, op in enumerate(rule.ops):
        if not OP.fullmatch(op) and not (type(rule) is LibraryRule and NAMESPACE.fullmatch(op)):
            yield f"{path}.ops[{place}] ({rule.id})", f"{op!r} is not spelt namespace.name[.overload]"
    for place, exemption in enumerate(rule.exempt):
        if exemption.fact not in NOTED_FACTS and exemption.fact not in DERIVED_FACTS:
            facts = ", ".join((*NOTED_FACTS, *DERIVED_FACTS))
            yield f"{path}.exempt[{place}].fact ({rule.id})", f"{exemption.fact!r} is none of {facts}"
    for place, case in enumerate(rule.case):
        yield from misspelt_conditions(f"{path}.case[{place}] ({rule.id})", case.when, case.torch)


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
        for value in wanted if isinstance(wanted, list) else [wanted]:
            if not allowed(key, value):
                yield path, f"{key} has no value {value!r}"


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
