"""``[tool.tracer]`` in ``pyproject.toml``: what ``tracer check`` takes for granted, checked strictly."""

from __future__ import annotations

from pathlib import Path

import msgspec

from tracer.errors import UsageError, reason_of
from tracer.files import read_text, toml_values

FILE = "pyproject.toml"


class Configuration(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="kebab"):
    """Options by their names on the command line, which go before these."""

    backend: str = "recorded"
    torch: str = "recorded"
    settings: str = "recorded"
    strict: bool = False
    fail_on: tuple[str, ...] = ()
    """Verdicts, and ``new``; empty: the default of ``tracer check``."""
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    host: tuple[str, ...] = ()
    """Globs of what runs on the host whatever the backend; see ``judge``."""
    allow_no_training: bool = False
    require_training: bool = False
    baseline: str = ""
    """Path of the lock file, relative to ``pyproject.toml``."""


def load_configuration(folder: Path) -> Configuration:
    """The table in ``folder``'s ``pyproject.toml``; defaults where either is missing. Raises ``UsageError`` in one line
    for a key or a value that does not exist."""
    path = folder / FILE
    try:
        text = read_text(path)
    except FileNotFoundError:
        return Configuration()
    except (OSError, ValueError) as problem:
        raise UsageError(f"cannot read {FILE}: {reason_of(problem)}", hint="check the file") from problem
    try:
        tools = toml_values(text).get("tool", {})
        table = tools.get("tracer", {}) if isinstance(tools, dict) else {}
        return msgspec.convert(table, Configuration, strict=True)
    except (ValueError, RecursionError) as problem:
        keys = ", ".join(field.encode_name for field in msgspec.structs.fields(Configuration))
        raise UsageError(f"{FILE}, [tool.tracer]: {problem}", hint=f"it takes {keys}") from problem
