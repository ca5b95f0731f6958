"""Every output format in one dictionary, and writing one of them to a file."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

from tracer.errors import ReportError
from tracer.files import write_whole
from tracer.report.finding_columns import FINDINGS
from tracer.report.view import ReportView


class Format(NamedTuple):
    """One way to write a report: ``module`` has the function ``render(report) -> str``.

    The module is named, not imported, so that writing CSV loads neither jinja2 nor rich.
    """

    suffix: str
    module: str
    is_long: bool = False
    """Whether the module also has ``pieces(report)``, which yields the text of ``render`` piece by piece."""
    has_tables: bool = False
    """Whether it is one of the exported tables, so that ``render`` takes ``table``."""


#: Formats by the name that ``--format`` takes.
FORMATS: Mapping[str, Format] = {
    "text": Format(".txt", "tracer.report.render.terminal"),
    "html": Format(".html", "tracer.report.render.page"),
    "csv": Format(".csv", "tracer.report.finding_columns", has_tables=True),
    "json": Format(".json", "tracer.report.files.json_format", is_long=True),
    "markdown": Format(".md", "tracer.report.render.markdown"),
    "sarif": Format(".sarif", "tracer.report.files.sarif"),
    "junit": Format(".xml", "tracer.report.files.junit"),
}


def render(name: str, report: ReportView, *, table: str = FINDINGS) -> str:
    """``report`` in the format called ``name``; ``table`` names the table, for formats that hold only one.

    Raises ``ReportError`` for a format or a table that does not exist.
    """
    form = _format(name)
    options = {"table": table} if form.has_tables else {}
    text: str = import_module(form.module).render(report, **options)
    return text


def to_write(name: str, report: ReportView, *, table: str = FINDINGS) -> bytes | Iterator[bytes]:
    """The same, encoded, in pieces that are made as they are written where all at once would take far more memory."""
    if not _format(name).is_long:
        return render(name, report, table=table).encode("utf-8")
    pieces: Iterator[str] = import_module(_format(name).module).pieces(report)
    return (piece.encode("utf-8") for piece in pieces)


def _format(name: str) -> Format:
    if name not in FORMATS:
        raise ReportError(f"no report format is called {name!r}", hint=f"choose one of {', '.join(FORMATS)}")
    return FORMATS[name]


def format_of(path: str | os.PathLike[str]) -> str:
    """The name of the format that ``path``'s suffix asks for."""
    suffix = Path(path).suffix.lower()
    for name, form in FORMATS.items():
        if form.suffix == suffix:
            return name
    suffixes = ", ".join(form.suffix for form in FORMATS.values())
    raise ReportError(
        f"cannot tell a report format from {os.fspath(path)!r}", hint=f"end the name in one of {suffixes}"
    )


def write(path: str | os.PathLike[str], report: ReportView) -> Path:
    """Write ``report`` to ``path`` in the format of its suffix, whole or not at all."""
    return write_whole(path, to_write(format_of(path), report), error=ReportError)
