"""From ``--format`` and ``-o`` to what is written where."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from tracer.cli.output import check_writable
from tracer.errors import ReportError, UsageError
from tracer.report.files.exported_tables import table_named
from tracer.report.files.formats import FORMATS, format_of, require

#: What a file in a folder is called, before its suffix.
STEM = "report"


def destinations(
    formats: str | None, output: str | None, *, inputs: Sequence[str] = (), table: str | None = None
) -> Sequence[tuple[str, Path | None]]:
    """Each format's name with the file that it goes to; ``None`` stands for standard output.

    A ``table`` that is chosen makes CSV the default. Raises ``ReportError`` for a format or a table that does not
    exist, a package that a format needs, a file that cannot be written, or one of the ``inputs``, before anything is
    judged; ``UsageError`` for a table that no format holds.
    """
    names = _parse(formats) if formats is not None else None
    wanted = _wanted(names, output, inputs, "text" if table is None else "csv")
    for name, path in wanted:
        require(name)
        if path is None and FORMATS[name].is_binary:
            raise UsageError(f"{name} is no text to print", hint="name a file with -o")
    if table is not None:
        table_named(table)
        if not any(FORMATS[name].has_tables for name, _ in wanted):
            holding = " or ".join(name for name, one in FORMATS.items() if one.has_tables)
            raise UsageError("--table chooses what CSV and Parquet hold", hint=f"add --format {holding}")
    return wanted


def _wanted(
    names: list[str] | None, output: str | None, inputs: Sequence[str], default: str
) -> list[tuple[str, Path | None]]:
    if output is None:
        if names is not None and len(names) > 1:
            raise UsageError("several formats need a place to go", hint="add -o with a folder or a stem")
        return [(names[0] if names else default, None)]
    path = Path(output)
    is_folder = os.path.isdir(path) or output.endswith(("/", os.sep))
    if names is None:
        if is_folder:
            raise UsageError(f"{output} is a folder", hint="name a file, or say which with --format")
        names = [format_of(path)]
    if is_folder:
        files = [(name, path / f"{STEM}{FORMATS[name].suffix}") for name in names]
    elif len(names) == 1:
        files = [(names[0], path)]
    else:
        stem = path.with_suffix("") if path.suffix in {form.suffix for form in FORMATS.values()} else path
        files = [(name, stem.with_name(stem.name + FORMATS[name].suffix)) for name in names]
    for _, target in files:
        check_writable(target, error=ReportError)
        if any(target.exists() and os.path.exists(path) and target.samefile(path) for path in inputs):
            raise ReportError(f"{target} is the trace itself", hint="choose another name with -o")
    return [*files]


def _parse(formats: str) -> list[str]:
    """``html,csv`` as names, each once."""
    names = list(dict.fromkeys(name.strip().lower() for name in formats.split(",")))
    for name in names:
        if name not in FORMATS:
            raise ReportError(f"there is no format {name!r}", hint=f"choose from {', '.join(FORMATS)}")
    return names
