"""From ``--format`` and ``-o`` to what is written where."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from tracer.cli.output import check_writable
from tracer.errors import ReportError, UsageError
from tracer.report.formats import FORMATS, format_of

#: What a file in a folder is called, before its suffix.
STEM = "report"


def destinations(
    formats: str | None, output: str | None, *, inputs: Sequence[str] = ()
) -> Sequence[tuple[str, Path | None]]:
    """Each format's name with the file that it goes to; ``None`` stands for standard output.

    Raises ``ReportError`` for a format that does not exist, a file that cannot be written, or one of the
    ``inputs``, before anything is judged.
    """
    names = _parse(formats) if formats is not None else None
    if output is None:
        if names is not None and len(names) > 1:
            raise UsageError("several formats need a place to go", hint="add -o with a folder or a stem")
        return [(names[0] if names else "text", None)]
    path = Path(output)
    is_folder = path.is_dir() or output.endswith(("/", os.sep))
    if names is None:
        if is_folder:
            raise UsageError(f"{output} is a folder", hint="name a file, or say which with --format")
        names = [format_of(path)]
    if is_folder:
        wanted = [(name, path / f"{STEM}{FORMATS[name].suffix}") for name in names]
    elif len(names) == 1:
        wanted = [(names[0], path)]
    else:
        stem = path.with_suffix("") if path.suffix in {one.suffix for one in FORMATS.values()} else path
        wanted = [(name, stem.with_name(stem.name + FORMATS[name].suffix)) for name in names]
    for _, target in wanted:
        check_writable(target, error=ReportError)
        if any(target.exists() and os.path.exists(one) and target.samefile(one) for one in inputs):
            raise ReportError(f"{target} is the trace itself", hint="choose another name with -o")
    return wanted


def _parse(formats: str) -> list[str]:
    """``html,csv`` as names, each once."""
    names = list(dict.fromkeys(name.strip().lower() for name in formats.split(",")))
    for name in names:
        if name not in FORMATS:
            raise ReportError(f"there is no format {name!r}", hint=f"choose from {', '.join(FORMATS)}")
    return names
