"""The files that several runs leave: ``repeat.json`` and ``repeat.html``, beside their recordings."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from tracer.divergence.repeated import Repeated, to_json
from tracer.errors import ReportError
from tracer.files import write_whole
from tracer.report.report import Report


def write_repeated(repeated: Repeated, report: Report | None, folder: Path, wanted: Iterable[str]) -> list[Path]:
    """Write what is ``wanted`` of ``json`` and ``html`` into ``folder``, and return the paths.

    Raises ``ReportError`` in one line for what cannot be written, and for a page where the first run left no trace.
    """
    written = []
    for name in wanted:
        path = folder / f"repeat.{name}"
        if name == "json":
            data = to_json(repeated)
        elif report is None:
            raise ReportError("run 1 left no trace, so there is no page", hint="ask for --format text,json")
        else:
            report.tell_of(repeated)
            data = report.to_html().encode("utf-8")
        written.append(write_whole(path, data, error=ReportError))
    return written
