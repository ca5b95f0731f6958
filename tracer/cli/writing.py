"""Where ``--format`` and ``-o`` send a report, and writing it there: whole or not at all, appended to a job summary."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tracer.cli.output import check_writable, show
from tracer.errors import ReportError, UsageError, reason_of
from tracer.files import read_text, write_whole
from tracer.names import Detail
from tracer.plain import say
from tracer.report.files.exported_tables import table_named
from tracer.report.files.formats import FORMATS, format_of, render, to_write

if TYPE_CHECKING:
    from tracer.report import Report

#: What a file in a folder is called, before its suffix.
STEM = "report"
#: The file that a step of GitHub Actions adds its summary to; other steps write there too.
SUMMARY = "GITHUB_STEP_SUMMARY"


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


Rendered = tuple[bytes | Iterator[bytes] | str | None, Path | None]
"""The output and its file: text to standard output; ``None`` for what is known only when written, and there."""


def render_report(
    report: Report, wanted: Sequence[tuple[str, Path | None]], *, table: str = "findings", detail: Detail
) -> list[Rendered]:
    """Every format of ``wanted``, before any is written; ``table`` is for CSV, ``detail`` a terminal's."""
    from tracer.report.render.terminal import SHOWN, to_text

    rendered: list[Rendered] = []
    for name, path in wanted:
        if path is None and name == "text":
            text = to_text(report, width=None, color=None, limit=SHOWN, detail=detail)
            rendered.append((text, path))
        elif path is not None and name == "markdown" and is_summary(path):
            rendered.append((None, path))
        else:
            if path is None:
                rendered.append((render(name, report, table=table), path))
            else:
                rendered.append((to_write(name, report, table=table), path))
    return rendered


def write_rendered(report: Report, rendered: Iterable[Rendered]) -> None:
    """Write or print what ``render_report`` gave. Raises ``ReportError`` in one line for what cannot be written."""
    for data, path in rendered:
        if isinstance(data, str):
            show(data)
        elif path is not None:
            write_whole(path, data, error=ReportError) if data is not None else append_summary(report, path)


def is_summary(path: Path) -> bool:
    """Return whether ``path`` is the file that ``GITHUB_STEP_SUMMARY`` names."""
    named = os.environ.get(SUMMARY)
    return bool(named) and os.path.realpath(path) == os.path.realpath(str(named))


def append_summary(report: Report, path: Path) -> None:
    """Add ``report`` in Markdown behind what stands in ``path``, as much of it as GitHub still takes."""
    from tracer.report.render.markdown import LIMIT, shortened

    try:
        standing = read_text(path).encode("utf-8") if path.is_file() else b""
        gap = b"" if not standing else b"\n" if standing.endswith(b"\n") else b"\n\n"
        text = shortened(report, LIMIT - len(standing) - len(gap)).encode("utf-8")
        if not text:
            say(f"tracer: {path} is full: GitHub takes no more than 1 MiB; nothing was added")
            return
        with path.open("ab") as stream:
            stream.write(gap + text)
    except (OSError, ValueError) as problem:
        raise ReportError(f"cannot write {path}: {reason_of(problem)}", hint="choose another path") from problem
