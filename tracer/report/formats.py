"""Every output format in one dictionary, and writing one of them to a file."""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tracer.errors import ReportError
from tracer.files import write_whole

if TYPE_CHECKING:
    from tracer.report.report import Report


class Format(NamedTuple):
    """One way to write a report: ``module`` has the function ``render(report) -> str``.

    The module is named, not imported, so that writing CSV loads neither jinja2 nor rich.
    """

    suffix: str
    module: str


#: Formats by the name that ``--format`` takes.
FORMATS: Mapping[str, Format] = {
    "text": Format(".txt", "tracer.report.text"),
    "html": Format(".html", "tracer.report.html"),
    "csv": Format(".csv", "tracer.report.csv_format"),
    "json": Format(".json", "tracer.report.json_format"),
    "markdown": Format(".md", "tracer.report.markdown"),
    "sarif": Format(".sarif", "tracer.report.sarif"),
    "junit": Format(".xml", "tracer.report.junit"),
}


def render(name: str, report: Report) -> str:
    """``report`` in the format called ``name``; raises ``ReportError`` for a name that is none."""
    if name not in FORMATS:
        raise ReportError(f"no report format is called {name!r}", hint=f"choose one of {', '.join(FORMATS)}")
    text: str = import_module(FORMATS[name].module).render(report)
    return text


def format_of(path: str | os.PathLike[str]) -> str:
    """The name of the format that ``path``'s suffix asks for."""
    suffix = Path(path).suffix.lower()
    for name, one in FORMATS.items():
        if one.suffix == suffix:
            return name
    known = ", ".join(one.suffix for one in FORMATS.values())
    raise ReportError(f"cannot tell a report format from {os.fspath(path)!r}", hint=f"end the name in one of {known}")


def write(path: str | os.PathLike[str], report: Report) -> Path:
    """Write ``report`` to ``path`` in the format of its suffix, whole or not at all."""
    text = render(format_of(path), report)
    return write_whole(path, text.encode("utf-8"), error=ReportError)
