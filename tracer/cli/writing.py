"""Where ``--format`` and ``-o`` send a report, and writing it there: whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tracer.cli.output import check_writable, show
from tracer.errors import ReportError, UsageError
from tracer.files import write_whole
from tracer.names import Detail
from tracer.report.files.formats import FORMATS, format_of, render, to_write
from tracer.report.finding_columns import table_named

if TYPE_CHECKING:
    from tracer.report import Report

#: What a file in a folder is called, before its suffix.
STEM = "report"


def destinations(
    formats: str | None, output: str | None, *, inputs: Sequence[str] = (), table: str | None = None
) -> Sequence[tuple[str, Path | None]]:
    """Each format's name with the file that it goes to; ``None`` stands for standard output.

    A ``table`` makes CSV the default. Before anything is judged, raises ``ReportError`` for an unknown format or table,
    a file that cannot be written or is one of the ``inputs``; ``UsageError`` for a table that no format holds.
    """
    names = list(dict.fromkeys(name.strip().lower() for name in formats.split(","))) if formats is not None else None
    for name in names or ():
        if name not in FORMATS:
            raise ReportError(f"there is no format {name!r}", hint=f"choose from {', '.join(FORMATS)}")
    wanted = _wanted(names, output, inputs, "text" if table is None else "csv")
    if table is not None:
        table_named(table)
        if not any(FORMATS[name].has_tables for name, _ in wanted):
            holding = " or ".join(name for name, form in FORMATS.items() if form.has_tables)
            raise UsageError("--table chooses what CSV holds", hint=f"add --format {holding}")
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
    stem = path / STEM if is_folder else path
    if path.suffix in {form.suffix for form in FORMATS.values()} and not is_folder:
        stem = path.with_suffix("")
    files: list[tuple[str, Path | None]] = []
    for name in names:
        is_whole_name = len(names) == 1 and not is_folder
        target = path if is_whole_name else stem.with_name(stem.name + FORMATS[name].suffix)
        files.append((name, target))
        check_writable(target, error=ReportError)
        if any(target.exists() and os.path.exists(path) and target.samefile(path) for path in inputs):
            raise ReportError(f"{target} is the trace itself", hint="choose another name with -o")
    return files


Rendered = tuple[bytes | Iterator[bytes] | str, Path | None]
"""The output and its file; text goes to standard output."""


def render_report(
    report: Report, wanted: Sequence[tuple[str, Path | None]], *, table: str = "findings", detail: Detail
) -> list[Rendered]:
    """Every format of ``wanted``, before any is written; ``table`` is for CSV, ``detail`` a terminal's."""
    from tracer.report.render.terminal import SHOWN, to_text

    rendered: list[Rendered] = []
    for name, path in wanted:
        if path is not None:
            rendered.append((to_write(name, report, table=table), path))
        elif name == "text":
            rendered.append((to_text(report, width=None, color=None, limit=SHOWN, detail=detail), None))
        else:
            rendered.append((render(name, report, table=table), None))
    return rendered


def write_rendered(rendered: Iterable[Rendered]) -> None:
    """Write or print what ``render_report`` gave. Raises ``ReportError`` in one line for what cannot be written."""
    for data, path in rendered:
        if isinstance(data, str):
            show(data)
        elif path is not None:
            write_whole(path, data, error=ReportError)
