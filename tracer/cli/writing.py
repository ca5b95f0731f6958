"""Writing a report's formats where they were asked for: files whole or not at all, GitHub's job summary appended to."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tracer.cli.output import show
from tracer.errors import ReportError, reason_of
from tracer.files import read_text, write_whole
from tracer.names import Detail
from tracer.plain import say

if TYPE_CHECKING:
    from tracer.report import Report

#: The file that a step of GitHub Actions adds its summary to; other steps write there too.
SUMMARY = "GITHUB_STEP_SUMMARY"
#: Findings that a terminal is shown unless it asks for all.
_SHOWN = 40


Rendered = tuple[bytes | str | None, Path | None]
"""What to write and where, text to standard output: ``None`` for what is only known when it is written, and there."""


def render_report(
    report: Report,
    wanted: Sequence[tuple[str, Path | None]],
    *,
    table: str = "findings",
    detail: Detail = Detail.USUAL,
) -> list[Rendered]:
    """Every format of ``wanted``, before the first of them is written; ``table`` is what CSV and Parquet hold, and
    ``detail`` what a terminal is told."""
    from tracer.report.files.formats import encoded
    from tracer.report.render.terminal import to_text

    rendered: list[Rendered] = []
    for name, path in wanted:
        if path is None and name == "text":
            text = to_text(report, width=None, color=None, limit=_SHOWN, detail=detail)
            rendered.append((text, path))
        elif path is not None and name == "markdown" and is_summary(path):
            rendered.append((None, path))
        else:
            data = encoded(name, report, table=table)
            rendered.append((data.decode("utf-8") if path is None else data, path))
    return rendered


def write_rendered(report: Report, rendered: Iterable[Rendered]) -> None:
    """Write or print what ``render_report`` gave. Raises ``ReportError`` in one line for what cannot be written."""
    for data, path in rendered:
        if isinstance(data, str):
            show(data)
        elif path is not None:
            write_whole(path, data, error=ReportError) if data is not None else append_summary(report, path)


def is_summary(path: Path) -> bool:
    """Is ``path`` the file that ``GITHUB_STEP_SUMMARY`` names?"""
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
