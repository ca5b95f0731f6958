"""Reading a table's file: TOML to a typed model, every word checked, one line for what is wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from tracer.errors import TableError

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
